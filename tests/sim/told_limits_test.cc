// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "sim/harness.h"
#include "sim/report.h"

namespace weir::sim {
namespace {

/// Runs one style of a shipped scenario file at one load with all its seeds.
void expect_held(const std::string& file, const std::string& style, const std::string& load) {
  const auto set = load_scenarios(std::string(WEIR_SOURCE_DIR "/scenarios/") + file);
  ASSERT_TRUE(set.has_value()) << set.error().text;
  std::vector<Report> reports;
  for (const Scenario& scenario : set->scenarios) {
    if (scenario.style != style || scenario.load != load) continue;
    for (const std::uint64_t seed : set->seeds) reports.push_back(run(scenario, seed));
  }
  ASSERT_EQ(reports.size(), set->seeds.size());
  for (const Report& report : reports) {
    EXPECT_TRUE(report.held()) << table({set->name, set->about, 0}, {report});
  }
}

struct World {
  const char* name;
  const char* style;
};
void PrintTo(const World& world, std::ostream* out) { *out << world.name; }
constexpr World kStyles[] = {{"Sliding60s", "sliding-60s"},
                             {"Fixed60s", "fixed-60s"},
                             {"Bucket60s", "bucket-60s"},
                             {"Fixed10s", "fixed-10s"},
                             {"OpenAi", "openai"}};
std::string name_of(const testing::TestParamInfo<World>& info) { return info.param.name; }

class ToldLimits : public testing::TestWithParam<World> {};
TEST_P(ToldLimits, At95Percent) { expect_held("told-limits.yaml", GetParam().style, "95%"); }
TEST_P(ToldLimits, At200Percent) { expect_held("told-limits.yaml", GetParam().style, "200%"); }
INSTANTIATE_TEST_SUITE_P(Styles, ToldLimits, testing::ValuesIn(kStyles), name_of);

class KilledAndRestarted : public testing::TestWithParam<World> {};
TEST_P(KilledAndRestarted, At200Percent) { expect_held("restart.yaml", GetParam().style, "200%"); }
INSTANTIATE_TEST_SUITE_P(Styles, KilledAndRestarted, testing::ValuesIn(kStyles), name_of);

constexpr World kTraffic[] = {{"ChatSettled", "chat-settle"},
                              {"ChatAsProduced", "chat-realtime"},
                              {"ReasoningAsProduced", "reasoning-realtime"},
                              {"ReasoningSettled", "reasoning-settle"},
                              {"LongContext", "long-context"},
                              {"LongContextOf32", "long-context-32-tenants"}};
class TokenBound : public testing::TestWithParam<World> {};
TEST_P(TokenBound, At130Percent) { expect_held("token-bound.yaml", GetParam().style, ""); }
INSTANTIATE_TEST_SUITE_P(Traffic, TokenBound, testing::ValuesIn(kTraffic), name_of);

constexpr World kSizes[] = {
    {"Chat100k", "chat-0.1M"}, {"Reasoning100k", "reasoning-0.1M"}, {"LongIn10s", "long-10s"}};
class TokenSizes : public testing::TestWithParam<World> {};
TEST_P(TokenSizes, At130Percent) { expect_held("token-sizes.yaml", GetParam().style, ""); }
INSTANTIATE_TEST_SUITE_P(Sizes, TokenSizes, testing::ValuesIn(kSizes), name_of);

constexpr World kEnforcements[] = {{"Counter60s", "counter-60s"},
                                   {"Counter10s", "counter-10s"},
                                   {"CounterOfTokens", "counter-tokens"},
                                   {"Leaky60s", "leaky-60s"},
                                   {"Leaky10s", "leaky-10s"}};
class ToldEnforcement : public testing::TestWithParam<World> {};
TEST_P(ToldEnforcement, At95Percent) { expect_held("enforcement.yaml", GetParam().style, "95%"); }
TEST_P(ToldEnforcement, At200Percent) { expect_held("enforcement.yaml", GetParam().style, "200%"); }
INSTANTIATE_TEST_SUITE_P(Styles, ToldEnforcement, testing::ValuesIn(kEnforcements), name_of);

TEST(ToldEnforcementWindows, ACounterIsFilledAboveItsLoad) {
  const auto set = load_scenarios(WEIR_SOURCE_DIR "/scenarios/enforcement.yaml");
  ASSERT_TRUE(set.has_value()) << set.error().text;
  for (const Scenario& scenario : set->scenarios) {
    if (scenario.load != "200%" || !scenario.style.starts_with("counter-")) continue;
    if (scenario.style == "counter-untold") continue;
    Scenario fuller = scenario;
    fuller.goals.min_window_share = scenario.style == "counter-60s" ? 0.99 : 0.98;
    EXPECT_TRUE(run(fuller, 1).held()) << scenario.style;
  }
}

TEST(ToldLimitsDigest, EqualSeedsDecideEqually) {
  const auto set = load_scenarios(WEIR_SOURCE_DIR "/scenarios/told-limits.yaml");
  ASSERT_TRUE(set.has_value()) << set.error().text;
  for (const Scenario& scenario : set->scenarios) {
    Scenario shorter = scenario;
    shorter.horizon = std::chrono::minutes(2);
    EXPECT_EQ(run(shorter, 9).digest, run(shorter, 9).digest) << scenario.style << scenario.load;
  }
}

}  // namespace
}  // namespace weir::sim
