// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "config/faults.h"
#include "config/quantity.h"
#include "config/yaml_tree.h"
#include "sim/harness.h"
#include "sim/workload.h"

namespace weir::sim {
namespace {

using config::Faults;
using config::Node;

std::optional<std::string> no_environment(std::string_view /*name*/) { return std::nullopt; }

/// One map of the file. Each key that is read is ticked off; `done` reports the others.
class Map {
 public:
  Map(const Node* node, std::string path, Faults& faults)
      : node_(node), path_(std::move(path)), faults_(&faults) {
    if (node_ != nullptr && node_->kind != Node::Kind::map) {
      wrong(*node_, path_, "is not a map", "write keys with values below it");
      node_ = nullptr;
    }
  }

  [[nodiscard]] bool present() const { return node_ != nullptr; }
  [[nodiscard]] const std::string& path() const { return path_; }
  Faults& faults() { return *faults_; }

  const Node* find(std::string_view key) {
    if (node_ == nullptr) return nullptr;
    read_.emplace(key);
    return node_->find(key);
  }
  Map map(std::string_view key) { return {find(key), config::join(path_, key), *faults_}; }

  void duration(std::string_view key, Duration& into) {
    scalar(key, config::parse_duration, [&](Duration value) { into = value; });
  }
  void duration(std::string_view key, std::optional<Duration>& into) {
    scalar(key, config::parse_duration, [&](Duration value) { into = value; });
  }
  void count(std::string_view key, std::int64_t& into) {
    scalar(key, config::parse_count, [&](std::int64_t value) { into = value; });
  }
  void count(std::string_view key, std::optional<std::int64_t>& into) {
    scalar(key, config::parse_count, [&](std::int64_t value) { into = value; });
  }
  void decimal(std::string_view key, double& into) {
    scalar(key, config::parse_decimal, [&](double value) { into = value; });
  }
  void percent(std::string_view key, double& into) {
    scalar(key, config::parse_percent, [&](double value) { into = value; });
  }
  void percent(std::string_view key, std::optional<double>& into) {
    scalar(key, config::parse_percent, [&](double value) { into = value; });
  }
  void boolean(std::string_view key, bool& into) {
    choice<bool>(key, into, {{"true", true}, {"false", false}});
  }
  template <class T>
  void choice(std::string_view key, T& into,
              const std::vector<std::pair<std::string_view, T>>& words) {
    const Node* node = find(key);
    if (node == nullptr) return;
    std::vector<std::string_view> names;
    for (const auto& [word, value] : words) {
      if (node->kind == Node::Kind::scalar && node->text == word) {
        into = value;
        return;
      }
      names.push_back(word);
    }
    wrong(*node, config::join(path_, key), "is not known", config::suggest(node->text, names));
  }
  /// A name that may stand in tables and JSON without quoting.
  void name(std::string_view key, std::string& into) {
    const Node* node = find(key);
    if (node != nullptr) into = plain(node->text, *node, config::join(path_, key), *faults_);
  }

  static std::string plain(const std::string& text, const Node& node, const std::string& path,
                           Faults& faults) {
    for (const char letter : text) {
      const bool fine = static_cast<unsigned char>(letter) >= 0x20 && letter != '"' &&
                        letter != '\\' && static_cast<unsigned char>(letter) < 0x7f;
      if (fine) continue;
      faults.add(node.place, path, "has a character that is not allowed",
                 "use plain ASCII without quotes");
      return "?";
    }
    return text;
  }

  void wrong(const Node& node, const std::string& path, std::string what, std::string fix) {
    faults_->add(node.place, path, std::move(what), std::move(fix));
  }

  void done() {
    if (node_ == nullptr) return;
    std::vector<std::string_view> known(read_.begin(), read_.end());
    for (const Node::Member& member : node_->members) {
      if (read_.contains(member.key)) continue;
      faults_->add(member.place, config::join(path_, member.key), "is not a known key",
                   config::suggest(member.key, known));
    }
  }

