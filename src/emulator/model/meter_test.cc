// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/meter.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "weir/rng.h"

namespace weir::emulator::model {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Instant at(Duration since) { return Instant(since); }

Rule rule(Enforcement enforce, std::int64_t amount, Duration window) {
  return {Unit::requests, amount, window, enforce, Counting::settle, std::nullopt};
}

TEST(Meter, SlidingCountsEachChargeForExactlyOneWindow) {
  Meter meter(rule(Enforcement::sliding, 2, seconds(60)), Duration{0}, at(seconds(0)));
  meter.add(1, at(seconds(0)));
  meter.add(1, at(seconds(10)));
  EXPECT_EQ(meter.wait_for(1, at(seconds(20))), seconds(40));
  EXPECT_EQ(meter.wait_for(2, at(seconds(20))), seconds(50));
  EXPECT_FALSE(meter.has_room(1, at(seconds(60) - Duration(1))));
  EXPECT_TRUE(meter.has_room(1, at(seconds(60))));
  EXPECT_FALSE(meter.has_room(2, at(seconds(60))));
  EXPECT_EQ(meter.used(at(seconds(70))), 0);
}

TEST(Meter, FixedForgetsAtItsBoundaryWhateverThePhase) {
  Meter meter(rule(Enforcement::fixed, 10, seconds(60)), seconds(25), at(seconds(0)));
  meter.add(10, at(seconds(24)));
  EXPECT_FALSE(meter.has_room(1, at(seconds(25) - Duration(1))));
  EXPECT_TRUE(meter.has_room(10, at(seconds(25))));
  meter.add(4, at(seconds(30)));
  EXPECT_EQ(meter.time_to_empty(at(seconds(30))), seconds(55));
  EXPECT_EQ(meter.wait_for(7, at(seconds(30))), seconds(55));
}

TEST(Meter, BucketRefillsWithoutRounding) {
  Meter meter(rule(Enforcement::bucket, 10, seconds(1)), Duration{0}, at(seconds(0)));
  meter.add(10, at(seconds(0)));
  EXPECT_EQ(meter.used(at(seconds(0))), 10);
  EXPECT_EQ(meter.used(at(milliseconds(100))), 9);
  EXPECT_FALSE(meter.has_room(2, at(milliseconds(200) - Duration(1))));
  EXPECT_TRUE(meter.has_room(2, at(milliseconds(200))));
  EXPECT_EQ(meter.wait_for(5, at(milliseconds(200))), milliseconds(300));
  EXPECT_EQ(meter.used(at(seconds(100))), 0);
}

TEST(Meter, BucketDepthMayDifferFromItsRate) {
  Rule shallow = rule(Enforcement::bucket, 60, seconds(60));
  shallow.burst = 2;
  Meter meter(shallow, Duration{0}, at(seconds(0)));
  EXPECT_TRUE(meter.never_fits(3));
  EXPECT_EQ(meter.wait_for(3, at(seconds(0))), kForever);
  meter.add(2, at(seconds(0)));
  EXPECT_EQ(meter.wait_for(1, at(seconds(0))), seconds(1));
}

TEST(Meter, BucketMayOweAndPaysBack) {
  Meter meter(rule(Enforcement::bucket, 10, seconds(1)), Duration{0}, at(seconds(0)));
  meter.add(25, at(seconds(0)));
  EXPECT_EQ(meter.used(at(seconds(0))), 25);
  EXPECT_EQ(meter.wait_for(1, at(seconds(0))), milliseconds(1600));
  meter.add_refused(1, at(milliseconds(1550)));
  EXPECT_TRUE(meter.has_room(0, at(milliseconds(1550))));
  EXPECT_FALSE(meter.has_room(1, at(milliseconds(1600))))
      << "the refused attempt took what it found";
}

TEST(Meter, GivesBackOnlyWhatStillCounts) {
  for (const Enforcement enforce : {Enforcement::sliding, Enforcement::fixed}) {
    Meter meter(rule(enforce, 100, seconds(60)), Duration{0}, at(seconds(0)));
    const Charge charge = meter.add(80, at(seconds(1)));
    meter.give_back(charge, 30, at(seconds(20)));
    EXPECT_EQ(meter.used(at(seconds(20))), 50);
    meter.give_back(charge, 1000, at(seconds(30)));
    EXPECT_EQ(meter.used(at(seconds(30))), 0);
    meter.add(40, at(seconds(62)));
    meter.give_back(charge, 30, at(seconds(62)));
    EXPECT_EQ(meter.used(at(seconds(62))), 40) << "the old charge had left the window";
  }
}

TEST(Meter, ZeroAndHugeAmountsAreSafe) {
  for (const Enforcement enforce :
       {Enforcement::sliding, Enforcement::fixed, Enforcement::bucket, Enforcement::unknown}) {
    Meter closed(rule(enforce, 0, seconds(1)), Duration{0}, at(seconds(0)));
    EXPECT_FALSE(closed.has_room(1, at(seconds(5))));
    EXPECT_EQ(closed.wait_for(1, at(seconds(5))), kForever);
    Meter open(rule(enforce, INT64_MAX, Duration::max()), Duration{0}, kDawn);
    EXPECT_TRUE(open.has_room(INT64_MAX, kNever));
    open.add(INT64_MAX, at(seconds(0)));
    open.add(INT64_MAX, at(seconds(0)));
    EXPECT_GE(open.used(at(seconds(0))), INT64_MAX - 1);
    EXPECT_FALSE(open.has_room(INT64_MAX, at(seconds(1))));
    EXPECT_GE(open.wait_for(INT64_MAX, at(seconds(1))).count(), 0);
    Meter odd(rule(enforce, -5, Duration(-1)), Duration{0}, at(seconds(0)));
    odd.add(-3, at(seconds(0)));
    EXPECT_EQ(odd.used(at(seconds(0))), 0);
  }
}

TEST(Meter, AnEarlierNowIsTheLatestSeen) {
  Meter meter(rule(Enforcement::sliding, 1, seconds(10)), Duration{0}, at(seconds(0)));
  meter.add(1, at(seconds(100)));
  EXPECT_EQ(meter.used(at(seconds(1))), 1);
  EXPECT_TRUE(meter.has_room(1, at(seconds(110))));
}

TEST(Meter, AFullLogMergesItsOldestAndStaysExactInSum) {
  Meter meter(rule(Enforcement::sliding, INT64_MAX, seconds(3600)), Duration{0}, at(seconds(0)));
  const auto extra = static_cast<std::int64_t>(Meter::kMaxEntries) + 10;
  for (std::int64_t index = 0; index < extra; ++index) meter.add(1, at(Duration(index)));
  EXPECT_EQ(meter.used(at(seconds(1))), extra);
  EXPECT_EQ(meter.used(at(seconds(3700))), 0);
}

TEST(Meter, SlidingAgreesWithANaiveSum) {
  Rng rng(7);
  Meter meter(rule(Enforcement::sliding, 50, seconds(1)), Duration{0}, at(seconds(0)));
  std::vector<std::pair<Instant, std::int64_t>> all;
  Instant now = at(seconds(0));
  for (int step = 0; step < 3000; ++step) {
    now += Duration(static_cast<std::int64_t>(rng.below(100'000'000)));
    std::int64_t sum = 0;
    for (const auto& [when, amount] : all) {
      if (now - when < seconds(1)) sum += amount;
    }
    ASSERT_EQ(meter.used(now), sum);
    const auto amount = static_cast<std::int64_t>(rng.below(9));
    ASSERT_EQ(meter.has_room(amount, now), sum + amount <= 50);
    if (sum + amount <= 50) {
      meter.add(amount, now);
      all.emplace_back(now, amount);
    }
  }
}

}  // namespace
}  // namespace weir::emulator::model
