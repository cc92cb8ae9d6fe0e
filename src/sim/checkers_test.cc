// SPDX-License-Identifier: Apache-2.0
#include "sim/checkers.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

using std::chrono::seconds;

Instant at(int second) { return Instant(seconds(second)); }
Rule rule(Enforcement enforce) {
  return {Unit::requests, 10, seconds(60), enforce, Counting::settle, std::nullopt};
}

TEST(WindowChecker, FindsTheFullestWindowOfEachKind) {
  WindowChecker sliding(rule(Enforcement::sliding), Duration{0});
  sliding.charge(6, at(50));
  sliding.charge(6, at(70));
  EXPECT_DOUBLE_EQ(sliding.worst(), 1.2);
  WindowChecker fixed(rule(Enforcement::fixed), Duration{0});
  fixed.charge(6, at(50));
  fixed.charge(6, at(70));
  EXPECT_DOUBLE_EQ(fixed.worst(), 0.6) << "the boundary is at 60 s";
  WindowChecker bucket(rule(Enforcement::bucket), Duration{0});
  bucket.charge(10, at(0));
  bucket.charge(2, at(6));
  EXPECT_DOUBLE_EQ(bucket.worst(), 1.1);
}

TEST(WindowChecker, EstimatesAsACounterDoes) {
  WindowChecker counter(rule(Enforcement::counter), Duration{0});
  counter.charge(8, at(50));
  EXPECT_DOUBLE_EQ(counter.worst(), 0.8);
  counter.charge(5, at(90));
  EXPECT_DOUBLE_EQ(counter.worst(), 0.9);
  counter.charge(2, at(105));
  EXPECT_DOUBLE_EQ(counter.worst(), 0.9) << "7 and a quarter of 8";
  counter.charge(4, at(120));
  EXPECT_DOUBLE_EQ(counter.worst(), 1.1) << "the window of 7 is the older one now";
  EXPECT_EQ(counter.charged_between(at(100), at(130), at(130)), 6);
}

TEST(WindowChecker, ALeakyRuleIsOneDeep) {
  WindowChecker leaky(rule(Enforcement::leaky), Duration{0});
  leaky.charge(1, at(0));
  leaky.charge(1, at(6));
  EXPECT_DOUBLE_EQ(leaky.worst(), 1);
  leaky.charge(1, at(9));
  EXPECT_DOUBLE_EQ(leaky.worst(), 1.5);
}

TEST(WindowChecker, ALowerLimitExcusesWhatTheHigherOneLetThrough) {
  WindowChecker window(rule(Enforcement::sliding), Duration{0});
  window.charge(9, at(10));
  window.set_limit(4, at(20));
  window.charge(1, at(30));
  EXPECT_DOUBLE_EQ(window.worst(), 1.0);
  window.charge(4, at(81));
  EXPECT_DOUBLE_EQ(window.worst(), 1.25) << "1 and 4 against 4";
  window.set_limit(20, at(90));
  window.charge(10, at(91));
  EXPECT_DOUBLE_EQ(window.worst(), 1.25);
}

TEST(WindowChecker, WhatOthersChargeFillsTheWindowAndIsNotOurs) {
  WindowChecker window(rule(Enforcement::sliding), Duration{0});
  window.charge(6, at(10), WindowChecker::Whose::others);
  window.charge(6, at(20));
  EXPECT_DOUBLE_EQ(window.worst(), 1.2);
  EXPECT_EQ(window.charged_between(at(0), at(30), at(30)), 6);
}

TEST(WindowChecker, SumsWhatIsSurelyCounted) {
  WindowChecker window(rule(Enforcement::sliding), Duration{0});
  window.charge(1, at(1));
  window.charge(2, at(30));
  window.charge(4, at(58));
  EXPECT_EQ(window.charged_between(at(1), at(57), at(59)), 2);
  EXPECT_EQ(window.charged_between(at(0), at(59), at(61)), 6);
  window.give_back(3, at(58), at(59));
  EXPECT_EQ(window.charged_between(at(0), at(59), at(61)), 3);
}

TEST(FifoChecker, FiresOnAnOvertakingOnly) {
  Violations violations;
  FifoChecker fifo(2);
  fifo.granted(0, 1, at(1), violations);
  fifo.granted(1, 0, at(1), violations);
  fifo.granted(0, 3, at(2), violations);
  EXPECT_EQ(violations.count(), 0);
  fifo.granted(0, 2, at(3), violations);
  EXPECT_TRUE(violations.by("fifo"));
}

TEST(CheckOpen, FiresOnALeakedSlotOrReservation) {
  governor::Snapshot snapshot;
  snapshot.inflight = 1;
  Violations violations;
  check_open({0, 1}, snapshot, at(1), violations);
  EXPECT_EQ(violations.count(), 0);
  check_open({0, 0}, snapshot, at(2), violations);
  EXPECT_EQ(violations.count(), 1);
  snapshot.inflight = 0;
  snapshot.deployments.emplace_back();
  snapshot.deployments[0].meters.emplace_back();
  snapshot.deployments[0].meters[0].reserved = 7;
  check_open({0, 0}, snapshot, at(3), violations);
  EXPECT_EQ(violations.count(), 2);
}

TEST(CheckBooks, FiresWhenACallIsNowhere) {
  Books books;
  books.arrivals = 3;
  books.served = 1;
  books.timed_out = 1;
  books.open = 1;
  books.sent = books.admitted = 1;
  Violations violations;
  check_books(books, at(1), violations);
  EXPECT_EQ(violations.count(), 0);
  books.open = 0;
  books.sent = 2;
  check_books(books, at(1), violations);
  EXPECT_EQ(violations.count(), 2);
}

TEST(Violations, KeepsTheFirstAndCountsAll) {
  Violations violations;
  for (int index = 0; index < 50; ++index) violations.add("x", at(index), "again");
  EXPECT_EQ(violations.count(), 50);
  EXPECT_EQ(violations.first().size(), Violations::kMaxKept);
  EXPECT_FALSE(violations.by("y"));
}

}  // namespace
}  // namespace weir::sim
