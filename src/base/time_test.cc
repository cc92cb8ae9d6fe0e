// SPDX-License-Identifier: Apache-2.0
#include "weir/time.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

template <class Clock>
concept HasNow = requires { Clock::now(); };
static_assert(!HasNow<GovernorClock>, "the core must not be able to read a clock");
static_assert(!HasNow<WallClock>);

TEST(Time, AdditionSaturatesAtBothEnds) {
  EXPECT_EQ(saturating_add(kNever, seconds(1)), kNever);
  EXPECT_EQ(saturating_add(kDawn, seconds(-1)), kDawn);
  EXPECT_EQ(saturating_add(Instant{} + hours(1), kForever), kNever);
  EXPECT_EQ(saturating_add(Instant{}, seconds(2)), Instant{} + seconds(2));
}

TEST(Time, DifferenceSaturates) {
  EXPECT_EQ(saturating_sub(kNever, kDawn), Duration::max());
  EXPECT_EQ(saturating_sub(kDawn, kNever), Duration::min());
  EXPECT_EQ(saturating_sub(Instant{} + seconds(5), Instant{} + seconds(2)), seconds(3));
}

TEST(Time, SecondsRoundTripAndSaturate) {
  EXPECT_EQ(from_seconds(1.5), std::chrono::milliseconds(1500));
  EXPECT_EQ(from_seconds(1e300), Duration::max());
  EXPECT_EQ(from_seconds(-1e300), Duration::min());
  EXPECT_DOUBLE_EQ(to_seconds(seconds(7)), 7.0);
}

}  // namespace
}  // namespace weir
