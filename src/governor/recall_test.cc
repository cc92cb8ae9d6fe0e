// SPDX-License-Identifier: Apache-2.0
// What a governor hands on to its successor, and what the successor makes of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>

#include "governor/bracket.h"
#include "governor/governor_test.h"
#include "governor/window_meter.h"

namespace weir::governor {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kDay = hours(24);

Memory remember(World& world) {
  Memory memory;
  MemoryCursor at;
  while (world.governor().remember(memory, at, world.now())) {
  }
  return memory;
}

const RememberedMeter* find(const Memory& memory, std::string_view name) {
  for (const RememberedMeter& meter : memory.meters) {
    if (meter.name == name) return &meter;
  }
  return nullptr;
}

/// The gateway ends at the world's time and starts anew `down` later, with what it remembered.
void restart(World& world, Duration down, MemoryAge age) {
  const Memory memory = remember(world);
  world.restart();
  world.time += to_seconds(down);
  world.governor().recall(memory, age, world.now());
}

MemoryAge complete(Duration age) { return {age, age, true, seconds(20)}; }
MemoryAge broken_off(Duration age) { return {age, age, false, seconds(20)}; }

/// Told `told` requests a minute under strategy adaptive, of a provider that keeps `limit`, for so
/// long: about twice as many calls as that come.
void learn(World& world, std::int64_t limit, double seconds_long) {
  std::deque<double> window;
  const double end = world.time + seconds_long;
  while (world.time < end) {
    world.run_to(world.time + 0.02);
    while (!window.empty() && window.front() + 60 <= world.time) window.pop_front();
    Call call = world.call(1, 1);
    call.max_wait = Duration{0};
    const Outcome outcome = world.submit(call);
    const auto* admitted = std::get_if<Admitted>(&outcome);
    if (admitted == nullptr) continue;
    world.governor().sent(admitted->call, world.now());
    if (static_cast<std::int64_t>(window.size()) < limit) {
      window.push_back(world.time);
      world.settle(admitted->call, 1, 1);
      continue;
    }
    Signal signal;
    signal.kind = SignalClass::rate_limited;
    signal.limiter = Limiter::rpm;
    world.governor().rejected(admitted->call, signal, false, world.now());
  }
}

World adaptive(std::int64_t told = 2000) {
  World world;
  DeploymentPolicy& deployment = world.policy.deployments[0];
  deployment.strategy = Strategy::adaptive;
  deployment.rules = {World::rule(Unit::requests, told, seconds(60))};
  return world;
}

TEST(Recall, AHiddenLimitIsKeptFromTheFirstSecond) {
  World world = adaptive();
  learn(world, 1200, 400);
  const std::int64_t kept = world.meter().kept;
  EXPECT_LE(kept, 1240) << "a probe asks for 3 % more";
  EXPECT_GE(kept, 1100);
  EXPECT_FALSE(world.meter().recalled);
  restart(world, seconds(5), complete(seconds(5)));
  EXPECT_NEAR(static_cast<double>(world.meter().kept), static_cast<double>(kept), 40);
  EXPECT_LE(world.meter().kept, 1200);
  EXPECT_TRUE(world.meter().recalled);
  EXPECT_LT(world.meter().refused_ago, minutes(10));
  const std::int64_t rejections = world.view().deployments[0].rejections;
  EXPECT_EQ(rejections, 0);
}

TEST(LearnedNotes, AreOfWhatSettledAndOfGuesses) {
  World world = adaptive();
  learn(world, 1200, 400);
  ASSERT_TRUE(world.governor().has_learned());
  std::vector<LearnedNote> notes = world.governor().take_learned();
  EXPECT_FALSE(world.governor().has_learned());
  EXPECT_LE(notes.size(), 6U) << "not one for each probe";
  // A guess may have been taken for true on the way, and dropped.
  const auto told =
      std::find_if(notes.begin(), notes.end(), [](const auto& note) { return !note.guessed; });
  ASSERT_NE(told, notes.end());
  EXPECT_EQ(told->deployment, "main");
  EXPECT_EQ(told->before, 2000);
  EXPECT_NEAR(static_cast<double>(told->after), 1195, 40);
  EXPECT_EQ(told->rule.amount, 2000);
  // A successor has nothing new to say, until the limit is another one.
  restart(world, seconds(1), complete(seconds(1)));
  learn(world, 1200, 200);
  EXPECT_LE(world.governor().take_learned().size(), 1U);
  learn(world, 600, 300);
  notes = world.governor().take_learned();
  ASSERT_GE(notes.size(), 1U);
  EXPECT_NEAR(static_cast<double>(notes.back().after), 597, 20);
}

TEST(Recall, OneThatWasToldAnewIsForgotten) {
  World world = adaptive();
  learn(world, 1200, 200);
  const Memory memory = remember(world);
  world.restart();
  world.policy.deployments[0].rules[0].amount = 3000;
  world.governor().recall(memory, complete(seconds(5)), world.now());
  EXPECT_EQ(world.meter().kept, 3000);
  EXPECT_FALSE(world.meter().recalled);
}

TEST(Recall, AnotherModelHasOtherLimits) {
  World world = adaptive();
  learn(world, 1200, 200);
  const Memory memory = remember(world);
  world.restart();
  world.policy.deployments[0].model = "another";
  world.governor().recall(memory, complete(seconds(5)), world.now());
  EXPECT_EQ(world.meter().kept, 2000);
  EXPECT_EQ(world.meter().used, 0);
}

TEST(Recall, AfterAMonthNothingOfALimitIsKept) {
  World world = adaptive();
  learn(world, 1200, 200);
  restart(world, kDay * 31, complete(kDay * 31));
  EXPECT_EQ(world.meter().kept, 2000);
}

TEST(Recall, AnOldOneIsAskedAboutSoon) {
  const auto next_probe = [](Duration age) {
    Bracket bracket(2000, seconds(60), 0.03);
    RememberedLimit limit;
    limit.kept = 1200;
    limit.probe_every = limit.probe_next = limit.probe_in = minutes(20);
    const Instant now{hours(100)};
    bracket.recall(limit, age, now);
    Duration waited{0};
    for (; waited < hours(1) && !bracket.probes(); waited += seconds(1)) {
      bracket.roll(true, now + waited);
    }
    return waited;
  };
  EXPECT_GE(next_probe(minutes(1)), minutes(18));
  EXPECT_LE(next_probe(hours(2)), seconds(61)) << "as soon as the window is known";
}

// Whatever the bracket was doing, its successor starts at what is known to pass.
TEST(Recall, ALimitThatWasLookedForIsStartedBelow) {
  Bracket bracket(2000, seconds(60), 0.03);
  Instant now{hours(1)};
  bracket.accepted(900, now, now);
  now += seconds(1);
  ASSERT_TRUE(bracket.refused(1000, 1, now - std::chrono::milliseconds(50),
                              std::chrono::milliseconds(50), now));
  ASSERT_TRUE(bracket.drains());
  const auto limit = bracket.remember(now);
  ASSERT_TRUE(limit);
  EXPECT_FALSE(limit->found);
  EXPECT_LT(limit->kept, 1000);
  Bracket next(2000, seconds(60), 0.03);
  next.recall(*limit, seconds(3), now);
  EXPECT_EQ(next.amount(), limit->kept);
  EXPECT_FALSE(next.drains());
}

TEST(Recall, AGuessIsDroppedWhenItsTrustIsOver) {
  for (const Duration down : {Duration(minutes(1)), Duration(hours(2))}) {
    World world = adaptive(600);
    world.policy.deployments[0].rules[0].enforce = Enforcement::unknown;
    // Really a hundred in ten seconds.
    std::deque<double> window;
    for (int step = 0; step < 30'000; ++step) {
      world.run_to(world.time + 0.05);
      while (!window.empty() && window.front() + 10 <= world.time) window.pop_front();
      Call call = world.call(1, 1);
      call.max_wait = Duration{0};
      const Outcome outcome = world.submit(call);
      const auto* admitted = std::get_if<Admitted>(&outcome);
      if (admitted == nullptr) continue;
      world.governor().sent(admitted->call, world.now());
      if (window.size() < 100) {
        window.push_back(world.time);
        world.settle(admitted->call, 1, 1);
      } else {
        Signal signal;
        signal.kind = SignalClass::rate_limited;
        signal.limiter = Limiter::rpm;
        world.governor().rejected(admitted->call, signal, false, world.now());
      }
    }
    const std::size_t kept = world.view().deployments[0].meters.size();
    ASSERT_EQ(kept, 2U) << "the guess of ten seconds";
    const std::vector<LearnedNote> notes = world.governor().take_learned();
    ASSERT_FALSE(notes.empty());
    EXPECT_TRUE(notes[0].guessed && notes[0].active);
    EXPECT_EQ(notes[0].rule.window, seconds(10));
    EXPECT_GT(notes[0].evidence, 0);
    restart(world, down, complete(down));
    EXPECT_EQ(world.view().deployments[0].meters.size(), down < hours(1) ? 2U : 1U);
  }
}

TEST(Recall, ADailyQuotaOfATenantIsNotForgiven) {
  World world;
  world.policy.nodes[1].limits = {World::rule(Unit::requests, 5, kDay)};
  for (int i = 0; i < 5; ++i) world.settle(world.send(world.call()), 0, 0);
  // Even after an end without order: what a tenant has used is known.
  restart(world, hours(2), broken_off(hours(2)));
  EXPECT_EQ(world.refuse(world.call()).decision, Decision::rejected_locally);
  world.time += to_seconds(kDay);
  world.admit(world.call());
}

TEST(Recall, AMinuteOfATenantIsForgiven) {
  World world;
  world.policy.nodes[1].limits = {World::rule(Unit::requests, 1, minutes(1))};
  world.settle(world.send(world.call()), 0, 0);
  restart(world, seconds(1), complete(seconds(1)));
  world.admit(world.call());
}

TEST(Recall, AProvidersDayIsKnownInsteadOfAssumedFull) {
  World world;
  DeploymentPolicy& deployment = world.policy.deployments[0];
  deployment.start_level = 0;
  deployment.rules = {World::rule(Unit::requests, 1000, kDay)};
  world.time += to_seconds(kDay) + 60;
  EXPECT_EQ(world.meter().used, 1000) << "no predecessor: full";
  world.governor();
  world.time += to_seconds(kDay) + 60;
  for (int i = 0; i < 10; ++i) {
    world.run_to(world.time + 100);
    world.settle(world.send(world.call()), 0, 0);
  }
  restart(world, seconds(3), complete(seconds(3)));
  EXPECT_EQ(world.meter().used, 10);
  // Broken off: in 20 s as many more as a day lets pass in that time, rounded up.
  restart(world, seconds(3), broken_off(seconds(3)));
  EXPECT_EQ(world.meter().used, 11);
}

TEST(Recall, WhatMayHaveLeftUnseenIsWhatTheShorterRuleLetsPass) {
  World world;
  DeploymentPolicy& deployment = world.policy.deployments[0];
  deployment.rules = {World::rule(Unit::requests, 30, minutes(1)),
                      World::rule(Unit::requests, 1000, kDay)};
  world.settle(world.send(world.call()), 0, 0);
  restart(world, seconds(1), broken_off(seconds(1)));
  // Of the minute, what may have left in a second at the pace; it starts empty otherwise.
  EXPECT_EQ(world.meter(0).used, 1 + 4);
  EXPECT_EQ(world.meter(1).used, 31);
}

TEST(Recall, AShortWindowIsKnownAfterACompleteEndOnly) {
  World world;
  DeploymentPolicy& deployment = world.policy.deployments[0];
  deployment.start_level = 0;
  deployment.strategy = Strategy::shaping;
  deployment.rules = {World::rule(Unit::requests, 600, minutes(1))};
  world.governor();
  world.run_to(world.time + 100);
  for (int i = 0; i < 50; ++i) world.settle(world.send(world.call()), 0, 0);
  const Memory memory = remember(world);
  world.restart();
  world.time += 10;
  world.governor().recall(memory, complete(seconds(10)), world.now());
  EXPECT_EQ(world.meter().used, 50);
  world.run_to(world.time + 55);
  EXPECT_EQ(world.meter().used, 0) << "what was charged before the end leaves with its age";
  world.restart();
  world.governor().recall(memory, broken_off(seconds(10)), world.now());
  EXPECT_GE(world.meter().used, 600);
}

// The predecessor filled its window until its end; what it sent after the memory was taken is not
// known. However the known part leaves, the sum never passes the limit.
TEST(Recall, AMinuteThatBrokeOffIsFilledUpWithWhatMayHaveLeft) {
  World world;
  DeploymentPolicy& deployment = world.policy.deployments[0];
  deployment.strategy = Strategy::adaptive;
  deployment.start_level = 0;
  deployment.rules = {World::rule(Unit::requests, 1200, seconds(60))};
  world.governor();
  std::deque<double> real;  // when what left, left
  Memory memory;
  double taken = 0;
  const double killed = world.time + 200;
  while (world.time < killed + 130) {
    const double before = world.time;
    world.run_to(before + 0.02);
    if (before < killed - 5 && world.time >= killed - 5) {
      memory = remember(world);
      taken = world.time;
    }
    if (before < killed && world.time >= killed) {
      world.restart();
      const Duration age = from_seconds(world.time - taken);
      world.governor().recall(memory, {age, age, false, seconds(20)}, world.now());
      EXPECT_GE(world.meter().used, 1190);
    }
    for (int i = 0; i < 2; ++i) {
      Call call = world.call(1, 1);
      call.max_wait = Duration{0};
      const Outcome outcome = world.submit(call);
      const auto* admitted = std::get_if<Admitted>(&outcome);
      if (admitted == nullptr) continue;
      world.governor().sent(admitted->call, world.now());
      world.settle(admitted->call, 1, 1);
      real.push_back(world.time);
    }
    while (!real.empty() && real.front() + 60 - 1e-6 <= world.time) real.pop_front();
    ASSERT_LE(real.size(), 1200U) << world.time - killed;
  }
  EXPECT_GE(real.size(), 1150U) << "and it is used";
}

TEST(Recall, WhatWasAssumedFullIsNotAssumedAnewAtEachRestart) {
  World world;
  DeploymentPolicy& deployment = world.policy.deployments[0];
  deployment.start_level = 0;
  deployment.rules = {World::rule(Unit::requests, 2400, kDay)};
  world.governor();
  std::int64_t last = world.meter().used;
  EXPECT_EQ(last, 2400);
  for (int hour = 1; hour <= 24; ++hour) {
    world.run_to(world.time + 3600);
    restart(world, seconds(1), complete(seconds(1)));
    EXPECT_LE(world.meter().used, last);
    last = world.meter().used;
    // Never less than a single process would still assume.
    EXPECT_GE(last, 2400 - 100 * hour - 1) << hour;
  }
  world.run_to(world.time + 3700);
  EXPECT_EQ(world.meter().used, 0);
}

TEST(Recall, BucketsAndCountersOfADayKeepTheirLevel) {
  for (const Enforcement enforce : {Enforcement::bucket, Enforcement::counter}) {
    World world;
    DeploymentPolicy& deployment = world.policy.deployments[0];
    deployment.rules = {World::rule(Unit::requests, 86'400, kDay, enforce)};
    for (int i = 0; i < 500; ++i) world.settle(world.send(world.call()), 0, 0);
    EXPECT_EQ(world.meter().used, 500);
    restart(world, seconds(100), complete(seconds(100)));
    EXPECT_EQ(world.meter().used, enforce == Enforcement::bucket ? 400 : 500);
  }
}

TEST(Recall, CallsOnTheirWayAtTheEndCountAsCharged) {
  World world;
  world.policy.deployments[0].rules = {
      World::rule(Unit::total_tokens, 1'000'000, kDay, Enforcement::sliding, Counting::settle)};
  for (int i = 0; i < 40; ++i) world.settle(world.send(world.call(10, 100)), 10, 100);
  world.send(world.call(10, 100));
  world.admit(world.call(10, 100));
  const std::int64_t used = world.meter().used;
  EXPECT_EQ(used, 40 * 110 + 10);
  restart(world, seconds(1), complete(seconds(1)));
  EXPECT_EQ(world.meter().used, 42 * 110);
}

TEST(Recall, EstimatesAreThoseOfThePredecessor) {
  World world;
  world.policy.profiles[0].output = OutputEstimate::mean;
  for (int i = 0; i < 300; ++i) {
    Call call = world.call();
    call.demand.input_tokens.reset();
    call.demand.input_bytes = 300;
    call.demand.max_output_tokens.reset();
    world.settle(world.send(call), 100, 200 + i % 50);
  }
  Call call = world.call();
  call.demand.input_tokens.reset();
  call.demand.input_bytes = 300;
  call.demand.max_output_tokens.reset();
  const Outcome before = world.submit(call);
  const Estimate reserved = std::get<Admitted>(before).grant.reserved;
  const DeploymentView seen = world.view().deployments[0];
  restart(world, minutes(1), broken_off(minutes(1)));
  const Outcome after = world.submit(call);
  EXPECT_EQ(std::get<Admitted>(after).grant.reserved.input_tokens, reserved.input_tokens);
  EXPECT_EQ(std::get<Admitted>(after).grant.reserved.output_tokens, reserved.output_tokens);
  EXPECT_DOUBLE_EQ(world.view().deployments[0].mean_output_tokens, seen.mean_output_tokens);
  EXPECT_DOUBLE_EQ(world.view().deployments[0].p95_output_tokens, seen.p95_output_tokens);
  EXPECT_DOUBLE_EQ(world.view().deployments[0].bytes_per_token, seen.bytes_per_token);
}

TEST(Recall, AfterTheFirstCallNothingIsTaken) {
  World world;
  world.policy.nodes[1].limits = {World::rule(Unit::requests, 5, kDay)};
  for (int i = 0; i < 5; ++i) world.settle(world.send(world.call()), 0, 0);
  const Memory memory = remember(world);
  world.restart();
  world.settle(world.send(world.call()), 0, 0);
  world.governor().recall(memory, complete(seconds(1)), world.now());
  world.admit(world.call());
}

// Whatever calls did before, after an end in order nothing is counted differently.
TEST(Recall, AnyHistoryGivesTheSameView) {
  constexpr std::array kWays = {Enforcement::sliding, Enforcement::fixed, Enforcement::bucket,
                                Enforcement::counter, Enforcement::unknown};
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    World world;
    DeploymentPolicy& deployment = world.policy.deployments[0];
    deployment.strategy = rng.uniform() < 0.5 ? Strategy::shaping : Strategy::adaptive;
    deployment.start_level = rng.uniform() < 0.5 ? 1 : 0.3;
    const Enforcement way = kWays[seed % kWays.size()];
    deployment.rules = {World::rule(Unit::requests, 50, seconds(60), way),
                        World::rule(Unit::total_tokens, 9000, minutes(3), way, Counting::settle),
                        World::rule(Unit::requests, 400, kDay, way)};
    world.governor();
    for (int step = 0; step < 80; ++step) {
      world.run_to(world.time + 20 * rng.uniform());
      Call call = world.call(1 + static_cast<std::int64_t>(50 * rng.uniform()), 50);
      call.max_wait = Duration{0};
      const Outcome outcome = world.submit(call);
      const auto* admitted = std::get_if<Admitted>(&outcome);
      if (admitted == nullptr) continue;
      world.governor().sent(admitted->call, world.now());
      world.settle(admitted->call, *call.demand.input_tokens,
                   static_cast<std::int64_t>(50 * rng.uniform()));
    }
    const std::vector<MeterView> before = world.view().deployments[0].meters;
    restart(world, Duration{0}, complete(Duration{0}));
    const std::vector<MeterView> after = world.view().deployments[0].meters;
    ASSERT_EQ(after.size(), before.size()) << seed;
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(after[i].used), static_cast<double>(before[i].used), 1)
          << seed << " " << i;
      EXPECT_EQ(after[i].kept, before[i].kept) << seed << " " << i;
      EXPECT_EQ(after[i].guessed, before[i].guessed) << seed << " " << i;
    }
  }
}

