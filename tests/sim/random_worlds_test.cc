// SPDX-License-Identifier: Apache-2.0
//
// Worlds drawn at random: rules, countings, tenants, faults, aborts, headers. Whatever they are, no
// call may be lost, overtaken, answered late or leave anything behind, and two runs are equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "sim/harness.h"
#include "weir/rng.h"

namespace weir::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

template <class T, std::size_t N>
T pick(Rng& rng, const T (&from)[N]) {
  return from[rng.below(N)];
}

Rule random_rule(Rng& rng, Unit unit, std::int64_t per_minute) {
  constexpr Duration kWindows[] = {seconds(1), seconds(10), seconds(60), seconds(60), minutes(5)};
  constexpr Enforcement kKinds[] = {Enforcement::sliding, Enforcement::fixed, Enforcement::bucket,
                                    Enforcement::counter};
  constexpr Counting kCountings[] = {Counting::reserve, Counting::reserve_refund, Counting::settle,
                                     Counting::realtime, Counting::input};
  Rule rule;
  rule.unit = unit;
  rule.enforce = pick(rng, kKinds);
  rule.count = pick(rng, kCountings);
  if (unit == Unit::concurrency) {
    rule.amount = 5 + static_cast<std::int64_t>(rng.below(40));
    return rule;
  }
  rule.window = pick(rng, kWindows);
  rule.amount = std::max<std::int64_t>(1, per_minute * rule.window / Duration(minutes(1)));
  return rule;
}

/// The account at the provider has a life of its own.
void disturb(Scenario& scenario, Rng& rng) {
  using emulator::model::WaitsFor;
  if (rng.below(2) == 0) {
    scenario.provider.growth = {{.floor = 5 + static_cast<std::int64_t>(rng.below(100)),
                                 .look_back = minutes(1),
                                 .wander = 0.3 * rng.uniform()}};
  }
  if (rng.below(2) == 0) {
    scenario.other.per_second = 2 * rng.uniform();
    scenario.other.swings_to = 6 * rng.uniform();
    scenario.other.period = seconds(40);
    scenario.other.retries = rng.below(2) == 0;
    scenario.other.names_maximum = rng.below(2) == 0;
  }
  if (rng.below(2) == 0) {
    scenario.wait.longest = seconds(1 + static_cast<std::int64_t>(rng.below(20)));
    scenario.wait.what = rng.below(2) == 0 ? WaitsFor::any : WaitsFor::growth;
    scenario.wait.depth = 1 + static_cast<std::int64_t>(rng.below(50));
  }
  for (const Duration at : {Duration(minutes(1)), Duration(minutes(2))}) {
    if (rng.below(2) == 0) continue;
    scenario.steps.push_back({at, scenario.provider.rules});
    const double factor = 2 * rng.uniform();
    for (Rule& rule : scenario.steps.back().rules) {
      rule.amount = static_cast<std::int64_t>(factor * static_cast<double>(rule.amount));
    }
  }
  constexpr HeaderStyle kStyles[] = {HeaderStyle::every, HeaderStyle::openai,
                                     HeaderStyle::anthropic};
  constexpr RemainingSays kRemaining[] = {RemainingSays::truth, RemainingSays::unknown,
                                          RemainingSays::zero};
  scenario.header_quirks.style = pick(rng, kStyles);
  scenario.header_quirks.remaining = pick(rng, kRemaining);
  scenario.header_quirks.share = rng.uniform();
  scenario.header_quirks.cached = seconds(static_cast<std::int64_t>(rng.below(6)));
  if (rng.below(2) == 0) scenario.header_quirks.raised_at = minutes(1);
}

