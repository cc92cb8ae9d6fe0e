// SPDX-License-Identifier: Apache-2.0
#include "governor/congestion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <vector>

#include "governor/governor_test.h"
#include "weir/rng.h"

namespace weir::governor {
namespace {

/// A provider and its clients in a few lines: calls come at random and wait for the limit; how long
/// they take is the test's to say. Calls under way are what counts, as in the governor.
class Traffic {
 public:
  struct Call {
    Instant ends;
    Congestion::Of of;
    double input = 0, output = 0, seconds = 0;
    bool failed = false;
    bool operator>(const Call& other) const { return ends > other.ends; }
  };
  /// Seconds that a call of these lengths takes when it is the n-th in flight; below 0: a 503.
  using Takes = std::function<double(double input, double output, std::int64_t n, double now)>;

  explicit Traffic(std::uint64_t seed) : rng(seed) {}

  void run(double until, double per_second, const Takes& takes) {
    double arrival = time + rng.exponential(1 / per_second);
    while (true) {
      const double end = running.empty() ? until : to_seconds(running.top().ends - Instant{});
      const double next = std::min({arrival, end, until});
      time = next;
      if (next >= until) return;
      if (next == arrival) {
        ++waiting;
        arrival += rng.exponential(1 / per_second);
      } else {
        finish(running.top());
        running.pop();
      }
      while (waiting > 0 && (congestion.limit() == 0 || inflight() < congestion.limit())) {
        --waiting;
        start(takes);
      }
      most_limited = std::max(most_limited, congestion.limit() > 0 ? time : 0);
    }
  }

  [[nodiscard]] std::int64_t inflight() const { return static_cast<std::int64_t>(running.size()); }

  Congestion congestion;
  Rng rng;
  double time = 0;
  std::int64_t served = 0, refused = 0, waiting = 0;
  double most_limited = 0;
  std::priority_queue<Call, std::vector<Call>, std::greater<>> running;

 private:
  [[nodiscard]] Instant now() const { return Instant(from_seconds(time)); }

  void start(const Takes& takes) {
    Call call;
    call.input = rng.log_normal(500, 0.6);
    call.output = rng.log_normal(200, 0.6);
    call.of = {inflight() + 1, now()};
    call.seconds = takes(call.input, call.output, call.of.inflight, time);
    call.failed = call.seconds < 0;
    call.ends = now() + from_seconds(call.failed ? 0.05 : call.seconds);
    running.push(call);
    congestion.granted(inflight(), now());
  }

  void finish(const Call& call) {
    if (call.failed) {
      ++refused;
      congestion.overloaded(call.of, now());
      return;
    }
    ++served;
    congestion.whole(call.of, from_seconds(call.seconds), static_cast<std::int64_t>(call.input),
                     static_cast<std::int64_t>(call.output), now());
  }
};

double plain(double input, double output) { return 0.3 + input * 0.0001 + output * 0.02; }

TEST(Congestion, AKneeIsFoundAndHeld) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    Traffic traffic(seed);
    const auto knee = [&](double input, double output, std::int64_t n, double) {
      const double slow = std::max(1.0, static_cast<double>(n) / 32);
      return plain(input, output) * slow * traffic.rng.log_normal(1, 0.1);
    };
    // At the knee 32 calls of about 4.4 s: 7.3 a second. Twice that comes.
    traffic.run(120, 14.6, knee);
    EXPECT_EQ(traffic.congestion.state(), Congestion::State::holding) << seed;
    const std::int64_t before = traffic.served;
    double mean = 0;
    for (int minute = 0; minute < 10; ++minute) {
      traffic.run(120 + (minute + 1) * 60, 14.6, knee);
      mean += static_cast<double>(traffic.congestion.limit()) / 10;
      EXPECT_GE(traffic.congestion.limit(), 26) << seed;
      EXPECT_LE(traffic.congestion.limit(), 48) << seed;
    }
    EXPECT_NEAR(mean, 36, 7) << seed;
    EXPECT_GT(static_cast<double>(traffic.served - before), 600 * 7.3 * 0.93) << seed;
    EXPECT_EQ(traffic.congestion.holds(), 1) << seed;
  }
}

