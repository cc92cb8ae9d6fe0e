// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "governor/governor_test.h"
#include "weir/reservation.h"

namespace weir::governor {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

TEST(Governor, AdmitsSendsSettlesAndHoldsNothingAfterwards) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::requests, 10, seconds(60)),
                                       World::rule(Unit::total_tokens, 10000, seconds(60)),
                                       World::rule(Unit::concurrency, 4, seconds(0))};
  const CallId id = world.admit(world.call(100, 50));
  EXPECT_EQ(world.meter(1).reserved, 150);
  EXPECT_EQ(world.meter(2).used, 1);
  world.governor().sent(id, world.now());
  EXPECT_EQ(world.meter(0).used, 1);
  world.time += 2;
  world.settle(id, 90, 20);
  EXPECT_EQ(world.meter(1).used, 110);
  EXPECT_EQ(world.meter(1).reserved, 0);
  EXPECT_EQ(world.meter(2).used, 0);
  EXPECT_EQ(world.view().inflight, 0);
  EXPECT_EQ(world.end(id, Ending::completed), Settled::already_settled);
}

TEST(Governor, QueuesUntilTheWindowHasRoom) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::requests, 2, seconds(20))};
  world.policy.deployments[0].burst_percent = 100;
  world.send(world.call());
  world.time += 1;
  world.send(world.call());
  const CallId waiting = world.queue(world.call());
  const auto events = world.run_to(1030);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, waiting);
  EXPECT_NEAR(events[0].first, 1020, 0.03);
  EXPECT_EQ(std::get<Grant>(events[0].second.what).decision, Decision::queued);
}

TEST(Governor, TellsTheCallersOwnTightestLimits) {
  World world;
  world.policy.nodes[0].limits = {World::rule(Unit::requests, 100, seconds(60))};
  world.policy.nodes[1].limits = {World::rule(Unit::requests, 4, seconds(60)),
                                  World::rule(Unit::total_tokens, 1000, seconds(60))};
  world.send(world.call(100));
  const CallerLimits limits = world.governor().caller_limits(NodeId(2), ProfileId(0), world.now());
  ASSERT_TRUE(limits.requests && limits.tokens);
  EXPECT_EQ(limits.requests->limit, 4);
  EXPECT_EQ(limits.requests->remaining, 3);
  EXPECT_EQ(limits.tokens->remaining, 900);
  EXPECT_EQ(limits.tokens->reset, Duration(seconds(60)));
}

// The world's deployment blocked by requests, a second one by its only slot.
World two_deployments() {
  World world;
  world.policy.deployments.push_back(world.policy.deployments[0]);
  world.policy.deployments[1].name = "spare";
  world.policy.deployments[0].rules = {World::rule(Unit::requests, 1, seconds(60))};
  world.policy.profiles[0].candidates = {{DeploymentId(0), 0, 1}, {DeploymentId(1), 1, 1}};
  world.policy.classes[0].max_wait = std::chrono::minutes(5);
  return world;
}

TEST(Queue, AFreedSlotIsTakenThoughAnotherDeploymentStartsSooner) {
  World world = two_deployments();
  world.policy.deployments[1].rules = {World::rule(Unit::concurrency, 1, seconds(0))};
  world.send(world.call());
  const CallId held = world.send(world.call());
  ASSERT_EQ(world.governor().grant_of(held)->deployment, DeploymentId(1));
  const CallId first = world.queue(world.call());
  const CallId second = world.queue(world.call());
  EXPECT_TRUE(world.run_to(1001).empty());
  world.settle(held, 1, 1);
  auto events = world.run_to(1002);
  ASSERT_EQ(events.size(), 1U) << "the slot idles although a call waits";
  EXPECT_EQ(events[0].second.call, first);
  EXPECT_LE(events[0].first, 1001.001);
  world.governor().sent(first, world.now());
  world.settle(first, 1, 1);
  events = world.run_to(1003);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, second);
}

TEST(Queue, RefundedTokensAreTakenThoughAnotherDeploymentStartsSooner) {
  World world = two_deployments();
  world.policy.deployments[1].rules = {World::rule(Unit::total_tokens, 1000, seconds(120))};
  world.send(world.call(10, 0));
  const CallId held = world.send(world.call(10, 900));
  const CallId waiting = world.queue(world.call(200, 0));
  EXPECT_TRUE(world.run_to(1001).empty());
  world.settle(held, 10, 10);
  const auto events = world.run_to(1010);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, waiting);
}

