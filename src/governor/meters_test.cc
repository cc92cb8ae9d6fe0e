// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "governor/pacer.h"
#include "governor/window_meter.h"

namespace weir::governor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Instant at(double s) { return Instant(from_seconds(s)); }

TEST(WindowMeter, WorkedExample) {
  WindowMeter meter(seconds(60), 2048);
  meter.add(at(0), 3);
  meter.add(at(10), 4);
  meter.expire(at(59.9), Duration{0});
  EXPECT_EQ(meter.sum(), 7);
  meter.expire(at(60), Duration{0});
  EXPECT_EQ(meter.sum(), 4);
  EXPECT_EQ(meter.credit(at(10), 1), 1);
  EXPECT_EQ(meter.sum(), 3);
  EXPECT_EQ(meter.credit(at(0), 3), 0);
  EXPECT_EQ(meter.sum(), 3);
}

TEST(Pacer, WorkedExample) {
  const Slope slope{10e-9, kDawn, Duration{0}};
  Pacer pacer;
  for (int i = 0; i < 5; ++i) pacer.charge(1, slope, at(0));
  EXPECT_NEAR(to_seconds(saturating_sub(pacer.falls_to(4, slope, at(0)), at(0))), 0.1, 1e-6);
  Pacer idle;
  idle.charge(20, slope, at(1));
  EXPECT_NEAR(to_seconds(saturating_sub(idle.falls_to(4, slope, at(1)), at(1))), 1.6, 1e-6);
}

}  // namespace
}  // namespace weir::governor