TEST(Congestion, AKneeThatIsGoneIsNotKept) {
  Traffic traffic(1);
  const auto knee = [](double input, double output, std::int64_t n, double now) {
    const double at = now < 300 ? 32 : 400;
    return plain(input, output) * std::max(1.0, static_cast<double>(n) / at);
  };
  traffic.run(300, 12, knee);
  ASSERT_EQ(traffic.congestion.state(), Congestion::State::holding);
  traffic.waiting = 0;
  traffic.run(600, 40, knee);
  EXPECT_LT(traffic.waiting, 20);
  EXPECT_GT(traffic.inflight(), 120);
  // Nobody reaches the limit any more, so in the end there is none.
  traffic.run(1800, 40, knee);
  EXPECT_EQ(traffic.congestion.limit(), 0);
}

TEST(Congestion, NothingHoldsWhereOnlyLengthsTellCallsApart) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
    Traffic traffic(seed);
    const auto takes = [&](double input, double output, std::int64_t, double now) {
      // More and more prompts are ten times as long.
      const bool large = traffic.rng.uniform() < now / 3600;
      return plain(large ? input * 10 : input, output) * traffic.rng.log_normal(1, 0.1);
    };
    traffic.run(1800, 20, takes);
    EXPECT_EQ(traffic.congestion.holds(), 0) << seed;
  }
}

TEST(Congestion, TwoKindsOfBackEndsAreNoCongestion) {
  for (const double slow_share : {0.1, 0.3, 0.5, 0.7}) {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      Traffic traffic(seed);
      const auto takes = [&](double input, double output, std::int64_t, double) {
        const bool slow = traffic.rng.uniform() < slow_share;
        return plain(input, output) * (slow ? 6.0 : 1.0) * traffic.rng.log_normal(1, 0.15);
      };
      traffic.run(1800, 10, takes);
      EXPECT_EQ(traffic.congestion.holds(), 0) << slow_share << " " << seed;
      EXPECT_EQ(traffic.congestion.limit(), 0) << slow_share << " " << seed;
    }
  }
}

TEST(Congestion, ASlowerModelIsTheNewNormal) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    Traffic traffic(seed);
    const auto takes = [&](double input, double output, std::int64_t, double now) {
      return plain(input, output) * (now < 600 ? 1 : 2) * traffic.rng.log_normal(1, 0.1);
    };
    traffic.run(600, 10, takes);
    traffic.run(1500, 10, takes);
    EXPECT_EQ(traffic.congestion.holds(), 0) << seed;
    EXPECT_LT(traffic.waiting, 20) << seed;
    EXPECT_LT(traffic.most_limited, 720) << seed;
  }
}

TEST(Congestion, RefusalsBeyondADepthAreHeldBelowIt) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    Traffic traffic(seed);
    const auto takes = [](double input, double output, std::int64_t n, double) {
      return n > 32 ? -1.0 : plain(input, output);
    };
    traffic.run(120, 14, takes);
    EXPECT_EQ(traffic.congestion.state(), Congestion::State::holding) << seed;
    const std::int64_t served = traffic.served;
    const std::int64_t refused = traffic.refused;
    traffic.run(1320, 14, takes);
    const auto answered = static_cast<double>(traffic.served - served);
    EXPECT_GT(answered, 1200 * 7.3 * 0.93) << seed;
    EXPECT_LT(static_cast<double>(traffic.refused - refused), 0.02 * answered) << seed;
  }
}

TEST(Congestion, RefusalsThatHaveNothingToDoWithNumbersHoldNothing) {
  for (const double share : {0.02, 0.1, 0.3}) {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      Traffic traffic(seed);
      const auto takes = [&](double input, double output, std::int64_t, double) {
        return traffic.rng.uniform() < share ? -1.0 : plain(input, output);
      };
      traffic.run(3600, 10, takes);
      // Trials take place, and each makes some wait. Nearly all get through all the same.
      EXPECT_LE(traffic.congestion.holds(), 2) << share << " " << seed;
      EXPECT_LT(traffic.waiting, 600) << share << " " << seed;
    }
  }
}

TEST(Congestion, TheFloorIsOneCall) {
  Congestion congestion;
  Instant now{};
  for (int i = 0; i < 2000; ++i) {
    now += std::chrono::milliseconds(500);
    const std::int64_t inflight = std::max<std::int64_t>(1, congestion.limit());
    congestion.granted(inflight, now);
    congestion.overloaded({inflight, now}, now);
    EXPECT_GE(congestion.limit(), i < 3 ? 0 : 1);
  }
  EXPECT_EQ(congestion.limit(), 1);
}

