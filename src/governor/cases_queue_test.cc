// SPDX-License-Identifier: Apache-2.0
// Cases of the catalogue about waiting: who goes next, retries, and who is dropped.
#include <algorithm>
#include <map>

#include "governor/governor_test.h"

namespace weir::governor {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Signal throttled(std::optional<Duration> hint, Limiter limiter = Limiter::unknown) {
  Signal signal;
  signal.kind = SignalClass::rate_limited;
  signal.status = 429;
  signal.limiter = limiter;
  signal.retry_after = hint;
  return signal;
}

TEST(Cases, T007_OutOfCreditIsTerminal) {
  World world;
  world.policy.deployments[0].retry.attempts = 5;
  const CallId id = world.send(world.call(250000));
  Signal signal;
  signal.kind = SignalClass::quota_exhausted;
  signal.status = 429;
  const Verdict verdict = world.governor().rejected(id, signal, true, world.now());
  const auto* final = std::get_if<GaveUp>(&verdict);
  ASSERT_NE(final, nullptr);
  EXPECT_EQ(final->refusal.decision, Decision::admitted_then_provider_rejected);
  EXPECT_EQ(final->refusal.attempts, 1);
  EXPECT_EQ(world.view().deployments[0].rejections, 0) << "not counted as throttling";
  EXPECT_EQ(world.view().inflight, 0);
}

TEST(Cases, T009_RetriesAreSpacedWithoutAHint) {
  World world;
  world.policy.deployments[0].retry.attempts = 6;
  world.policy.deployments[0].retry.base = milliseconds(500);
  const CallId id = world.send(world.call());
  double last_gap = 0;
  int attempts = 1;
  while (world.time < 1003) {
    const double before = world.time;
    const Verdict verdict =
        world.governor().rejected(id, throttled(std::nullopt), true, world.now());
    ASSERT_TRUE(std::holds_alternative<Requeued>(verdict));
    std::vector<std::pair<double, Event>> events;
    while (events.empty()) events = world.run_to(world.time + 0.01);
    ASSERT_EQ(events[0].second.call, id);
    world.time = events[0].first;
    world.governor().sent(id, world.now());
    ++attempts;
    const double gap = world.time - before;
    EXPECT_GT(gap, last_gap);
    last_gap = gap;
  }
  EXPECT_LE(attempts, 6);
  world.settle(id, 1, 1);
}

TEST(Cases, T025_WaitersAreSpreadAfterASharedHint) {
  for (const Limiter limiter : {Limiter::unknown, Limiter::rpm}) {
    World world;
    world.policy.classes[0].max_wait = minutes(5);
    world.policy.deployments[0].rules = {World::rule(Unit::requests, 60, seconds(60))};
    world.send_granted = true;
    std::vector<CallId> calls;
    for (int i = 0; i < 40; ++i) calls.push_back(world.send(world.call()));
    for (const CallId id : calls) {
      const Verdict verdict =
          world.governor().rejected(id, throttled(seconds(10), limiter), true, world.now());
      ASSERT_TRUE(std::holds_alternative<Requeued>(verdict));
    }
    const auto events = world.run_to(1200);
    ASSERT_EQ(events.size(), 40U);
    std::map<int, int> per_second;
    for (const auto& [when, event] : events) {
      EXPECT_GE(when, 1010);
      ++per_second[static_cast<int>(when)];
    }
    for (const auto& [second, count] : per_second) EXPECT_LE(count, 2) << second;
  }
}

TEST(Cases, T053_SlotFreedOnCancel) {
  World world;
  world.policy.nodes[2].limits = {World::rule(Unit::concurrency, 1, seconds(0))};
  for (int i = 0; i < 100; ++i) {
    const CallId id = world.send(world.call());
    world.governor().progress(id, 3, world.now());
    world.governor().cancel(id, world.now());
    world.governor().cancel(id, world.now());
  }
  world.end(world.send(world.call()), Ending::completed);
  EXPECT_EQ(world.view().inflight, 0);
}

TEST(Cases, T058_DeadWaitersAreDropped) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::concurrency, 1, seconds(0)),
                                       World::rule(Unit::total_tokens, 100000, seconds(60))};
  const CallId running = world.send(world.call(10));
  std::vector<CallId> dead;
  for (int i = 0; i < 50; ++i) dead.push_back(world.queue(world.call(10)));
  const CallId live = world.queue(world.call(10));
  world.run_to(1001);
  for (const CallId id : dead) world.governor().cancel(id, world.now());
  EXPECT_EQ(world.view().queued, 1);
  EXPECT_EQ(world.view().classes[0].depth, 1);
  world.settle(running, 10, 0);
  const auto events = world.run_to(1001);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, live);
  EXPECT_EQ(world.meter(1).reserved, 10);
}

