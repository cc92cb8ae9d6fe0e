// SPDX-License-Identifier: Apache-2.0
// Cases of the catalogue about what may pass a limit, and what a refusal says.
#include "governor/governor_test.h"

namespace weir::governor {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

Rule own(Unit unit, std::int64_t amount, Duration window) {
  return World::rule(unit, amount, window);
}

std::vector<Rule>& limits_of(World& world, bool provider) {
  if (provider) return world.policy.deployments[0].rules;
  return world.policy.nodes[1].limits;
}

// What is admitted at once of `count` calls that do not wait.
int admitted_of(World& world, const Call& call, int count, bool send = true) {
  int admitted = 0;
  Call impatient = call;
  impatient.max_wait = Duration{0};
  for (int i = 0; i < count; ++i) {
    const Outcome outcome = world.submit(impatient);
    if (const auto* grant = std::get_if<Admitted>(&outcome)) {
      ++admitted;
      if (send) world.governor().sent(grant->call, world.now());
    }
  }
  return admitted;
}

TEST(Cases, T010_EveryRefusalNamesTheSoonestStart) {
  World world;
  world.policy.nodes[1].limits = {own(Unit::requests, 2, seconds(60)),
                                  own(Unit::total_tokens, 1000, seconds(60))};
  world.policy.classes[0].max_wait = seconds(5);
  world.send(world.call(10));
  world.time += 3;
  world.send(world.call(10));
  world.time += 1;
  const Refusal rpm = world.refuse(world.call(10));
  EXPECT_EQ(rpm.decision, Decision::rejected_locally);
  EXPECT_EQ(rpm.limit.node, NodeId(1));
  EXPECT_EQ(rpm.limit.unit, Unit::requests);
  ASSERT_TRUE(rpm.retry_after.has_value());
  EXPECT_NEAR(to_seconds(*rpm.retry_after), 56, 0.6);
  world.time += to_seconds(*rpm.retry_after);
  const CallId big = world.send(world.call(980));
  world.settle(big, 980, 0);

  world.time += 10;
  const Refusal tpm = world.refuse(world.call(900));
  EXPECT_EQ(tpm.limit.unit, Unit::total_tokens);
  ASSERT_TRUE(tpm.retry_after.has_value());
  world.time += to_seconds(*tpm.retry_after);
  world.send(world.call(900));
}

TEST(Cases, T010_CoolingDeploymentsAreNamedWithTheirTime) {
  World world;
  world.policy.deployments[0].retry.attempts = 1;
  world.policy.classes[0].max_wait = seconds(5);
  const CallId id = world.send(world.call());
  Signal signal;
  signal.kind = SignalClass::rate_limited;
  signal.retry_after = seconds(12);
  EXPECT_TRUE(
      std::holds_alternative<GaveUp>(world.governor().rejected(id, signal, true, world.now())));
  const Refusal refusal = world.refuse(world.call());
  EXPECT_EQ(refusal.decision, Decision::rejected_locally);
  ASSERT_TRUE(refusal.retry_after.has_value());
  EXPECT_NEAR(to_seconds(*refusal.retry_after), 12, 0.01);
  world.time += to_seconds(*refusal.retry_after);
  world.send(world.call());
}

TEST(Cases, T010_ManyRefusedCallersGetDifferentSlots) {
  World world;
  world.policy.nodes[1].limits = {own(Unit::requests, 60, seconds(60))};
  world.policy.classes[0].max_wait = seconds(1);
  for (int i = 0; i < 60; ++i) world.send(world.call());
  Duration last{0};
  for (int i = 0; i < 20; ++i) {
    const Refusal refusal = world.refuse(world.call());
    ASSERT_TRUE(refusal.retry_after.has_value());
    EXPECT_GT(*refusal.retry_after, last);
    last = *refusal.retry_after;
  }
  EXPECT_NEAR(to_seconds(last), 60 + 19, 1.0);
}

TEST(Cases, T014_LocalRefusalsDoNotCountAgainstTheDeployment) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::total_tokens, 1000, seconds(60))};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(world.refuse(world.call(5000)).decision, Decision::never_fits);
  }
  const Snapshot view = world.view();
  EXPECT_EQ(view.deployments[0].attempts, 0);
  EXPECT_EQ(view.deployments[0].rejections, 0);
  EXPECT_EQ(view.deployments[0].meters[0].used, 0);
  world.send(world.call(10));
}

