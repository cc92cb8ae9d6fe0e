// SPDX-License-Identifier: Apache-2.0
#include "sim/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "sim/ablations.h"
#include "sim/baseline_strategies.h"
#include "sim/oracle.h"
#include "sim/workload.h"

namespace weir::sim {
namespace {

std::string percent_name(double share) { return fmt::format("{:.0f}%", 100 * share); }

void append_cell(std::string& out, const Cell& cell) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, R"({{"style":"{}","load":"{}","strategy":"{}","load_share":{:.6f},)",
                 cell.style, cell.load, cell.strategy, cell.load_share);
  fmt::format_to(to, R"("calls":{},"served":{},"attempts":{},"provider_429s":{},)", cell.calls,
                 cell.served, cell.attempts, cell.rejected);
  fmt::format_to(to,
                 R"("success":{:.6f},"share_429":{:.6f},"attempts_per_call":{:.6f},"use":{:.6f},)"
                 R"("fifo_use":{:.6f},"use_of_fifo":{:.6f},"most_use":{:.6f},"wait_p50_s":{:.6f},)"
                 R"("wait_p99_s":{:.6f},"window_ratio":{:.6f},"beats_oracle":{},"min_share":{})",
                 cell.success(), cell.share_429(), cell.attempts_per_call(), cell.use,
                 cell.fifo_use, cell.use_of_fifo(), cell.ceiling, cell.p50_s, cell.p99_s,
                 cell.worst_window, cell.beats_ceiling,
                 cell.least_share ? fmt::format("{:.6f}", *cell.least_share) : "null");
  if (!cell.series.empty()) {
    out += R"(,"series":[)";
    const char* comma = "";
    for (const SeriesPoint& point : cell.series) {
      fmt::format_to(to, "{}[{:.0f},{:.3f},{:.3f},{:.4f}]", comma, point.at_s, point.accepted_per_s,
                     point.refused_per_s, point.window_share);
      comma = ",";
    }
    out += ']';
  }
  out += '}';
}

/// Names of scenario files hold what a YAML string can hold.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return result;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) {
    out += fmt::format("{}\"{}\"", out.empty() ? "" : ",", escaped(part));
  }
  return out;
}

}  // namespace

double Cell::success() const {
  return calls == 0 ? 1 : static_cast<double>(served) / static_cast<double>(calls);
}
double Cell::share_429() const {
  return attempts == 0 ? 0 : static_cast<double>(rejected) / static_cast<double>(attempts);
}
double Cell::attempts_per_call() const {
  return calls == 0 ? 0 : static_cast<double>(attempts) / static_cast<double>(calls);
}
double Cell::use_of_fifo() const { return fifo_use > 0 ? use / fifo_use : 0; }

std::vector<Contender> contenders(const std::vector<std::string>& ablations) {
  std::vector<Contender> all;
  for (const BaselineStrategy& one : baseline_strategies()) {
    all.push_back({std::string(one.name), std::string(one.title), one.make});
  }
  all.push_back({"weir", "the governor, as the scenario tells it", direct_port()});
  for (const std::string& name : ablations) {
    if (const Ablation* one = find_ablation(name)) {
      all.push_back({"weir " + name, std::string(one->title), one->make()});
    }
  }
  return all;
}

double most_use(const Scenario& scenario, std::uint64_t seed, double worst_window) {
  const std::vector<Arrival> arrivals = make_arrivals(scenario, seed);
  const Duration span = scenario.horizon - scenario.measure_from;
  const double over = std::max(worst_window, 1.0);
  double most = 0;
  for (const Rule& rule : scenario.provider.rules) {
    if (rule.unit == Unit::concurrency || rule.amount <= 0 || span.count() <= 0) continue;
    const bool reserves = rule.count == Counting::reserve || rule.count == Counting::reserve_refund;
    double asked = 0;
    for (Arrival arrival : arrivals) {
      if (reserves && !arrival.max_output_tokens) {
        arrival.output_tokens =
            std::max(arrival.output_tokens, scenario.provider.default_max_output);
      }
      asked += static_cast<double>(whole_cost(rule, arrival));
    }
    const double windows = to_seconds(span) / to_seconds(std::max(rule.window, Duration{1}));
    double bound = 0;
    switch (rule.enforce) {
      case Enforcement::sliding: bound = std::ceil(windows) * over; break;
      case Enforcement::leaky:
      case Enforcement::bucket: {
        const auto depth = static_cast<double>(rule.depth());
        bound = windows + depth / static_cast<double>(rule.amount) * over;
        break;
      }
      case Enforcement::counter:  // no window of its own holds more
      case Enforcement::fixed:
      case Enforcement::unknown: bound = (std::ceil(windows) + 1) * over; break;
    }
    most = std::max(most, std::min(share_of_limit(rule, asked, span), bound / windows));
  }
  return most;
}

