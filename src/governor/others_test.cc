// SPDX-License-Identifier: Apache-2.0
#include "governor/others.h"

#include <gtest/gtest.h>

namespace weir::governor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr Duration kMinute = seconds(60);

Instant feed(Others& others, std::int64_t over, int times, Instant from) {
  for (int i = 0; i < times; ++i) {
    from += milliseconds(50);
    others.read(over, from - milliseconds(300), from);
  }
  return from;
}

TEST(Others, FollowWhatTheHeadersSay) {
  Others others;
  EXPECT_EQ(others.used(kMinute, kDawn + seconds(1)), 0);
  const Instant now = feed(others, 600, 100, kDawn + seconds(1));
  EXPECT_GE(others.used(kMinute, now), 600);
  EXPECT_LE(others.used(kMinute, now), 600 + 15) << "and what may have come since, at random";
}

TEST(Others, OneAnswerThatLiesChangesNothing) {
  Others others;
  const Instant now = feed(others, 600, 100, kDawn + seconds(1));
  const std::int64_t before = others.used(kMinute, now);
  others.read(100'000, now, now + milliseconds(50));
  EXPECT_NEAR(static_cast<double>(others.used(kMinute, now + milliseconds(50))),
              static_cast<double>(before), 5);
}

TEST(Others, OurOwnOverestimateIsNobodysUse) {
  Others others;
  const Instant now = feed(others, -50, 100, kDawn + seconds(1));
  EXPECT_EQ(others.used(kMinute, now), 0);
}

// Without an answer nothing is heard of them, and what they used leaves the window as ours does.
TEST(Others, AreForgottenInAWindowOfSilence) {
  Others others;
  const Instant now = feed(others, 1200, 100, kDawn + seconds(1));
  EXPECT_GT(others.used(kMinute, now + seconds(14)), 1100);
  EXPECT_LT(others.used(kMinute, now + seconds(60)), 400);
  EXPECT_EQ(others.used(kMinute, now + seconds(75)), 0);
}

TEST(Others, AfterASilenceTheFirstAnswerCounts) {
  Others others;
  const Instant now = feed(others, 1200, 100, kDawn + seconds(1));
  others.read(0, now + seconds(70), now + seconds(70));
  EXPECT_EQ(others.used(kMinute, now + seconds(70)), 0);
}

}  // namespace
}  // namespace weir::governor