TEST(Cases, T055_ASlotCoversTheWholeStream) {
  World world;
  world.policy.nodes[2].limits = {own(Unit::concurrency, 2, seconds(0))};
  const CallId first = world.send(world.call());
  world.send(world.call());
  const CallId third = world.queue(world.call());
  for (int second = 1; second <= 9; ++second) {
    world.governor().progress(first, second * 10, world.now());
    EXPECT_TRUE(world.run_to(world.time + 1).empty());
  }
  world.settle(first, 1, 1);
  const auto events = world.run_to(world.time);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, third);
}

TEST(Cases, T056_ConcurrencyIsNotRefilledByTheClock) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::concurrency, 1, seconds(0))};
  world.policy.classes[0].max_wait = Duration{0};
  const CallId first = world.send(world.call());
  for (const double offset : {0.4, 2.0, 5.0}) {
    world.time = 1000 + offset;
    EXPECT_EQ(world.refuse(world.call()).limit.unit, Unit::concurrency);
  }
  world.time = 1006;
  world.settle(first, 0, 0);
  world.send(world.call());
}

TEST(Cases, T057_LimitEditedWhileRequestsRun) {
  World world;
  world.policy.nodes[2].limits = {own(Unit::concurrency, 2, seconds(0))};
  world.policy.classes[0].max_wait = Duration{0};
  const CallId first = world.send(world.call());
  const CallId second = world.send(world.call());
  world.policy.nodes[2].limits.clear();
  world.reload();
  const CallId free = world.send(world.call());
  world.settle(first, 0, 0);
  world.settle(second, 0, 0);
  world.settle(free, 0, 0);
  world.policy.nodes[2].limits = {own(Unit::concurrency, 2, seconds(0))};
  world.reload();
  EXPECT_EQ(admitted_of(world, world.call(), 3), 2);
  EXPECT_EQ(world.view().inflight, 2);
}

TEST(Cases, T057_LimitLoweredAndRaisedWhileRequestsRun) {
  World world;
  const auto limit_to = [&](std::int64_t amount) {
    world.policy.nodes[2].limits = {own(Unit::concurrency, amount, seconds(0))};
    world.reload();
  };
  world.policy.nodes[2].limits = {own(Unit::concurrency, 2, seconds(0))};
  const CallId first = world.send(world.call());
  const CallId second = world.send(world.call());
  limit_to(1);
  EXPECT_EQ(admitted_of(world, world.call(), 1), 0);
  world.settle(first, 0, 0);
  EXPECT_EQ(admitted_of(world, world.call(), 1), 0);
  limit_to(3);
  EXPECT_EQ(admitted_of(world, world.call(), 5), 2);
  world.settle(second, 0, 0);
  EXPECT_EQ(admitted_of(world, world.call(), 5), 1);
  EXPECT_EQ(world.view().inflight, 3);
}

TEST(Cases, T057_LimitRemovedWhileSomebodyWaitsForIt) {
  World world;
  world.policy.nodes[2].limits = {own(Unit::concurrency, 1, seconds(0))};
  const CallId running = world.send(world.call());
  const CallId waiting = world.queue(world.call());
  EXPECT_TRUE(world.run_to(world.time + 1).empty());
  world.policy.nodes[2].limits.clear();
  world.reload();
  const auto events = world.run_to(world.time);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, waiting);
  world.settle(running, 0, 0);
  world.end(waiting, Ending::never_sent);
  EXPECT_EQ(world.view().inflight, 0);
}