 private:
  template <class T, class Take>
  void scalar(std::string_view key, config::Parsed<T> (*parse)(std::string_view), Take take) {
    const Node* node = find(key);
    if (node == nullptr) return;
    const std::string path = config::join(path_, key);
    if (node->kind != Node::Kind::scalar) {
      wrong(*node, path, "is not a single value", "write one value");
      return;
    }
    const config::Parsed<T> value = parse(node->text);
    if (value) {
      take(*value);
    } else {
      faults_->add(node->place, path, value.error());
    }
  }

  const Node* node_;
  std::string path_;
  Faults* faults_;
  std::set<std::string, std::less<>> read_;
};

Rule read_rule(Map map) {
  Rule rule;
  map.choice<Unit>("unit", rule.unit,
                   {{"requests", Unit::requests},
                    {"input_tokens", Unit::input_tokens},
                    {"output_tokens", Unit::output_tokens},
                    {"total_tokens", Unit::total_tokens},
                    {"concurrency", Unit::concurrency}});
  map.count("amount", rule.amount);
  map.duration("window", rule.window);
  map.choice<Enforcement>("enforce", rule.enforce,
                          {{"sliding", Enforcement::sliding},
                           {"fixed", Enforcement::fixed},
                           {"bucket", Enforcement::bucket},
                           {"counter", Enforcement::counter},
                           {"leaky", Enforcement::leaky},
                           {"unknown", Enforcement::unknown}});
  map.choice<Counting>("count", rule.count,
                       {{"reserve", Counting::reserve},
                        {"reserve_refund", Counting::reserve_refund},
                        {"settle", Counting::settle},
                        {"realtime", Counting::realtime},
                        {"input", Counting::input}});
  map.count("burst", rule.burst);
  map.done();
  return rule;
}

std::vector<Rule> read_rules(Map& map, std::string_view key, std::vector<Rule> otherwise) {
  const Node* node = map.find(key);
  if (node == nullptr) return otherwise;
  std::vector<Rule> rules;
  const std::string path = config::join(map.path(), key);
  if (node->kind != Node::Kind::sequence) {
    map.wrong(*node, path, "is not a list", "write a list of rules");
    return rules;
  }
  for (std::size_t index = 0; index < node->items.size(); ++index) {
    const Node* item = node->items[index].get();
    const std::string item_path = config::join(path, index + 1);
    const Rule rule = read_rule(Map(item, item_path, map.faults()));
    if (rule.unit != Unit::concurrency && rule.window.count() <= 0) {
      map.wrong(*item, item_path, "has no window", "write window: 60s");
    }
    rules.push_back(rule);
  }
  return rules;
}

void read_lengths(Map map, double& mean, double& sigma) {
  map.decimal("mean", mean);
  map.decimal("sigma", sigma);
  map.done();
}

/// Calls `each` with the map and node of every item of a list.
void for_each_item(Map& map, std::string_view key, std::string fix,
                   const std::function<void(Map&, const Node&)>& each) {
  const Node* node = map.find(key);
  if (node == nullptr) return;
  const std::string path = config::join(map.path(), key);
  if (node->kind != Node::Kind::sequence) {
    map.wrong(*node, path, "is not a list", std::move(fix));
    return;
  }
  for (std::size_t index = 0; index < node->items.size(); ++index) {
    Map item(node->items[index].get(), config::join(path, index + 1), map.faults());
    each(item, *node->items[index]);
    item.done();
  }
}

void read_growth(Map& map, std::vector<emulator::model::GrowthSettings>& into) {
  if (map.find("growth") != nullptr) into.clear();
  for_each_item(map, "growth", "write a list of growth rules", [&](Map& item, const Node& node) {
    emulator::model::GrowthSettings growth;
    item.choice<Unit>("of", growth.of,
                      {{"requests", Unit::requests},
                       {"input_tokens", Unit::input_tokens},
                       {"output_tokens", Unit::output_tokens},
                       {"total_tokens", Unit::total_tokens}});
    item.decimal("ratio", growth.ratio);
    item.duration("per", growth.per);
    item.count("floor", growth.floor);
    item.duration("look_back", growth.look_back);
    item.percent("wander", growth.wander);
    if (growth.ratio < 1) {
      item.wrong(node, config::join(item.path(), "ratio"), "is below 1", "write ratio: 2");
    }
    if (growth.per.count() <= 0) {
      item.wrong(node, config::join(item.path(), "per"), "is not above 0", "write per: 10s");
    }
    if (growth.wander > 0.9) {
      item.wrong(node, config::join(item.path(), "wander"), "is above 90%", "write wander: 10%");
    }
    into.push_back(growth);
  });
}

void read_steps(Map& map, std::vector<LimitStep>& steps) {
  if (map.find("steps") != nullptr) steps.clear();
  for_each_item(map, "steps", "write a list of steps, each with at and rules",
                [&](Map& item, const Node& node) {
                  LimitStep step;
                  item.duration("at", step.at);
                  if (item.find("rules") == nullptr) {
                    item.wrong(node, config::join(item.path(), "rules"), "is missing",
                               "write all rules as they are from then on");
                  }
                  step.rules = read_rules(item, "rules", {});
                  if (!steps.empty() && step.at < steps.back().at) {
                    item.wrong(node, item.path(), "begins before the step ahead of it",
                               "sort the steps by `at`");
                  }
                  steps.push_back(std::move(step));
                });
}

void read_other(Map map, emulator::model::OtherSettings& other) {
  if (!map.present()) return;
  map.decimal("per_second", other.per_second);
  if (map.find("swings_to") != nullptr) {
    double rate = 0;
    map.decimal("swings_to", rate);
    other.swings_to = rate;
  }
  map.duration("period", other.period);
  read_lengths(map.map("input_tokens"), other.input_mean, other.input_sigma);
  read_lengths(map.map("output_tokens"), other.output_mean, other.output_sigma);
  map.boolean("names_maximum", other.names_maximum);
  map.boolean("retries", other.retries);
  map.duration("retry_after", other.retry_after);
  std::int64_t attempts = other.attempts;
  map.count("attempts", attempts);
  other.attempts = static_cast<int>(std::clamp<std::int64_t>(attempts, 1, 1000));
  map.duration("from", other.from);
  map.duration("until", other.until);
  if (other.swings_to && other.period.count() <= 0) {
    map.wrong(*map.find("swings_to"), config::join(map.path(), "swings_to"), "has no period",
              "write period: 20m");
  }
  map.done();
}

void read_wait(Map map, emulator::model::WaitSettings& wait) {
  using emulator::model::WaitsFor;
  map.duration("longest", wait.longest);
  map.choice<WaitsFor>("for", wait.what, {{"growth", WaitsFor::growth}, {"any", WaitsFor::any}});
  map.count("depth", wait.depth);
  map.done();
}

/// `headers: true`, or a map of how they differ from the truth.
void read_headers(Map& map, bool& given, HeaderQuirks& quirks) {
  const Node* node = map.find("headers");
  if (node == nullptr) return;
  if (node->kind != Node::Kind::map) {
    map.boolean("headers", given);
    return;
  }
  given = true;
  Map headers = map.map("headers");
  headers.choice<HeaderStyle>("style", quirks.style,
                              {{"every", HeaderStyle::every},
                               {"openai", HeaderStyle::openai},
                               {"anthropic", HeaderStyle::anthropic}});
  headers.percent("share", quirks.share);
  headers.choice<RemainingSays>("remaining", quirks.remaining,
                                {{"truth", RemainingSays::truth},
                                 {"unknown", RemainingSays::unknown},
                                 {"zero", RemainingSays::zero}});
  headers.duration("cached", quirks.cached);
  headers.duration("raised_at", quirks.raised_at);
  headers.decimal("raised_by", quirks.raised_by);
  headers.done();
}

std::string folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash + 1);
}