TEST(Queue, WhoMayNotWaitDoesNotTakeTheTurnOfWhoWaits) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::requests, 1, seconds(20))};
  world.policy.classes[0].max_wait = std::chrono::minutes(5);
  world.send(world.call());
  const CallId waiting = world.queue(world.call());
  Call eager = world.call();
  eager.leaf = NodeId(1);
  eager.max_wait = Duration{0};
  world.time = 1010;
  EXPECT_EQ(world.refuse(eager).decision, Decision::rejected_locally);
  // The window has moved on, and nobody has looked yet.
  world.time = 1020.1;
  EXPECT_TRUE(world.refuse(eager).retry_after.has_value());
  const auto events = world.run_to(1020.2);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, waiting);
}

TEST(Queue, TheLongestWaitIsTold) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::requests, 1, seconds(20))};
  world.policy.classes[0].max_wait = std::chrono::minutes(5);
  world.send(world.call());
  const CallId first = world.queue(world.call());
  world.time = 1003;
  for (int i = 0; i < 300; ++i) {
    const CallId id = world.queue(world.call());
    if (i % 2 == 0) world.governor().cancel(id, world.now());
  }
  world.time = 1005;
  EXPECT_EQ(world.view().classes[0].oldest, Duration(seconds(5)));
  world.governor().cancel(first, world.now());
  EXPECT_EQ(world.view().classes[0].oldest, Duration(seconds(2)));
  world.reload();
  EXPECT_EQ(world.view().classes[0].oldest, Duration(seconds(2)));
  EXPECT_EQ(world.view().classes[0].depth, 150);
}

TEST(Observe, ATenantThatObservesIsDelayedByNoLimit) {
  World world;
  world.policy.nodes[0].limits = {World::rule(Unit::requests, 1, seconds(60))};
  world.policy.nodes[2].mode = Mode::observe;
  world.policy.nodes[3].limits = {World::rule(Unit::requests, 1, seconds(60))};
  world.policy.classes[0].limits = {World::rule(Unit::requests, 1, seconds(60))};
  world.policy.deployments[0].rules = {World::rule(Unit::total_tokens, 1000, seconds(60))};
  world.policy.nodes.push_back({"acme/two", NodeKind::key, NodeId(1), {}, Mode::enforce});
  const CallId first = world.send(world.call(10));
  EXPECT_EQ(world.governor().grant_of(first)->would_have, Decision::admitted);
  const CallId second = world.send(world.call(10));
  EXPECT_EQ(world.governor().grant_of(second)->decision, Decision::observed);
  EXPECT_EQ(world.governor().grant_of(second)->would_have, Decision::rejected_locally);
  const CallId large = world.send(world.call(5000));
  EXPECT_EQ(world.governor().grant_of(large)->would_have, Decision::never_fits);
  EXPECT_EQ(world.meter().used, 5020) << "accounted all the same";
  // Another key of the tenant is held to the limits that the observed calls count against.
  Call enforced = world.call(10);
  enforced.leaf = NodeId(4);
  enforced.max_wait = Duration{0};
  EXPECT_EQ(world.refuse(enforced).decision, Decision::rejected_locally);
}

TEST(Refusals, EachCallerIsToldASlotOfItsOwn) {
  for (const std::optional<Duration> hint : {std::optional<Duration>(seconds(5)), {}}) {
    for (const bool told : {true, false}) {
      World world;
      world.policy.deployments[0].retry.attempts = 1;
      if (told) world.policy.deployments[0].rules = {World::rule(Unit::requests, 60, seconds(60))};
      std::vector<CallId> calls;
      for (int i = 0; i < 6; ++i) calls.push_back(world.send(world.call()));
      std::vector<Duration> slots;
      Signal signal;
      signal.kind = SignalClass::rate_limited;
      signal.retry_after = hint;
      for (const CallId id : calls) {
        const Verdict verdict = world.governor().rejected(id, signal, true, world.now());
        const auto* final = std::get_if<GaveUp>(&verdict);
        ASSERT_NE(final, nullptr);
        ASSERT_TRUE(final->refusal.retry_after.has_value());
        slots.push_back(*final->refusal.retry_after);
        EXPECT_GE(slots.back(), hint.value_or(Duration(seconds(1)))) << "not before it was allowed";
        EXPECT_LE(slots.back(), Duration(seconds(12)));
      }
      std::sort(slots.begin(), slots.end());
      EXPECT_EQ(std::adjacent_find(slots.begin(), slots.end()), slots.end());
      const Duration least = told ? Duration(seconds(4)) : Duration{1};
      EXPECT_GE(slots.back() - slots.front(), least);
    }
  }
}

