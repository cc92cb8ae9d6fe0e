// SPDX-License-Identifier: Apache-2.0
//
// Bugs put between the harness and the real governor: each must be noticed, or a checker is blind.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "sim/harness.h"

namespace weir::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// A world in which requests bind, connections take time to open, and some clients leave.
Scenario world() {
  Scenario scenario;
  scenario.style = "sliding";
  scenario.load = "planted";
  scenario.horizon = minutes(4);
  scenario.workload.arrivals.rates = {{Duration{0}, 4}};
  scenario.workload.abort_share = 0.1;
  scenario.workload.abort_after = seconds(5);
  scenario.network.handshake_share = 0.3;
  scenario.network.handshake = milliseconds(500);
  scenario.provider.rules = {
      {Unit::requests, 120, seconds(60), Enforcement::sliding, Counting::settle, std::nullopt},
      {Unit::total_tokens, 120'000, seconds(60), Enforcement::sliding, Counting::settle,
       std::nullopt}};
  scenario.told.rules = scenario.provider.rules;
  scenario.told.guard = milliseconds(20);
  scenario.goals.max_429_share = 0.0001;
  return scenario;
}

template <class Port>
MakePort with() {
  return [](std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant now) {
    return std::make_unique<Port>(std::move(policy), seed, now);
  };
}

bool missed(const Report& report, std::string_view goal) {
  return std::any_of(report.judgements.begin(), report.judgements.end(),
                     [&](const Judgement& one) { return one.goal == goal && !one.held; });
}

TEST(PlantedBugs, NoneWithoutOne) {
  const Report report = run(world(), 1);
  EXPECT_TRUE(report.held()) << (report.violations.first().empty()
                                     ? "a goal was missed"
                                     : report.violations.first().front());
}

/// Every response is booked with what it did not use taken off twice.
class DoubleRefund : public DirectPort {
 public:
  using DirectPort::DirectPort;
  governor::Settled settle(CallId call, const Settlement& settlement, Instant now) override {
    Settlement less = settlement;
    if (less.reported) {
      less.reported->input_tokens /= 2;
      less.reported->output_tokens /= 2;
    }
    return DirectPort::settle(call, less, now);
  }
};
TEST(PlantedBugs, ADoubleRefundIsSeenInTheMirror) {
  EXPECT_TRUE(run(world(), 1, with<DoubleRefund>()).violations.by("mirror"));
}

/// A client that leaves is forgotten.
class LostCancel : public DirectPort {
 public:
  using DirectPort::DirectPort;
  void cancel(CallId, Instant) override {}
  governor::Settled settle(CallId call, const Settlement& settlement, Instant now) override {
    if (settlement.ending == Ending::client_gone) return governor::Settled::settled;
    return DirectPort::settle(call, settlement, now);
  }
};
TEST(PlantedBugs, ALostCancelIsSeenInTheSlots) {
  EXPECT_TRUE(run(world(), 1, with<LostCancel>()).violations.by("slots"));
}

/// The mirror is stamped when leave is given and not when the request leaves.
class StampedAtGrant : public DirectPort {
 public:
  using DirectPort::DirectPort;
  governor::Outcome submit(const Call& call, Instant now) override {
    governor::Outcome outcome = DirectPort::submit(call, now);
    if (const auto* admitted = std::get_if<governor::Admitted>(&outcome)) {
      DirectPort::sent(admitted->call, now, now);
    }
    return outcome;
  }
  bool advance(Instant now, std::vector<governor::Event>& events) override {
    const bool more = DirectPort::advance(now, events);
    for (const governor::Event& event : events) {
      if (std::holds_alternative<Grant>(event.what)) DirectPort::sent(event.call, now, now);
    }
    return more;
  }
  void sent(CallId, Instant, Instant) override {}
};
TEST(PlantedBugs, AMirrorStampedAtGrantIsRefused) {
  EXPECT_TRUE(missed(run(world(), 1, with<StampedAtGrant>()), "429_share"));
}

/// The governor is told another enforcement than the provider has.
Report told_as(Scenario scenario, Enforcement kept, Enforcement told) {
  scenario.goals.max_window_ratio = 1.0;
  scenario.provider.rules.resize(1);
  scenario.provider.rules[0].enforce = kept;
  scenario.told.rules = scenario.provider.rules;
  scenario.told.rules[0].enforce = told;
  if (told == Enforcement::bucket) scenario.told.rules[0].burst.reset();
  return run(scenario, 1);
}
TEST(PlantedBugs, ACounterTakenForASlidingWindowIsRefused) {
  // Bursts so far apart that nothing paces them: each is estimated long after its window is over.
  Scenario scenario = world();
  scenario.workload.arrivals.on = seconds(3);
  scenario.workload.arrivals.off = seconds(80);
  scenario.workload.arrivals.rates = {{Duration{0}, 60}};
  scenario.told.max_wait = seconds(2);
  EXPECT_FALSE(missed(told_as(scenario, Enforcement::counter, Enforcement::counter), "429_share"));
  EXPECT_TRUE(missed(told_as(scenario, Enforcement::counter, Enforcement::sliding), "429_share"));
}
TEST(PlantedBugs, ALeakyRuleTakenForABucketIsRefused) {
  EXPECT_FALSE(missed(told_as(world(), Enforcement::leaky, Enforcement::leaky), "429_share"));
  EXPECT_TRUE(missed(told_as(world(), Enforcement::leaky, Enforcement::bucket), "429_share"));
}