Scenario random_world(std::uint64_t seed) {
  Rng rng(seed);
  Scenario scenario;
  scenario.style = "random";
  scenario.horizon = minutes(3);
  const double per_minute = 60 + 600 * rng.uniform();
  scenario.workload.arrivals.rates = {{Duration{0}, per_minute / 60 * (0.5 + 2 * rng.uniform())}};
  if (rng.below(4) == 0) {
    scenario.workload.arrivals.on = seconds(20);
    scenario.workload.arrivals.off = seconds(15);
  }
  scenario.workload.tenants = static_cast<std::uint32_t>(1 + rng.below(5));
  scenario.workload.max_tokens = rng.below(2) == 0 ? MaxTokens::rounded_up : MaxTokens::absent;
  scenario.workload.abort_share = 0.3 * rng.uniform();
  scenario.workload.abort_after = seconds(10);
  scenario.workload.streaming_share = rng.uniform();
  scenario.network.handshake_share = 0.2 * rng.uniform();
  scenario.network.handshake = milliseconds(300);
  scenario.faults.server_error = 0.03 * rng.uniform();
  scenario.faults.reset_before = 0.03 * rng.uniform();
  scenario.faults.reset_inside = 0.03 * rng.uniform();
  scenario.faults.malformed = 0.03 * rng.uniform();
  scenario.headers = rng.below(2) == 0;
  auto& rules = scenario.provider.rules;
  if (rng.below(5) != 0) {
    rules.push_back(random_rule(rng, Unit::requests, static_cast<std::int64_t>(per_minute)));
  }
  constexpr Unit kUnits[] = {Unit::input_tokens, Unit::output_tokens, Unit::total_tokens,
                             Unit::concurrency};
  for (const Unit unit : kUnits) {
    if (rng.below(3) != 0) continue;
    rules.push_back(random_rule(rng, unit, static_cast<std::int64_t>(per_minute * 900)));
  }
  scenario.provider.rejected_counted = rng.below(2) == 0;
  scenario.provider.default_max_output = 350;
  scenario.told.rules = rules;
  scenario.told.guard = milliseconds(20);
  scenario.told.max_wait = seconds(5 + static_cast<std::int64_t>(rng.below(40)));
  scenario.goals.max_window_ratio = 1e12;
  return scenario;
}

class RandomWorlds : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomWorlds, NothingIsLostLeakedLateOrOvertaken) {
  for (std::uint64_t world = 0; world < 10; ++world) {
    const std::uint64_t seed = GetParam() * 100 + world;
    const Scenario scenario = random_world(seed);
    const Report report = run(scenario, seed);
    for (const char* checker : {"books", "slots", "fifo", "late", "stuck", "protocol"}) {
      EXPECT_FALSE(report.violations.by(checker))
          << "seed " << seed << ": " << report.violations.first().front();
    }
    EXPECT_EQ(report.digest, run(scenario, seed).digest) << "seed " << seed;
  }
}

TEST_P(RandomWorlds, NorWhereTheAccountHasALifeOfItsOwn) {
  for (std::uint64_t world = 0; world < 10; ++world) {
    const std::uint64_t seed = GetParam() * 1000 + world;
    Scenario scenario = random_world(seed);
    Rng rng(seed);
    disturb(scenario, rng);
    const Report report = run(scenario, seed);
    for (const char* checker : {"books", "slots", "fifo", "late", "stuck", "protocol"}) {
      EXPECT_FALSE(report.violations.by(checker))
          << "seed " << seed << ": " << report.violations.first().front();
    }
    EXPECT_EQ(report.digest, run(scenario, seed).digest) << "seed " << seed;
  }
}

TEST_P(RandomWorlds, ToldRequestRulesAreNeverPassed) {
  for (std::uint64_t world = 0; world < 10; ++world) {
    const std::uint64_t seed = GetParam() * 100 + world;
    Scenario scenario = random_world(seed);
    std::erase_if(scenario.provider.rules,
                  [](const Rule& rule) { return rule.unit != Unit::requests; });
    // Every other world's bucket is deeper than what it refills in its window, or is leaky.
    for (Rule& rule : scenario.provider.rules) {
      if (world % 2 == 1 && rule.enforce == Enforcement::bucket) rule.burst = 3 * rule.amount;
      if (world % 4 == 0 && rule.enforce == Enforcement::bucket) rule.enforce = Enforcement::leaky;
    }
    scenario.told.rules = scenario.provider.rules;
    scenario.told.guard = scenario.network.jitter;
    const Report report = run(scenario, seed);
    EXPECT_EQ(report.books.rejected, 0) << "seed " << seed;
    EXPECT_LE(report.worst_offered, 1.0 + 1e-9) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWorlds, testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace weir::sim
