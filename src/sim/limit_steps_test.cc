// SPDX-License-Identifier: Apache-2.0
#include "sim/limit_steps.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

using std::chrono::minutes;

std::vector<Rule> rules(std::int64_t amount) {
  return {
      {Unit::requests, amount, minutes(1), Enforcement::sliding, Counting::settle, std::nullopt}};
}

TEST(LimitSteps, MeansAreWeightedByTime) {
  const std::vector<LimitStep> steps = {{minutes(30), rules(300)}};
  EXPECT_EQ(mean_rules(rules(600), steps, Duration{0}, minutes(40))[0].amount, 525);
  EXPECT_EQ(mean_rules(rules(600), steps, minutes(30), minutes(40))[0].amount, 300);
  EXPECT_EQ(mean_rules(rules(600), steps, Duration{0}, minutes(20))[0].amount, 600);
  EXPECT_EQ(mean_rules(rules(600), steps, minutes(5), minutes(5))[0].amount, 600);
  EXPECT_EQ(mean_rules(rules(600), {}, Duration{0}, minutes(20))[0].amount, 600);
}

TEST(LimitSteps, OnlyAmountsAndDepthsMayDiffer) {
  EXPECT_TRUE(same_meters(rules(600), {minutes(1), rules(1)}));
  EXPECT_FALSE(same_meters(rules(600), {minutes(1), {}}));
  std::vector<Rule> other = rules(600);
  other[0].enforce = Enforcement::fixed;
  EXPECT_FALSE(same_meters(rules(600), {minutes(1), other}));
}

}  // namespace
}  // namespace weir::sim
