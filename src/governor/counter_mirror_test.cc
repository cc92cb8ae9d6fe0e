// SPDX-License-Identifier: Apache-2.0
#include "governor/counter_mirror.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "weir/rng.h"

namespace weir::governor {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr Duration kNone{0};
Instant at(Duration since) { return Instant(seconds(1000) + since); }

TEST(CounterMirror, TheLeastFavourablePhaseCounts) {
  CounterMirror mirror(seconds(256), at(seconds(0)));
  mirror.add(256, kNone, at(seconds(0)));
  EXPECT_EQ(mirror.estimate(kNone, at(seconds(255))), 256);
  EXPECT_EQ(mirror.estimate(kNone, at(seconds(384))), 129) << "its window began with the charge";
  EXPECT_EQ(mirror.falls_to(129, kNone, at(seconds(1))) - at(seconds(384)), Duration(1));
  EXPECT_LE(mirror.estimate(kNone, at(seconds(512))), 1);
  EXPECT_EQ(mirror.estimate(kNone, at(seconds(513))), 0);
}

TEST(CounterMirror, WhatIsStillTravellingCountsWholeWhateverBegins) {
  CounterMirror mirror(seconds(256), at(seconds(0)));
  mirror.add(256, seconds(2), at(seconds(0)));
  EXPECT_EQ(mirror.estimate(seconds(2), at(seconds(386))), 129);
  // A window begins at 600 s; what left just after it may arrive just after the next begins.
  mirror.add(10, seconds(2), at(seconds(601)));
  EXPECT_EQ(mirror.estimate(seconds(2), at(seconds(601))), 10);
  EXPECT_EQ(mirror.estimate(seconds(2), at(seconds(601 + 256 + 2))), 10);
}

TEST(CounterMirror, CreditsWhatIsStillCounted) {
  CounterMirror mirror(seconds(64), at(seconds(0)));
  mirror.add(40, seconds(1), at(seconds(1)));
  mirror.credit(at(seconds(1)), 10, seconds(1), at(seconds(1)));
  EXPECT_EQ(mirror.estimate(seconds(1), at(seconds(1))), 30) << "still on its way";
  mirror.credit(at(seconds(1)), 20, seconds(1), at(seconds(9)));
  EXPECT_EQ(mirror.estimate(seconds(1), at(seconds(9))), 10);
  mirror.credit(at(seconds(1)), 10, seconds(1), at(hours(1)));
  EXPECT_EQ(mirror.estimate(seconds(1), at(hours(1))), 0);
}

TEST(CounterMirror, MoreThanTravelAtOnceIsKeptToo) {
  CounterMirror mirror(seconds(64), at(seconds(0)));
  for (int charge = 0; charge < 500; ++charge) {
    mirror.add(1, seconds(2), at(std::chrono::milliseconds(charge)));
  }
  EXPECT_EQ(mirror.estimate(seconds(2), at(seconds(1))), 500);
  EXPECT_EQ(mirror.estimate(seconds(2), at(seconds(10))), 500);
  EXPECT_EQ(mirror.estimate(seconds(2), at(seconds(140))), 0);
}

TEST(CounterMirror, NoPhaseEstimatesMoreAndTheWaitIsEnough) {
  Rng rng(3);
  constexpr std::int64_t kWindow = 25'600;
  CounterMirror mirror(Duration(kWindow), at(kNone));
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  std::int64_t now = 0;
  const auto naive = [&](std::int64_t when, std::int64_t phase) {
    const std::int64_t since = when - phase + 10 * kWindow;
    const std::int64_t window = since / kWindow;
    double value = 0;
    for (const auto& [then, amount] : all) {
      const std::int64_t of = (then - phase + 10 * kWindow) / kWindow;
      if (of == window) value += static_cast<double>(amount);
      if (of + 1 != window) continue;
      value += static_cast<double>(amount) * (1 - static_cast<double>(since % kWindow) / kWindow);
    }
    return value;
  };
  for (int step = 0; step < 1000; ++step) {
    now += static_cast<std::int64_t>(rng.below(step % 200 == 0 ? 100'000 : 500));
    const std::int64_t estimate = mirror.estimate(kNone, at(Duration(now)));
    double most = 0;
    std::int64_t sum = 0;
    for (std::int64_t phase = 0; phase < kWindow; phase += 37) {
      most = std::max(most, naive(now, phase));
    }
    for (const auto& [then, amount] : all) sum += then > now - 2 * kWindow ? amount : 0;
    ASSERT_GE(static_cast<double>(estimate), most - 1e-6);
    ASSERT_LE(static_cast<double>(estimate), most + static_cast<double>(sum) / 100 + 1);
    const auto wanted = static_cast<std::int64_t>(rng.below(400));
    const Instant when = mirror.falls_to(wanted, kNone, at(Duration(now)));
    const auto phase = static_cast<std::int64_t>(rng.below(kWindow));
    ASSERT_LE(naive((when - at(kNone)).count(), phase), static_cast<double>(wanted) + 1e-6);
    ASSERT_EQ(when == at(Duration(now)), estimate <= wanted);
    const auto amount = static_cast<std::int64_t>(rng.below(9));
    mirror.add(amount, kNone, at(Duration(now)));
    all.emplace_back(now, amount);
  }
}

}  // namespace
}  // namespace weir::governor