TEST(Cases, T071_LargeRequestIsNotStarved) {
  World world;
  world.policy.classes[0].max_wait = minutes(10);
  world.policy.nodes.push_back({"blue", NodeKind::tenant, NodeId(0), {}, Mode::enforce});
  world.policy.deployments[0].rules = {World::rule(Unit::total_tokens, 6000, seconds(60))};
  CallId large;
  double started = 0;
  int small_after = 0;
  for (int tick = 0; tick < 3 * 240; ++tick) {
    const double until = 1000 + tick / 3.0;
    for (const auto& [when, event] : world.run_to(until)) {
      if (!std::holds_alternative<Grant>(event.what)) continue;
      world.governor().sent(event.call, world.now());
      if (event.call == large) {
        started = when;
      } else if (when > 1060) {
        ++small_after;
      }
    }
    Call small = world.call(50);
    small.leaf = NodeId(4);
    const Outcome outcome = world.submit(small);
    if (const auto* admitted = std::get_if<Admitted>(&outcome)) {
      world.governor().sent(admitted->call, world.now());
    }
    if (tick == 180) large = world.queue(world.call(4000));
  }
  EXPECT_GT(started, 1060);
  EXPECT_LE(started, 1060 + 60 + 10);
  EXPECT_GT(small_after, 60) << "the small ones keep a share";
}

TEST(Cases, T073_ClassesShareByWeightAndBorrowWhatIsFree) {
  World world;
  world.policy.classes.clear();
  for (const auto& [name, weight] : {std::pair{"prod", 7}, {"dev", 2}, {"default", 1}}) {
    ClassPolicy traffic_class;
    traffic_class.name = name;
    traffic_class.weight = weight;
    traffic_class.max_wait = minutes(60);
    world.policy.classes.push_back(traffic_class);
  }
  world.policy.deployments[0].rules = {World::rule(Unit::requests, 600, seconds(60))};
  std::map<CallId, int> class_of;
  const auto fill = [&](int index, int count) {
    for (int i = 0; i < count; ++i) {
      Call call = world.call();
      call.traffic_class = ClassId(static_cast<std::uint32_t>(index));
      const Outcome outcome = world.submit(call);
      if (const auto* admitted = std::get_if<Admitted>(&outcome)) {
        world.governor().sent(admitted->call, world.now());
      } else if (const auto* queued = std::get_if<Queued>(&outcome)) {
        class_of[queued->call] = index;
      }
    }
  };
  const auto run = [&](double until) {
    std::map<int, int> served;
    while (world.time < until) {
      for (const auto& [when, event] : world.run_to(world.time + 0.1)) {
        world.governor().sent(event.call, world.now());
        ++served[class_of[event.call]];
      }
    }
    return served;
  };
  fill(1, 6000);
  EXPECT_NEAR(run(1120)[1], 600 + 100, 110) << "a lone class has it all";
  fill(0, 4000);
  fill(2, 4000);
  auto served = run(1300);
  const double all = served[0] + served[1] + served[2];
  EXPECT_GT(all, 1600);
  EXPECT_NEAR(served[0] / all, 0.7, 0.05);
  EXPECT_NEAR(served[1] / all, 0.2, 0.05);
  EXPECT_NEAR(served[2] / all, 0.1, 0.05);
}

