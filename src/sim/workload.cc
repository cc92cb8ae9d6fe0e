// SPDX-License-Identifier: Apache-2.0
#include "sim/workload.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "sim/oracle.h"
#include "weir/rng.h"
#include "weir/units.h"

namespace weir::sim {
namespace {

double rate_at(const ArrivalPattern& pattern, Duration at) {
  double rate = 0;
  for (const RateStep& step : pattern.rates) {
    if (step.from <= at) rate = step.per_second;
  }
  const Duration period = pattern.on + pattern.off;
  if (pattern.off.count() > 0 && period.count() > 0 && at % period >= pattern.on) return 0;
  return rate;
}

std::int64_t draw_length(Rng& rng, double mean, double sigma, std::int64_t cap) {
  const double length = std::min(rng.log_normal(mean, sigma), static_cast<double>(cap));
  return std::max<std::int64_t>(1, std::llround(length));
}

/// Fills in everything but the time. The number of draws is the same for every request, so that
/// changing one setting does not shift what the others draw.
void fill(const Workload& workload, const TraceRow& row, Rng& rng, Arrival& arrival) {
  const std::uint32_t tenants = std::max(workload.tenants, 1U);
  arrival.tenant = static_cast<std::uint32_t>(rng.below(tenants));
  if (row.tenant) arrival.tenant = *row.tenant % tenants;
  const std::int64_t input =
      draw_length(rng, workload.input_mean, workload.input_sigma, workload.length_cap);
  const std::int64_t output =
      draw_length(rng, workload.output_mean, workload.output_sigma, workload.length_cap);
  arrival.input_tokens = row.input_tokens.value_or(input);
  arrival.output_tokens = row.output_tokens.value_or(output);
  const double bytes = workload.bytes_per_token * rng.log_normal(1, workload.bytes_noise);
  arrival.input_bytes = std::llround(static_cast<double>(arrival.input_tokens) * bytes);
  const std::int64_t step = std::max<std::int64_t>(workload.max_tokens_step, 1);
  switch (workload.max_tokens) {
    case MaxTokens::absent: break;
    case MaxTokens::exact: arrival.max_output_tokens = arrival.output_tokens; break;
    case MaxTokens::rounded_up:
      arrival.max_output_tokens = (arrival.output_tokens + step - 1) / step * step;
      break;
    case MaxTokens::constant:
      arrival.max_output_tokens = step;
      arrival.output_tokens = std::min(arrival.output_tokens, step);
      break;
  }
  arrival.streaming = rng.uniform() < workload.streaming_share;
  const bool goes = rng.uniform() < workload.abort_share;
  const double patience = rng.exponential(to_seconds(workload.abort_after));
  if (goes) arrival.gone_after = from_seconds(patience);
}

/// Whose lengths a request has: the next line's of the trace of lengths, again and again.
class Lengths {
 public:
  Lengths(const Workload& workload, std::uint64_t seed) : workload_(workload) {
    if (workload.lengths == nullptr) return;
    order_.resize(workload.lengths->size());
    std::iota(order_.begin(), order_.end(), 0U);
    if (workload.order == LengthOrder::kept) return;
    Rng rng(seed ^ 0x0bdeULL);
    for (std::size_t left = order_.size(); left > 1; --left) {
      std::swap(order_[left - 1], order_[rng.below(left)]);
    }
  }
  TraceRow next() {
    if (order_.empty()) return {};
    const TraceRow& row = (*workload_.lengths)[order_[at_]];
    at_ = (at_ + 1) % order_.size();
    return row;
  }