TEST(Cases, T057_TenantDeletedAndRemadeWhileRequestsRun) {
  World world;
  world.policy.nodes[1].limits = {own(Unit::concurrency, 2, seconds(0))};
  const Policy full = world.policy;
  const CallId first = world.send(world.call());
  world.policy.nodes.erase(world.policy.nodes.begin() + 1, world.policy.nodes.begin() + 3);
  world.policy.profiles[0].node = NodeId(1);
  world.reload();
  world.policy = full;
  world.reload();
  EXPECT_EQ(admitted_of(world, world.call(), 5), 1) << "the running call still holds its slot";
  world.settle(first, 0, 0);
  EXPECT_EQ(admitted_of(world, world.call(), 5), 1);
}

TEST(Cases, T061_ConcurrentTpmAdmission) {
  World world;
  world.policy.nodes[1].limits = {own(Unit::total_tokens, 1000, seconds(60))};
  Call call = world.call(100, 100);
  std::vector<CallId> running;
  for (int i = 0; i < 50; ++i) {
    const Outcome outcome = world.submit(call);
    if (const auto* admitted = std::get_if<Admitted>(&outcome)) running.push_back(admitted->call);
  }
  EXPECT_EQ(running.size(), 5U);
  std::int64_t settled = 0;
  for (const CallId id : running) {
    world.governor().sent(id, world.now());
    world.settle(id, 100, 130);
    settled += 230;
  }
  for (const auto& [when, event] : world.run_to(1029.9)) {
    if (!std::holds_alternative<Grant>(event.what)) continue;
    world.governor().sent(event.call, world.now());
    settled += 200;
  }
  EXPECT_LE(settled, 1000 + 5 * 30);
}

TEST(Cases, T061_ConcurrentTpmAdmissionOfADeployment) {
  for (const Counting count : {Counting::reserve, Counting::reserve_refund, Counting::settle,
                               Counting::realtime, Counting::input}) {
    World world;
    world.policy.deployments[0].rules = {
        World::rule(Unit::total_tokens, 1000, seconds(60), Enforcement::sliding, count)};
    EXPECT_LE(admitted_of(world, world.call(100, 100), 50), 5) << name(count);
  }
}

TEST(Cases, T062_RequestLargerThanTheWindow) {
  for (const bool provider : {true, false}) {
    World world;
    const Rule rule = own(Unit::total_tokens, 1000, seconds(60));
    limits_of(world, provider).assign(1, rule);
    for (const std::int64_t tokens : {std::int64_t{5000}, std::int64_t{1001}}) {
      const Refusal refusal = world.refuse(world.call(tokens));
      EXPECT_EQ(refusal.decision, Decision::never_fits);
      EXPECT_FALSE(refusal.retry_after.has_value());
      EXPECT_EQ(refusal.limit.unit, Unit::total_tokens);
    }
    world.send(world.call(1000));
  }
}

TEST(Cases, T062_TheQueueBehindItIsNotBlocked) {
  World world;
  world.policy.deployments[0].rules = {own(Unit::total_tokens, 1000, seconds(60)),
                                       own(Unit::concurrency, 1, seconds(0))};
  const CallId first = world.send(world.call(10));
  const CallId waiting = world.queue(world.call(10));
  EXPECT_EQ(world.refuse(world.call(1001)).decision, Decision::never_fits);
  world.settle(first, 10, 0);
  const auto events = world.run_to(world.time);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, waiting);
}

TEST(Cases, T062_LargerThanASubWindowGoesAlone) {
  World world;
  world.policy.deployments[0].rules = {own(Unit::total_tokens, 6000, seconds(60)),
                                       own(Unit::total_tokens, 100, seconds(1))};
  const CallId large = world.send(world.call(500));
  world.settle(large, 500, 0);
  const CallId next = world.queue(world.call(50));
  const auto events = world.run_to(1010);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, next);
  EXPECT_GE(events[0].first, 1005) << "the lump blocks its window for its own length";
  EXPECT_LE(events[0].first, 1006.5);
}

