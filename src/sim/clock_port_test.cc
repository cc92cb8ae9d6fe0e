// SPDX-License-Identifier: Apache-2.0
#include "sim/clock_port.h"

#include <gtest/gtest.h>

#include "sim/harness.h"

namespace weir::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

Scenario stepped(Duration by) {
  Scenario scenario;
  scenario.horizon = minutes(4);
  scenario.workload.arrivals.rates = {{Duration{0}, 2}};
  scenario.provider.rules = {
      {Unit::requests, 60, seconds(60), Enforcement::sliding, Counting::settle, std::nullopt}};
  scenario.told.rules = scenario.provider.rules;
  scenario.clock_steps = {{minutes(2), by}};
  return scenario;
}

TEST(ClockPort, WithoutStepsNothingIsDifferent) {
  const Scenario plain = stepped(Duration{0});
  Scenario none = plain;
  none.clock_steps.clear();
  EXPECT_EQ(run(plain, 1).digest, run(none, 1).digest);
}

TEST(ClockPort, AClockAheadIsRefusedAndOneBehindIsNot) {
  const Report ahead = run(stepped(seconds(20)), 1);
  EXPECT_GT(ahead.books.rejected, 0) << "the mirror forgot twenty seconds too early";
  const Report behind = run(stepped(seconds(-20)), 1);
  EXPECT_EQ(behind.books.rejected, 0);
  EXPECT_GT(behind.books.served, 150);
  for (const Report* report : {&ahead, &behind}) {
    EXPECT_FALSE(report->violations.by("stuck"));
    EXPECT_FALSE(report->violations.by("slots"));
  }
}

}  // namespace
}  // namespace weir::sim
