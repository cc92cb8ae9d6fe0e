// SPDX-License-Identifier: Apache-2.0
#include "sim/headers.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Instant at(Duration since) { return Instant(since); }

/// 100 of 600 requests and 1234 of 10,000 tokens used, all at 0.5 s.
emulator::model::ProviderRules provider(Unit tokens = Unit::total_tokens) {
  emulator::model::ProviderSettings settings;
  settings.rules = {
      {Unit::requests, 600, seconds(60), Enforcement::sliding, Counting::settle, std::nullopt},
      {tokens, 10'000, seconds(60), Enforcement::sliding, Counting::reserve, std::nullopt}};
  emulator::model::ProviderRules rules(settings, at(seconds(0)));
  for (int call = 0; call < 99; ++call) rules.admit({0, 0}, at(milliseconds(500)));
  rules.admit({1234, 0}, at(milliseconds(500)));
  return rules;
}

TEST(HeaderTeller, EveryUnitIsExactWithoutQuirks) {
  auto rules = provider();
  const auto signal = HeaderTeller({}, 1).tell(rules, at(seconds(1)));
  ASSERT_TRUE(signal.has_value());
  EXPECT_EQ(signal->requests.limit, 600);
  EXPECT_EQ(signal->requests.remaining, 500);
  EXPECT_EQ(signal->tokens.remaining, 8766);
  EXPECT_EQ(signal->tokens.reset, Duration(milliseconds(59'500)));
  EXPECT_FALSE(signal->input_tokens.limit.has_value());
}

TEST(HeaderTeller, AnthropicRoundsTokensAndTimes) {
  auto rules = provider();
  const auto signal =
      HeaderTeller({.style = HeaderStyle::anthropic}, 1).tell(rules, at(seconds(1)));
  EXPECT_EQ(signal->requests.remaining, 500);
  EXPECT_EQ(signal->tokens.remaining, 8000);
  EXPECT_EQ(signal->tokens.reset, Duration(seconds(60)));
}

TEST(HeaderTeller, OpenAiHasOneKindOfTokens) {
  auto rules = provider(Unit::input_tokens);
  const auto signal =
      HeaderTeller({.style = HeaderStyle::openai}, 1).tell(rules, at(seconds(1) + Duration(1)));
  EXPECT_EQ(signal->tokens.remaining, 8766);
  EXPECT_EQ(signal->tokens.reset, Duration(milliseconds(59'500)));
  EXPECT_FALSE(signal->input_tokens.limit.has_value());
}

TEST(HeaderTeller, RemainingMayBeUnknownOrZero) {
  auto rules = provider();
  const auto unknown =
      HeaderTeller({.remaining = RemainingSays::unknown}, 1).tell(rules, at(seconds(1)));
  EXPECT_FALSE(unknown->requests.remaining.has_value());
  EXPECT_EQ(unknown->requests.limit, 600);
  const auto zero = HeaderTeller({.remaining = RemainingSays::zero}, 1).tell(rules, at(seconds(1)));
  EXPECT_EQ(zero->requests.remaining, 0);
  EXPECT_FALSE(zero->input_tokens.remaining.has_value()) << "what is not limited is not told";
}

TEST(HeaderTeller, CachedValuesAreOld) {
  auto rules = provider();
  HeaderTeller teller({.cached = seconds(5)}, 1);
  EXPECT_EQ(teller.tell(rules, at(seconds(1)))->requests.remaining, 500);
  rules.admit({0, 0}, at(seconds(2)));
  EXPECT_EQ(teller.tell(rules, at(seconds(5)))->requests.remaining, 500);
  EXPECT_EQ(teller.tell(rules, at(seconds(6)))->requests.remaining, 499);
}

TEST(HeaderTeller, OneAnswerIsRaised) {
  auto rules = provider();
  HeaderTeller teller({.raised_at = seconds(2)}, 1);
  EXPECT_EQ(teller.tell(rules, at(seconds(1)))->requests.limit, 600);
  const auto raised = teller.tell(rules, at(seconds(3)));
  EXPECT_EQ(raised->requests.limit, 1200);
  EXPECT_EQ(raised->requests.remaining, 1000);
  EXPECT_EQ(teller.tell(rules, at(seconds(3)))->requests.limit, 600);
}

TEST(HeaderTeller, SomeAnswersCarryNone) {
  auto rules = provider();
  HeaderTeller teller({.share = 0.25}, 7);
  int told = 0;
  for (int answer = 0; answer < 1000; ++answer) {
    told += teller.tell(rules, at(seconds(1))).has_value() ? 1 : 0;
  }
  EXPECT_NEAR(told, 250, 50);
  EXPECT_FALSE(HeaderTeller({.share = 0}, 7).tell(rules, at(seconds(1))).has_value());
}

}  // namespace
}  // namespace weir::sim
