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

TEST(Meter, CounterRefusesByItsEstimateAndNotByTheTrueSum) {
  Meter meter(rule(Enforcement::counter, 60, seconds(60)), Duration{0}, at(seconds(0)));
  meter.add(60, at(seconds(0)));
  EXPECT_EQ(meter.used(at(seconds(60) - Duration(1))), 60);
  EXPECT_FALSE(meter.has_room(1, at(seconds(60)))) << "the true window is empty";
  EXPECT_EQ(meter.wait_for(1, at(seconds(60))), seconds(1));
  EXPECT_EQ(meter.used(at(seconds(75))), 45);
  EXPECT_EQ(meter.used(at(seconds(90))), 30);
  meter.add(30, at(seconds(90)));
  EXPECT_FALSE(meter.has_room(1, at(seconds(91) - Duration(1))));
  EXPECT_TRUE(meter.has_room(1, at(seconds(91))));
  EXPECT_EQ(meter.wait_for(60, at(seconds(91))), seconds(89)) << "all of it, at 180 s";
  EXPECT_EQ(meter.time_to_empty(at(seconds(91))), seconds(89));
  EXPECT_EQ(meter.used(at(seconds(150))), 15);
  EXPECT_EQ(meter.used(at(seconds(180))), 0);
}

TEST(Meter, CounterTakesNearlyTwoLimitsAroundItsEdge) {
  Meter meter(rule(Enforcement::counter, 60, seconds(60)), seconds(10), at(seconds(0)));
  meter.add(60, at(seconds(10)));
  EXPECT_TRUE(meter.has_room(59, at(seconds(129)))) << "59 s into the next window";
  Meter late(rule(Enforcement::counter, 60, seconds(60)), seconds(10), at(seconds(0)));
  late.add(60, at(seconds(69)));
  EXPECT_FALSE(late.has_room(1, at(seconds(70))));
}

TEST(Meter, CounterGivesBackInBothItsWindows) {
  Meter meter(rule(Enforcement::counter, 100, seconds(60)), Duration{0}, at(seconds(0)));
  const Charge charge = meter.add(80, at(seconds(1)));
  meter.give_back(charge, 20, at(seconds(30)));
  EXPECT_EQ(meter.used(at(seconds(30))), 60);
  meter.give_back(charge, 40, at(seconds(90)));
  EXPECT_EQ(meter.used(at(seconds(90))), 10) << "20 of the older window, half of them";
  meter.give_back(charge, 20, at(seconds(121)));
  EXPECT_EQ(meter.used(at(seconds(121))), 0);
}

TEST(Meter, CounterAgreesWithANaiveEstimateAndItsWaitIsExact) {
  Rng rng(11);
  Meter meter(rule(Enforcement::counter, 50, Duration(1000)), Duration(300), at(Duration(0)));
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  std::int64_t now = 0;
  for (int step = 0; step < 3000; ++step) {
    now += static_cast<std::int64_t>(rng.below(120));
    const auto estimate_at = [&](std::int64_t when) {
      const std::int64_t window = (when - 300 + 100'000) / 1000;
      const std::int64_t passed = (when - 300 + 100'000) % 1000;
      std::int64_t scaled = 0;
      for (const auto& [then, amount] : all) {
        const std::int64_t of = (then - 300 + 100'000) / 1000;
        if (of == window) scaled += amount * 1000;
        if (of == window - 1) scaled += amount * (1000 - passed);
      }
      return scaled;
    };
    const auto amount = static_cast<std::int64_t>(1 + rng.below(9));
    const bool fits = estimate_at(now) + amount * 1000 <= 50'000;
    ASSERT_EQ(meter.has_room(amount, at(Duration(now))), fits);
    ASSERT_EQ(meter.used(at(Duration(now))), (estimate_at(now) + 999) / 1000);
    if (fits) {
      meter.add(amount, at(Duration(now)));
      all.emplace_back(now, amount);
      continue;
    }
    const std::int64_t when = now + meter.wait_for(amount, at(Duration(now))).count();
    ASSERT_LE(estimate_at(when) + amount * 1000, 50'000);
    ASSERT_GT(estimate_at(when - 1) + amount * 1000, 50'000);
  }
}

TEST(Meter, LeakyLetsOnePassAtATime) {
  Meter meter(rule(Enforcement::leaky, 10, seconds(1)), Duration{0}, at(seconds(0)));
  EXPECT_EQ(meter.capacity(), 1);
  EXPECT_TRUE(meter.never_fits(2));
  meter.add(1, at(seconds(0)));
  EXPECT_EQ(meter.wait_for(1, at(seconds(0))), milliseconds(100));
  EXPECT_FALSE(meter.has_room(1, at(milliseconds(100) - Duration(1))));
  EXPECT_TRUE(meter.has_room(1, at(seconds(100)))) << "idle time earns no more than one";
  EXPECT_FALSE(meter.has_room(2, at(seconds(100))));
  Rule deeper = rule(Enforcement::leaky, 10, seconds(1));
  deeper.burst = 4;
  EXPECT_EQ(Meter(deeper, Duration{0}, at(seconds(0))).capacity(), 4);
  deeper.burst = 0;
  EXPECT_EQ(Meter(deeper, Duration{0}, at(seconds(0))).capacity(), 1);
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
  for (const Enforcement enforce : {Enforcement::sliding, Enforcement::fixed, Enforcement::bucket,
                                    Enforcement::unknown, Enforcement::counter}) {
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