TEST(Cases, T063_RefusalCostsNothing) {
  World world;
  Rule bucket = own(Unit::total_tokens, 10, seconds(10));
  bucket.enforce = Enforcement::bucket;
  world.policy.nodes[0].limits = {own(Unit::requests, 100, seconds(60))};
  world.policy.nodes[1].limits = {bucket};
  world.policy.classes[0].max_wait = Duration{0};
  world.send(world.call(8));
  EXPECT_EQ(world.refuse(world.call(5)).decision, Decision::rejected_locally);
  world.send(world.call(2));
  EXPECT_EQ(world.refuse(world.call(1000000)).decision, Decision::never_fits);
  world.time += 1;
  world.send(world.call(1));
  EXPECT_EQ(world.refuse(world.call(1)).decision, Decision::rejected_locally);
}

TEST(Cases, T064_RefundAtZeroBalance) {
  World world;
  world.policy.nodes[1].limits = {own(Unit::total_tokens, 1000, seconds(60))};
  const CallId first = world.send(world.call(200, 800));
  const CallId waiting = world.queue(world.call(800));
  EXPECT_TRUE(world.run_to(world.time + 1).empty());
  world.settle(first, 200, 0);
  const auto events = world.run_to(world.time);
  ASSERT_EQ(events.size(), 1U) << "the waiter wakes at once";
  EXPECT_EQ(events[0].second.call, waiting);
  EXPECT_EQ(admitted_of(world, world.call(1), 1), 0);
  world.end(waiting, Ending::never_sent);
  EXPECT_EQ(admitted_of(world, world.call(800), 1), 1);
  EXPECT_EQ(admitted_of(world, world.call(1), 1), 0) << "the balance is never above capacity";
}

TEST(Cases, T065_WindowBoundary) {
  World world;
  world.policy.nodes[1].limits = {own(Unit::requests, 60, seconds(60))};
  world.time = 1199.9;
  EXPECT_EQ(admitted_of(world, world.call(), 60), 60);
  world.time = 1200.1;
  EXPECT_EQ(admitted_of(world, world.call(), 60), 0);
  Call impatient = world.call();
  impatient.max_wait = seconds(1);
  const Refusal refusal = world.refuse(impatient);
  // A slot apart from the ones promised to the sixty refused before it.
  EXPECT_GE(to_seconds(refusal.retry_after.value_or(Duration{0})), 59.7);
}

TEST(Cases, T066_SmoothRefillUnderSteadyOverload) {
  World world;
  world.policy.deployments[0].rules = {own(Unit::requests, 3, seconds(1))};
  Call call = world.call();
  call.max_wait = Duration{0};
  int admitted = 0;
  double last = 0;
  double longest = 0;
  for (int i = 0; i < 600; ++i) {
    world.time = 1000 + i * 0.1;
    if (admitted_of(world, call, 1) == 0) continue;
    if (admitted > 3) longest = std::max(longest, world.time - last);
    last = world.time;
    ++admitted;
  }
  EXPECT_NEAR(admitted, 180, 8);
  EXPECT_LE(longest, 0.75) << "no jump at the edge of a window";
}

TEST(Cases, T067_IdleDoesNotAccumulate) {
  World world;
  Rule bucket = own(Unit::requests, 5, seconds(1));
  bucket.enforce = Enforcement::bucket;
  bucket.burst = 10;
  world.policy.deployments[0].rules = {bucket};
  EXPECT_EQ(admitted_of(world, world.call(), 1), 1);
  world.time += 30.0 * 86400;
  EXPECT_EQ(admitted_of(world, world.call(), 1000), 10);
  world.time += 1;
  EXPECT_EQ(admitted_of(world, world.call(), 1000), 5);
  world.time += 9.0e9 / 1000;
  EXPECT_EQ(admitted_of(world, world.call(), 1000), 10);
}

