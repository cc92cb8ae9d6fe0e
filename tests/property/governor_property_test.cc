// SPDX-License-Identifier: Apache-2.0
// Random operations against the governor, judged by naive models that share no code with it.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <deque>
#include <map>

#include "governor/governor_test.h"
#include "weir/rng.h"

namespace weir::governor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Charge {
  Instant at;
  std::int64_t amount = 0;
};

/// The largest sum of charges in any half-open window.
std::int64_t largest_window(const std::vector<Charge>& charges, Duration window) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    std::int64_t sum = 0;
    for (std::size_t j = i; j < charges.size() && charges[j].at < charges[i].at + window; ++j) {
      sum += charges[j].amount;
    }
    most = std::max(most, sum);
  }
  return most;
}

/// One random life of a governor, with everything that a checker needs to know of it.
class RandomLife {
 public:
  explicit RandomLife(std::uint64_t seed) : rng_(seed) {
    const auto pick = [&](std::initializer_list<int> of) {
      return *(of.begin() + rng_.below(of.size()));
    };
    requests_ = World::rule(Unit::requests, pick({1, 3, 10, 40}), seconds(pick({1, 10, 60})),
                            rng_.below(2) == 0 ? Enforcement::sliding : Enforcement::unknown);
    tokens_ = World::rule(Unit::total_tokens, pick({100, 1000, 5000}), seconds(pick({10, 60})),
                          Enforcement::fixed,
                          rng_.below(2) == 0 ? Counting::reserve : Counting::reserve_refund);
    slots_ = World::rule(Unit::concurrency, pick({1, 4, 20}), seconds(0));
    tenant_ = World::rule(Unit::requests, pick({2, 8, 30}), seconds(30));
    world_.policy.deployments[0].rules = {requests_, tokens_, slots_};
    world_.policy.nodes[1].limits = {tenant_};
    world_.policy.deployments[0].retry.attempts = 3;
    world_.policy.deployments[0].lease = std::chrono::hours(1);
    world_.policy.classes[0].max_wait = seconds(20);
    world_.policy.classes[0].depth = 50;
    world_.policy.nodes.push_back({"blue", NodeKind::tenant, NodeId(0), {}, Mode::enforce});
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      drain();
      check_level();
    }
    finish();
  }

  std::uint64_t digest = 1469598103934665603ULL;
  std::vector<Charge> sent_requests, sent_tokens, tenant_requests;
  World world_;
  Rule requests_, tokens_, slots_, tenant_;

 private:
  struct Running {
    CallId id;
    std::int64_t reserve = 0;
    bool sent = false;
    Instant granted_at;
    std::size_t tenant_charge = SIZE_MAX;
    std::size_t charge = SIZE_MAX;
  };

  void mix(std::uint64_t value) { digest = (digest ^ value) * 1099511628211ULL; }

  void granted(CallId id, const Grant& grant, std::uint64_t cookie) {
    mix(id.slot * 31 + static_cast<std::uint64_t>(grant.decision));
    mix(static_cast<std::uint64_t>(world_.now().time_since_epoch().count()));
    const bool acme = cookie % 2 == 1;
    Running running;
    running.id = id;
    running.reserve = static_cast<std::int64_t>(cookie / 2);
    running.granted_at = world_.now();
    if (acme) {
      running.tenant_charge = tenant_requests.size();
      tenant_requests.push_back({world_.now(), 1});
    }
    running_.push_back(running);
  }

  void drain() {
    for (int rounds = 0; rounds < 1000; ++rounds) {
      std::vector<Event> events;
      const bool more = world_.governor().advance(world_.now(), events);
      for (const Event& event : events) {
        if (const auto* grant = std::get_if<Grant>(&event.what)) {
          granted(event.call, *grant, event.cookie);
        } else {
          mix(event.call.slot * 37);
        }
        std::erase(waiting_, event.call);
      }
      if (!more && world_.governor().next_deadline() > world_.now()) return;
    }
    FAIL() << "advance never comes to rest";
  }

  void submit() {
    const bool acme = rng_.below(2) == 0;
    Call call = world_.call(static_cast<std::int64_t>(rng_.below(60)),
                            static_cast<std::int64_t>(rng_.below(60)));
    if (!acme) call.leaf = NodeId(4);
    const std::int64_t reserve = *call.demand.input_tokens + *call.demand.max_output_tokens;
    call.cookie = static_cast<std::uint64_t>(reserve) * 2 + (acme ? 1 : 0);
    if (rng_.below(4) == 0) call.max_wait = milliseconds(rng_.below(3000));
    const Outcome outcome = world_.submit(call);
    if (const auto* admitted = std::get_if<Admitted>(&outcome)) {
      granted(admitted->call, admitted->grant, call.cookie);
    } else if (const auto* queued = std::get_if<Queued>(&outcome)) {
      waiting_.push_back(queued->call);
    } else {
      mix(static_cast<std::uint64_t>(std::get<Refused>(outcome).refusal.decision));
    }
  }

  void send(Running& running) {
    if (running.sent) return;
    world_.governor().sent(running.id, world_.now());
    running.sent = true;
    running.charge = sent_requests.size();
    sent_requests.push_back({world_.now(), 1});
    sent_tokens.push_back({world_.now(), running.reserve});
  }

  void forget_tenant(const Running& running) {
    if (running.tenant_charge != SIZE_MAX) tenant_requests[running.tenant_charge].amount = 0;
  }

  void step() {
    world_.time += rng_.below(3) == 0 ? rng_.exponential(0.5) : 0;
    drain();
    // A reservation that is not sent within its lease would be given up.
    for (Running& running : running_) {
      if (world_.now() - running.granted_at > seconds(20)) send(running);
    }
    if (rng_.below(200) == 0) {
      for (Running& running : running_) send(running);
      world_.time += 100;
      drain();
    }
    const std::uint64_t kind = rng_.below(10);
    if (kind < 4 || running_.empty()) return submit();
    const std::size_t at = rng_.below(running_.size());
    Running running = running_[at];
    if (kind < 7) return send(running_[at]);
    if (kind == 7 && !waiting_.empty() && rng_.below(2) == 0) {
      world_.governor().cancel(waiting_.back(), world_.now());
      waiting_.pop_back();
      return;
    }
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
    if (kind == 7 && running.sent) {
      Signal signal;
      signal.kind = SignalClass::rate_limited;
      if (rng_.below(2) == 0) signal.retry_after = seconds(rng_.below(5));
      const Verdict verdict = world_.governor().rejected(running.id, signal, true, world_.now());
      if (std::holds_alternative<Requeued>(verdict)) {
        waiting_.push_back(running.id);
      }
      forget_tenant(running);
      mix(verdict.index());
      // A refused attempt is not counted here.
      sent_requests[running.charge].amount = 0;
      sent_tokens[running.charge].amount = 0;
    } else if (kind == 8) {
      world_.governor().cancel(running.id, world_.now());
      if (!running.sent) forget_tenant(running);
    } else {
      const std::int64_t real =
          static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(running.reserve) + 1));
      send(running);
      world_.settle(running.id, real, 0);
      if (tokens_.count == Counting::reserve_refund) {
        sent_tokens[running.charge].amount = real;
      }
    }
  }

  void check_level() {
    Snapshot view = world_.view();
    EXPECT_EQ(view.inflight, static_cast<std::int64_t>(running_.size()));
    EXPECT_LE(view.inflight, slots_.amount);
    EXPECT_EQ(view.queued, static_cast<std::int64_t>(waiting_.size()));
    std::int64_t held = 0;
    for (const Running& running : running_) held += running.reserve;
    EXPECT_EQ(view.deployments[0].meters[1].reserved, held) << "granted = settled + open";
    EXPECT_EQ(view.deployments[0].meters[0].reserved, view.inflight);
  }

  void finish() {
    for (const Running& running : running_) world_.governor().cancel(running.id, world_.now());
    for (const CallId id : waiting_) world_.governor().cancel(id, world_.now());
    running_.clear();
    waiting_.clear();
    world_.time += 300;
    drain();
    const Snapshot view = world_.view();
    EXPECT_EQ(view.inflight, 0);
    EXPECT_EQ(view.queued, 0);
    for (const MeterView& meter : view.deployments[0].meters) {
      EXPECT_EQ(meter.reserved, 0);
      EXPECT_EQ(meter.used, 0);
    }
    EXPECT_LE(largest_window(sent_requests, requests_.window), requests_.amount);
    EXPECT_LE(largest_window(sent_tokens, tokens_.window), tokens_.amount);
    EXPECT_LE(largest_window(tenant_requests, tenant_.window), tenant_.amount);
  }

  Rng rng_;
  std::vector<Running> running_;
  std::vector<CallId> waiting_;
};