/// The trace that the key `trace` names, a path from the scenario's folder.
void read_trace(Map& map, Trace& into) {
  const Node* node = map.find("trace");
  if (node == nullptr) return;
  const std::string path = config::join(map.path(), "trace");
  const std::string file =
      node->text.starts_with('/') ? node->text : folder_of(map.faults().file()) + node->text;
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.good() && text.empty()) {
    map.wrong(*node, path, "cannot be read", "name a CSV file beside the scenario");
    return;
  }
  Result<std::vector<TraceRow>> rows = parse_trace(text);
  if (!rows) {
    map.wrong(*node, path, rows.error().text, "correct the trace");
    return;
  }
  if (rows->empty()) {
    map.wrong(*node, path, "has no lines", "name a trace with requests");
    return;
  }
  into = std::make_shared<const std::vector<TraceRow>>(*std::move(rows));
}

void read_arrivals(Map map, ArrivalPattern& pattern) {
  if (!map.present()) return;
  double poisson = 0;
  map.decimal("per_second", poisson);
  pattern.rates = {{Duration{0}, poisson}};
  if (const Node* steps = map.find("steps")) {
    pattern.rates.clear();
    const std::string path = config::join(map.path(), "steps");
    for (std::size_t index = 0; index < steps->items.size(); ++index) {
      Map step(steps->items[index].get(), config::join(path, index + 1), map.faults());
      RateStep one;
      step.duration("from", one.from);
      step.decimal("per_second", one.per_second);
      step.done();
      if (!pattern.rates.empty() && one.from < pattern.rates.back().from) {
        map.wrong(*steps->items[index], path, "begins before the step ahead of it",
                  "sort the steps by `from`");
      }
      pattern.rates.push_back(one);
    }
  }
  map.duration("on", pattern.on);
  map.duration("off", pattern.off);
  map.percent("of_quota", pattern.of_quota);
  read_trace(map, pattern.trace);
  map.decimal("speed", pattern.speed);
  map.boolean("repeat", pattern.repeat);
  map.done();
}

