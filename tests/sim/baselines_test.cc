// SPDX-License-Identifier: Apache-2.0
#include "sim/baseline_strategies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/compare.h"
#include "sim/harness.h"

namespace weir::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

std::shared_ptr<const Policy> policy_of(std::vector<Rule> rules, Duration max_wait = minutes(5)) {
  Scenario scenario;
  scenario.told.rules = std::move(rules);
  scenario.told.max_wait = max_wait;
  return std::make_shared<const Policy>(make_policy(scenario, 1));
}

Rule requests(std::int64_t amount, Duration window = minutes(1)) {
  return {Unit::requests, amount, window, Enforcement::sliding, Counting::settle, std::nullopt};
}
Rule tokens(std::int64_t amount, Counting count = Counting::settle) {
  return {Unit::total_tokens, amount, minutes(1), Enforcement::sliding, count, std::nullopt};
}

std::unique_ptr<GovernorPort> make(std::string_view name, std::shared_ptr<const Policy> policy,
                                   std::uint64_t seed = 1) {
  return find_baseline(name)->make(std::move(policy), seed, Instant{});
}

Call call_of(std::uint64_t cookie, std::int64_t input_tokens = 100) {
  Call call;
  call.leaf = NodeId(1);
  call.profile = ProfileId(0);
  call.traffic_class = ClassId(0);
  call.demand.input_tokens = input_tokens;
  call.cookie = cookie;
  return call;
}

/// Submits `count` calls at once and says when each may go.
std::vector<Duration> departures(GovernorPort& port, int count, Instant from = Instant{}) {
  std::map<std::uint64_t, Duration> left;
  for (int index = 0; index < count; ++index) {
    const auto cookie = static_cast<std::uint64_t>(index);
    const governor::Outcome outcome = port.submit(call_of(cookie), from);
    if (std::holds_alternative<governor::Admitted>(outcome)) left[cookie] = Duration{0};
  }
  std::vector<governor::Event> events;
  while (port.next_deadline() != kNever && left.size() < static_cast<std::size_t>(count)) {
    const Instant now = std::max(port.next_deadline(), from);
    events.clear();
    port.advance(now, events);
    for (const governor::Event& event : events) {
      if (std::holds_alternative<Grant>(event.what)) left[event.cookie] = now - from;
    }
  }
  std::vector<Duration> times;
  for (const auto& [cookie, at] : left) times.push_back(at);
  return times;
}

Signal refusal() {
  Signal signal;
  signal.kind = SignalClass::rate_limited;
  signal.status = 429;
  return signal;
}

/// The pauses before each further attempt of a call that is refused every time.
std::vector<Duration> pauses(GovernorPort& port) {
  std::vector<Duration> found;
  Instant now{};
  const governor::Outcome outcome = port.submit(call_of(0), now);
  const CallId id = std::get<governor::Admitted>(outcome).call;
  std::vector<governor::Event> events;
  while (true) {
    const governor::Verdict verdict = port.rejected(id, refusal(), true, now);
    if (std::holds_alternative<governor::GaveUp>(verdict)) return found;
    const Instant from = now;
    events.clear();
    while (events.empty()) {
      now = std::max(now, port.next_deadline());
      port.advance(now, events);
    }
    found.push_back(now - from);
  }
}

TEST(Baselines, FullJitterStaysBelowItsDoublingBoundAndTriesSixTimes) {
  std::vector<Duration> longest(5);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto port = make("retry-jitter", policy_of({requests(600)}), seed);
    const std::vector<Duration> found = pauses(*port);
    ASSERT_EQ(found.size(), 5U);
    for (std::size_t index = 0; index < 5; ++index) {
      const Duration bound = seconds(1LL << (index + 1));
      EXPECT_LE(found[index], bound);
      longest[index] = std::max(longest[index], found[index]);
    }
  }
  // It is U(0, bound): of 200 draws some come close to the bound.
  for (std::size_t index = 0; index < 5; ++index) {
    EXPECT_GT(longest[index], seconds(1LL << (index + 1)) * 9 / 10);
  }
}

TEST(Baselines, FixedRetryWaitsTheSameEachTime) {
  const auto port = make("retry-fixed", policy_of({requests(600)}));
  EXPECT_EQ(pauses(*port), std::vector<Duration>(5, seconds(12)));
}

TEST(Baselines, WithoutAGovernorTheFirst429IsTheLast) {
  const auto port = make("none", policy_of({requests(1)}));
  EXPECT_EQ(departures(*port, 50), std::vector<Duration>(50));
  EXPECT_TRUE(pauses(*port).empty());
}

TEST(Baselines, AFullBucketSendsAQuotaAtOnceAndThenOneAnInterval) {
  const auto port = make("bucket-full", policy_of({requests(60)}));
  const std::vector<Duration> times = departures(*port, 60);
  EXPECT_EQ(times.back(), Duration{0});
  const auto empty = make("bucket-empty", policy_of({requests(60)}));
  const std::vector<Duration> paced = departures(*empty, 5);
  for (std::size_t index = 0; index < 5; ++index) {
    const auto due = seconds(static_cast<std::int64_t>(index) + 1);
    EXPECT_NEAR(to_seconds(paced[index]), to_seconds(due), 1e-6);
  }
}

