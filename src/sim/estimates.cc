// SPDX-License-Identifier: Apache-2.0
#include "sim/estimates.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <queue>
#include <utility>

#include "governor/estimator.h"

namespace weir::sim {
namespace {

constexpr std::int64_t kBlock = 1000;
constexpr std::int64_t kWarm = 200;
constexpr double kCoverage = 0.95;
constexpr double kCoverageOff = 0.015;
constexpr double kBlocksGood = 0.9;
constexpr double kModelBias = 0.01;
constexpr double kKeyBias = 0.02;
constexpr Duration kFirstByte = std::chrono::milliseconds(500);
constexpr Duration kPerToken = std::chrono::milliseconds(25);
// What the policy of a deployment starts from.
constexpr double kBytesPerToken = 4;
constexpr double kMeanOutput = 256;

struct Sum {
  double estimated = 0;
  double actual = 0;
  void add(double estimate, double output) {
    estimated += estimate;
    actual += output;
  }
  [[nodiscard]] double bias() const { return actual > 0 ? estimated / actual - 1 : 0; }
};

struct Key {
  KeyEstimates seen;
  std::int64_t within_block = 0;
  Sum cold;
  Sum warm;

  void note(double mean, bool within, double output) {
    ++seen.calls;
    seen.within += within ? 1 : 0;
    within_block += within ? 1 : 0;
    cold.add(mean, output);
    if (seen.calls > kWarm) warm.add(mean, output);
    if (seen.calls % kBlock != 0) return;
    const double coverage = static_cast<double>(within_block) / kBlock;
    ++seen.blocks;
    seen.blocks_off += std::fabs(coverage - kCoverage) > kCoverageOff + 1e-9 ? 1 : 0;
    within_block = 0;
  }
};

/// An answer on its way.
struct Answer {
  Instant ends;
  std::size_t row = 0;
  governor::Cost cost;
  bool operator>(const Answer& other) const {
    return ends != other.ends ? ends > other.ends : row > other.row;
  }
};

governor::Asked asked_by(std::uint32_t tenant) {
  governor::Asked asked;
  asked.tenant = std::uint64_t{tenant} * 2 + 1;
  asked.caller = std::uint64_t{tenant} * 2 + 2;
  return asked;
}

Demand demand_of(const TraceRow& row) {
  Demand demand;
  demand.input_tokens = row.input_tokens.value_or(0);
  return demand;
}

}  // namespace

double TraceEstimates::coverage() const {
  return calls > 0 ? static_cast<double>(within) / static_cast<double>(calls) : 0;
}

std::vector<std::string> TraceEstimates::missed() const {
  std::vector<std::string> all;
  const double good =
      blocks > 0 ? 1 - static_cast<double>(blocks_off) / static_cast<double>(blocks) : 1;
  if (good < kBlocksGood)
    all.push_back(fmt::format("coverage: {} of {} blocks", blocks_off, blocks));
  if (std::fabs(bias) > kModelBias) all.push_back(fmt::format("bias: {:.2f} %", 100 * bias));
  for (const KeyEstimates& key : keys) {
    if (key.blocks == 0 || std::fabs(key.bias) <= kKeyBias) continue;
    all.push_back(fmt::format("bias of key {}: {:.2f} %", key.tenant, 100 * key.bias));
  }
  return all;
}

TraceEstimates replay_estimates(const std::vector<TraceRow>& rows, bool at_once) {
  governor::Estimator estimator(kBytesPerToken, kMeanOutput);
  std::map<std::uint32_t, Key> keys;
  std::priority_queue<Answer, std::vector<Answer>, std::greater<>> running;
  TraceEstimates result;
  Sum whole;
  const auto end_until = [&](Instant now) {
    while (!running.empty() && running.top().ends <= now) {
      const Answer& answer = running.top();
      const TraceRow& row = rows[answer.row];
      const Usage usage{row.input_tokens.value_or(0), *row.output_tokens, {}, {}};
      const governor::DebtNote note =
          estimator.learn(demand_of(row), asked_by(row.tenant.value_or(0)), answer.cost, usage, 0);
      result.alarms += note.input || note.output ? 1 : 0;
      running.pop();
    }
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const TraceRow& row = rows[i];
    if (!row.output_tokens) continue;
    const Instant now(row.at);
    end_until(now);
    const std::uint32_t tenant = row.tenant.value_or(0);
    const governor::Asked asked = asked_by(tenant);
    const auto output = static_cast<double>(*row.output_tokens);
    const double mean = estimator.mean_of(asked);
    const bool within = output <= estimator.p95_of(asked);
    ++result.calls;
    result.within += within ? 1 : 0;
    whole.add(mean, output);
    keys[tenant].note(mean, within, output);
    const Duration takes = at_once ? Duration{0} : kFirstByte + kPerToken * *row.output_tokens;
    running.push({now + takes, i, estimator.cost(demand_of(row), asked)});
    if (at_once) end_until(now);
  }
  end_until(kNever);
  result.bias = whole.bias();
  for (auto& [tenant, key] : keys) {
    key.seen.tenant = tenant;
    key.seen.cold_bias = key.cold.bias();
    key.seen.bias = key.warm.bias();
    result.blocks += key.seen.blocks;
    result.blocks_off += key.seen.blocks_off;
    if (key.seen.blocks > 0 && std::fabs(key.seen.bias) > std::fabs(result.worst_bias)) {
      result.worst_bias = key.seen.bias;
    }
    result.keys.push_back(key.seen);
  }
  std::stable_sort(result.keys.begin(), result.keys.end(),
                   [](const auto& left, const auto& right) { return left.calls > right.calls; });
  return result;
}

std::string estimates_table(const TraceEstimates& measured) {
  std::string out = fmt::format("{:>6} {:>8} {:>9} {:>7} {:>5} {:>10} {:>12}\n", "tenant", "calls",
                                "p95 holds", "blocks", "off", "bias", "with first");
  const auto to = std::back_inserter(out);
  constexpr std::size_t kShown = 12;
  for (std::size_t i = 0; i < std::min(kShown, measured.keys.size()); ++i) {
    const KeyEstimates& key = measured.keys[i];
    fmt::format_to(to, "{:>6} {:>8} {:>7.2f} % {:>7} {:>5} {:>8.2f} % {:>10.2f} %\n", key.tenant,
                   key.calls,
                   100 * static_cast<double>(key.within) / static_cast<double>(key.calls),
                   key.blocks, key.blocks_off, 100 * key.bias, 100 * key.cold_bias);
  }
  if (measured.keys.size() > kShown) {
    fmt::format_to(to, "{} tenants with fewer calls are not shown\n",
                   measured.keys.size() - kShown);
  }
  fmt::format_to(to, "{:>6} {:>8} {:>7.2f} % {:>7} {:>5} {:>10} {:>10.2f} %\n", "all",
                 measured.calls, 100 * measured.coverage(), measured.blocks, measured.blocks_off,
                 "", 100 * measured.bias);
  out +=
      "\np95 holds: answers no longer than the quantile estimated when they were asked for; "
      "blocks:\n"
      "of 1000 calls, off: those with less than 93.5 or more than 96.5 %; bias: estimated means\n"
      "against what came, by tokens, without a tenant's first 200 calls and with them. An answer\n"
      "takes 0.5 s and 25 ms for each of its tokens and is learned from when it ends, so that a "
      "new\n"
      "deployment's long answers are known last.\n";
  const std::vector<std::string> missed = measured.missed();
  for (const std::string& each : missed) fmt::format_to(to, "missed: {}\n", each);
  if (missed.empty()) {
    out +=
        "Within the goals: 9 blocks in 10 within 95 +- 1.5 %, bias within 1 %, and within 2 % for\n"
        "each tenant with a whole block.\n";
  }
  return out;
}

std::string estimates_json(const TraceEstimates& measured) {
  std::string out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to,
                 R"({{"calls":{},"coverage":{:.6f},"blocks":{},"blocks_off":{},"bias":{:.6f},)"
                 R"("worst_key_bias":{:.6f},"debt_alarms":{},"within_goals":{},"keys":[)",
                 measured.calls, measured.coverage(), measured.blocks, measured.blocks_off,
                 measured.bias, measured.worst_bias, measured.alarms, measured.missed().empty());
  const char* comma = "";
  for (const KeyEstimates& key : measured.keys) {
    fmt::format_to(to,
                   R"({}{{"tenant":{},"calls":{},"coverage":{:.6f},"blocks":{},"blocks_off":{},)"
                   R"("bias":{:.6f},"cold_bias":{:.6f}}})",
                   comma, key.tenant, key.calls,
                   static_cast<double>(key.within) / static_cast<double>(key.calls), key.blocks,
                   key.blocks_off, key.bias, key.cold_bias);
    comma = ",\n";
  }
  out += "]}\n";
  return out;
}

}  // namespace weir::sim
