// SPDX-License-Identifier: Apache-2.0
#include "governor/bracket.h"

#include <gtest/gtest.h>

#include <deque>

namespace weir::governor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLatency = milliseconds(40);

/// A provider with a sliding window of a minute, and a sender that always has something to send and
/// keeps to the bracket. Requests are answered one latency after they were sent.
class Account {
 public:
  explicit Account(std::int64_t told) : bracket_(told, seconds(60), 0.03) {}

  void set_limit(std::int64_t limit) { limit_ = limit; }

  /// Sends every 25 ms, where the bracket lets it, for this long.
  void run(Duration length) {
    const Instant end = now_ + length;
    while (now_ < end) {
      now_ += milliseconds(25);
      answer();
      while (!window_.empty() && window_.front() + seconds(60) <= now_) window_.pop_front();
      bracket_.roll(true, now_);
      const auto sum = static_cast<std::int64_t>(window_.size()) + 1;
      if (now_ < bracket_.closed_until() || sum > std::max<std::int64_t>(bracket_.amount(), 1)) {
        continue;
      }
      bracket_.granted(now_);
      bracket_.sent(sum, now_);
      const bool accepted = sum <= limit_;
      if (accepted) window_.push_back(now_);
      answers_.push_back({now_ + kLatency, now_, sum, accepted});
    }
  }

  [[nodiscard]] std::int64_t in_window() const { return static_cast<std::int64_t>(window_.size()); }
  [[nodiscard]] int refusals() const { return refusals_; }
  [[nodiscard]] const Bracket& bracket() const { return bracket_; }

 private:
  struct Answer {
    Instant at, sent;
    std::int64_t sum = 0;
    bool accepted = false;
  };
  void answer() {
    while (!answers_.empty() && answers_.front().at <= now_) {
      const Answer one = answers_.front();
      answers_.pop_front();
      if (one.accepted) {
        bracket_.accepted(one.sum, one.sent, now_);
      } else {
        ++refusals_;
        bracket_.refused(one.sum, 1, one.sent, kLatency, now_);
      }
    }
  }

  Bracket bracket_;
  Instant now_ = kDawn + seconds(1);
  std::int64_t limit_ = 0;
  std::deque<Instant> window_;
  std::deque<Answer> answers_;
  int refusals_ = 0;
};

TEST(Bracket, KeepsWhatItIsToldWhileNothingIsRefused) {
  Account account(1200);
  account.set_limit(1200);
  account.run(seconds(600));
  EXPECT_EQ(account.refusals(), 0);
  EXPECT_EQ(account.bracket().amount(), 1200);
}

TEST(Bracket, OneRefusalSaysWhereTheLimitIs) {
  Account account(2000);
  account.set_limit(1200);
  account.run(seconds(100));
  EXPECT_LE(account.refusals(), 5) << "the first, and what was on its way with it";
  EXPECT_GE(account.bracket().amount(), 1182) << "it may just be asking again";
  EXPECT_LE(account.bracket().amount(), 1200);
  EXPECT_GE(account.in_window(), 1182 - 2);
}

TEST(Bracket, AFallByAQuarterCostsFewRefusalsAndIsFoundInAMinute) {
  Account account(1200);
  account.set_limit(1200);
  account.run(seconds(300));
  account.set_limit(900);
  account.run(seconds(70));
  EXPECT_LE(account.refusals(), 5 + 2 * 2);
  EXPECT_GE(account.in_window(), 855);
  account.run(seconds(10));
  EXPECT_NEAR(static_cast<double>(account.bracket().amount()), 900, 9);
}

TEST(Bracket, AHalvedLimitIsFoundAsWell) {
  Account account(1200);
  account.set_limit(1200);
  account.run(seconds(300));
  account.set_limit(600);
  account.run(seconds(100));
  EXPECT_LE(account.refusals(), 5 + 2 * 2);
  EXPECT_GE(account.in_window(), 570);
}

TEST(Bracket, ARiseIsFoundWithinAProbeAndAMinute) {
  Account account(2000);
  account.set_limit(900);
  account.run(seconds(900));
  account.set_limit(1500);
  account.run(seconds(120 + 60));
  EXPECT_GE(account.in_window(), 1425);
}