 private:
  const Workload& workload_;
  std::vector<std::uint32_t> order_;
  std::size_t at_ = 0;
};

/// The requests of a trace of arrivals, at its speed, again and again if it says so.
void play_trace(const ArrivalPattern& pattern, Duration horizon,
                const std::function<void(Duration, const TraceRow&)>& add) {
  const std::vector<TraceRow>& rows = *pattern.trace;
  const double speed = pattern.speed > 0 ? pattern.speed : 1;
  const double span = to_seconds(rows.back().at) + 1;
  for (double start = 0;; start += span) {
    for (const TraceRow& row : rows) {
      const Duration at = from_seconds((start + to_seconds(row.at)) / speed);
      if (at >= horizon) return;
      add(at, row);
    }
    if (!pattern.repeat) return;
  }
}

}  // namespace

std::vector<Arrival> make_arrivals(const Workload& workload, Duration horizon, std::uint64_t seed) {
  std::vector<Arrival> arrivals;
  Rng times(seed ^ 0x5eedaULL);
  Rng contents(seed ^ 0xc0de5ULL);
  const auto add = [&](Duration at, const TraceRow& row) {
    Arrival arrival;
    arrival.at = Instant(at);
    fill(workload, row, contents, arrival);
    arrivals.push_back(arrival);
  };
  Lengths lengths(workload, seed);
  if (workload.arrivals.trace != nullptr && !workload.arrivals.trace->empty()) {
    play_trace(workload.arrivals, horizon, [&](Duration at, const TraceRow& row) {
      if (arrivals.size() < kMaxArrivals) add(at, workload.lengths ? lengths.next() : row);
    });
    return arrivals;
  }
  // Thinning: candidates at the highest rate, each kept with the share that holds at its time.
  double highest = 0;
  for (const RateStep& step : workload.arrivals.rates) {
    highest = std::max(highest, step.per_second);
  }
  if (!(highest > 0)) return arrivals;
  const double expected = highest * to_seconds(horizon);
  arrivals.reserve(static_cast<std::size_t>(std::min(expected * 1.02, 1e6)));
  double at_seconds = 0;
  while (arrivals.size() < kMaxArrivals) {
    at_seconds += times.exponential(1 / highest);
    const Duration at = from_seconds(at_seconds);
    if (at >= horizon) break;
    if (times.uniform() * highest >= rate_at(workload.arrivals, at)) continue;
    add(at, lengths.next());
  }
  return arrivals;
}

std::uint32_t tenants_of(const Scenario& scenario) {
  std::uint32_t tenants = std::max(scenario.workload.tenants, 1U);
  for (const Flow& flow : scenario.flows) {
    const std::uint32_t first = flow.first_tenant.value_or(tenants);
    tenants = std::max(tenants, first + std::max(flow.workload.tenants, 1U));
  }
  return tenants;
}

std::vector<Arrival> make_arrivals(const Scenario& scenario, std::uint64_t seed) {
  std::vector<Arrival> all = make_arrivals(scenario.workload, scenario.horizon, seed);
  std::uint32_t tenants = std::max(scenario.workload.tenants, 1U);
  for (std::size_t index = 0; index < scenario.flows.size(); ++index) {
    const Flow& flow = scenario.flows[index];
    const std::uint32_t first = flow.first_tenant.value_or(tenants);
    tenants = std::max(tenants, first + std::max(flow.workload.tenants, 1U));
    std::vector<Arrival> more =
        make_arrivals(flow.workload, scenario.horizon, seed + 0x9e3779b9ULL * (index + 1));
    for (Arrival& arrival : more) arrival.tenant += first;
    all.insert(all.end(), more.begin(), more.end());
  }
  if (scenario.flows.empty()) return all;
  std::stable_sort(all.begin(), all.end(),
                   [](const Arrival& left, const Arrival& right) { return left.at < right.at; });
  if (all.size() > kMaxArrivals) all.resize(kMaxArrivals);
  return all;
}

void resolve_quota(Workload& workload, const std::vector<Rule>& rules) {
  if (!workload.arrivals.of_quota) return;
  // The mean costs are those of a sample, drawn as the requests will be.
  Workload sample = workload;
  constexpr double kSampleRate = 1000;
  sample.arrivals = {};
  sample.arrivals.rates = {{Duration{0}, kSampleRate}};
  constexpr std::size_t kLeastSample = 20'000;
  const std::size_t rows =
      std::max(workload.lengths != nullptr ? workload.lengths->size() : 0, kLeastSample);
  const Duration span = from_seconds(static_cast<double>(rows) / kSampleRate);
  const std::vector<Arrival> drawn = make_arrivals(sample, span, 1);
  double most = 0;
  for (const Rule& rule : rules) {
    if (rule.unit == Unit::concurrency || rule.window.count() <= 0 || drawn.empty()) continue;
    double cost = 0;
    for (const Arrival& arrival : drawn) cost += static_cast<double>(whole_cost(rule, arrival));
    cost /= static_cast<double>(drawn.size());
    if (!(cost > 0)) continue;
    const double rate = static_cast<double>(rule.amount) / to_seconds(rule.window) / cost;
    most = most > 0 ? std::min(most, rate) : rate;
  }
  workload.arrivals.rates = {{Duration{0}, most * *workload.arrivals.of_quota}};
}

Result<std::vector<TraceRow>> parse_trace(std::string_view csv) {
  std::vector<TraceRow> rows;
  std::map<std::string, std::uint32_t, std::less<>> tenants;
  std::optional<std::size_t> tenant_column;
  std::optional<std::size_t> time_column;
  std::size_t number = 0;
  while (!csv.empty()) {
    ++number;
    const std::size_t end = std::min(csv.find('\n'), csv.size());
    std::string_view line = csv.substr(0, end);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (number == 1) {
      std::size_t column = 0;
      for (std::string_view rest = line; !rest.empty(); ++column) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        if (rest.substr(0, comma) == "tenant") tenant_column = column;
        if (rest.substr(0, comma) == "duration_ms") time_column = column;
        rest.remove_prefix(std::min(comma + 1, rest.size()));
      }
    }
    if (number == 1 || line.empty()) continue;
    if (rows.size() >= kMaxArrivals) {
      return fail(ErrorCode::too_large,
                  fmt::format("The trace has more than {} requests; cut it.", kMaxArrivals));
    }
    const auto cut = [&line]() {
      const std::size_t comma = std::min(line.find(','), line.size());
      const std::string_view field = line.substr(0, comma);
      line.remove_prefix(std::min(comma + 1, line.size()));
      return field;
    };
    const auto whole = [](std::string_view text, std::optional<std::int64_t>& into) {
      if (text.empty()) return true;
      std::int64_t value = 0;
      const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      into = value;
      return error == std::errc{} && stop == text.data() + text.size() && value >= 0;
    };
    const std::string_view at = cut();
    double seconds = 0;
    const auto [stop, error] = std::from_chars(at.data(), at.data() + at.size(), seconds);
    TraceRow row;
    bool good = error == std::errc{} && stop == at.data() + at.size() && seconds >= 0;
    good = whole(cut(), row.input_tokens) && good;
    good = whole(cut(), row.output_tokens) && good;
    row.at = good ? from_seconds(seconds) : Duration{0};
    const std::size_t last = std::max(tenant_column.value_or(0), time_column.value_or(0));
    for (std::size_t column = 3; column <= last; ++column) {
      const std::string_view name = cut();
      if (column == time_column) {
        std::optional<std::int64_t> took;
        good = whole(name, took) && good;
        if (took) row.took = std::chrono::milliseconds(std::min<std::int64_t>(*took, 1 << 30));
      }
      if (column != tenant_column || name.empty()) continue;
      const auto next = static_cast<std::uint32_t>(tenants.size());
      row.tenant = tenants.emplace(name, next).first->second;
    }
    if (!good || (!rows.empty() && row.at < rows.back().at)) {
      return fail(ErrorCode::malformed,
                  fmt::format("Line {} of the trace is not \"seconds,input_tokens,output_tokens\" "
                              "with rising seconds; correct it.",
                              number));
    }
    rows.push_back(row);
  }
  return rows;
}

Result<std::vector<TraceRow>> read_trace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(ErrorCode::io, "The trace '" + path + "' cannot be read; name a CSV file.");
  }
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return parse_trace(text);
}

}  // namespace weir::sim
