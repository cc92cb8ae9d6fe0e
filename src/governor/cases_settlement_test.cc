// SPDX-License-Identifier: Apache-2.0
// Cases of the catalogue about what calls cost, how they end, and what they leave behind.
#include <vector>

#include "governor/governor_test.h"

namespace weir::governor {
namespace {

using std::chrono::seconds;

World counted(Counting count, std::int64_t amount = 10000) {
  World world;
  world.policy.deployments[0].rules = {
      World::rule(Unit::total_tokens, amount, seconds(60), Enforcement::sliding, count)};
  world.policy.deployments[0].burst_percent = 100;
  return world;
}

TEST(Cases, T031_ChoicesMultiplyTheOutput) {
  World world = counted(Counting::reserve_refund);
  Call call = world.call(100, 1000);
  call.demand.choices = 5;
  const CallId id = world.send(call);
  EXPECT_EQ(world.meter(0).reserved, 5100);
  world.settle(id, 100, 700);
  EXPECT_EQ(world.meter(0).used, 800);
  for (const std::int64_t choices : {std::int64_t{1000000}, INT64_MAX}) {
    call.demand.choices = choices;
    EXPECT_EQ(world.refuse(call).decision, Decision::never_fits);
  }
  call.demand.choices = 0;
  EXPECT_EQ(world.governor().estimate(DeploymentId(0), call.demand).output_tokens, 1000);
}

TEST(Cases, T033_ReasoningTokensAreChargedOnce) {
  World world = counted(Counting::reserve_refund);
  CallId id = world.send(world.call(10, 4000));
  world.governor().progress(id, 60, world.now());
  Settlement settlement;
  settlement.reported = Usage{10, 3131, std::nullopt, 3072};
  EXPECT_EQ(world.governor().settle(id, settlement, world.now()), Settled::settled);
  EXPECT_EQ(world.meter(0).used, 3141);
  id = world.send(world.call(10, 4000));
  world.governor().progress(id, 60, world.now());
  Settlement without;
  without.output_events = 60;
  EXPECT_EQ(world.governor().settle(id, without, world.now()), Settled::settled);
  EXPECT_EQ(world.meter(0).used, 3141 + 4010) << "the reserve, not the visible text";
}

TEST(Cases, T034_CachedTokensAsThePolicySays) {
  for (const bool counts : {true, false}) {
    World world = counted(Counting::settle, 100000);
    world.policy.deployments[0].cached_input_counted = counts;
    const CallId id = world.send(world.call(10000));
    Settlement settlement;
    settlement.reported = Usage{10000, 0, 8000, std::nullopt};
    world.governor().settle(id, settlement, world.now());
    EXPECT_EQ(world.meter(0).used, counts ? 10000 : 2000);
    const CallId odd = world.send(world.call(10));
    settlement.reported = Usage{10, 0, 8000, std::nullopt};
    world.governor().settle(odd, settlement, world.now());
    EXPECT_EQ(world.meter(0).used, counts ? 10010 : 2000) << "never negative";
  }
}

TEST(Cases, T044_ClientLeavesBeforeTheUsageFrame) {
  World world = counted(Counting::reserve_refund, 2000);
  std::int64_t before = 0;
  for (int i = 0; i < 20; ++i) {
    Call call = world.call(10, 80);
    call.max_wait = Duration{0};
    const Outcome outcome = world.submit(call);
    const auto* admitted = std::get_if<Admitted>(&outcome);
    if (admitted == nullptr) break;
    world.governor().sent(admitted->call, world.now());
    Settlement gone;
    gone.ending = Ending::client_gone;
    gone.output_events = 50;
    gone.response_started = true;
    EXPECT_EQ(world.governor().settle(admitted->call, gone, world.now()), Settled::settled);
    const std::int64_t used = world.meter(0).used;
    EXPECT_GE(used - before, 60) << "at least what was streamed";
    EXPECT_LE(used - before, 90) << "at most the reserve";
    before = used;
  }
  EXPECT_EQ(world.meter(0).reserved, 0);
  world.run_to(1061);
  EXPECT_EQ(world.meter(0).used, 0);
}

TEST(Cases, T045_ReserveReturnsOnEveryExitPath) {
  for (const Counting count : {Counting::reserve, Counting::reserve_refund, Counting::settle,
                               Counting::realtime, Counting::input}) {
    World world = counted(count);
    world.policy.nodes[1].limits = {World::rule(Unit::total_tokens, 10000, seconds(60)),
                                    World::rule(Unit::concurrency, 5, seconds(0))};
    const auto check = [&](std::int64_t used) {
      EXPECT_EQ(world.meter(0).reserved, 0) << name(count);
      EXPECT_EQ(world.view().inflight, 0);
      if (count != Counting::reserve || used == 0) {
        EXPECT_EQ(world.meter(0).used, used) << name(count);
      }
    };
    world.end(world.admit(world.call(100, 4000)), Ending::never_sent);
    check(0);
    world.governor().cancel(world.admit(world.call(100, 4000)), world.now());
    check(0);
    world.end(world.send(world.call(100, 4000)), Ending::failed);
    check(0);
    world.end(world.send(world.call(100, 4000)), Ending::never_sent);
    check(0);
    Signal refused;
    refused.kind = SignalClass::auth;
    world.governor().rejected(world.send(world.call(100, 4000)), refused, true, world.now());
    check(0);
    world.settle(world.send(world.call(100, 4000)), 100, 50);
    check(count == Counting::input ? 100 : 150);
  }
}

TEST(Cases, T046_OrphanedReservationsExpire) {
  World world = counted(Counting::reserve_refund);
  world.policy.deployments[0].lease = seconds(60);
  world.policy.deployments[0].send_lease = seconds(30);
  world.policy.nodes[1].limits = {World::rule(Unit::concurrency, 20, seconds(0))};
  std::vector<CallId> lost;
  for (int i = 0; i < 19; ++i) lost.push_back(world.send(world.call(10, 20)));
  const CallId unsent = world.admit(world.call(10, 20));
  EXPECT_EQ(world.view().inflight, 20);
  world.run_to(1035);
  EXPECT_EQ(world.view().inflight, 19) << "one that is never sent is given up after 30 s";
  world.time = 1050;
  world.governor().progress(lost[0], 1, world.now());
  world.run_to(1065);
  EXPECT_EQ(world.view().inflight, 1) << "a byte renews the lease";
  world.run_to(1115);
  EXPECT_EQ(world.view().inflight, 0);
  EXPECT_EQ(world.meter(0).reserved, 0);

  Settlement late;
  late.reported = Usage{10, 500, std::nullopt, std::nullopt};
  EXPECT_EQ(world.governor().settle(lost[1], late, world.now()), Settled::booked_late);
  EXPECT_EQ(world.meter(0).used, 480);
  EXPECT_EQ(world.governor().settle(lost[1], late, world.now()), Settled::already_settled);
  EXPECT_EQ(world.meter(0).used, 480);
  EXPECT_EQ(world.governor().settle(unsent, late, world.now()), Settled::booked_late);
}

TEST(Settlement, ARequestThatLeavesAfterItsLeaseIsStillCounted) {
  for (const Counting count :
       {Counting::reserve, Counting::reserve_refund, Counting::settle, Counting::realtime}) {
    World world;
    world.policy.deployments[0].send_lease = seconds(90);
    world.policy.deployments[0].rules = {
        World::rule(Unit::requests, 10, seconds(60)),
        World::rule(Unit::total_tokens, 10000, seconds(60), Enforcement::sliding, count)};
    const CallId id = world.admit(world.call(100, 50));
    world.run_to(1089);
    EXPECT_EQ(world.view().inflight, 1) << "as long as the policy says";
    world.run_to(1095);
    EXPECT_EQ(world.view().inflight, 0);
    EXPECT_EQ(world.meter(0).used, 0);
    world.governor().sent(id, world.now());
    world.governor().sent(id, world.now());
    EXPECT_EQ(world.meter(0).used, 1) << "the provider has seen it";
    const bool input_only = count == Counting::settle || count == Counting::realtime;
    const std::int64_t reserved = input_only ? 100 : 150;
    EXPECT_EQ(world.meter(1).used, reserved) << static_cast<int>(count);
    Settlement settlement;
    settlement.reported = Usage{100, 70, std::nullopt, std::nullopt};
    EXPECT_EQ(world.governor().settle(id, settlement, world.now()), Settled::booked_late);
    EXPECT_EQ(world.meter(0).used, 1);
    EXPECT_EQ(world.meter(1).used, count == Counting::reserve ? 150 : 170)
        << static_cast<int>(count);
    EXPECT_EQ(world.governor().settle(id, settlement, world.now()), Settled::already_settled);
  }
}

TEST(Settlement, TellsWhatWasCharged) {
  World world = counted(Counting::reserve_refund, 100'000);
  world.policy.deployments[0].lease = seconds(60);
  Settlement end;
  Usage charged;
  const auto settle = [&](CallId id) {
    charged = Usage{-1, -1, -1, -1};
    return world.governor().settle(id, end, world.now(), &charged);
  };
  end.reported = Usage{12, 34, 5, 6};
  settle(world.send(world.call(10, 80)));
  EXPECT_EQ(charged, (Usage{12, 34, 5, 6})) << "as reported";
  end.reported.reset();
  end.ending = Ending::client_gone;
  end.output_events = 300;
  const CallId gone = world.send(world.call(10, 80));
  settle(gone);
  EXPECT_EQ(charged, (Usage{10, 300, {}, {}})) << "what was seen is more than the estimate";
  EXPECT_EQ(settle(gone), Settled::already_settled);
  EXPECT_EQ(charged, Usage{});
  end.output_events = 1;
  settle(world.send(world.call(10, 80)));
  EXPECT_EQ(charged, (Usage{10, 80, {}, {}})) << "the estimate is more than what was seen";
  end.ending = Ending::failed;
  settle(world.send(world.call(10, 80)));
  EXPECT_EQ(charged, Usage{});
  end.ending = Ending::never_sent;
  settle(world.admit(world.call(10, 80)));
  EXPECT_EQ(charged, Usage{});

  const CallId lost = world.send(world.call(10, 80));
  world.run_to(world.time + 61);
  end.ending = Ending::completed;
  end.reported = Usage{10, 20, {}, {}};
  EXPECT_EQ(settle(lost), Settled::booked_late);
  EXPECT_EQ(charged, (Usage{10, 80, {}, {}})) << "what the expiry booked stays";
}

TEST(Settlement, RejectedAttemptsCountWhereThePolicySaysSo) {
  for (const bool counted_there : {true, false}) {
    World world;
    world.policy.deployments[0].rules = {
        World::rule(Unit::requests, 10, seconds(60)),
        World::rule(Unit::total_tokens, 1000, seconds(60), Enforcement::bucket, Counting::reserve)};
    world.policy.deployments[0].rejected_counted = counted_there;
    world.policy.deployments[0].retry.attempts = 1;
    world.policy.nodes[1].limits = {World::rule(Unit::requests, 5, seconds(60))};
    const CallId id = world.send(world.call(10, 10));
    Signal signal;
    signal.kind = SignalClass::rate_limited;
    signal.retry_after = seconds(1);
    world.governor().rejected(id, signal, true, world.now());
    EXPECT_EQ(world.meter(0).used, counted_there ? 1 : 0);
    EXPECT_EQ(world.meter(1).used, 0);
  }
}

TEST(Settlement, TheEstimateFollowsReportedUsage) {
  World world;
  world.policy.profiles[0].output = OutputEstimate::mean;
  world.policy.deployments[0].bytes_per_token = 4;
  world.policy.deployments[0].mean_output_tokens = 256;
  Call call = world.call();
  call.demand.input_tokens.reset();
  call.demand.max_output_tokens.reset();
  call.demand.input_bytes = 1000;
  EXPECT_EQ(world.governor().estimate(DeploymentId(0), call.demand).input_tokens, 250);
  EXPECT_EQ(world.governor().estimate(DeploymentId(0), call.demand).output_tokens, 256);
  for (int i = 0; i < 300; ++i) {
    world.settle(world.send(call), 500, 100);
    world.time += 1;
  }
  const Estimate learned = world.governor().estimate(DeploymentId(0), call.demand);
  EXPECT_NEAR(static_cast<double>(learned.input_tokens), 500, 10);
  EXPECT_NEAR(static_cast<double>(learned.output_tokens), 100, 15);
  EXPECT_NEAR(world.view().deployments[0].bytes_per_token, 2, 0.05);
  call.demand.max_output_tokens = 7;
  EXPECT_EQ(world.governor().estimate(DeploymentId(0), call.demand).output_tokens, 7);
  call.demand.produces_output = false;
  EXPECT_EQ(world.governor().estimate(DeploymentId(0), call.demand).output_tokens, 0);
}

TEST(Cases, T047_SettlingAgainChangesNothing) {
  World world = counted(Counting::reserve_refund, 1'000'000);
  for (int i = 0; i < 1000; ++i) {
    const CallId id = world.send(world.call(100, 400));
    Settlement settlement;
    settlement.reported = Usage{60, 40, std::nullopt, std::nullopt};
    EXPECT_EQ(world.governor().settle(id, settlement, world.now()), Settled::settled);
    // Three in ten answers are lost and said again, some of them with other numbers.
    if (i % 10 < 3) {
      settlement.reported->output_tokens += i;
      EXPECT_EQ(world.governor().settle(id, settlement, world.now()), Settled::already_settled);
    }
  }
  EXPECT_EQ(world.meter(0).used, 100'000);
  EXPECT_EQ(world.meter(0).reserved, 0);
}

}  // namespace
}  // namespace weir::governor