TEST(GovernorProperty, NeverAboveALimitAndNothingIsLost) {
  rc::check("no window passes its limit; granted = settled + open; the end holds nothing",
            [](std::uint64_t seed) {
              RandomLife life(seed);
              life.run(400);
              RC_ASSERT(!testing::Test::HasFailure());
            });
}

TEST(GovernorProperty, EqualOperationsDecideEqually) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomLife first(seed);
    RandomLife second(seed);
    first.run(300);
    second.run(300);
    EXPECT_EQ(first.digest, second.digest) << seed;
  }
}

// The naive model of a small world: requests only, one rule, first come first served, no pacing.
TEST(GovernorProperty, AgreesWithANaiveFifoModel) {
  rc::check("start times are those of a list of past departures", [](std::uint64_t seed) {
    Rng rng(seed);
    const auto amount = static_cast<std::int64_t>(1 + rng.below(5));
    World world;
    world.policy.deployments[0].rules = {World::rule(Unit::requests, amount, seconds(60))};
    world.policy.deployments[0].burst_percent = 100;
    world.policy.classes[0].max_wait = std::chrono::hours(10);
    world.send_granted = true;
    std::vector<double> arrivals;
    std::vector<double> expected;
    double at = 1000;
    for (int i = 0; i < 30; ++i) {
      at += rng.exponential(25.0 / static_cast<double>(amount));
      arrivals.push_back(at);
      double start = at;
      if (!expected.empty()) start = std::max(start, expected.back());
      const std::size_t back = static_cast<std::size_t>(amount);
      if (expected.size() >= back) start = std::max(start, expected[expected.size() - back] + 60);
      expected.push_back(start);
    }
    std::vector<double> starts;
    const auto collect = [&](double until) {
      for (const auto& [when, event] : world.run_to(until)) starts.push_back(when);
    };
    for (const double arrival : arrivals) {
      collect(arrival);
      const Outcome outcome = world.submit(world.call());
      if (const auto* admitted = std::get_if<Admitted>(&outcome)) {
        world.governor().sent(admitted->call, world.now());
        starts.push_back(world.time);
      }
    }
    collect(at + 10000);
    RC_ASSERT(starts.size() == expected.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      // Coalesced stamps leave up to a cell late each time round; never early.
      RC_ASSERT(starts[i] >= expected[i] - 1e-6);
      RC_ASSERT(starts[i] <= expected[i] + 0.3);
    }
  });
}

