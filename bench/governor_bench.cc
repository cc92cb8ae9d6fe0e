// SPDX-License-Identifier: Apache-2.0
// What a decision costs: submit, sent and settle over four levels of nodes and four rules.
#include <benchmark/benchmark.h>

#include <memory>

#include "weir/governor.h"

namespace {

using namespace weir;
using std::chrono::seconds;

std::shared_ptr<Policy> policy(Strategy strategy = Strategy::shaping) {
  const auto rule = [](Unit unit, std::int64_t amount, Duration window) {
    Rule made;
    made.unit = unit;
    made.amount = amount;
    made.window = window;
    made.enforce = Enforcement::sliding;
    return made;
  };
  const std::vector<Rule> rules = {rule(Unit::requests, 1'000'000'000, seconds(60)),
                                   rule(Unit::input_tokens, 1'000'000'000'000, seconds(60)),
                                   rule(Unit::output_tokens, 1'000'000'000'000, seconds(60)),
                                   rule(Unit::concurrency, 100'000, seconds(0))};
  auto made = std::make_shared<Policy>();
  made->nodes = {{"org", NodeKind::organization, NodeId(), rules, Mode::enforce},
                 {"acme", NodeKind::tenant, NodeId(0), rules, Mode::enforce},
                 {"acme/one", NodeKind::key, NodeId(1), rules, Mode::enforce}};
  DeploymentPolicy deployment;
  deployment.name = "main";
  deployment.rules = rules;
  deployment.start_level = 1;
  deployment.strategy = strategy;
  made->deployments.push_back(deployment);
  ProfilePolicy profile;
  profile.name = "*";
  profile.candidates = {{DeploymentId(0), 0, 1}};
  made->profiles.push_back(profile);
  made->classes.emplace_back();
  return made;
}

void reserve_and_settle(benchmark::State& state) {
  Instant now{seconds(1000)};
  governor::Governor governor(policy(), 1, now);
  Call call;
  call.leaf = NodeId(2);
  call.profile = ProfileId(0);
  call.traffic_class = ClassId(0);
  call.demand.input_bytes = 1200;
  Settlement settlement;
  settlement.reported = Usage{300, 200, std::nullopt, std::nullopt};
  for ([[maybe_unused]] auto _ : state) {
    now += std::chrono::microseconds(10);
    const governor::Outcome outcome = governor.submit(call, now);
    const CallId id = std::get<governor::Admitted>(outcome).call;
    governor.sent(id, now);
    benchmark::DoNotOptimize(governor.settle(id, settlement, now));
  }
}
BENCHMARK(reserve_and_settle);

/// A stream with four reports of its progress: what strategy adaptive learns from.
void stream(benchmark::State& state, Strategy strategy) {
  Instant now{seconds(1000)};
  governor::Governor governor(policy(strategy), 1, now);
  Call call;
  call.leaf = NodeId(2);
  call.profile = ProfileId(0);
  call.traffic_class = ClassId(0);
  call.demand.input_bytes = 1200;
  call.demand.streaming = true;
  Settlement settlement;
  settlement.reported = Usage{300, 200, std::nullopt, std::nullopt};
  settlement.output_events = 200;
  for ([[maybe_unused]] auto _ : state) {
    const governor::Outcome outcome = governor.submit(call, now);
    const CallId id = std::get<governor::Admitted>(outcome).call;
    governor.sent(id, now);
    for (std::int64_t events = 1; events < 200; events += 66) {
      now += std::chrono::microseconds(2);
      governor.progress(id, events, now);
    }
    now += std::chrono::microseconds(2);
    benchmark::DoNotOptimize(governor.settle(id, settlement, now));
  }
}
void stream_shaped(benchmark::State& state) { stream(state, Strategy::shaping); }
BENCHMARK(stream_shaped);
void stream_adaptive(benchmark::State& state) { stream(state, Strategy::adaptive); }
BENCHMARK(stream_adaptive);

}  // namespace

BENCHMARK_MAIN();
