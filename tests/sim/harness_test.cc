// SPDX-License-Identifier: Apache-2.0
#include "sim/harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "reference_port.h"

namespace weir::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Scenario small_world(double per_second) {
  Scenario scenario;
  scenario.style = "sliding";
  scenario.load = "test";
  scenario.horizon = minutes(4);
  scenario.workload.arrivals.rates = {{Duration{0}, per_second}};
  scenario.provider.rules = {
      {Unit::requests, 60, seconds(60), Enforcement::sliding, Counting::settle, std::nullopt}};
  scenario.told.rules = scenario.provider.rules;
  scenario.told.guard = milliseconds(20);
  scenario.goals.max_429_share = 0.0001;
  return scenario;
}

MakePort reference(ReferencePort::Bugs bugs = {}) {
  return [bugs](std::shared_ptr<const Policy> policy, std::uint64_t, Instant) {
    return std::make_unique<ReferencePort>(std::move(policy), bugs);
  };
}

const Judgement* find(const Report& report, std::string_view goal) {
  const auto found = std::find_if(report.judgements.begin(), report.judgements.end(),
                                  [&](const Judgement& one) { return one.goal == goal; });
  return found == report.judgements.end() ? nullptr : &*found;
}

TEST(Harness, APlainGovernorThatKeepsTheRuleHoldsEveryGoal) {
  Scenario scenario = small_world(2);
  scenario.goals.min_window_share = 0.99;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Report report = run(scenario, seed, reference());
    EXPECT_TRUE(report.held()) << (report.violations.first().empty()
                                       ? ""
                                       : report.violations.first().front());
    EXPECT_EQ(report.books.rejected, 0);
    EXPECT_GT(report.books.timed_out, 100);
    EXPECT_LE(report.worst_offered, 1.0);
  }
}

TEST(Harness, BelowTheLimitEveryRequestIsServedAboutAsSoonAsTheOracleDoes) {
  Scenario scenario = small_world(0.8);
  scenario.told.max_wait = minutes(10);
  scenario.goals.all_served = true;
  scenario.goals.max_p99_over_oracle = seconds(1);
  const Report report = run(scenario, 4, reference());
  EXPECT_TRUE(report.held());
  EXPECT_EQ(report.oracle_served, report.books.arrivals);
}

TEST(Harness, EqualSeedsGiveEqualDigests) {
  Scenario scenario = small_world(2);
  scenario.workload.abort_share = 0.2;
  scenario.workload.abort_after = seconds(10);
  scenario.faults.server_error = 0.02;
  scenario.faults.reset_before = 0.02;
  scenario.faults.reset_inside = 0.02;
  scenario.faults.slow = 0.02;
  scenario.faults.malformed = 0.02;
  scenario.network.handshake_share = 0.1;
  scenario.network.handshake = milliseconds(80);
  const Report first = run(scenario, 11, reference());
  const Report second = run(scenario, 11, reference());
  const Report other = run(scenario, 12, reference());
  EXPECT_EQ(first.digest, second.digest);
  EXPECT_EQ(first.events, second.events);
  EXPECT_NE(first.digest, other.digest);
  EXPECT_EQ(first.violations.count(), 0) << first.violations.first().front();
  EXPECT_GT(first.books.gone, 10);
  EXPECT_GT(first.books.failed, 0);
}

TEST(Harness, WithoutTheGuardTheProviderRefuses) {
  ReferencePort::Bugs bugs;
  bugs.no_guard = true;
  const Report report = run(small_world(2), 1, reference(bugs));
  ASSERT_NE(find(report, "429_share"), nullptr);
  EXPECT_FALSE(find(report, "429_share")->held);
  EXPECT_GT(report.worst_offered, 1.0);
}

TEST(Harness, OvertakingIsSeen) {
  ReferencePort::Bugs bugs;
  bugs.last_in_first_out = true;
  const Report report = run(small_world(2), 1, reference(bugs));
  EXPECT_TRUE(report.violations.by("fifo"));
  EXPECT_FALSE(report.held());
}

TEST(Harness, ALeakedSlotIsSeen) {
  ReferencePort::Bugs bugs;
  bugs.forgets_ends = true;
  EXPECT_TRUE(run(small_world(1), 1, reference(bugs)).violations.by("slots"));
}

TEST(Harness, AGovernorThatFallsSilentIsSeen) {
  ReferencePort::Bugs bugs;
  bugs.never_answers = true;
  EXPECT_TRUE(run(small_world(2), 1, reference(bugs)).violations.by("stuck"));
}

TEST(Harness, ALateAnswerIsSeen) {
  ReferencePort::Bugs bugs;
  bugs.answers_late = true;
  EXPECT_TRUE(run(small_world(2), 1, reference(bugs)).violations.by("late"));
}

TEST(Harness, ARestartWithAnEmptyMirrorIsRefused) {
  Scenario scenario = small_world(2);
  scenario.restart = Restart{minutes(2), 0};
  scenario.goals.max_429_share_restart = 0.0001;
  const Report report = run(scenario, 1, reference());
  EXPECT_GT(report.rejected_after_restart, 0);
  EXPECT_GT(report.books.lost, 0);
  EXPECT_FALSE(find(report, "429_share_after_restart")->held);
  EXPECT_EQ(report.violations.count(), 0) << report.violations.first().front();
}

TEST(Harness, RefusalsOfWhatWasOnItsWayAtTheKillAreJudgedByThemselves) {
  Scenario scenario = small_world(2);
  scenario.restart = Restart{minutes(2), 0};
  scenario.goals.max_429_share_transit = 0.001;
  Report report = run(scenario, 1, reference());
  const Judgement* judged = find(report, "429_share_in_transit");
  ASSERT_NE(judged, nullptr);
  EXPECT_DOUBLE_EQ(judged->reached, report.share_429_transit());
  report.rejected_in_transit = report.books.rejected;
  EXPECT_DOUBLE_EQ(report.share_429(), 0);
  EXPECT_GT(report.share_429_transit(), 0) << "what one share leaves out stands in the other";
}

TEST(Harness, AProviderChargesWhatItReadBeforeTheConnectionBroke) {
  Scenario scenario = small_world(1);
  scenario.provider.rules.push_back({Unit::total_tokens, 100'000, seconds(60), Enforcement::sliding,
                                     Counting::settle, std::nullopt});
  scenario.told.rules = scenario.provider.rules;
  scenario.faults.reset_before = 1;
  const Report report = run(scenario, 1);
  EXPECT_EQ(report.books.served, 0);
  EXPECT_EQ(report.books.rejected, 0);
  EXPECT_EQ(report.violations.count(), 0) << report.violations.first().front();
  // The tokens alone, so that no other rule is the fullest one.
  Scenario plain = scenario;
  plain.provider.rules.erase(plain.provider.rules.begin());
  plain.told.rules = plain.provider.rules;
  EXPECT_GT(run(plain, 1).worst_window, 0.01);
}

}  // namespace
}  // namespace weir::sim
