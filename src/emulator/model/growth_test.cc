// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/growth.h"

#include <gtest/gtest.h>

namespace weir::emulator::model {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

Instant at(Duration since) { return Instant(since); }

/// How many requests pass at once.
std::int64_t pass(GrowthMeter& meter, Instant now, std::int64_t wanted = 1000) {
  std::int64_t passed = 0;
  for (; passed < wanted && meter.wait_for(1, now) == Duration{0}; ++passed) meter.add(1, now);
  return passed;
}

TEST(GrowthMeter, DoublesFromPeriodToPeriodAtMost) {
  GrowthMeter meter({}, 1, at(seconds(0)));
  EXPECT_EQ(pass(meter, at(seconds(0))), 20);
  EXPECT_EQ(meter.wait_for(1, at(seconds(4))), seconds(6));
  EXPECT_EQ(pass(meter, at(seconds(10))), 20) << "the period that held the first ended only now";
  EXPECT_EQ(pass(meter, at(seconds(20))), 40);
  EXPECT_EQ(pass(meter, at(seconds(40))), 80);
}

TEST(GrowthMeter, ForgetsThePeakAfterTheLookBack) {
  GrowthSettings settings;
  settings.look_back = minutes(2);
  GrowthMeter meter(settings, 1, at(seconds(0)));
  pass(meter, at(seconds(0)));
  pass(meter, at(seconds(20)));
  EXPECT_EQ(meter.threshold(at(seconds(60))), 80);
  EXPECT_EQ(meter.threshold(at(minutes(10))), 20);
  EXPECT_EQ(pass(meter, at(minutes(10))), 20);
}

TEST(GrowthMeter, SteadyTrafficIsNeverRefused) {
  GrowthMeter meter({}, 1, at(seconds(0)));
  for (int tenth = 0; tenth < 36'000; ++tenth) {
    const Instant now = at(std::chrono::milliseconds(500) * tenth);
    ASSERT_EQ(meter.wait_for(1, now), Duration{0});
    meter.add(1, now);
  }
}

TEST(GrowthMeter, WhatComesAlonePassesWhateverItsSize) {
  GrowthSettings settings;
  settings.of = Unit::total_tokens;
  settings.floor = 1000;
  GrowthMeter meter(settings, 1, at(seconds(0)));
  EXPECT_EQ(meter.wait_for(50'000, at(seconds(0))), Duration{0});
  meter.add(50'000, at(seconds(0)));
  EXPECT_EQ(meter.wait_for(1, at(seconds(0))), seconds(10));
}

TEST(GrowthMeter, TheThresholdWandersWithinItsBoundsAndWithItsSeed) {
  GrowthSettings settings;
  settings.floor = 1000;
  settings.wander = 0.2;
  GrowthMeter meter(settings, 5, at(seconds(0)));
  GrowthMeter again(settings, 5, at(seconds(0)));
  std::int64_t low = 2000;
  std::int64_t high = 0;
  for (int minute = 0; minute < 300; ++minute) {
    const std::int64_t threshold = meter.threshold(at(minutes(minute)));
    EXPECT_EQ(threshold, again.threshold(at(minutes(minute))));
    low = std::min(low, threshold);
    high = std::max(high, threshold);
  }
  EXPECT_GE(low, 800);
  EXPECT_LE(high, 1200);
  EXPECT_LT(low, 850);
  EXPECT_GT(high, 1150);
}

TEST(GrowthMeter, OddSettingsAndTimesAreSafe) {
  GrowthSettings odd;
  odd.ratio = -3;
  odd.per = Duration(-5);
  odd.look_back = Duration::max();
  odd.floor = -1;
  odd.wander = 7;
  GrowthMeter meter(odd, 1, kDawn);
  EXPECT_EQ(meter.wait_for(INT64_MAX, kNever), Duration{0});
  meter.add(INT64_MAX, kNever);
  EXPECT_GE(meter.wait_for(INT64_MAX, kNever).count(), 0);
}

}  // namespace
}  // namespace weir::emulator::model
