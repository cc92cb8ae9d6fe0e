// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "governor/governor_test.h"
#include "governor/pacer.h"
#include "governor/window_meter.h"

namespace weir::governor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Instant at(double s) { return Instant(from_seconds(s)); }

TEST(WindowMeter, HoldsAtTheLargestCountThereIs) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  WindowMeter meter(seconds(60), 256);
  meter.add(at(0), most);
  meter.add(at(0), 1);
  meter.add(at(10), most);
  EXPECT_EQ(meter.sum(), most);
  meter.expire(at(61), Duration{0});
  EXPECT_EQ(meter.sum(), 0);
}

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

TEST(Warmup, TheRateGrowsLinearlyFromTheStart) {
  // 600 a minute, warm after a minute: t seconds in, t * t / 12 of them may have gone, so a half
  // of the window's 600 in the first minute; afterwards the whole rate.
  for (const Enforcement enforce :
       {Enforcement::sliding, Enforcement::bucket, Enforcement::unknown}) {
    World world;
    world.policy.deployments[0].rules = {World::rule(Unit::requests, 600, seconds(60), enforce)};
    world.policy.deployments[0].warmup = seconds(60);
    world.policy.classes[0].max_wait = std::chrono::hours(1);
    world.send_granted = true;
    std::int64_t gone = 0;
    for (int i = 0; i < 3000; ++i) {
      const Outcome outcome = world.submit(world.call());
      if (const auto* admitted = std::get_if<Admitted>(&outcome)) {
        world.governor().sent(admitted->call, world.now());
        ++gone;
      }
    }
    EXPECT_LE(gone, 1) << "nothing is warm at the start";
    double last = 0;
    for (const double after : {15.0, 30.0, 60.0}) {
      for (const auto& [at, event] : world.run_to(1000 + after)) {
        if (std::holds_alternative<Grant>(event.what)) ++gone;
      }
      const double ideal = after * after / 12;
      EXPECT_LE(static_cast<double>(gone), ideal * 1.06 + 62) << name(enforce) << " " << after;
      EXPECT_GE(static_cast<double>(gone), ideal * 0.9) << name(enforce) << " " << after;
      EXPECT_GT(static_cast<double>(gone), last) << name(enforce) << " " << after;
      last = static_cast<double>(gone);
    }
    const std::int64_t warm = gone;
    for (const auto& [at, event] : world.run_to(1120)) {
      if (std::holds_alternative<Grant>(event.what)) ++gone;
    }
    EXPECT_GE(gone - warm, 540) << name(enforce);
    EXPECT_LE(gone - warm, 640) << name(enforce);
  }
}

TEST(Bucket, DeeperThanItsRefillTakesUpToItsDepth) {
  // 10,000 tokens a second, 600,000 deep: the natural form of such a limit.
  World world;
  Rule rule = World::rule(Unit::total_tokens, 10000, seconds(1), Enforcement::bucket);
  rule.burst = 600000;
  world.policy.deployments[0].rules = {rule};
  world.policy.classes[0].max_wait = std::chrono::minutes(2);
  world.send(world.call(50000));
  EXPECT_EQ(world.meter().used, 50000);
  world.send(world.call(5000));
  EXPECT_EQ(world.refuse(world.call(600001)).decision, Decision::never_fits);
  // What fits only the full bucket waits until it is full.
  const CallId whole = world.queue(world.call(600000));
  const auto events = world.run_to(1020);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, whole);
  EXPECT_NEAR(events[0].first, 1005.5, 0.5);
}

TEST(Bucket, AShallowOneTakesNoMoreThanItsDepth) {
  World world;
  Rule rule = World::rule(Unit::total_tokens, 60000, seconds(60), Enforcement::bucket);
  rule.burst = 2000;
  world.policy.deployments[0].rules = {rule};
  EXPECT_EQ(world.refuse(world.call(2001)).decision, Decision::never_fits);
  world.send(world.call(2000));
}

TEST(Rules, TwoOfOneUnitAndWindowAreBothKept) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::requests, 5, seconds(60)),
                                       World::rule(Unit::requests, 3, seconds(60))};
  Call call = world.call();
  call.max_wait = Duration{0};
  for (int i = 0; i < 3; ++i) world.send(call);
  world.refuse(call);
  EXPECT_EQ(world.meter(0).used, 3);
  EXPECT_EQ(world.meter(1).used, 3);
  world.reload();
  EXPECT_EQ(world.meter(1).used, 3) << "each keeps its count over a reload";
  world.refuse(call);
  EXPECT_EQ(world.meter(0).remaining, 2);
}

}  // namespace
}  // namespace weir::governor