TEST(Baselines, TheSemaphoreHoldsBackWhatTheBucketWouldLetGo) {
  const Rule slots{Unit::concurrency, 2,           Duration{0}, Enforcement::sliding,
                   Counting::settle,  std::nullopt};
  const auto port = make("bucket-full", policy_of({requests(60), slots}));
  std::vector<CallId> under_way;
  for (std::uint64_t index = 0; index < 3; ++index) {
    const governor::Outcome outcome = port->submit(call_of(index), Instant{});
    if (const auto* admitted = std::get_if<governor::Admitted>(&outcome)) {
      under_way.push_back(admitted->call);
    }
  }
  ASSERT_EQ(under_way.size(), 2U);
  EXPECT_EQ(port->settle(under_way[0], {}, Instant(seconds(1))), governor::Settled::settled);
  EXPECT_EQ(port->settle(under_way[0], {}, Instant(seconds(1))),
            governor::Settled::already_settled);
  std::vector<governor::Event> events;
  port->advance(Instant(seconds(1)), events);
  EXPECT_EQ(events.size(), 1U);
}

TEST(Baselines, TheShaperPacesWarmsUpAndPaysForOutputAfterwards) {
  const auto port = make("dual-bucket", policy_of({requests(600), tokens(60'000)}));
  // 1000 tokens a second; warm-up from a tenth, and 100 tokens a call: far less than 10/s at first.
  const std::vector<Duration> times = departures(*port, 100);
  ASSERT_EQ(times.size(), 100U);
  EXPECT_GT(times[0], milliseconds(400));
  for (std::size_t index = 1; index < times.size(); ++index) {
    EXPECT_GE(times[index] - times[index - 1], milliseconds(100) - Duration(1));
  }
  // Warm: one call that produced 6000 tokens holds the next back by about six seconds.
  const auto warm = make("dual-bucket", policy_of({requests(600), tokens(60'000)}));
  departures(*warm, 200);
  const Instant later{minutes(1)};
  const auto first = warm->submit(call_of(900), later);
  ASSERT_TRUE(std::holds_alternative<governor::Admitted>(first));
  Settlement large;
  large.reported = Usage{100, 66'000, {}, {}};
  warm->settle(std::get<governor::Admitted>(first).call, large, later + milliseconds(200));
  EXPECT_TRUE(std::holds_alternative<governor::Queued>(
      warm->submit(call_of(901), later + milliseconds(400))));
  EXPECT_GT(warm->next_deadline(), later + seconds(5));
}

TEST(Baselines, PatienceEndsInLineAndTakesNothing) {
  const auto port = make("bucket-empty", policy_of({requests(1)}, seconds(2)));
  ASSERT_TRUE(std::holds_alternative<governor::Queued>(port->submit(call_of(1), Instant{})));
  std::vector<governor::Event> events;
  EXPECT_EQ(port->next_deadline(), Instant(seconds(2)));
  port->advance(Instant(seconds(2)), events);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(std::get<Refusal>(events[0].what).decision, Decision::queue_timeout);
  governor::Snapshot snapshot;
  port->snapshot(snapshot, Instant(seconds(2)));
  EXPECT_EQ(snapshot.queued, 0);
  EXPECT_EQ(snapshot.inflight, 0);
}

TEST(Baselines, ProbingFindsAHiddenLimitAndComesDownOnceADrain) {
  Scenario world;
  world.horizon = minutes(20);
  world.measure_from = minutes(5);
  world.workload.output_mean = 100;
  world.provider.rules = {requests(1200)};
  world.told.rules = {requests(2000)};
  world.told.max_wait = seconds(30);
  set_load(world, 1.6);
  const Report report = run(world, 3, find_baseline("ebp")->make);
  EXPECT_GT(report.use, 0.93) << "a weak copy would flatter the governor beside it";
  EXPECT_LT(report.share_429(), 0.01);
  EXPECT_GT(report.books.rejected, 0) << "it cannot learn without";
}

/// The harness's own checkers watch the baselines too: no call is lost, stuck or late, and equal
/// seeds decide equally.
TEST(Baselines, EachKeepsItsBooksUnderFaultsAndAborts) {
  for (const BaselineStrategy& one : baseline_strategies()) {
    Scenario world;
    world.horizon = minutes(3);
    world.workload.arrivals.rates = {{Duration{0}, 3}};
    world.workload.abort_share = 0.2;
    world.workload.abort_after = seconds(10);
    world.faults.server_error = 0.02;
    world.faults.reset_inside = 0.02;
    world.network.handshake_share = 0.1;
    world.network.handshake = milliseconds(80);
    world.provider.rules = {requests(60), tokens(60'000)};
    world.told.rules = world.provider.rules;
    const Report first = run(world, 5, one.make);
    for (const char* checker : {"stuck", "slots", "books", "protocol", "late", "open"}) {
      EXPECT_FALSE(first.violations.by(checker)) << one.name << " " << checker;
    }
    EXPECT_EQ(first.digest, run(world, 5, one.make).digest) << one.name;
    EXPECT_GT(first.books.served, 50) << one.name;
  }
}

}  // namespace
}  // namespace weir::sim