TEST(Recall, NonsenseIsHeldInRange) {
  World world = adaptive();
  DeploymentPolicy& deployment = world.policy.deployments[0];
  deployment.rules.push_back(World::rule(Unit::requests, 1000, kDay));
  world.policy.nodes[1].limits = {World::rule(Unit::requests, 100'000, kDay)};
  learn(world, 1200, 100);
  Memory memory = remember(world);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (RememberedMeter& meter : memory.meters) {
    for (int i = 0; i < 200; ++i) {
      meter.charges.push_back({Duration::min() + Duration(i), INT64_MIN + i});
      meter.charges.push_back({Duration::max() - Duration(i), INT64_MAX - i});
    }
    meter.level = nan;
    meter.counted = true;
    meter.limit = RememberedLimit{INT64_MAX,       INT64_MIN,       -5,       Duration::min(),
                                  Duration::min(), Duration::max(), kForever, true};
    meter.belief = RememberedBelief{true, nan, nan, Duration::min(), Duration::min()};
    meter.margin = RememberedMargin{nan, -1, 1e300, nan};
    meter.growth = RememberedGrowth{nan, -1, Duration::min()};
  }
  for (RememberedDeployment& each : memory.deployments) {
    each.calls = RememberedCalls{nan, -1, nan, 1e300, nan, nan, -1, nan, nan, INT64_MAX};
    each.calls.buckets = {{65535, 65535}, {3, 65535}, {3, 10}};
    each.tokens_per_event = each.mean_seconds = each.produced = each.producing = nan;
    each.refusals_take = each.most_round_trip = Duration::max();
    each.least_round_trip = Duration::min();
  }
  memory.callers.push_back({0, {}});
  memory.callers.push_back({7, RememberedCalls{nan}});
  for (const Duration age : {Duration::min(), Duration{0}, Duration(hours(1)), Duration::max()}) {
    for (const bool ended : {false, true}) {
      world.restart();
      world.governor().recall(memory, {age, age, ended, Duration::max()}, world.now());
      world.submit(world.call(100, 100));
      const Snapshot view = world.view();
      EXPECT_TRUE(std::isfinite(view.deployments[0].mean_output_tokens));
      EXPECT_TRUE(std::isfinite(view.deployments[0].bytes_per_token));
      EXPECT_TRUE(std::isfinite(view.deployments[0].p95_output_tokens));
      EXPECT_GE(view.deployments[0].meters[0].kept, 1);
      EXPECT_LE(view.deployments[0].meters[0].kept, 2000);
      world.run_to(world.time + 120);
    }
  }
}

TEST(Recall, AMemoryIsBoundedAndTakenInPieces) {
  World world;
  world.policy.nodes[1].limits = {World::rule(Unit::requests, 1'000'000, kDay)};
  for (std::uint32_t i = 0; i < 500; ++i) {
    world.policy.nodes.push_back({"acme/k" + std::to_string(i),
                                  NodeKind::key,
                                  NodeId(1),
                                  {World::rule(Unit::requests, 1000, kDay)},
                                  Mode::enforce});
    Call call = world.call();
    call.leaf = NodeId(4 + i);
  }
  world.governor();
  for (std::uint32_t i = 0; i < 500; ++i) {
    Call call = world.call();
    call.leaf = NodeId(4 + i);
    world.settle(world.send(call), 0, 0);
  }
  Memory memory;
  MemoryCursor at;
  int pieces = 1;
  std::size_t before = 0;
  while (world.governor().remember(memory, at, world.now())) {
    const std::size_t now = memory.meters.size() + memory.deployments.size();
    EXPECT_LE(now - before, 64U);
    before = now;
    ++pieces;
  }
  EXPECT_GE(pieces, 8);
  EXPECT_EQ(memory.meters.size(), 501U);
  EXPECT_EQ(memory.left_out, 0U);
  EXPECT_NE(find(memory, "node|key|acme/k7|requests|86400s"), nullptr);
}

TEST(Recall, TheRevisionTellsWhetherSomethingChanged) {
  World world;
  const CallId id = world.send(world.call());
  const std::uint64_t one = remember(world).revision;
  world.time += 10;
  EXPECT_EQ(remember(world).revision, one);
  world.settle(id, 0, 0);
  EXPECT_NE(remember(world).revision, one);
}

TEST(WindowMeter, RemembersInFewPiecesAndNeverYounger) {
  WindowMeter log(hours(24), 8192);
  std::int64_t sum = 0;
  Instant now{hours(30)};
  for (int i = 0; i < 24 * 60; ++i) {
    log.add(now + minutes(i), 3);
    sum += 3;
  }
  const Instant end = now + minutes(24 * 60 - 1);
  const auto charges = log.remember(32, end);
  EXPECT_LE(charges.size(), 34U);
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    kept += charges[i].amount;
    if (i > 0) {
      EXPECT_LT(charges[i].age, charges[i - 1].age);
    }
  }
  EXPECT_EQ(kept, sum);
  // Replayed, the window never holds less than the original at the same time.
  WindowMeter copy(hours(24), 8192);
  for (const RememberedCharge& charge : charges) copy.add(end - charge.age, charge.amount);
  for (int i = 0; i < 24 * 60; i += 7) {
    log.expire(end + minutes(i), Duration{0});
    copy.expire(end + minutes(i), Duration{0});
    EXPECT_GE(copy.sum(), log.sum());
    EXPECT_LE(copy.sum(), log.sum() + 3 * 60);
  }
}

}  // namespace
}  // namespace weir::governor