TEST(Cases, T076_NoHeadOfLineBlockingAcrossLimits) {
  World world;
  world.policy.deployments.push_back(world.policy.deployments[0]);
  world.policy.deployments[1].name = "other";
  world.policy.deployments[0].rules = {World::rule(Unit::total_tokens, 1000, seconds(20))};
  ProfilePolicy other;
  other.name = "b";
  other.candidates = {{DeploymentId(1), 0, 1}};
  world.policy.profiles.push_back(other);
  world.policy.nodes.push_back({"blue", NodeKind::tenant, NodeId(0), {}, Mode::enforce});
  world.policy.nodes[1].limits = {World::rule(Unit::requests, 2, seconds(20))};
  world.send(world.call(1000));
  Call head = world.call(900);
  head.leaf = NodeId(4);
  const CallId first = world.queue(head);
  for (int i = 0; i < 100; ++i) {
    Call behind = world.call(900);
    behind.profile = ProfileId(1);
    behind.leaf = NodeId(4);
    world.send(behind);
  }
  const auto events = world.run_to(1021);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, first);
  world.governor().sent(first, world.now());

  // A head that its own tenant blocks stops nobody of another tenant.
  world.time = 1050;
  world.send(world.call(10));
  world.send(world.call(10));
  world.queue(world.call(10));
  Call blue = world.call(10);
  blue.leaf = NodeId(4);
  world.send(blue);
}

TEST(Queue, FirstInFirstOutInALaneAndTimeOuts) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::concurrency, 1, seconds(0))};
  world.policy.classes[0].max_wait = seconds(5);
  world.policy.classes[0].depth = 3;
  const CallId running = world.send(world.call());
  const CallId first = world.queue(world.call());
  Call brief = world.call();
  brief.max_wait = seconds(1);
  const CallId second = world.queue(brief);
  world.time += 0.5;
  const CallId third = world.queue(world.call());
  EXPECT_EQ(world.refuse(world.call()).decision, Decision::queue_full);
  Call never = world.call();
  never.max_wait = Duration{0};
  EXPECT_EQ(world.refuse(never).decision, Decision::rejected_locally);
  auto events = world.run_to(1001.2);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, second);
  EXPECT_NEAR(events[0].first, 1001, 1e-6);
  EXPECT_EQ(std::get<Refusal>(events[0].second.what).decision, Decision::queue_timeout);
  world.settle(running, 0, 0);
  events = world.run_to(1001.2);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, first);
  events = world.run_to(1010);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, third);
  EXPECT_NEAR(events[0].first, 1005.5, 1e-6);
}

TEST(Queue, SpillsToTheNextPriorityAndWeighsEquals) {
  World world;
  for (const char* name : {"second", "spare"}) {
    world.policy.deployments.push_back(world.policy.deployments[0]);
    world.policy.deployments.back().name = name;
  }
  world.policy.deployments[0].rules = {World::rule(Unit::concurrency, 6, seconds(0))};
  world.policy.deployments[1].rules = {World::rule(Unit::concurrency, 3, seconds(0))};
  world.policy.profiles[0].candidates = {
      {DeploymentId(2), 1, 1}, {DeploymentId(0), 0, 2}, {DeploymentId(1), 0, 1}};
  std::map<std::uint32_t, int> count;
  for (int i = 0; i < 12; ++i) {
    const Outcome outcome = world.submit(world.call());
    const auto& grant = std::get<Admitted>(outcome).grant;
    ++count[grant.deployment.value()];
    EXPECT_EQ(grant.decision, i < 9 ? Decision::admitted : Decision::spilled);
    if (i == 5) {
      EXPECT_EQ(count[0], 4);
    }
  }
  EXPECT_EQ(count[2], 3);
}

TEST(Observe, NothingIsDelayedAndWhatWouldHaveBeenIsTold) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::requests, 1, seconds(60))};
  world.policy.deployments[0].mode = Mode::observe;
  for (int i = 0; i < 5; ++i) {
    const Outcome outcome = world.submit(world.call());
    const Grant& grant = std::get<Admitted>(outcome).grant;
    world.governor().sent(std::get<Admitted>(outcome).call, world.now());
    EXPECT_EQ(grant.decision, Decision::observed);
    EXPECT_EQ(grant.would_have, i == 0 ? Decision::admitted : Decision::rejected_locally);
    EXPECT_EQ(grant.limit.any(), i > 0);
  }
  EXPECT_EQ(world.meter(0).used, 5);
}