/// A provider that knows nothing of the governor: it counts what arrives.
class NaiveProvider {
 public:
  NaiveProvider(Enforcement kind, std::int64_t limit, Duration window)
      : kind_(kind), limit_(limit), window_(window), level_(static_cast<double>(limit)) {}
  bool admit(Instant at) {
    if (kind_ == Enforcement::bucket) {
      level_ = std::min(
          static_cast<double>(limit_),
          level_ + to_seconds(at - last_) * static_cast<double>(limit_) / to_seconds(window_));
      last_ = at;
      if (level_ < 1) return false;
      level_ -= 1;
      return true;
    }
    while (!log_.empty() && kind_ == Enforcement::sliding && log_.front() + window_ <= at) {
      log_.pop_front();
    }
    const std::int64_t index = at.time_since_epoch().count() / window_.count();
    if (kind_ == Enforcement::fixed && index != index_) {
      index_ = index;
      log_.clear();
    }
    if (static_cast<std::int64_t>(log_.size()) >= limit_) return false;
    log_.push_back(at);
    return true;
  }

 private:
  Enforcement kind_;
  std::int64_t limit_;
  Duration window_;
  double level_;
  Instant last_{Duration{0}};
  std::deque<Instant> log_;
  std::int64_t index_ = -1;
};

TEST(GovernorProperty, AKilledGovernorIsFollowedWithoutRefusals) {
  for (const Enforcement kind : {Enforcement::sliding, Enforcement::fixed, Enforcement::bucket}) {
    for (const double killed_at : {1300.0, 1317.0, 1333.3, 1351.0}) {
      World world;
      world.policy.deployments[0].rules = {World::rule(Unit::requests, 600, seconds(60), kind)};
      world.policy.deployments[0].guard = milliseconds(20);
      world.policy.classes[0].max_wait = seconds(30);
      NaiveProvider provider(kind, 600, seconds(60));
      Rng rng(7);
      std::multimap<Instant, CallId> arrivals;
      std::int64_t attempts = 0;
      std::int64_t refused = 0;
      bool killed = false;
      const auto depart = [&](CallId id) {
        world.governor().sent(id, world.now());
        arrivals.emplace(world.now() + milliseconds(10) + from_seconds(rng.uniform() * 0.02), id);
      };
      const auto land = [&](Instant until) {
        while (!arrivals.empty() && arrivals.begin()->first <= until) {
          ++attempts;
          if (!provider.admit(arrivals.begin()->first)) ++refused;
          world.end(arrivals.begin()->second, Ending::completed);
          arrivals.erase(arrivals.begin());
        }
      };
      while (world.time < killed_at + 120) {
        const double next = world.time + rng.exponential(0.05);
        for (const auto& [when, event] : world.run_to(next)) {
          if (std::holds_alternative<Grant>(event.what)) {
            world.time = when;
            depart(event.call);
          }
        }
        world.time = next;
        land(world.now());
        if (!killed && world.time > killed_at) {
          killed = true;
          EXPECT_EQ(refused, 0);
          world.policy.deployments[0].start_level = 0;
          world.restart();
        }
        const Outcome outcome = world.submit(world.call());
        if (const auto* admitted = std::get_if<Admitted>(&outcome)) depart(admitted->call);
      }
      EXPECT_EQ(refused, 0) << name(kind) << " killed at " << killed_at;
      EXPECT_GT(attempts, static_cast<std::int64_t>((killed_at + 120 - 1000 - 5) * 10) - 30);
    }
  }
}

}  // namespace
}  // namespace weir::governor
