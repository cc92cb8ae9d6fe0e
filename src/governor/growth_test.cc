// SPDX-License-Identifier: Apache-2.0
#include "governor/growth.h"

#include <gtest/gtest.h>

namespace weir::governor {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const GrowthRule kRule{Unit::requests, 2, seconds(10), 20, minutes(5)};

/// A growth limit with the log that it follows.
struct Followed {
  WindowMeter log{seconds(10), 1000};
  GrowthLimit limit{kRule};
  Instant now = kDawn + seconds(1000);

  std::int64_t most() {
    limit.follow(log, Duration{0}, now);
    return limit.most(Duration{0});
  }
  /// Sends as much as it may, every tenth of a second.
  void fill(Duration length) {
    for (const Instant end = now + length; now < end; now += milliseconds(100)) {
      const std::int64_t room = most() - (log.expire(now, Duration{0}), log.sum());
      if (room > 0) log.add(now, room);
    }
  }
};

TEST(GrowthLimit, DoublesFromPeriodToPeriod) {
  Followed one;
  EXPECT_EQ(one.most(), 20);
  one.log.add(one.now, 20);
  one.now += seconds(10);
  EXPECT_EQ(one.most(), 20) << "the period that held them ended only now";
  one.now += seconds(12);
  EXPECT_EQ(one.most(), 40);
}

TEST(GrowthLimit, ReachesAnyRateInLogarithmicTime) {
  Followed one;
  one.fill(seconds(120));
  EXPECT_GE(one.most(), 20 * 16);
}

TEST(GrowthLimit, ForgetsAfterTheLookBack) {
  Followed one;
  one.fill(seconds(100));
  one.now += minutes(5) + seconds(25);
  EXPECT_EQ(one.most(), 20);
}

TEST(GrowthLimit, ARefusalLowersWhatMadeTheLimit) {
  Followed one;
  EXPECT_EQ(one.most(), 20);
  one.limit.refused(16, Duration{0}, one.now);
  EXPECT_EQ(one.most(), 14) << "95 % of the fifteen that passed";
  one.limit.refused(16, Duration{0}, one.now);
  EXPECT_EQ(one.most(), 14) << "what it explains says nothing new";
  one.now += std::chrono::hours(4);
  EXPECT_EQ(one.most(), 20);
}

TEST(GrowthLimit, ExtremeRulesHold) {
  for (const GrowthRule& rule :
       {GrowthRule{Unit::requests, 1e308, Duration{1}, INT64_MAX, Duration{1}},
        GrowthRule{Unit::requests, 1, std::chrono::hours(24 * 366), 0, std::chrono::hours(1)}}) {
    WindowMeter log(rule.per, 100);
    GrowthLimit limit(rule);
    for (Instant now = kDawn + seconds(1); now < kDawn + seconds(60); now += milliseconds(777)) {
      limit.follow(log, milliseconds(20), now);
      EXPECT_GE(limit.most(milliseconds(20)), 0);
      log.add(now, 5);
      limit.refused(INT64_MAX, milliseconds(20), now);
    }
  }
}

}  // namespace
}  // namespace weir::governor
