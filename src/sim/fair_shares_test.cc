// SPDX-License-Identifier: Apache-2.0
#include "sim/fair_shares.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

using std::chrono::seconds;

TEST(MaxMinShares, FillTheSmallDemandsAndDivideTheRest) {
  EXPECT_EQ(max_min_shares({2, 8, 10}, 10), (std::vector<double>{2, 4, 4}));
  EXPECT_EQ(max_min_shares({10, 2, 8}, 10), (std::vector<double>{4, 2, 4}));
  EXPECT_EQ(max_min_shares({1, 2}, 10), (std::vector<double>{1, 2}));
  EXPECT_EQ(max_min_shares({5, 0}, 3), (std::vector<double>{3, 0}));
  EXPECT_TRUE(max_min_shares({}, 3).empty());
}

TEST(Fairness, SeesATenantThatGetsNothingAndOneThatGetsMore) {
  Scenario scenario;
  scenario.horizon = seconds(60);
  const std::vector<Rule> rules = {
      {Unit::requests, 10, seconds(60), Enforcement::sliding, Counting::settle, std::nullopt}};
  std::vector<Arrival> arrivals;
  std::vector<Turn> turns;
  const auto add = [&](std::uint32_t tenant, bool admitted) {
    Arrival arrival;
    arrival.at = Instant(seconds(1));
    arrival.tenant = tenant;
    arrivals.push_back(arrival);
    Turn turn;
    if (admitted) turn.admitted = Instant(seconds(2));
    turns.push_back(turn);
  };
  for (int i = 0; i < 10; ++i) add(0, i < 5);
  for (int i = 0; i < 10; ++i) add(1, i < 5);
  Fairness fairness = fairness_of(scenario, rules, arrivals, turns);
  EXPECT_EQ(fairness.tenants, 2U);
  EXPECT_DOUBLE_EQ(fairness.least, 1);
  EXPECT_DOUBLE_EQ(fairness.jain, 1);
  // The first takes all ten: a half is owed to the second, and 10 / 5 counts as 1 in Jain's index.
  for (std::size_t i = 0; i < 20; ++i) turns[i].admitted.reset();
  for (std::size_t i = 0; i < 10; ++i) turns[i].admitted = Instant(seconds(2));
  fairness = fairness_of(scenario, rules, arrivals, turns);
  EXPECT_DOUBLE_EQ(fairness.least, 0);
  EXPECT_DOUBLE_EQ(fairness.jain, 0.5);
}

}  // namespace
}  // namespace weir::sim