Cell measure(const Scenario& scenario, const Contender& contender,
             const std::vector<std::uint64_t>& seeds, bool with_series) {
  Scenario world = scenario;
  world.restart.reset();
  Cell cell;
  cell.style = scenario.style;
  cell.load = scenario.load;
  cell.strategy = contender.name;
  std::vector<Duration> waits;
  for (const std::uint64_t seed : seeds) {
    Recording recording(world);
    const Report report = run(world, seed, recorded(contender.make, recording));
    cell.calls += report.books.arrivals;
    cell.served += report.books.served;
    cell.attempts += report.books.sent;
    cell.rejected += report.books.rejected;
    cell.worst_window = std::max(cell.worst_window, report.worst_window);
    if (report.fairness.tenants > 1) {
      cell.least_share = std::min(cell.least_share.value_or(1e300), report.fairness.least);
    }
    cell.retries += recording.retries();
    cell.retries_answered += recording.retries_answered();
    cell.tokens += recording.tokens();
    // Overtaking is what some of the sources do; a call that is lost or stuck is our mistake.
    for (const char* checker : {"stuck", "slots", "books", "protocol", "late"}) {
      cell.violations += report.violations.by(checker) ? 1 : 0;
    }
    const double ceiling = most_use(world, seed, report.worst_window);
    const auto share = 1 / static_cast<double>(seeds.size());
    cell.use += report.use * share;
    cell.fifo_use += report.fifo_use * share;
    cell.ceiling += ceiling * share;
    cell.beats_ceiling = cell.beats_ceiling || report.use > ceiling * (1 + 1e-9);
    waits.insert(waits.end(), recording.waits().begin(), recording.waits().end());
    if (with_series && cell.series.empty()) cell.series = recording.series();
  }
  const Waits all = sum_up(std::move(waits));
  cell.p50_s = to_seconds(all.p50);
  cell.p99_s = to_seconds(all.p99);
  return cell;
}

void set_load(Scenario& scenario, double share) {
  Workload& workload = scenario.workload;
  ArrivalPattern& arrivals = workload.arrivals;
  Workload rated = workload;
  if (arrivals.trace != nullptr && workload.lengths == nullptr) rated.lengths = arrivals.trace;
  rated.arrivals.of_quota = share;
  resolve_quota(rated, scenario.provider.rules);
  const double per_second = rated.arrivals.rates.front().per_second;
  if (arrivals.trace != nullptr && !arrivals.trace->empty()) {
    const double span = to_seconds(arrivals.trace->back().at) + 1;
    arrivals.speed = per_second * span / static_cast<double>(arrivals.trace->size());
    arrivals.repeat = true;
    return;
  }
  // Traffic that is switched on and off asks for as much in all, in less time.
  const Duration period = arrivals.on + arrivals.off;
  const bool switched = arrivals.off.count() > 0 && arrivals.on.count() > 0;
  const double while_on = switched ? to_seconds(period) / to_seconds(arrivals.on) : 1;
  arrivals.of_quota = share;
  arrivals.rates = {{Duration{0}, per_second * while_on}};
}

const std::vector<double>& compare_loads() {
  static const std::vector<double> loads = {0.5, 0.8, 0.95, 1.2, 1.5, 2.0};
  return loads;
}

const Cell* Comparison::find(std::string_view style, std::string_view load,
                             std::string_view strategy) const {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const Cell& cell) {
    return cell.style == style && cell.load == load && cell.strategy == strategy;
  });
  return found == cells.end() ? nullptr : &*found;
}

std::vector<std::string> Comparison::faults() const {
  std::vector<std::string> found;
  for (const Cell& cell : cells) {
    const std::string where = fmt::format("{} at {} {}", cell.strategy, cell.style, cell.load);
    if (cell.beats_ceiling) {
      found.push_back(fmt::format("{} beats its oracle: {:.4f} of the limit, {:.4f} is the most",
                                  where, cell.use, cell.ceiling));
    }
    if (cell.violations > 0) {
      found.push_back(fmt::format("{}: the checkers found calls lost, stuck or late", where));
    }
  }
  return found;
}

