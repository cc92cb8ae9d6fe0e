// SPDX-License-Identifier: Apache-2.0
#include "sim/workload.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "weir/rng.h"

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
  arrival.tenant = static_cast<std::uint32_t>(rng.below(std::max(workload.tenants, 1U)));
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
  if (!workload.arrivals.trace.empty()) {
    for (const TraceRow& row : workload.arrivals.trace) {
      if (row.at >= horizon || arrivals.size() >= kMaxArrivals) break;
      add(row.at, row);
    }
    return arrivals;
  }
  // Thinning: candidates at the highest rate, each kept with the share that holds at its time.
  double highest = 0;
  for (const RateStep& step : workload.arrivals.rates) {
    highest = std::max(highest, step.per_second);
  }
  if (!(highest > 0)) return arrivals;
  double at_seconds = 0;
  while (arrivals.size() < kMaxArrivals) {
    at_seconds += times.exponential(1 / highest);
    const Duration at = from_seconds(at_seconds);
    if (at >= horizon) break;
    if (times.uniform() * highest >= rate_at(workload.arrivals, at)) continue;
    add(at, {});
  }
  return arrivals;
}

Result<std::vector<TraceRow>> parse_trace(std::string_view csv) {
  std::vector<TraceRow> rows;
  std::size_t number = 0;
  while (!csv.empty()) {
    ++number;
    const std::size_t end = std::min(csv.find('\n'), csv.size());
    std::string_view line = csv.substr(0, end);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
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

}  // namespace weir::sim
