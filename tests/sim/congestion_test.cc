// SPDX-License-Identifier: Apache-2.0
// Providers that answer more slowly, because they have too much to do or for other reasons.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/harness.h"
#include "sim/holds.h"
#include "sim/report.h"
#include "sim/workload.h"

namespace weir::sim {
namespace {

constexpr std::size_t kSeeds = 3;

ScenarioSet shipped() {
  auto set = load_scenarios(WEIR_SOURCE_DIR "/scenarios/congestion.yaml");
  EXPECT_TRUE(set.has_value()) << (set ? "" : set.error().text);
  return set ? *std::move(set) : ScenarioSet{};
}

TEST(CongestionScenarios, AllGoalsAreHeld) {
  const ScenarioSet set = shipped();
  ASSERT_EQ(set.scenarios.size(), 8U);
  for (const Scenario& scenario : set.scenarios) {
    for (std::size_t i = 0; i < kSeeds; ++i) {
      const Report report = run(scenario, set.seeds[i]);
      EXPECT_TRUE(report.held()) << table({set.name, set.about, 0}, {report});
      EXPECT_EQ(run(scenario, set.seeds[i]).digest, report.digest) << scenario.style;
    }
  }
}

// What the limit is worth: the same worlds under `shaping`, which knows nothing of speed.
TEST(CongestionScenarios, WithoutALimitFirstTokensComeTenTimesAsLate) {
  ScenarioSet set = shipped();
  for (Scenario& scenario : set.scenarios) {
    if (scenario.style != "knee" && scenario.style != "collapse") continue;
    scenario.goals = {};
    const Report with = run(scenario, 1);
    scenario.told.strategy = Strategy::shaping;
    const Report without = run(scenario, 1);
    EXPECT_GT(without.p95_first_token, 10 * with.p95_first_token) << scenario.style;
    EXPECT_EQ(without.holds, 0);
  }
}

// That the modelled knee is one: twice the calls in flight answer no more.
TEST(CongestionScenarios, ThroughputStopsGrowingAtTheKnee) {
  for (Scenario scenario : shipped().scenarios) {
    if (scenario.style != "knee") continue;
    scenario.goals = {};
    scenario.told.strategy = Strategy::shaping;
    Rule rule;
    rule.unit = Unit::concurrency;
    rule.window = Duration{0};
    scenario.told.rules.push_back(rule);
    const auto answered = [&](std::int64_t in_flight) {
      scenario.told.rules.back().amount = in_flight;
      return static_cast<double>(run(scenario, 1).answered_in_horizon);
    };
    const double at_knee = answered(32);
    EXPECT_NEAR(answered(16) / at_knee, 0.5, 0.03);
    EXPECT_NEAR(answered(64) / at_knee, 1.0, 0.04);
  }
}

std::vector<TraceRow> rows_of(const std::string& name) {
  auto rows = read_trace(std::string(WEIR_SOURCE_DIR "/scenarios/traces/") + name);
  EXPECT_TRUE(rows.has_value());
  return rows ? *std::move(rows) : std::vector<TraceRow>{};
}

TEST(FalseHolds, NoneOnTheRealBatchTraces) {
  for (const char* name :
       {"acdc_trace_d_head_generation_heavy.csv", "acdc_trace_e_head_scoring.csv"}) {
    const FalseHolds found = find_false_holds(rows_of(name));
    EXPECT_GE(found.rows, 60);
    EXPECT_GE(found.rows * found.orders, 5000);
    EXPECT_EQ(found.holds, 0) << name;
    // Of thousands of rows in random orders one may end under a trial, which is then given up.
    EXPECT_LE(found.share(), 0.001) << name;
    // The same rows are not easy: a rule that divides by tokens falls for many of them.
    EXPECT_GT(found.published, 0.05) << name;
  }
}

TEST(FalseHolds, FewOnTwoKindsOfBackEnds) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
    const FalseHolds found = find_false_holds(bimodal_rows(6000, seed));
    EXPECT_EQ(found.rows, 6000);
    EXPECT_EQ(found.holds, 0) << seed;
    EXPECT_LE(found.share(), 0.01) << seed;
    EXPECT_GT(found.published, 0.05) << seed;
  }
}

// Whole answers alone, which is all that rows of a trace have, do show a knee where there is one.
TEST(FalseHolds, WholeAnswersShowAKnee) {
  Scenario knee;
  for (const Scenario& scenario : shipped().scenarios) {
    if (scenario.style == "knee") knee = scenario;
  }
  knee.workload.streaming_share = 0;
  knee.goals = {};
  EXPECT_GE(run(knee, 1).holds, 1);
}

}  // namespace
}  // namespace weir::sim