/// The provider itself is broken: what another rule let through is too much for the checker.
TEST(PlantedBugs, AProviderThatForgetsItsOlderWindowIsSeenInTheRatio) {
  Rule rule{Unit::requests, 10, seconds(60), Enforcement::fixed, Counting::settle, std::nullopt};
  WindowChecker fixed(rule, Duration{0});
  rule.enforce = Enforcement::counter;
  WindowChecker counter(rule, Duration{0});
  for (WindowChecker* window : {&fixed, &counter}) {
    window->charge(10, Instant(seconds(59)));
    window->charge(10, Instant(seconds(61)));
  }
  EXPECT_LE(fixed.worst(), 1.0);
  EXPECT_GT(counter.worst(), 1.9);
}

TEST(PlantedBugs, WithoutTheGuardTheProviderRefuses) {
  const MakePort no_guard = [](std::shared_ptr<const Policy> policy, std::uint64_t seed,
                               Instant now) {
    auto changed = std::make_shared<Policy>(*policy);
    changed->deployments[0].guard = Duration{0};
    return std::make_unique<DirectPort>(std::move(changed), seed, now);
  };
  EXPECT_TRUE(missed(run(world(), 1, no_guard), "429_share"));
}

/// Answers a waiting call of a lane before the one ahead of it.
class Overtaking : public DirectPort {
 public:
  using DirectPort::DirectPort;
  bool advance(Instant now, std::vector<governor::Event>& events) override {
    const bool more = DirectPort::advance(now, events);
    const auto first = std::find_if(events.begin(), events.end(), [](const governor::Event& event) {
      return std::holds_alternative<Grant>(event.what);
    });
    if (first == events.end()) return more;
    if (held_) {
      events.push_back(*held_);
      held_.reset();
    } else if (!delayed_) {
      held_ = *first;
      delayed_ = true;
      events.erase(first);
    }
    return more;
  }

 private:
  std::optional<governor::Event> held_;
  bool delayed_ = false;
};
TEST(PlantedBugs, AnOvertakingIsSeenInTheOrder) {
  EXPECT_TRUE(run(world(), 1, with<Overtaking>()).violations.by("fifo"));
}

/// One tenant's leave to go is kept back: its own lane stays in order, and it is answered in time.
class OneTenantLast : public DirectPort {
 public:
  using DirectPort::DirectPort;
  governor::Outcome submit(const Call& call, Instant now) override {
    governor::Outcome outcome = DirectPort::submit(call, now);
    const auto* admitted = std::get_if<governor::Admitted>(&outcome);
    if (call.leaf != kKept || admitted == nullptr) {
      if (const auto* queued = std::get_if<governor::Queued>(&outcome); queued != nullptr) {
        if (call.leaf == kKept) waiting_.push_back(queued->call);
      }
      return outcome;
    }
    kept_.push_back({now + kFor, {admitted->call, call.cookie, admitted->grant}});
    return governor::Queued{admitted->call, kFor};
  }
  bool advance(Instant now, std::vector<governor::Event>& events) override {
    std::vector<governor::Event> fresh;
    const bool more = DirectPort::advance(now, fresh);
    for (const governor::Event& event : fresh) {
      const bool ours = std::find(waiting_.begin(), waiting_.end(), event.call) != waiting_.end();
      if (ours && std::holds_alternative<Grant>(event.what)) {
        kept_.push_back({now + kFor, event});
      } else {
        events.push_back(event);
      }
    }
    while (!kept_.empty() && kept_.front().at <= now) {
      events.push_back(kept_.front().event);
      kept_.erase(kept_.begin());
    }
    return more;
  }
  [[nodiscard]] Instant next_deadline() const override {
    const Instant due = DirectPort::next_deadline();
    return kept_.empty() ? due : std::min(due, kept_.front().at);
  }

 private:
  static constexpr NodeId kKept{1};
  static constexpr Duration kFor = seconds(45);
  struct Kept {
    Instant at;
    governor::Event event;
  };
  std::vector<CallId> waiting_;
  std::vector<Kept> kept_;
};
TEST(PlantedBugs, ATenantThatIsAlwaysPassedByIsSeenToStarve) {
  Scenario scenario = world();
  scenario.workload.tenants = 4;
  scenario.workload.abort_share = 0;
  scenario.workload.arrivals.rates = {{Duration{0}, 2}};
  scenario.told.max_wait = minutes(5);
  const Report well = run(scenario, 1);
  EXPECT_FALSE(well.violations.by("starvation"));
  EXPECT_TRUE(well.starvation.why_not.empty()) << well.starvation.why_not;
  const Report report = run(scenario, 1, with<OneTenantLast>());
  EXPECT_TRUE(report.violations.by("starvation"));
  EXPECT_FALSE(report.violations.by("fifo"));
  EXPECT_FALSE(report.violations.by("late"));
}

/// A settlement is told twice; the second must change nothing.
class SettledTwice : public DirectPort {
 public:
  using DirectPort::DirectPort;
  governor::Settled settle(CallId call, const Settlement& settlement, Instant now) override {
    const governor::Settled first = DirectPort::settle(call, settlement, now);
    EXPECT_EQ(DirectPort::settle(call, settlement, now), governor::Settled::already_settled);
    return first;
  }
};
TEST(PlantedBugs, ASecondSettlementChangesNothing) {
  const Report once = run(world(), 1);
  const Report twice = run(world(), 1, with<SettledTwice>());
  EXPECT_EQ(once.digest, twice.digest);
}

}  // namespace
}  // namespace weir::sim
