// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/provider_rules.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace weir::emulator::model {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Instant at(Duration since) { return Instant(since); }
const Instant kStart = at(seconds(0));

Rule requests(std::int64_t amount, Duration window, Enforcement enforce = Enforcement::sliding) {
  return {Unit::requests, amount, window, enforce, Counting::settle, std::nullopt};
}
Rule tokens(Unit unit, std::int64_t amount, Counting count,
            Enforcement enforce = Enforcement::sliding) {
  return {unit, amount, seconds(60), enforce, count, std::nullopt};
}
ProviderRules with(std::vector<Rule> rules, bool rejected_counted = false) {
  ProviderSettings settings;
  settings.rules = std::move(rules);
  settings.rejected_counted = rejected_counted;
  return {settings, kStart};
}

TEST(ProviderRules, WithoutRulesEverythingPasses) {
  ProviderRules provider = with({});
  for (int call = 0; call < 100; ++call) {
    EXPECT_TRUE(provider.admit({INT64_MAX, INT64_MAX}, kStart).admitted);
  }
  EXPECT_EQ(provider.counters().inflight, 100);
  EXPECT_FALSE(provider.reading(Unit::requests, kStart).has_value());
}

TEST(ProviderRules, NamesTheRuleThatRefusesLongest) {
  ProviderRules provider = with({requests(1, seconds(1)), requests(1, seconds(60))});
  EXPECT_TRUE(provider.admit({10, 10}, kStart).admitted);
  const Admission refused = provider.admit({10, 10}, at(milliseconds(500)));
  EXPECT_FALSE(refused.admitted);
  EXPECT_EQ(refused.rule, 1U);
  EXPECT_EQ(refused.retry_after, Duration(milliseconds(59'500)));
  EXPECT_EQ(provider.counters().refused_by_rule[1], 1);
}

TEST(ProviderRules, ARefusalChargesNothingUnlessToldTo) {
  ProviderRules plain = with({requests(1, seconds(60))});
  ProviderRules counted = with({requests(1, seconds(60))}, true);
  for (ProviderRules* provider : {&plain, &counted}) {
    EXPECT_TRUE(provider->admit({}, kStart).admitted);
    EXPECT_FALSE(provider->admit({}, at(seconds(30))).admitted);
  }
  EXPECT_TRUE(plain.admit({}, at(seconds(60))).admitted);
  EXPECT_FALSE(counted.admit({}, at(seconds(60))).admitted);
  EXPECT_TRUE(counted.admit({}, at(seconds(121))).admitted);
}

TEST(ProviderRules, AllRulesAreChargedOrNone) {
  ProviderRules provider =
      with({requests(10, seconds(60)), tokens(Unit::total_tokens, 100, Counting::reserve)});
  EXPECT_FALSE(provider.admit({90, 20}, kStart).admitted);
  EXPECT_EQ(provider.reading(Unit::requests, kStart)->remaining, 10);
  const Admission never = provider.admit({101, 0}, kStart);
  EXPECT_TRUE(never.never_fits);
  EXPECT_FALSE(never.retry_after.has_value());
}

TEST(ProviderRules, ReserveKeepsWhatRefundGivesBack) {
  for (const Counting count : {Counting::reserve, Counting::reserve_refund}) {
    ProviderRules provider = with({tokens(Unit::total_tokens, 1000, count)});
    const Admission admission = provider.admit({100, 500}, kStart);
    EXPECT_EQ(provider.reading(Unit::total_tokens, kStart)->remaining, 400);
    provider.finish(admission.attempt, 100, 50, at(seconds(5)));
    EXPECT_EQ(provider.reading(Unit::total_tokens, at(seconds(5)))->remaining,
              count == Counting::reserve ? 400 : 850);
    provider.finish(admission.attempt, 100, 50, at(seconds(6)));
    EXPECT_EQ(provider.counters().finished, 1) << "ending twice changes nothing";
  }
}

TEST(ProviderRules, RefundAfterTheWindowGivesNothing) {
  ProviderRules provider = with({tokens(Unit::total_tokens, 1000, Counting::reserve_refund)});
  const Admission admission = provider.admit({100, 500}, kStart);
  EXPECT_TRUE(provider.admit({100, 300}, at(seconds(61))).admitted);
  provider.finish(admission.attempt, 100, 0, at(seconds(62)));
  EXPECT_EQ(provider.reading(Unit::total_tokens, at(seconds(62)))->remaining, 600);
}

TEST(ProviderRules, SettleChargesAtTheEndAndMayOvershoot) {
  ProviderRules whole = with({tokens(Unit::total_tokens, 100, Counting::settle)});
  const Admission early = whole.admit({60, std::nullopt}, at(seconds(0)));
  ASSERT_TRUE(early.admitted);
  EXPECT_EQ(whole.readings(at(seconds(0)))[0].remaining, 40) << "the input at the door";
  EXPECT_FALSE(whole.admit({41, std::nullopt}, at(seconds(0))).admitted);
  whole.finish(early.attempt, 60, 30, at(seconds(1)));
  EXPECT_EQ(whole.readings(at(seconds(1)))[0].remaining, 10) << "the output at the end";
  ProviderRules provider = with({tokens(Unit::output_tokens, 100, Counting::settle)});
  const Admission first = provider.admit({1000, 5000}, kStart);
  const Admission second = provider.admit({1000, 5000}, kStart);
  ASSERT_TRUE(first.admitted && second.admitted);
  provider.produced(first.attempt, 90, at(seconds(1)));
  EXPECT_EQ(provider.reading(Unit::output_tokens, at(seconds(1)))->remaining, 100);
  provider.finish(first.attempt, 1000, 90, at(seconds(2)));
  EXPECT_TRUE(provider.admit({1, 1}, at(seconds(2))).admitted);
  provider.abort(second.attempt, 30, at(seconds(3)));
  EXPECT_FALSE(provider.admit({1, 1}, at(seconds(4))).admitted);
}

TEST(ProviderRules, RealtimeChargesAsProduced) {
  ProviderRules provider = with({tokens(Unit::total_tokens, 100, Counting::realtime)});
  const Admission first = provider.admit({60, 1000}, kStart);
  ASSERT_TRUE(first.admitted);
  EXPECT_FALSE(provider.admit({41, 1}, kStart).admitted);
  provider.produced(first.attempt, 30, at(seconds(1)));
  EXPECT_EQ(provider.reading(Unit::total_tokens, at(seconds(1)))->remaining, 10);
  provider.finish(first.attempt, 60, 45, at(seconds(2)));
  EXPECT_EQ(provider.reading(Unit::total_tokens, at(seconds(2)))->remaining, 0);
  EXPECT_FALSE(provider.admit({0, 1}, at(seconds(3))).admitted);
  EXPECT_TRUE(provider.admit({0, 1}, at(seconds(61))).admitted) << "the first 90 have left";
}

TEST(ProviderRules, InputRulesIgnoreTheOutput) {
  ProviderRules provider = with({tokens(Unit::total_tokens, 100, Counting::input)});
  const Admission admission = provider.admit({60, 10'000}, kStart);
  ASSERT_TRUE(admission.admitted);
  provider.finish(admission.attempt, 60, 10'000, at(seconds(1)));
  EXPECT_EQ(provider.reading(Unit::total_tokens, at(seconds(1)))->remaining, 40);
}

TEST(ProviderRules, ConcurrencyIsHeldUntilTheEnd) {
  ProviderRules provider = with(
      {{Unit::concurrency, 1, Duration{0}, Enforcement::unknown, Counting::settle, std::nullopt}});
  const Admission first = provider.admit({}, kStart);
  EXPECT_FALSE(provider.admit({}, at(seconds(1))).admitted);
  provider.abort(first.attempt, 0, at(seconds(2)));
  provider.abort(first.attempt, 0, at(seconds(2)));
  const Admission second = provider.admit({}, at(seconds(2)));
  EXPECT_TRUE(second.admitted);
  EXPECT_EQ(provider.counters().inflight, 1);
  provider.fail(second.attempt, at(seconds(3)));
  EXPECT_EQ(provider.counters().inflight, 0);
  EXPECT_EQ(provider.counters().failed, 1);
}

TEST(ProviderRules, UnknownEnforcementComesFromTheSeed) {
  bool seen[6] = {};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    ProviderSettings settings;
    settings.rules = {requests(5, seconds(60), Enforcement::unknown)};
    settings.seed = seed;
    ProviderRules once(settings, kStart);
    ProviderRules again(settings, kStart);
    const Enforcement enforce = once.readings(kStart)[0].rule.enforce;
    EXPECT_EQ(enforce, again.readings(kStart)[0].rule.enforce);
    seen[static_cast<std::size_t>(enforce)] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1] && seen[2]);
  EXPECT_FALSE(seen[3] || seen[4] || seen[5]);
}

TEST(ProviderRules, WindowsOfWholeDaysBeginAtMidnightWhateverThePhase) {
  for (const Enforcement enforce : {Enforcement::fixed, Enforcement::counter}) {
    ProviderSettings settings;
    settings.rules = {requests(1, std::chrono::hours(24), enforce)};
    settings.phase = seconds(7);
    ProviderRules provider(settings, kStart);
    const Instant late = at(std::chrono::hours(23));
    EXPECT_TRUE(provider.admit({}, late).admitted);
    EXPECT_FALSE(provider.admit({}, late).admitted);
    const bool fixed = enforce == Enforcement::fixed;
    EXPECT_EQ(provider.admit({}, at(std::chrono::hours(24))).admitted, fixed);
    settings.day_phase = -std::chrono::hours(2);
    ProviderRules eastern(settings, kStart);
    EXPECT_TRUE(eastern.admit({}, at(std::chrono::hours(21))).admitted);
    EXPECT_EQ(eastern.admit({}, at(std::chrono::hours(22))).admitted, fixed);
  }
}

TEST(ProviderRules, GrowthRefusesWithATypeOfItsOwn) {
  ProviderSettings settings;
  settings.rules = {requests(30, seconds(60))};
  settings.growth = {{.of = Unit::requests, .floor = 10}};
  settings.rejected_counted = true;
  ProviderRules provider(settings, kStart);
  for (int call = 0; call < 10; ++call) EXPECT_TRUE(provider.admit({}, kStart).admitted);
  const Admission looked = provider.look({}, at(seconds(1)));
  EXPECT_FALSE(looked.admitted);
  EXPECT_EQ(provider.counters().refused, 0) << "a look leaves no trace";
  const Admission refused = provider.admit({}, at(seconds(1)));
  EXPECT_FALSE(refused.rule.has_value());
  EXPECT_EQ(refused.growth, 0U);
  EXPECT_EQ(refused.retry_after, Duration(seconds(9)));
  EXPECT_EQ(provider.counters().refused_by_growth, 1);
  EXPECT_EQ(provider.readings(at(seconds(1)))[0].remaining, 19) << "the refused one counts";
  for (int call = 0; call < 19; ++call) provider.admit({}, at(seconds(20)));
  EXPECT_TRUE(provider.admit({}, at(seconds(20))).rule.has_value()) << "the limit comes first";
}

TEST(ProviderRules, GrowthOfTokensCountsInputAtTheDoorAndOutputAtTheEnd) {
  ProviderSettings settings;
  settings.growth = {{.of = Unit::total_tokens, .floor = 1000}};
  ProviderRules provider(settings, kStart);
  const Admission first = provider.admit({400, 5000}, kStart);
  EXPECT_TRUE(provider.look({600, 5000}, kStart).admitted);
  provider.finish(first.attempt, 400, 601, at(seconds(1)));
  EXPECT_FALSE(provider.look({1, 0}, at(seconds(2))).admitted);
  EXPECT_TRUE(provider.look({1, 0}, at(seconds(10))).admitted);
}

TEST(ProviderRules, NewRulesKeepWhatWasUsed) {
  ProviderRules provider =
      with({requests(10, seconds(60)), tokens(Unit::total_tokens, 1000, Counting::reserve_refund)});
  std::vector<AttemptId> attempts;
  for (int call = 0; call < 6; ++call) {
    attempts.push_back(provider.admit({50, 50}, kStart).attempt);
  }
  provider.set_rules(
      {requests(8, seconds(60)), tokens(Unit::total_tokens, 700, Counting::reserve_refund),
       requests(100, seconds(1))},
      at(seconds(1)));
  EXPECT_EQ(provider.readings(at(seconds(1)))[0].remaining, 2);
  EXPECT_EQ(provider.readings(at(seconds(1)))[1].remaining, 100);
  EXPECT_EQ(provider.readings(at(seconds(1)))[2].remaining, 100);
  provider.finish(attempts[0], 50, 0, at(seconds(2)));
  EXPECT_EQ(provider.readings(at(seconds(2)))[1].remaining, 150) << "old attempts still settle";
  provider.set_rules({requests(8, seconds(60), Enforcement::fixed)}, at(seconds(2)));
  EXPECT_EQ(provider.readings(at(seconds(2)))[0].remaining, 2) << "carried into another window";
  provider.set_rules({}, at(seconds(2)));
  EXPECT_TRUE(provider.admit({INT64_MAX, INT64_MAX}, at(seconds(2))).admitted);
}

TEST(ProviderRules, ALimitMayFallBelowWhatIsInFlight) {
  ProviderRules provider = with({requests(10, seconds(60), Enforcement::bucket)});
  for (int call = 0; call < 10; ++call) EXPECT_TRUE(provider.admit({}, kStart).admitted);
  provider.set_rules({requests(5, seconds(60), Enforcement::bucket)}, kStart);
  EXPECT_EQ(provider.readings(kStart)[0].remaining, 0);
  const Admission refused = provider.admit({}, kStart);
  EXPECT_EQ(refused.retry_after, Duration(seconds(72)));
}

TEST(ProviderRules, TheTableOfAttemptsIsBounded) {
  ProviderSettings settings;
  settings.max_inflight = 2;
  ProviderRules provider(settings, kStart);
  EXPECT_TRUE(provider.admit({}, kStart).admitted);
  EXPECT_TRUE(provider.admit({}, kStart).admitted);
  const Admission refused = provider.admit({}, kStart);
  EXPECT_FALSE(refused.admitted);
  EXPECT_FALSE(refused.rule.has_value());
}

}  // namespace
}  // namespace weir::emulator::model
