// SPDX-License-Identifier: Apache-2.0
#include "sim/starvation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "sim/oracle.h"
#include "weir/units.h"

namespace weir::sim {
namespace {

constexpr double kMostRefused = 0.01;
constexpr Duration kPin = std::chrono::seconds(10);
constexpr Duration kStalls = std::chrono::seconds(10);
constexpr Duration kGuard = std::chrono::milliseconds(100);  // where none was told

/// One told rule and its clock.
struct Line {
  Rule rule;
  double rate = 0;  ///< units per second
  double largest = 0;
  Instant free{};  ///< F_r
};

double cost_on(const Line& line, const Arrival& arrival, const Turn& turn) {
  Rule counted = line.rule;
  // What is given back at the end is missing until then.
  if (counted.count == Counting::reserve_refund) counted.count = Counting::reserve;
  const auto attempts = static_cast<double>(std::max(turn.attempts, 1U));
  return static_cast<double>(whole_cost(counted, arrival)) * attempts / line.rate;
}

std::string why_not(const Scenario& scenario, const Books& books) {
  const Told& told = scenario.told;
  if (told.mode == Mode::observe || told.strategy == Strategy::passthrough) {
    return "nobody is delayed";
  }
  if (told.strategy == Strategy::adaptive &&
      (told.rules != scenario.provider.rules || !scenario.steps.empty() ||
       scenario.other.per_second > 0 || scenario.other.swings_to.value_or(0) > 0)) {
    return "limits are learned";
  }
  if (told.strategy == Strategy::adaptive &&
      (scenario.latency.knee > 0 || scenario.latency.depth > 0)) {
    return "a limit on calls in flight is learned";
  }
  for (const std::vector<Rule>* rules : {&told.rules, &told.organization_limits}) {
    for (const Rule& rule : *rules) {
      if (rule.unit == Unit::concurrency) return "a limit on concurrency has no rate";
      if (rule.amount <= 0) return "a limit lets nothing through";
    }
  }
  const auto refused = static_cast<double>(books.rejected);
  if (refused > kMostRefused * static_cast<double>(books.sent)) {
    return "the provider refused more than 1 % of the attempts";
  }
  return "";
}

std::vector<Line> lines_of(const Told& told) {
  std::vector<Line> lines;
  const Duration guard = told.guard.value_or(kGuard);
  for (const std::vector<Rule>* rules : {&told.rules, &told.organization_limits}) {
    for (const Rule& rule : *rules) {
      Line line;
      line.rule = rule;
      line.rate = static_cast<double>(rule.amount) / to_seconds(rule.window + guard);
      lines.push_back(line);
    }
  }
  return lines;
}

Duration slack_of(const Scenario& scenario, const Pauses& pauses) {
  Duration slack = kStalls + pauses.longest_hint;
  if (tenants_of(scenario) > 1) slack += std::min(kPin, scenario.told.max_wait / 2);
  Duration longest{0};
  for (const Rule& rule : scenario.told.rules) longest = std::max(longest, rule.window);
  slack += from_seconds(std::max(0.0, pauses.worst_window - 1) * to_seconds(longest));
  if (scenario.restart || scenario.told.start_level < 1) slack += longest;
  return slack;
}

/// What calls in flight may turn out to take beyond what they are expected to, kDeviations of it,
/// on a rule that counts output while or after it is produced.
Duration misjudged(const Scenario& scenario, const Line& line, const std::vector<Arrival>& arrivals,
                   const std::vector<Turn>& turns) {
  constexpr double kDeviations = 3;
  const Rule& rule = line.rule;
  const bool later = rule.count == Counting::settle || rule.count == Counting::realtime;
  if (!later || (rule.unit != Unit::output_tokens && rule.unit != Unit::total_tokens)) return {};
  double calls = 0;
  double output = 0;
  double squared = 0;
  double running = 0;
  for (std::size_t index = 0; index < arrivals.size(); ++index) {
    if (!turns[index].granted) continue;
    const auto tokens = static_cast<double>(arrivals[index].output_tokens);
    ++calls;
    output += tokens;
    squared += tokens * tokens;
    running += to_seconds(scenario.latency.base_first_token) +
               tokens * to_seconds(scenario.latency.per_output_token);
  }
  if (calls < 2) return {};
  const double mean = output / calls;
  const double inflight = running / std::max(to_seconds(scenario.horizon), 1.0);
  const double variance = std::max(0.0, squared / calls - mean * mean);
  return from_seconds(kDeviations * std::sqrt(std::max(inflight, 1.0) * variance) / line.rate);
}

/// When how much had been granted: the clock D of the bound. Work is in seconds of the rule that a
/// call takes most of.
class Granted {
 public:
  Granted(const std::vector<Turn>& turns, const std::vector<double>& work)
      : turns_(turns), work_(work) {
    for (std::size_t index = 0; index < turns.size(); ++index) {
      if (turns[index].granted) order_.push_back(index);
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t left, std::size_t right) {
      return *turns[left].granted < *turns[right].granted;
    });
  }
  /// The first instant at which `work` had been granted; `work` must not fall.
  Instant reached(double work) {
    constexpr double kRounding = 1e-6;
    while (next_ < order_.size() && done_ < work - kRounding) {
      at_ = *turns_[order_[next_]].granted;
      done_ += work_[order_[next_++]];
    }
    return at_;
  }

 private:
  const std::vector<Turn>& turns_;
  const std::vector<double>& work_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
  double done_ = 0;
  Instant at_{};
};

}  // namespace

Starvation check_starvation(const Scenario& scenario, const std::vector<Arrival>& arrivals,
                            const std::vector<Turn>& turns, const Books& books,
                            const Pauses& pauses, Violations& violations) {
  Starvation result;
  result.why_not = why_not(scenario, books);
  if (!result.why_not.empty()) return result;
  std::vector<Line> lines = lines_of(scenario.told);
  std::vector<double> work(arrivals.size(), 0);
  for (std::size_t index = 0; index < arrivals.size(); ++index) {
    if (!turns[index].granted) continue;
    for (Line& line : lines) {
      line.largest = std::max(line.largest, cost_on(line, arrivals[index], {}));
      work[index] = std::max(work[index], cost_on(line, arrivals[index], turns[index]));
    }
  }
  Granted granted(turns, work);
  Duration slack{0};
  for (const Line& line : lines) {
    slack = std::max(slack, misjudged(scenario, line, arrivals, turns));
  }
  slack += slack_of(scenario, pauses);
  double before = 0;
  for (std::size_t index = 0; index < arrivals.size(); ++index) {
    if (!turns[index].granted) continue;
    const Instant arrived = arrivals[index].at;
    Instant turn = std::max(arrived, granted.reached(before));
    double lumps = 0;
    for (Line& line : lines) {
      turn = std::max(turn, line.free);
      const double cost = cost_on(line, arrivals[index], turns[index]);
      lumps = std::max(lumps, cost + 3 * line.largest);
      line.free = std::max(line.free, arrived) + from_seconds(cost);
    }
    before += work[index];
    const Duration waited = *turns[index].granted - turn;
    const Duration bound = slack + from_seconds(lumps);
    const double ratio = to_seconds(waited) / to_seconds(bound);
    if (ratio > 1) {
      violations.add("starvation", *turns[index].granted,
                     fmt::format("call {} waited {:.3f} s from its turn, the bound is {:.3f} s",
                                 index, to_seconds(waited), to_seconds(bound)));
    }
    if (ratio <= result.ratio) continue;
    result.ratio = ratio;
    result.waited = waited;
    result.bound = bound;
  }
  return result;
}

}  // namespace weir::sim