TEST(Observe, ACallThatEnforceWouldHaveRefusedSaysNothingOfLaterOnes) {
  World world;
  world.policy.deployments[0].rules = {
      World::rule(Unit::total_tokens, 1000, seconds(60), Enforcement::sliding, Counting::reserve)};
  world.policy.deployments[0].mode = Mode::observe;
  const auto would = [&](std::int64_t tokens) {
    return *world.governor().grant_of(world.send(world.call(tokens)))->would_have;
  };
  EXPECT_EQ(would(500'000), Decision::never_fits);
  EXPECT_EQ(world.meter(0).used, 500'000) << "it did get through, and that is shown";
  EXPECT_EQ(would(900), Decision::admitted);
  EXPECT_EQ(would(900), Decision::rejected_locally);
  world.time = 1055;
  EXPECT_EQ(would(100), Decision::admitted) << "what was refused took nothing";
  world.time = 1061;
  EXPECT_EQ(would(900), Decision::admitted);
}

TEST(Observe, UnderOverloadAsManyAreRefusedAsEnforceWouldRefuse) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::requests, 60, seconds(60))};
  world.policy.deployments[0].mode = Mode::observe;
  world.policy.classes[0].max_wait = Duration{0};
  int admitted = 0;
  for (int i = 0; i < 1200; ++i) {
    const CallId id = world.send(world.call());
    if (world.governor().grant_of(id)->would_have == Decision::admitted) ++admitted;
    world.settle(id, 0, 0);
    world.time += 0.5;
  }
  EXPECT_NEAR(admitted, 600, 30) << "twice the limit for ten minutes";
}

TEST(Observe, AReloadToObserveAndBackLosesNoCount) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::concurrency, 2, Duration{0})};
  const CallId before = world.send(world.call());
  world.policy.deployments[0].mode = Mode::observe;
  world.reload();
  const CallId during = world.send(world.call());
  EXPECT_EQ(world.governor().grant_of(during)->would_have, Decision::admitted);
  world.policy.deployments[0].mode = Mode::enforce;
  world.reload();
  world.settle(before, 0, 0);
  world.settle(during, 0, 0);
  world.policy.deployments[0].mode = Mode::observe;
  world.reload();
  for (const auto expected : {Decision::admitted, Decision::admitted, Decision::queued}) {
    EXPECT_EQ(world.governor().grant_of(world.send(world.call()))->would_have, expected);
  }
}

TEST(Retries, UntypedRefusalsSlowTheDeploymentDown) {
  World world;
  world.policy.deployments[0].retry.attempts = 1;
  const CallId id = world.send(world.call());
  world.governor().rejected(id, throttled(std::nullopt), false, world.now());
  Call impatient = world.call();
  impatient.max_wait = Duration{0};
  world.refuse(impatient);
  world.time += 15;
  world.send(impatient);
}

TEST(Retries, NamedLimiterHoldsOnlyItsRules) {
  World world;
  world.policy.deployments[0].retry.attempts = 1;
  world.policy.deployments[0].rules = {World::rule(Unit::input_tokens, 10000, seconds(60)),
                                       World::rule(Unit::output_tokens, 10000, seconds(60))};
  const CallId id = world.send(world.call(10, 10));
  world.governor().rejected(id, throttled(seconds(20), Limiter::output_tpm), false, world.now());
  Call embedding = world.call(10);
  embedding.demand.produces_output = false;
  world.send(embedding);
  const CallId chat = world.queue(world.call(10, 10));
  const auto events = world.run_to(1025);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].second.call, chat);
  EXPECT_NEAR(events[0].first, 1020, 0.3);
}

TEST(Cases, ARequeuedCallIsNotHeldUpByAPinBehindIt) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::total_tokens, 1000, seconds(60))};
  world.policy.classes[0].max_wait = seconds(300);
  const CallId large = world.send(world.call(500, 0));
  world.run_to(1030);
  const CallId small = world.send(world.call(300, 0));
  const CallId waits = world.queue(world.call(600, 0));
  world.run_to(1045);
  world.settle(large, 500, 0);
  world.run_to(1046);  // looked at after more than ten seconds: what it needs is kept for it
  ASSERT_TRUE(std::holds_alternative<Requeued>(
      world.governor().rejected(small, throttled(seconds(2)), true, world.now())));
  const auto events = world.run_to(1200);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].second.call, small);
  EXPECT_LT(events[0].first, 1060);
  EXPECT_EQ(events[1].second.call, waits);
}

}  // namespace
}  // namespace weir::governor