TEST(Bracket, ProbingCostsLessThanOneInAThousand) {
  Account account(2000);
  account.set_limit(1200);
  account.run(seconds(400));
  const int before = account.refusals();
  account.run(seconds(3600));
  EXPECT_LE(account.refusals() - before, 72);
}

// A closed account is asked more and more seldom, and found again when it opens.
TEST(Bracket, ALimitOfZeroIsAskedForSeldom) {
  Account account(1200);
  account.set_limit(1200);
  account.run(seconds(120));
  const int before = account.refusals();
  account.set_limit(0);
  account.run(seconds(300));
  EXPECT_LE(account.refusals() - before, 18);
  EXPECT_EQ(account.in_window(), 0);
  account.set_limit(1200);
  account.run(seconds(180));
  EXPECT_GE(account.in_window(), 1140);
}

// Fifty refusals of one burst say one thing once: the amount does not fall fifty times.
TEST(Bracket, RefusalsOfOneEpochCountOnce) {
  Bracket bracket(1000, seconds(60), 0.03);
  const Instant sent = kDawn + seconds(100);
  for (int i = 0; i < 50; ++i) {
    bracket.refused(801 + i, 1, sent + milliseconds(i), seconds(20), sent + seconds(20));
  }
  EXPECT_EQ(bracket.amount(), 752) << "the first canary, at 94 % of 800";
}

TEST(Bracket, ACanaryNobodyRefusesCountsAsAccepted) {
  Bracket bracket(1000, seconds(60), 0.03);
  const Instant sent = kDawn + seconds(100);
  bracket.refused(501, 1, sent, milliseconds(100), sent + milliseconds(100));
  ASSERT_TRUE(bracket.drains());
  const Instant canary = sent + seconds(5);
  bracket.granted(canary);
  bracket.sent(470, canary);
  EXPECT_GT(bracket.closed_until(), canary) << "one at a time";
  bracket.roll(true, canary + milliseconds(199));
  EXPECT_TRUE(bracket.drains());
  bracket.roll(true, canary + milliseconds(200));
  EXPECT_FALSE(bracket.drains());
  EXPECT_EQ(bracket.amount(), 497);
}

// Where every call is a tenth of the limit, a probe of three hundredths lets none through.
TEST(Bracket, AProbeHasRoomForOneMoreOfTheSameSize) {
  Bracket bracket(1000, seconds(60), 0.05);
  Instant now = kDawn + seconds(100);
  bracket.refused(220, 20, now, milliseconds(100), now + milliseconds(100));
  now += seconds(30);
  bracket.granted(now);
  bracket.sent(180, now);
  bracket.accepted(180, now, now + milliseconds(100));
  ASSERT_FALSE(bracket.drains());
  const std::int64_t kept = bracket.amount();
  EXPECT_LE(kept, 200);
  EXPECT_GE(kept, 198) << "180 is all that fits below 188: it was as much as was asked";
  now += seconds(120);  // ten calls to a window: a probe may cost one of them seldom
  bracket.roll(true, now);
  ASSERT_TRUE(bracket.probes());
  EXPECT_EQ(bracket.amount(), kept + 20);
  for (std::int64_t sum = 219; sum <= 600; sum += 20) {
    now += seconds(1);
    ASSERT_GE(bracket.amount(), sum);
    bracket.accepted(sum, now, now + milliseconds(100));
    bracket.roll(true, now);
  }
}

TEST(Bracket, ExtremeAmountsHold) {
  for (const std::int64_t told : {std::int64_t{0}, std::int64_t{1}, INT64_MAX}) {
    Bracket bracket(told, seconds(1), 0.03);
    Instant now = kDawn + seconds(10);
    for (int i = 0; i < 200; ++i) {
      now += milliseconds(300);
      bracket.roll(true, now);
      bracket.granted(now);
      bracket.sent(i % 3, now);
      bracket.refused(i % 3, i % 2 == 0 ? INT64_MAX : 1, now, milliseconds(1),
                      now + milliseconds(1));
      EXPECT_GE(bracket.amount(), 0);
      EXPECT_LE(bracket.amount(), std::max<std::int64_t>(told, 1));
    }
  }
}

}  // namespace
}  // namespace weir::governor
