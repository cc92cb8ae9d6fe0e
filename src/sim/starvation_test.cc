// SPDX-License-Identifier: Apache-2.0
#include "sim/starvation.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

/// 60 requests per 60 s, one tenant, no guard: one second for each.
Scenario one_a_second() {
  Scenario scenario;
  scenario.told.rules = {
      {Unit::requests, 60, seconds(60), Enforcement::sliding, Counting::settle, std::nullopt}};
  scenario.told.guard = Duration{0};
  scenario.told.max_wait = minutes(10);
  return scenario;
}

struct Line {
  std::vector<Arrival> arrivals;
  std::vector<Turn> turns;
  void add(Duration arrived, Duration granted) {
    Arrival arrival;
    arrival.at = Instant(arrived);
    arrivals.push_back(arrival);
    turns.push_back({Instant(granted), 1});
  }
};

Starvation check(const Scenario& scenario, const Line& run, Violations& violations) {
  Books books;
  books.sent = static_cast<std::int64_t>(run.turns.size());
  return check_starvation(scenario, run.arrivals, run.turns, books, {}, violations);
}

/// 120 at once; a window's worth goes at once and the rest one a second from 60 s on.
Line burst(Duration last) {
  Line run;
  for (int i = 0; i < 119; ++i) run.add(seconds(0), seconds(i < 60 ? 0 : i));
  run.add(seconds(0), last);
  return run;
}

TEST(Starvation, TheLastOfABurstHasItsTurnWhenTheOthersHaveBeenServed) {
  Violations violations;
  const Starvation well = check(one_a_second(), burst(seconds(121)), violations);
  EXPECT_EQ(violations.count(), 0);
  EXPECT_EQ(well.waited, seconds(2));
  EXPECT_EQ(well.bound, seconds(14));
  EXPECT_TRUE(well.why_not.empty());
  EXPECT_GT(check(one_a_second(), burst(seconds(140)), violations).ratio, 1);
  EXPECT_TRUE(violations.by("starvation"));
}

TEST(Starvation, ALineThatIsServedTooSlowlyStarvesNobodyButOneThatIsPassedByDoes) {
  Violations violations;
  Line slow;
  for (int i = 0; i < 200; ++i) slow.add(seconds(0), seconds(2 * i));
  EXPECT_LT(check(one_a_second(), slow, violations).ratio, 0.3);
  EXPECT_EQ(violations.count(), 0);
  // The third is served last, and the work that passed it does not push its turn back.
  slow.turns[3].granted = Instant(seconds(400));
  EXPECT_GT(check(one_a_second(), slow, violations).waited, seconds(380));
  EXPECT_TRUE(violations.by("starvation"));
}

TEST(Starvation, PassingIsAllowedForThePinWhereThereAreOthers) {
  Line run;
  for (int i = 0; i < 60; ++i) run.add(seconds(i), seconds(i));
  run.turns[20].granted = Instant(seconds(20 + 20));
  Violations violations;
  EXPECT_GT(check(one_a_second(), run, violations).ratio, 1);
  Scenario two = one_a_second();
  two.workload.tenants = 2;
  EXPECT_LE(check(two, run, violations).ratio, 1);
  EXPECT_EQ(violations.count(), 1);
}

TEST(Starvation, SaysNothingWhereNobodyIsDelayedOrMuchIsRefused) {
  Violations violations;
  Scenario scenario = one_a_second();
  scenario.told.mode = Mode::observe;
  EXPECT_FALSE(check(scenario, burst(seconds(900)), violations).why_not.empty());
  scenario = one_a_second();
  scenario.told.rules[0].unit = Unit::concurrency;
  EXPECT_FALSE(check(scenario, burst(seconds(900)), violations).why_not.empty());
  Books books;
  books.sent = 100;
  books.rejected = 2;
  const Line run = burst(seconds(900));
  EXPECT_FALSE(check_starvation(one_a_second(), run.arrivals, run.turns, books, {}, violations)
                   .why_not.empty());
  EXPECT_EQ(violations.count(), 0);
}

}  // namespace
}  // namespace weir::sim
