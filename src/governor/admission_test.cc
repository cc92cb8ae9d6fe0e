// SPDX-License-Identifier: Apache-2.0
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
