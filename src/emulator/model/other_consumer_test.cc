// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/other_consumer.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::emulator::model {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

Instant at(Duration since) { return Instant(since); }
const Instant kStart = at(seconds(0));

ProviderRules limited(std::int64_t per_minute) {
  ProviderSettings settings;
  settings.rules = {{Unit::requests, per_minute, seconds(60), Enforcement::sliding,
                     Counting::settle, std::nullopt},
                    {Unit::total_tokens, 10'000'000, seconds(60), Enforcement::sliding,
                     Counting::settle, std::nullopt}};
  return {settings, kStart};
}

struct Seen {
  std::int64_t admitted = 0;
  std::int64_t refused = 0;
  std::int64_t ended = 0;
  std::int64_t tokens = 0;
  OtherConsumer::Watch watch() {
    return [this](const OtherEvent& event) {
      switch (event.kind) {
        case OtherEvent::Kind::admitted: ++admitted; break;
        case OtherEvent::Kind::refused: ++refused; break;
        case OtherEvent::Kind::ended:
          ++ended;
          tokens += event.input_tokens + event.output_tokens;
          EXPECT_GE(event.at, event.admitted_at);
          break;
      }
    };
  }
};

TEST(OtherConsumer, SwingsBetweenTwoRates) {
  ProviderRules rules = limited(1'000'000);
  OtherConsumer other({.per_second = 1, .swings_to = 3, .period = minutes(20)}, {}, 1, kStart);
  Seen first;
  other.advance(rules, at(minutes(10)), first.watch());
  EXPECT_NEAR(static_cast<double>(first.admitted), 600, 75);
  Seen second;
  other.advance(rules, at(minutes(20)), second.watch());
  EXPECT_NEAR(static_cast<double>(second.admitted), 1800, 130);
  Seen third;
  other.advance(rules, at(minutes(30)), third.watch());
  EXPECT_NEAR(static_cast<double>(third.admitted), 600, 75);
}

TEST(OtherConsumer, ChargesTheSameRulesAndIsSeenInTheReadings) {
  ProviderRules rules = limited(600);
  OtherConsumer other({.per_second = 5, .input_sigma = 0, .output_sigma = 0}, {}, 2, kStart);
  Seen seen;
  other.advance(rules, at(minutes(2)), seen.watch());
  EXPECT_EQ(seen.admitted, rules.counters().admitted);
  EXPECT_EQ(seen.ended, rules.counters().finished);
  EXPECT_EQ(seen.tokens, seen.ended * 700);
  const auto reading = rules.reading(Unit::requests, at(minutes(2)));
  EXPECT_NEAR(static_cast<double>(reading->remaining), 300, 60);
  EXPECT_LT(rules.reading(Unit::total_tokens, at(minutes(2)))->remaining, 9'900'000);
}

TEST(OtherConsumer, ANaiveRetrierComesAgainAndGivesUp) {
  for (const bool retries : {false, true}) {
    ProviderRules rules = limited(1);
    OtherConsumer other({.per_second = 1, .retries = retries, .attempts = 3}, {}, 3, kStart);
    Seen seen;
    other.advance(rules, at(minutes(1)), seen.watch());
    const double calls = 60;
    EXPECT_NEAR(static_cast<double>(seen.refused), retries ? 3 * calls : calls, 40);
  }
}

TEST(OtherConsumer, EqualSeedsAreEqualAndItKeepsItsTimes) {
  const OtherSettings settings{.per_second = 2, .from = minutes(1), .until = Duration(minutes(2))};
  std::vector<Instant> runs[2];
  for (auto& run : runs) {
    ProviderRules rules = limited(1000);
    OtherConsumer other(settings, {}, 4, kStart);
    other.advance(rules, at(hours(1)),
                  [&](const OtherEvent& event) { run.push_back(event.admitted_at); });
    EXPECT_EQ(other.next(), kNever);
    EXPECT_EQ(rules.counters().inflight, 0);
  }
  EXPECT_EQ(runs[0], runs[1]);
  ASSERT_FALSE(runs[0].empty());
  for (const Instant when : runs[0]) {
    EXPECT_GE(when, at(minutes(1)));
    EXPECT_LT(when, at(minutes(2)));
  }
}

TEST(OtherConsumer, NobodyElseCostsNothingAndALongPauseLittle) {
  ProviderRules rules = limited(1000);
  OtherConsumer nobody({}, {}, 5, kStart);
  EXPECT_EQ(nobody.next(), kNever);
  OtherConsumer silent({.per_second = 0, .swings_to = 5, .period = hours(2)}, {}, 5, kStart);
  EXPECT_GT(silent.next(), at(hours(1)));
  OtherConsumer other({.per_second = 10}, {}, 5, kStart);
  Seen seen;
  other.advance(rules, at(hours(1000)), seen.watch(), minutes(1));
  EXPECT_NEAR(static_cast<double>(seen.admitted), 600, 100);
}

}  // namespace
}  // namespace weir::emulator::model
