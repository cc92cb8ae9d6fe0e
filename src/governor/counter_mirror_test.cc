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
  CounterMirror mirror(seconds(64), at(seconds(0)));
  mirror.add(64, kNone, at(seconds(0)));
  EXPECT_EQ(mirror.estimate(kNone, at(seconds(63))), 64);
  EXPECT_EQ(mirror.estimate(kNone, at(seconds(96))), 32) << "its window began with the charge";
  EXPECT_EQ(mirror.falls_to(32, kNone, at(seconds(1))) - at(seconds(96)), Duration(1));
  EXPECT_EQ(mirror.estimate(kNone, at(seconds(128))), 0);
}

TEST(CounterMirror, TheGuardKeepsWindowsOpenLonger) {
  CounterMirror mirror(seconds(64), at(seconds(0)));
  mirror.add(64, seconds(2), at(seconds(0)));
  EXPECT_EQ(mirror.estimate(seconds(2), at(seconds(98))), 32);
}

TEST(CounterMirror, CreditsWhatIsStillCounted) {
  CounterMirror mirror(seconds(64), at(seconds(0)));
  mirror.add(40, kNone, at(seconds(1)));
  mirror.credit(at(seconds(1)), 30, kNone, at(seconds(9)));
  EXPECT_EQ(mirror.estimate(kNone, at(seconds(9))), 10);
  mirror.credit(at(seconds(1)), 10, kNone, at(hours(1)));
  EXPECT_EQ(mirror.estimate(kNone, at(hours(1))), 0);
}

TEST(CounterMirror, IsNeverBelowAKeptPhaseAndItsWaitIsExact) {
  Rng rng(3);
  constexpr std::int64_t kWindow = 3200;
  CounterMirror mirror(Duration(kWindow), at(kNone));
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  std::int64_t now = 0;
  const auto naive = [&](std::int64_t when) {
    double most = 0;
    for (std::int64_t phase = 0; phase < kWindow; phase += kWindow / 32) {
      const std::int64_t since = when - phase + 10 * kWindow;
      const std::int64_t window = since / kWindow;
      double value = 0;
      for (const auto& [then, amount] : all) {
        const std::int64_t of = (then - phase + 10 * kWindow) / kWindow;
        if (of == window) value += static_cast<double>(amount);
        if (of + 1 != window) continue;
        value += static_cast<double>(amount) * (1 - static_cast<double>(since % kWindow) / kWindow);
      }
      most = std::max(most, value);
    }
    return most;
  };
  for (int step = 0; step < 1500; ++step) {
    now += static_cast<std::int64_t>(rng.below(step % 200 == 0 ? 12'000 : 60));
    ASSERT_NEAR(static_cast<double>(mirror.estimate(kNone, at(Duration(now)))), naive(now), 1.001);
    const auto most = static_cast<std::int64_t>(rng.below(400));
    const Instant when = mirror.falls_to(most, kNone, at(Duration(now)));
    ASSERT_LE(naive((when - at(kNone)).count()), static_cast<double>(most) + 1e-6);
    if (when > at(Duration(now))) {
      ASSERT_GT(naive((when - at(kNone)).count() - 3), static_cast<double>(most) - 0.5);
    }
    const auto amount = static_cast<std::int64_t>(rng.below(9));
    mirror.add(amount, kNone, at(Duration(now)));
    all.emplace_back(now, amount);
  }
}

}  // namespace
}  // namespace weir::governor