void read_workload(Map map, Workload& workload) {
  if (!map.present()) return;
  Map lengths = map.map("lengths");
  if (lengths.present()) {
    read_trace(lengths, workload.lengths);
    lengths.choice<LengthOrder>("order", workload.order,
                                {{"kept", LengthOrder::kept}, {"shuffled", LengthOrder::shuffled}});
    lengths.done();
  }
  read_lengths(map.map("input_tokens"), workload.input_mean, workload.input_sigma);
  read_lengths(map.map("output_tokens"), workload.output_mean, workload.output_sigma);
  map.count("length_cap", workload.length_cap);
  map.choice<MaxTokens>("max_tokens", workload.max_tokens,
                        {{"absent", MaxTokens::absent},
                         {"exact", MaxTokens::exact},
                         {"rounded_up", MaxTokens::rounded_up},
                         {"constant", MaxTokens::constant}});
  map.count("max_tokens_step", workload.max_tokens_step);
  map.decimal("bytes_per_token", workload.bytes_per_token);
  map.decimal("bytes_noise", workload.bytes_noise);
  map.percent("streaming", workload.streaming_share);
  std::int64_t tenants = workload.tenants;
  map.count("tenants", tenants);
  workload.tenants = static_cast<std::uint32_t>(std::clamp<std::int64_t>(tenants, 1, 100'000));
  map.percent("aborts", workload.abort_share);
  map.duration("abort_after", workload.abort_after);
  map.done();
}

void read_network(Map map, Network& network) {
  map.duration("delay", network.delay);
  map.duration("jitter", network.jitter);
  map.percent("handshakes", network.handshake_share);
  map.duration("handshake", network.handshake);
  map.done();
}

void read_network_steps(Map& map, const Network& network, std::vector<NetworkStep>& steps) {
  if (map.find("network_steps") != nullptr) steps.clear();
  for_each_item(map, "network_steps", "write a list of steps, each with at and what changes",
                [&](Map& item, const Node& node) {
                  NetworkStep step;
                  step.network = steps.empty() ? network : steps.back().network;
                  item.duration("at", step.at);
                  item.duration("delay", step.network.delay);
                  item.duration("jitter", step.network.jitter);
                  if (!steps.empty() && step.at < steps.back().at) {
                    item.wrong(node, item.path(), "begins before the step ahead of it",
                               "sort the steps by `at`");
                  }
                  steps.push_back(step);
                });
}

void read_clock(Map& map, std::vector<ClockStep>& steps) {
  if (map.find("clock_steps") != nullptr) steps.clear();
  for_each_item(map, "clock_steps", "write a list of steps, each with at and ahead or behind",
                [&](Map& item, const Node& node) {
                  ClockStep step;
                  Duration behind{0};
                  item.duration("at", step.at);
                  item.duration("ahead", step.by);
                  item.duration("behind", behind);
                  step.by -= behind;
                  if (!steps.empty() && step.at < steps.back().at) {
                    item.wrong(node, item.path(), "begins before the step ahead of it",
                               "sort the steps by `at`");
                  }
                  steps.push_back(step);
                });
}

void read_refusals(Map map, Refusals& refusals) {
  map.duration("delay", refusals.delay);
  map.duration("jitter", refusals.jitter);
  map.percent("stray", refusals.stray);
  map.done();
}

/// Further clients by name; each begins as a copy of the world's workload without its arrivals.
void read_flows(Map& map, const Workload& common, std::vector<Flow>& flows) {
  const Node* node = map.find("flows");
  if (node == nullptr) return;
  flows.clear();
  const std::string path = config::join(map.path(), "flows");
  if (node->kind != Node::Kind::map) {
    map.wrong(*node, path, "is not a map", "write a name for each flow with its keys below");
    return;
  }
  for (const Node::Member& member : node->members) {
    const std::string member_path = config::join(path, member.key);
    Map item(member.value.get(), member_path, map.faults());
    Flow flow;
    flow.name = Map::plain(member.key, *node, member_path, map.faults());
    flow.workload = common;
    flow.workload.arrivals = {};
    flow.workload.tenants = 1;
    std::optional<std::int64_t> first;
    item.count("first_tenant", first);
    if (first) {
      flow.first_tenant = static_cast<std::uint32_t>(std::clamp<std::int64_t>(*first, 0, 100'000));
    }
    read_workload(item.map("workload"), flow.workload);
    read_arrivals(item.map("arrivals"), flow.workload.arrivals);
    if (flow.workload.arrivals.rates.empty() && flow.workload.arrivals.trace == nullptr) {
      item.wrong(*member.value, member_path, "has no arrivals", "write arrivals: {per_second: 1}");
    }
    item.done();
    flows.push_back(std::move(flow));
  }
}

void read_speeds(Map& map, emulator::model::LatencySettings& latency) {
  map.duration("first_token", latency.base_first_token);
  map.duration("per_input_token", latency.per_input_token);
  map.duration("per_output_token", latency.per_output_token);
  map.count("knee", latency.knee);
  map.decimal("slope", latency.slope);
  map.decimal("first_token_slope", latency.first_token_slope);
  map.count("depth", latency.depth);
  map.percent("slow_share", latency.slow_share);
  map.decimal("slow_factor", latency.slow_factor);
  map.decimal("noise", latency.noise);
}

void read_latency(Map map, emulator::model::LatencySettings& latency) {
  read_speeds(map, latency);
  map.done();
}

void read_latency_steps(Map& map, const emulator::model::LatencySettings& latency,
                        std::vector<LatencyStep>& steps) {
  if (map.find("latency_steps") != nullptr) steps.clear();
  for_each_item(map, "latency_steps", "write a list of steps, each with at and what changes",
                [&](Map& item, const Node& node) {
                  LatencyStep step;
                  step.latency = steps.empty() ? latency : steps.back().latency;
                  item.duration("at", step.at);
                  read_speeds(item, step.latency);
                  if (!steps.empty() && step.at < steps.back().at) {
                    item.wrong(node, item.path(), "begins before the step ahead of it",
                               "sort the steps by `at`");
                  }
                  steps.push_back(step);
                });
}

void read_faults(Map map, emulator::model::FaultSettings& faults) {
  map.percent("server_error", faults.server_error);
  map.percent("reset_before", faults.reset_before);
  map.percent("reset_inside", faults.reset_inside);
  map.percent("slow", faults.slow);
  map.percent("malformed", faults.malformed);
  map.decimal("slow_factor", faults.slow_factor);
  map.done();
}

void read_governor(Map map, Told& told) {
  map.decimal("start_level", told.start_level);
  map.duration("guard", told.guard);
  map.percent("margin", told.margin);
  map.choice<Strategy>("strategy", told.strategy,
                       {{"passthrough", Strategy::passthrough},
                        {"rate", Strategy::rate},
                        {"shaping", Strategy::shaping},
                        {"adaptive", Strategy::adaptive}});
  map.choice<Mode>("mode", told.mode, {{"enforce", Mode::enforce}, {"observe", Mode::observe}});
  map.duration("max_wait", told.max_wait);
  map.count("depth", told.depth);
  map.boolean("told_growth", told.growth);
  told.organization_limits = read_rules(map, "limits", std::move(told.organization_limits));
  map.done();
}

void read_goals(Map map, Goals& goals) {
  map.percent("provider_429s", goals.max_429_share);
  map.percent("of_window", goals.min_window_share);
  map.percent("use", goals.min_use);
  map.percent("use_of_fifo", goals.min_use_of_fifo);
  map.boolean("all_served", goals.all_served);
  if (map.find("refusals") != nullptr) {
    std::int64_t most = 0;
    map.count("refusals", most);
    goals.max_429s = most;
  }
  if (map.find("learned") != nullptr) goals.learned = read_rules(map, "learned", {});
  map.duration("p99_over_fifo", goals.max_p99_over_oracle);
  map.percent("provider_429s_after_restart", goals.max_429_share_restart);
  map.percent("provider_429s_in_transit", goals.max_429_share_transit);
  map.percent("min_share", goals.min_share);
  map.percent("jain", goals.min_jain);
  map.percent("served", goals.min_served);
  map.duration("p99_wait", goals.max_p99);
  map.decimal("window_ratio", goals.max_window_ratio);
  map.count("holds", goals.max_holds);
  map.count("holds_at_least", goals.min_holds);
  map.percent("of_best_fixed", goals.min_of_best_fixed);
  map.duration("p95_first_token", goals.max_p95_first_token);
  map.percent("provider_503s", goals.max_503_share);
  map.done();
}

/// Everything that may stand at the top, under a style or under a load; later ones win.
void read_world(Map& map, Scenario& scenario) {
  map.duration("horizon", scenario.horizon);
  map.duration("measure_from", scenario.measure_from);
  read_workload(map.map("workload"), scenario.workload);
  read_arrivals(map.map("arrivals"), scenario.workload.arrivals);
  read_flows(map, scenario.workload, scenario.flows);
  read_network(map.map("network"), scenario.network);
  read_network_steps(map, scenario.network, scenario.network_steps);
  read_clock(map, scenario.clock_steps);
  read_refusals(map.map("refusals"), scenario.refusals);
  scenario.provider.rules = read_rules(map, "rules", std::move(scenario.provider.rules));
  scenario.told.rules = read_rules(map, "told", std::move(scenario.told.rules));
  map.boolean("rejected_counted", scenario.provider.rejected_counted);
  map.boolean("retry_hints", scenario.retry_hints);
  map.boolean("names_limits", scenario.names_limits);
  map.count("default_max_output", scenario.provider.default_max_output);
  map.duration("phase", scenario.provider.phase);
  map.duration("day_phase", scenario.provider.day_phase);
  read_growth(map, scenario.provider.growth);
  read_steps(map, scenario.steps);
  read_other(map.map("other"), scenario.other);
  read_wait(map.map("wait"), scenario.wait);
  read_latency(map.map("latency"), scenario.latency);
  read_latency_steps(map, scenario.latency, scenario.latency_steps);
  read_faults(map.map("faults"), scenario.faults);
  read_governor(map.map("governor"), scenario.told);
  read_goals(map.map("goals"), scenario.goals);
  map.duration("progress_every", scenario.progress_every);
  read_headers(map, scenario.headers, scenario.header_quirks);
  Map restart = map.map("restart");
  if (restart.present()) {
    scenario.restart.emplace();
    restart.duration("at", scenario.restart->at);
    restart.decimal("start_level", scenario.restart->start_level);
    restart.boolean("memory", scenario.restart->memory);
    restart.duration("write_every", scenario.restart->write_every);
    restart.done();
  }
}

/// What only the world as a whole can show. `levels`: the maps it was read from, the last first.
void check_world(const Scenario& scenario, std::initializer_list<Map*> levels) {
  const auto wrong = [&](std::string_view key, std::string what, std::string fix) {
    for (Map* level : levels) {
      const Node* node = level->find(key);
      if (node == nullptr) continue;
      level->wrong(*node, config::join(level->path(), key), std::move(what), std::move(fix));
      return;
    }
  };
  for (const LimitStep& step : scenario.steps) {
    if (same_meters(scenario.provider.rules, step)) continue;
    wrong("steps", "does not keep the units, windows, enforcement and counting of the rules",
          "repeat every rule in its order and change amounts only");
    break;
  }
  const bool other = scenario.other.per_second > 0 || scenario.other.swings_to.value_or(0) > 0;
  const Goals& goals = scenario.goals;
  if ((other || !scenario.steps.empty()) && (goals.min_use_of_fifo || goals.max_p99_over_oracle)) {
    wrong("goals", "compares with a packer that knows neither steps nor another consumer",
          "leave use_of_fifo and p99_over_fifo out");
  }
  if (other && goals.min_window_share) {
    wrong("goals", "asks for a share of windows that another consumer fills too",
          "leave of_window out");
  }
}

/// Calls `each` with the name and map of every member, or once with an empty one if there is none.
void for_each_member(Map& map, std::string_view key,
                     const std::function<void(const std::string&, Map)>& each) {
  const Node* node = map.find(key);
  const std::string path = config::join(map.path(), key);
  if (node == nullptr || node->kind != Node::Kind::map) {
    each("", Map(nullptr, path, map.faults()));
    return;
  }
  for (const Node::Member& member : node->members) {
    const std::string member_path = config::join(path, member.key);
    const std::string name = Map::plain(member.key, *node, member_path, map.faults());
    each(name, Map(member.value.get(), member_path, map.faults()));
  }
}

void read_set(Map& map, ScenarioSet& set) {
  map.name("scenario", set.name);
  map.name("about", set.about);
  if (const Node* seeds = map.find("seeds")) {
    for (const auto& item : seeds->items) {
      const auto seed = config::parse_count(item->text);
      if (seed) {
        set.seeds.push_back(static_cast<std::uint64_t>(*seed));
      } else {
        map.faults().add(item->place, "seeds", seed.error());
      }
    }
  }
  if (set.seeds.empty()) set.seeds.push_back(1);
  Scenario common;
  read_world(map, common);
  for_each_member(map, "styles", [&](const std::string& style, Map style_map) {
    Scenario styled = common;
    styled.style = style;
    read_world(style_map, styled);
    style_map.done();
    for_each_member(map, "loads", [&](const std::string& load, Map load_map) {
      Scenario loaded = styled;
      loaded.load = load;
      loaded.file = set.name;
      read_world(load_map, loaded);
      check_world(loaded, {&load_map, &style_map, &map});
      load_map.done();
      if (loaded.told.rules.empty()) loaded.told.rules = loaded.provider.rules;
      resolve_quota(loaded.workload, loaded.provider.rules);
      for (Flow& flow : loaded.flows) resolve_quota(flow.workload, loaded.provider.rules);
      set.scenarios.push_back(std::move(loaded));
    });
  });
  map.done();
}

}  // namespace

Result<ScenarioSet> load_scenarios(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(
        ErrorCode::io,
        fmt::format("The scenario file '{}' cannot be read; name one of scenarios/.", path));
  }
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  Faults faults(path);
  ScenarioSet set;
  const std::shared_ptr<Node> tree = config::parse_yaml(text, faults);
  if (tree != nullptr) {
    config::prepare(*tree, "", no_environment, faults);
    Map map(tree.get(), "", faults);
    read_set(map, set);
  }
  if (faults.empty()) return set;
  std::string all;
  for (const config::Diagnostic& one : faults.take()) {
    all += fmt::format("{}:{}:{}: {} {}; {}\n", one.file, one.line, one.column, one.path,
                       one.message, one.fix);
  }
  return fail(ErrorCode::invalid_config, std::move(all));
}

}  // namespace weir::sim
