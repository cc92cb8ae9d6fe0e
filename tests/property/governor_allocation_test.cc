// SPDX-License-Identifier: Apache-2.0
// The steady state of submit, sent, progress and settle allocates nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "governor/governor_test.h"

namespace {
std::size_t allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace weir::governor {
namespace {

void run_steadily(Strategy strategy) {
  using std::chrono::seconds;
  World world;
  world.policy.deployments[0].strategy = strategy;
  world.policy.deployments[0].rules = {
      World::rule(Unit::requests, 600, seconds(60)),
      World::rule(Unit::total_tokens, 600000, seconds(60), Enforcement::bucket, Counting::settle),
      World::rule(Unit::concurrency, 50, seconds(0))};
  world.policy.nodes[1].limits = {World::rule(Unit::requests, 590, seconds(60)),
                                  World::rule(Unit::total_tokens, 600000, seconds(60))};
  Governor& governor = world.governor();
  Call call = world.call(300, 300);
  call.demand.streaming = strategy == Strategy::adaptive;
  std::vector<Event> events;
  events.reserve(64);
  std::vector<CallId> running(64);
  std::size_t count = 0;
  std::size_t granted = 0;
  const auto go = [&](CallId id) {
    governor.sent(id, world.now());
    governor.progress(id, 20, world.now());
    running[count++] = id;
    ++granted;
  };
  // Twelve calls a second against ten allowed: some are granted at once, most wait, some time out.
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      world.time += 1.0 / 12;
      if (count > 40) {
        for (std::size_t j = 0; j < count; ++j) {
          Settlement settlement;
          settlement.ending = Ending::completed;
          settlement.output_events = 150;
          settlement.reported = Usage{310, 150, std::nullopt, std::nullopt};
          governor.settle(running[j], settlement, world.now());
        }
        count = 0;
      }
      const Outcome outcome = governor.submit(call, world.now());
      if (const auto* admitted = std::get_if<Admitted>(&outcome)) go(admitted->call);
      while (governor.next_deadline() <= world.now()) {
        events.clear();
        governor.advance(world.now(), events);
        for (const Event& event : events) {
          if (std::holds_alternative<Grant>(event.what)) go(event.call);
        }
      }
    }
  };
  run(12 * 300);
  const std::size_t before = allocations;
  granted = 0;
  run(12 * 300);
  EXPECT_EQ(allocations - before, 0U);
  EXPECT_GT(granted, 2800U);
}

TEST(GovernorAllocation, SteadyStateAllocatesNothing) { run_steadily(Strategy::shaping); }
TEST(GovernorAllocation, NorDoesWhatLearnsFromStreams) { run_steadily(Strategy::adaptive); }

}  // namespace
}  // namespace weir::governor
