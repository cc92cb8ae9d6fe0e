// SPDX-License-Identifier: Apache-2.0
// What calls are estimated at: by whom they come, what was learned of him, and how little of it a
// caller can steer.
#include <cmath>
#include <vector>

#include "governor/estimator.h"
#include "governor/governor_test.h"
#include "weir/rng.h"

namespace weir::governor {
namespace {

using std::chrono::seconds;

constexpr Asked kAcme{.tenant = 11, .caller = 12};
constexpr Asked kOther{.tenant = 21, .caller = 22};

Asked with(Asked asked, OutputEstimate output) {
  asked.output = output;
  return asked;
}

Demand prompt(std::int64_t bytes, std::optional<std::int64_t> cap = std::nullopt) {
  Demand demand;
  demand.input_bytes = bytes;
  demand.max_output_tokens = cap;
  return demand;
}

void teach(Estimator& estimator, const Asked& asked, const Demand& demand, Usage usage,
           int times = 1) {
  for (int i = 0; i < times; ++i) {
    estimator.learn(demand, asked, estimator.cost(demand, asked), usage, 0);
  }
}

TEST(Estimator, StartsFromThePolicy) {
  const Estimator estimator(4, 256);
  Demand demand = prompt(400, 100);
  demand.choices = 2;
  const Cost cost = estimator.cost(demand, kAcme);
  EXPECT_EQ(cost.input, 100);
  EXPECT_EQ(cost.output, 200);
  demand.max_output_tokens.reset();
  EXPECT_EQ(estimator.cost(demand, kAcme).output, 512);
  EXPECT_EQ(estimator.cost(demand, with(kAcme, OutputEstimate::p95)).output, 3 * 512);
}

TEST(Estimator, ACallerPlainlyUnlikeTheOthersIsBelievedAfterAFewCalls) {
  EstimateLevel level;
  Learned one;
  one.has_output = true;
  one.output = 30;
  for (int i = 0; i < 5; ++i) level.learn(one, 100, false);
  EXPECT_NEAR(level.belief({.mean = 300, .variance = 300.0 * 300}).mean, 30.1, 0.5);
  Estimator estimator(4, 300);
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    teach(estimator, kOther, prompt(100), {25, std::llround(rng.exponential(300)), {}, {}});
  }
  teach(estimator, kAcme, prompt(100), {25, 30, {}, {}}, 5);
  EXPECT_LT(estimator.mean_of(kAcme), 45);
  // A few long answers among as many ordinary ones may be chance.
  constexpr Asked third{.tenant = 31, .caller = 32};
  teach(estimator, third, prompt(100), {25, 500, {}, {}});
  EXPECT_LT(estimator.mean_of(third), 400);
  EXPECT_NEAR(estimator.mean_of({.tenant = 41, .caller = 42}), estimator.view().mean_output, 1e-9);
  EXPECT_LT(estimator.mean_of({.tenant = 11, .caller = 13}), 60) << "his tenant's calls are short";
}

TEST(Estimator, BytesOfATokenAreEachCallersOwn) {
  Estimator estimator(4, 100);
  teach(estimator, kOther, prompt(4000), {1000, 100, {}, {}}, 300);
  teach(estimator, kAcme, prompt(4000), {2000, 100, {}, {}}, 100);
  EXPECT_NEAR(static_cast<double>(estimator.cost(prompt(4000), kAcme).input), 2000, 20);
  EXPECT_NEAR(static_cast<double>(estimator.cost(prompt(4000), kOther).input), 1000, 20);
  teach(estimator, kAcme, prompt(4000), {1'000'000, 100, {}, {}}, 50);
  teach(estimator, kAcme, prompt(4'000'000), {1, 100, {}, {}}, 50);
  EXPECT_NEAR(static_cast<double>(estimator.cost(prompt(4000), kAcme).input), 2000, 20)
      << "what is no text teaches nothing";
}

TEST(Estimator, CachedInputLowersThePaceOnlyWhereItIsNotCounted) {
  for (const bool counts : {true, false}) {
    World world;
    world.policy.deployments[0].cached_input_counted = counts;
    world.policy.deployments[0].rules = {World::rule(Unit::input_tokens, 60'000, seconds(60),
                                                     Enforcement::bucket, Counting::settle)};
    world.policy.deployments[0].burst_percent = 10;
    const auto call = [&] {
      Settlement end;
      end.reported = Usage{1000, 1, 900, std::nullopt};
      world.governor().settle(world.send(world.call(1000, 1)), end, world.now());
      world.time += 10;
    };
    for (int i = 0; i < 100; ++i) call();
    EXPECT_NEAR(world.view().deployments[0].cached_input_ratio, 0.9, 1e-9);
    // Ten thousand tokens of prompt, of which a tenth will be charged.
    world.send(world.call(10'000, 1));
    Call next = world.call(1000, 1);
    next.max_wait = Duration{0};
    const bool admitted = std::holds_alternative<Admitted>(world.submit(next));
    EXPECT_EQ(admitted, !counts) << "the pacer carries what will be charged";
    EXPECT_GE(world.meter(0).used, 10'000) << "the mirror holds all of it until it is known";
  }
}

TEST(Estimator, P95CoversNineteenInTwenty) {
  Estimator estimator(4, 256);
  Rng rng(5);
  const Asked asked = with(kAcme, OutputEstimate::p95);
  int within = 0;
  for (int i = 0; i < 4000; ++i) {
    const double mean = i < 2000 ? 150 : 600;
    const std::int64_t output = 1 + std::llround(rng.log_normal(mean, 1.1));
    const Cost cost = estimator.cost(prompt(100), asked);
    within += output <= cost.output ? 1 : 0;
    estimator.learn(prompt(100), asked, cost, {25, output, {}, {}}, 0);
  }
  EXPECT_NEAR(within / 4000.0, 0.95, 0.01);
  EXPECT_NEAR(estimator.view().p95_coverage, 0.95, 0.02);
  EXPECT_LE(estimator.cost(prompt(100, 10), asked).output, 10) << "never more than the cap";
}

TEST(Estimator, UnknownDeploymentsAreChargedAsThePolicySays) {
  Estimator estimator(4, 256);
  Asked asked = kAcme;
  asked.unknown = OutputEstimate::max_tokens;
  EXPECT_EQ(estimator.cost(prompt(100, 4000), asked).output, 4000);
  EXPECT_EQ(estimator.cost(prompt(100), asked).output, 768);
  EXPECT_EQ(estimator.cost(prompt(100, 4000), kAcme).output, 256);
  teach(estimator, kOther, prompt(100), {25, 50, {}, {}}, 20);
  EXPECT_LT(estimator.cost(prompt(100, 4000), asked).output, 300) << "20 answers are known";
}

// Control.md 13.4, 11: a tenant that forges max_tokens: 1 with 32k answers.
TEST(Cases, ForgedMaxTokensOfOneIsChargedByWhatTheAnswersWere) {
  Estimator estimator(4, 256);
  const Demand forged = prompt(100, 1);
  teach(estimator, kOther, prompt(100, 50), {25, 40, {}, {}}, 100);
  EXPECT_EQ(estimator.cost(forged, kAcme).output, 1) << "nothing is known against him";
  teach(estimator, kAcme, forged, {25, 32'000, {}, {}});
  EXPECT_GT(estimator.cost(forged, kAcme).output, 10'000) << "after one answer";
  EXPECT_GT(estimator.cost(forged, kAcme).reserve_output, 10'000);
  teach(estimator, kAcme, forged, {25, 32'000, {}, {}}, 20);
  EXPECT_NEAR(static_cast<double>(estimator.cost(forged, kAcme).output), 32'000, 3000);
  EXPECT_GT(estimator.cost(forged, {.tenant = 11, .caller = 13}).output, 10'000)
      << "another key of his tenant, of which nothing is known yet";
  EXPECT_EQ(estimator.cost(prompt(100, 7), kOther).output, 7) << "nobody else pays for it";
  EXPECT_EQ(estimator.cost(prompt(100, 7), {.tenant = 51, .caller = 52}).output, 7);
  // One or two tokens over are the provider's, not a lie.
  teach(estimator, kOther, prompt(100, 50), {25, 52, {}, {}});
  EXPECT_EQ(estimator.cost(prompt(100, 7), kOther).output, 7);
  teach(estimator, kAcme, prompt(100, 5), {25, 5, {}, {}}, 80);
  EXPECT_EQ(estimator.cost(forged, kAcme).output, 1) << "in time he is believed again";
}

TEST(Cases, ForgedMaxTokensReachesTheMeters) {
  World world;
  world.policy.deployments[0].rules = {World::rule(Unit::total_tokens, 1'000'000, seconds(60))};
  world.policy.deployments[0].mean_output_tokens = 100;
  world.policy.profiles[0].output = OutputEstimate::mean;
  world.settle(world.send(world.call(10, 1)), 10, 32'000);
  world.time += 100;
  const CallId id = world.send(world.call(10, 1));
  EXPECT_GT(world.meter(0).reserved, 10'000);
  Settlement gone;
  gone.ending = Ending::client_gone;
  Usage charged;
  world.governor().settle(id, gone, world.now(), &charged);
  EXPECT_GT(charged.output_tokens, 10'000) << "leaving before the report hides nothing";
}

TEST(Cases, T044_AbortedStreamsAreChargedWhatWasProducedAtLeast) {
  for (const Ending ending : {Ending::client_gone, Ending::truncated, Ending::completed}) {
    World world;
    world.policy.profiles[0].output = OutputEstimate::p95;
    world.policy.deployments[0].mean_output_tokens = 10;
    world.policy.deployments[0].rules = {World::rule(Unit::total_tokens, 100'000, seconds(60))};
    Settlement end;
    end.ending = ending;
    end.output_events = 500;
    Usage charged;
    Call call = world.call(10);
    call.demand.max_output_tokens.reset();
    world.governor().settle(world.send(call), end, world.now(), &charged);
    EXPECT_EQ(charged.output_tokens, 500);
    end.output_events = 3;
    world.governor().settle(world.send(call), end, world.now(), &charged);
    EXPECT_EQ(charged.output_tokens, 30) << "the estimate is more than what was seen";
  }
}

TEST(Cases, MissingUsageTeachesNothing) {
  World world;
  world.policy.profiles[0].output = OutputEstimate::mean;
  world.policy.deployments[0].mean_output_tokens = 100;
  world.policy.deployments[0].margin.reset();
  world.policy.deployments[0].rules = {World::rule(Unit::total_tokens, 100'000, seconds(60),
                                                   Enforcement::sliding, Counting::settle)};
  const auto remaining = [&] {
    world.time += 1000;
    return world.meter(0).remaining;
  };
  Call call = world.call(1000);
  call.demand.input_tokens.reset();
  call.demand.input_bytes = 1000;
  call.demand.max_output_tokens.reset();
  // The input is half as large again as estimated, so the margin has to grow.
  for (int i = 0; i < 50; ++i) {
    world.settle(world.send(call), i % 2 == 0 ? 500 : 1500, 100);
    world.time += 60;
  }
  const std::int64_t learned = remaining();
  const DeploymentView before = world.view().deployments[0];
  for (int i = 0; i < 500; ++i) {
    world.end(world.send(call), Ending::completed);
    world.time += 60;
  }
  EXPECT_EQ(remaining(), learned) << "an estimate is never compared with itself";
  const DeploymentView after = world.view().deployments[0];
  EXPECT_EQ(after.estimate_error_ratio, before.estimate_error_ratio);
  EXPECT_EQ(after.mean_output_tokens, before.mean_output_tokens);
  EXPECT_EQ(after.bytes_per_token, before.bytes_per_token);
}

TEST(Proposal, OnlyWhereItHelpsAndNeverDownwardsByItself) {
  Estimator estimator(4, 256);
  Asked asked = kAcme;
  asked.propose = true;
  EXPECT_EQ(estimator.cost(prompt(100), asked).proposed, 0) << "nothing is known";
  Rng rng(9);
  const auto run = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      const Cost cost = estimator.cost(prompt(100), asked);
      std::int64_t output = 1 + std::llround(rng.log_normal(700, 1.0));
      if (cost.proposed > 0) output = std::min(output, cost.proposed);
      estimator.learn(prompt(100), asked, cost, {25, output, {}, {}}, 0);
    }
    return estimator.cost(prompt(100), asked).proposed;
  };
  const std::int64_t first = run(1000);
  EXPECT_GT(first, 3000);
  EXPECT_LT(first, 30'000);
  EXPECT_GT(run(20'000), first / 2)
      << "cutting answers short makes no proposal smaller and smaller";
  EXPECT_EQ(estimator.cost(prompt(100), asked).reserve_output,
            estimator.cost(prompt(100), asked).proposed);
  EXPECT_EQ(estimator.cost(prompt(100, 50), asked).proposed, 0) << "the caller's own cap stands";
  teach(estimator, {.tenant = 61, .caller = 62}, prompt(100), {25, 1, {}, {}}, 500);
  asked.tenant = 61;
  asked.caller = 62;
  EXPECT_EQ(estimator.cost(prompt(100), asked).proposed, 256) << "never a handful of tokens";
}

TEST(Proposal, IsInTheGrantWhereTheProviderChargesTheCap) {
  for (const Counting count : {Counting::reserve, Counting::settle}) {
    for (const bool asks : {true, false}) {
      World world;
      world.policy.deployments[0].rules = {
          World::rule(Unit::total_tokens, 10'000'000, seconds(60), Enforcement::sliding, count)};
      world.policy.profiles[0].propose_max_tokens = asks;
      Call call = world.call(10);
      call.demand.max_output_tokens.reset();
      for (int i = 0; i < 250; ++i) {
        world.settle(world.send(call), 10, 400);
        world.time += 10;
      }
      const auto grant = world.governor().grant_of(world.admit(call));
      ASSERT_TRUE(grant.has_value());
      EXPECT_EQ(grant->propose_max_tokens.has_value(), asks && count == Counting::reserve);
      EXPECT_NEAR(static_cast<double>(grant->propose_max_tokens.value_or(500)), 500, 200);
    }
  }
}

TEST(DebtAlarms, NameTheTenantWhoseCallsCostMoreThanTheyWereCharged) {
  World world;
  world.policy.profiles[0].output = OutputEstimate::max_tokens;
  world.policy.nodes.push_back({"other", NodeKind::tenant, NodeId(0), {}, Mode::enforce});
  Rng rng(2);
  const auto call = [&](NodeId leaf, std::int64_t cap, double mean) {
    Call made = world.call(10, cap);
    made.leaf = leaf;
    world.settle(world.send(made), 10, 1 + std::llround(rng.exponential(mean)));
    world.time += 1;
  };
  for (int i = 0; i < 400; ++i) {
    call(NodeId(2), 100, 100);
    call(NodeId(4), 100, 50);
  }
  EXPECT_FALSE(world.governor().has_debt_alarms());
  for (int i = 0; i < 400; ++i) {
    // Within what is taken for the provider's rounding, so that the caps are believed.
    Call made = world.call(10, 100);
    made.demand.input_tokens = 1;
    world.settle(world.send(made), 30, 100);
    world.time += 1;
    call(NodeId(4), 100, 50);
  }
  EXPECT_TRUE(world.governor().has_debt_alarms());
  const std::vector<DebtAlarm> alarms = world.governor().take_debt_alarms();
  ASSERT_EQ(alarms.size(), 1U) << "once, not with every call";
  EXPECT_EQ(alarms[0].tenant, "acme");
  EXPECT_EQ(alarms[0].deployment, "main");
  EXPECT_EQ(alarms[0].unit, Unit::input_tokens);
  EXPECT_GT(alarms[0].settled, 1.5 * alarms[0].charged);
  EXPECT_FALSE(world.governor().has_debt_alarms());
}

TEST(Estimates, AreEachTenantsOwnAndStayOverAReload) {
  World world;
  world.policy.profiles[0].output = OutputEstimate::mean;
  world.policy.deployments[0].mean_output_tokens = 256;
  world.policy.nodes.push_back({"other", NodeKind::tenant, NodeId(0), {}, Mode::enforce});
  const auto estimated = [&](NodeId leaf) {
    Call made = world.call(10);
    made.leaf = leaf;
    made.demand.max_output_tokens.reset();
    const CallId id = world.admit(made);
    const std::int64_t output = world.governor().grant_of(id)->reserved.output_tokens;
    world.governor().sent(id, world.now());
    world.settle(id, 10, leaf == NodeId(2) ? 20 : 2000);
    return output;
  };
  for (int i = 0; i < 300; ++i) {
    estimated(NodeId(2));
    estimated(NodeId(4));
  }
  EXPECT_NEAR(static_cast<double>(estimated(NodeId(2))), 20, 2);
  EXPECT_NEAR(static_cast<double>(estimated(NodeId(4))), 2000, 60);
  // The names keep what is known of them, whatever their numbers are.
  std::swap(world.policy.nodes[3], world.policy.nodes[4]);
  world.policy.profiles[0].node = NodeId(4);
  world.reload();
  EXPECT_NEAR(static_cast<double>(estimated(NodeId(3))), 2000, 60);
  EXPECT_NEAR(static_cast<double>(estimated(NodeId(2))), 20, 2);
}

}  // namespace
}  // namespace weir::governor