// Through the governor: a knee shows in the times of streams, calls wait for the limit it sets, and
// who may not wait is told that it is calls in flight that are short, at the deployment.
TEST(Congestion, WhoWaitsForItIsToldOfConcurrency) {
  World world;
  world.policy.deployments[0].strategy = Strategy::adaptive;
  world.policy.deployments[0].rules = {
      World::rule(Unit::requests, 1'000'000, std::chrono::seconds(60))};
  world.policy.classes[0].max_wait = Duration{0};
  Call call = world.call(100, 100);
  call.demand.streaming = true;
  Rng rng(7);
  struct Stream {
    double first, ends;
    bool begun = false;
    CallId id;
  };
  std::vector<Stream> open;
  std::optional<Refusal> refused;
  const double begins = world.time;
  double arrival = world.time;
  while (world.time < begins + 300) {
    world.time += 0.01;
    for (Stream& stream : open) {
      if (stream.begun || world.time < stream.first) continue;
      stream.begun = true;
      world.governor().progress(stream.id, 1, world.now());
    }
    std::erase_if(open, [&](const Stream& stream) {
      if (world.time < stream.ends) return false;
      Settlement settlement;
      settlement.output_events = 100;
      settlement.reported = Usage{100, 100, std::nullopt, std::nullopt};
      world.governor().settle(stream.id, settlement, world.now());
      return true;
    });
    if (world.time < arrival) continue;
    arrival = world.time + rng.exponential(1 / (world.time < begins + 60 ? 4.0 : 12.0));
    const Outcome outcome = world.submit(call);
    if (const auto* no = std::get_if<Refused>(&outcome)) {
      refused = no->refusal;
      continue;
    }
    const CallId id = std::get<Admitted>(outcome).call;
    world.governor().sent(id, world.now());
    const double slow = std::max(1.0, static_cast<double>(open.size() + 1) / 16);
    const double noise = rng.log_normal(1, 0.05);
    open.push_back({world.time + 0.2 * slow * noise, world.time + 2.2 * slow * noise, false, id});
  }
  const DeploymentView view = world.view().deployments[0];
  EXPECT_TRUE(view.congested);
  EXPECT_GE(view.congestion_limit, 10);
  EXPECT_LE(view.congestion_limit, 28);
  EXPECT_LE(view.inflight, view.congestion_limit);
  EXPECT_EQ(view.meters.size(), 1U);
  EXPECT_NEAR(view.normal_token_seconds, 0.02, 0.006);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->limit.unit, Unit::concurrency);
  EXPECT_TRUE(refused->limit.deployment.valid());
  EXPECT_TRUE(refused->retry_after.has_value());
  ASSERT_TRUE(world.governor().has_congestion_notes());
  const std::vector<CongestionNote> notes = world.governor().take_congestion_notes();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].deployment, "main");
  EXPECT_GT(notes[0].limit, 0);
  // A reload keeps what was found; another strategy does without.
  world.reload();
  EXPECT_EQ(world.view().deployments[0].congestion_limit, view.congestion_limit);
  world.policy.deployments[0].strategy = Strategy::shaping;
  world.reload();
  EXPECT_EQ(world.view().deployments[0].congestion_limit, 0);
  for (int i = 0; i < 100; ++i) world.send(call);
}

// A provider that answers 503 says nothing of its quotas, and what it kept of them stays known.
TEST(Congestion, OverloadAnswersLeaveWhatIsKnownOfQuotasAlone) {
  World world;
  world.policy.deployments[0].strategy = Strategy::adaptive;
  world.policy.deployments[0].retry.attempts = 1;
  world.policy.deployments[0].rules = {
      World::rule(Unit::requests, 6000, std::chrono::seconds(60)),
      World::rule(Unit::total_tokens, 6'000'000, std::chrono::seconds(60))};
  for (const SignalClass kind :
       {SignalClass::overloaded, SignalClass::timeout, SignalClass::server_error}) {
    for (int i = 0; i < 50; ++i) {
      world.time += 0.1;
      const CallId id = world.send(world.call(100, 100));
      world.time += 0.01;
      Signal signal;
      signal.kind = kind;
      signal.status = 503;
      world.governor().rejected(id, signal, false, world.now());
    }
  }
  const Snapshot view = world.view();
  ASSERT_EQ(view.deployments[0].meters.size(), 2U);
  for (const MeterView& meter : view.deployments[0].meters) {
    EXPECT_EQ(meter.kept, meter.rule.amount);
    EXPECT_FALSE(meter.guessed);
    EXPECT_EQ(meter.evidence, 0);
  }
  EXPECT_EQ(view.deployments[0].rejections, 0);
}

}  // namespace
}  // namespace weir::governor