TEST(Cases, T068_TimeThatGoesBackIsTheLatestSeen) {
  World world;
  world.policy.deployments[0].rules = {own(Unit::requests, 10, seconds(1))};
  world.policy.deployments[0].burst_percent = 100;
  EXPECT_EQ(admitted_of(world, world.call(), 20), 10);
  for (const double jump : {-2 * 86400.0, -11.0, -0.001}) {
    const double before = world.time;
    world.time += jump;
    EXPECT_EQ(admitted_of(world, world.call(), 20), 0);
    Call patient = world.call();
    patient.max_wait = Duration{0};
    EXPECT_LE(to_seconds(*world.refuse(patient).retry_after), 61);
    world.time = before;
  }
  world.time += 2 * 86400.0;
  EXPECT_EQ(admitted_of(world, world.call(), 20), 10);
}

TEST(Cases, T069_ZeroAbsentAndAbsurdLimits) {
  for (const Unit unit : {Unit::requests, Unit::total_tokens, Unit::concurrency}) {
    const Duration window = unit == Unit::concurrency ? Duration{0} : Duration(seconds(60));
    for (const bool provider : {true, false}) {
      World none;
      limits_of(none, provider).assign(1, own(unit, 0, window));
      const Refusal refusal = none.refuse(none.call(10));
      EXPECT_EQ(refusal.decision, Decision::never_fits);
      EXPECT_EQ(refusal.limit.unit, unit);
      EXPECT_FALSE(refusal.retry_after.has_value());

      World huge;
      limits_of(huge, provider).assign(1, own(unit, INT64_MAX, window));
      EXPECT_EQ(admitted_of(huge, huge.call(1000000, 1000000), 100), 100);
    }
  }
  World absent;
  EXPECT_EQ(admitted_of(absent, absent.call(1000), 1000), 1000);
  World slow;
  slow.policy.nodes[1].limits = {own(Unit::requests, 1, seconds(120))};
  EXPECT_EQ(admitted_of(slow, slow.call(), 2), 1);
  slow.time += 119;
  EXPECT_EQ(admitted_of(slow, slow.call(), 2), 0);
  slow.time += 2;
  EXPECT_EQ(admitted_of(slow, slow.call(), 2), 1);
}

TEST(Cases, T070_LimitChangedAtRunTime) {
  for (const bool provider : {true, false}) {
    World world;
    const auto limit_to = [&](std::int64_t amount) {
      limits_of(world, provider).assign(1, own(Unit::total_tokens, amount, seconds(60)));
    };
    world.policy.deployments[0].burst_percent = 100;
    world.policy.classes[0].max_wait = Duration{0};
    limit_to(1000);
    world.send(world.call(900));
    limit_to(100);
    world.reload();
    world.time += 1;
    const Refusal refusal = world.refuse(world.call(50));
    EXPECT_EQ(refusal.decision, Decision::rejected_locally);
    EXPECT_LE(to_seconds(*refusal.retry_after), 61) << "bounded by one window";
    limit_to(5000);
    world.reload();
    world.send(world.call(3000));
  }
}

TEST(Cases, T072_OnlyOneKindOfLimit) {
  struct Kind {
    Unit unit;
    Duration window;
    std::int64_t amount;
    int expected;
  };
  for (const Kind& kind :
       {Kind{Unit::total_tokens, seconds(60), 1000, 10}, Kind{Unit::requests, seconds(60), 7, 7},
        Kind{Unit::concurrency, Duration{0}, 3, 3}, Kind{Unit::requests, hours(24), 20, 20}}) {
    World world;
    world.policy.nodes[1].limits = {own(kind.unit, kind.amount, kind.window)};
    EXPECT_EQ(admitted_of(world, world.call(100), 50), kind.expected) << name(kind.unit);
  }
}

TEST(Cases, T077_RefusalsDoNotUseLongerWindows) {
  World world;
  world.policy.deployments[0].rules = {own(Unit::requests, 5, seconds(60)),
                                       own(Unit::requests, 100, hours(24))};
  world.policy.deployments[0].burst_percent = 100;
  EXPECT_EQ(admitted_of(world, world.call(), 300), 5);
  EXPECT_EQ(world.meter(1).used, 5);
  EXPECT_EQ(world.meter(0).remaining, 0);
}

}  // namespace
}  // namespace weir::governor