Result<Comparison> compare(const std::string& name, const std::string& about,
                           const std::vector<Scenario>& scenarios, const CompareOptions& options) {
  Comparison result;
  result.name = name;
  result.about = about;
  result.seeds = options.seeds;
  std::vector<const Scenario*> worlds;
  for (const Scenario& scenario : scenarios) {
    const auto same = std::find_if(worlds.begin(), worlds.end(), [&](const Scenario* one) {
      return one->style == scenario.style;
    });
    if (same == worlds.end()) {
      worlds.push_back(&scenario);
    } else {
      *same = &scenario;
    }
  }
  std::vector<double> loads;
  for (const double load : compare_loads()) {
    if (options.load.empty() || options.load == percent_name(load)) loads.push_back(load);
  }
  if (loads.empty() || worlds.empty()) {
    std::string known;
    for (const double load : compare_loads()) known += " " + percent_name(load);
    return fail(ErrorCode::not_found,
                "The loads of a comparison are" + known + "; name one of them.");
  }
  for (const double load : loads) result.loads.push_back(percent_name(load));
  // The sawtooth is a thing of overload; not of one so high that all is refused.
  result.pictured_load = loads.size() == 1 ? result.loads.front() : percent_name(1.2);
  result.strategies = contenders(options.ablations);
  const std::size_t total = worlds.size() * loads.size() * result.strategies.size();
  for (const Scenario* one : worlds) {
    result.styles.push_back(one->style);
    result.patience_s.push_back(to_seconds(one->told.max_wait));
    result.horizon_s = std::max(result.horizon_s, to_seconds(one->horizon));
    for (const double load : loads) {
      Scenario world = *one;
      set_load(world, load);
      world.load = percent_name(load);
      for (const Contender& contender : result.strategies) {
        result.cells.push_back(
            measure(world, contender, options.seeds, world.load == result.pictured_load));
        result.cells.back().load_share = load;
        if (options.progress) options.progress(result.cells.size(), total);
      }
    }
  }
  return result;
}

std::string compare_table(const Comparison& comparison) {
  std::string out = fmt::format("{}: {}\n", comparison.name, comparison.about);
  auto to = std::back_inserter(out);
  for (std::size_t index = 0; index < comparison.styles.size(); ++index) {
    const std::string& style = comparison.styles[index];
    fmt::format_to(to,
                   "\n{}, clients wait up to {:.0f} s\n{:<6} {:<22} {:>9} {:>8} {:>8} {:>7} "
                   "{:>7} {:>9} {:>9} {:>7} {:>6}\n",
                   style, comparison.patience_s[index], "load", "strategy", "success %", "429s %",
                   "per call", "use %", "of FIFO", "p50 wait", "p99 wait", "window", "least");
    for (const Cell& cell : comparison.cells) {
      if (cell.style != style) continue;
      fmt::format_to(to,
                     "{:<6} {:<22} {:>9.2f} {:>8.3f} {:>8.2f} {:>7.2f} {:>7.3f} {:>7.2f} s "
                     "{:>7.2f} s {:>7.3f} {:>6}\n",
                     cell.load, cell.strategy, 100 * cell.success(), 100 * cell.share_429(),
                     cell.attempts_per_call(), 100 * cell.use, cell.use_of_fifo(), cell.p50_s,
                     cell.p99_s, cell.worst_window,
                     cell.least_share ? fmt::format("{:.2f}", *cell.least_share) : "-");
    }
  }
  out += '\n';
  for (const Contender& one : comparison.strategies) {
    fmt::format_to(to, "{:<22} {}\n", one.name, one.title);
  }
  out +=
      "\nsuccess: calls answered; 429s: of attempts; use: of the scarcest limit, and as a share of "
      "what a\nclairvoyant FIFO that keeps every window's sum within the limit has; wait: from "
      "arrival to the\ndeparture that was answered; window: the largest sum the provider counted, "
      "of its limit; least: what\nthe tenant that fares worst is served, of its max-min share.\n";
  for (const std::string& fault : comparison.faults()) fmt::format_to(to, "{}\n", fault);
  return out;
}

std::string compare_json(const Comparison& comparison) {
  std::string out =
      fmt::format(R"({{"scenario":"{}","about":"{}","horizon_s":{:.0f},"styles":[{}],)"
                  R"("loads":[{}],"pictured_load":"{}","seeds":[)",
                  escaped(comparison.name), escaped(comparison.about), comparison.horizon_s,
                  joined(comparison.styles), joined(comparison.loads), comparison.pictured_load);
  auto to = std::back_inserter(out);
  const char* comma = "";
  for (const std::uint64_t seed : comparison.seeds) {
    fmt::format_to(to, "{}{}", comma, seed);
    comma = ",";
  }
  out += R"(],"strategies":[)";
  comma = "";
  for (const Contender& one : comparison.strategies) {
    fmt::format_to(to, R"({}{{"name":"{}","title":"{}"}})", comma, one.name, one.title);
    comma = ",";
  }
  out += R"(],"cells":[)";
  comma = "";
  for (const Cell& cell : comparison.cells) {
    out += comma;
    append_cell(out, cell);
    comma = ",\n";
  }
  fmt::format_to(to, "],\"faults\":[{}]}}\n", joined(comparison.faults()));
  return out;
}

}  // namespace weir::sim