TEST(Refusals, WhoComesWhenTheTableIsFullIsNotToldOneSecondForAll) {
  World world;
  world.policy.max_calls = 1;
  world.send(world.call());
  const Refusal first = world.refuse(world.call());
  const Refusal second = world.refuse(world.call());
  EXPECT_EQ(first.decision, Decision::backpressure);
  ASSERT_TRUE(first.retry_after && second.retry_after);
  EXPECT_NE(*first.retry_after, *second.retry_after);
}

TEST(Leases, ManyThatExpireAtOnceAreTakenAFewAHold) {
  World world;
  world.policy.deployments[0].send_lease = seconds(30);
  for (int i = 0; i < 200; ++i) world.admit(world.call());
  world.time = 1031;
  std::vector<Event> events;
  EXPECT_TRUE(world.governor().advance(world.now(), events)) << "there is more to do";
  EXPECT_EQ(world.view().inflight, 136);
  EXPECT_LE(world.governor().next_deadline(), world.now());
  world.run_to(1032);
  EXPECT_EQ(world.view().inflight, 0);
}

TEST(Queue, ACallThatAReloadDoomedCanBeCancelled) {
  World world;
  const ProfilePolicy kept = world.policy.profiles[0];
  ClassPolicy standard = world.policy.classes[0];
  world.policy.deployments[0].rules = {World::rule(Unit::requests, 1, seconds(60))};
  world.policy.profiles = {kept, kept, kept};
  world.policy.profiles[1].name = "second";
  world.policy.profiles[2].name = "third";
  standard.max_wait = std::chrono::minutes(5);
  world.policy.classes = {standard, standard, standard};
  world.policy.classes[1].name = "other";
  world.policy.classes[2].name = "last";
  world.send(world.call());
  Call call = world.call();
  call.profile = ProfileId(2);
  call.traffic_class = ClassId(2);
  std::vector<CallId> doomed;
  for (int i = 0; i < 200; ++i) doomed.push_back(world.queue(call));
  const CallId alive = world.queue(world.call());
  world.policy.profiles = {kept};
  world.policy.classes = {standard};
  world.reload();
  for (int i = 0; i < 100; ++i) world.governor().cancel(doomed[i], world.now());
  EXPECT_EQ(world.view().queued, 101);
  EXPECT_EQ(world.view().classes[0].depth, 1);
  world.reload();
  EXPECT_EQ(world.view().queued, 101) << "a second reload finds them doomed still";
  const auto events = world.run_to(1001);
  EXPECT_EQ(events.size(), 100U);
  for (const auto& [when, event] : events) {
    const auto* refusal = std::get_if<Refusal>(&event.what);
    ASSERT_NE(refusal, nullptr);
    EXPECT_EQ(refusal->decision, Decision::not_allowed);
  }
  EXPECT_EQ(world.view().queued, 1);
  world.governor().cancel(alive, world.now());
  EXPECT_EQ(world.view().queued, 0);
}

TEST(Reservation, CancelsWhenDroppedAndOnlyOnce) {
  World world;
  int cancelled = 0;
  using Handle = Reservation<std::function<void(CallId)>>;
  const auto cancel = [&](CallId id) {
    ++cancelled;
    world.governor().cancel(id, world.now());
  };
  {
    Handle first(world.admit(world.call()), cancel);
    Handle second(std::move(first));
    EXPECT_FALSE(first.holds());
    EXPECT_TRUE(second.holds());
    Handle third(world.admit(world.call()), cancel);
    second = std::move(third);
    EXPECT_EQ(cancelled, 1);
    EXPECT_EQ(world.view().inflight, 1);
  }
  EXPECT_EQ(cancelled, 2);
  EXPECT_EQ(world.view().inflight, 0);
  const CallId kept = world.admit(world.call());
  {
    EXPECT_EQ(Handle(kept, cancel).release(), kept);
  }
  EXPECT_EQ(cancelled, 2);
  world.end(kept, Ending::never_sent);
}

}  // namespace
}  // namespace weir::governor
