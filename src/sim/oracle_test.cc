// SPDX-License-Identifier: Apache-2.0
#include "sim/oracle.h"

#include <gtest/gtest.h>

#include "weir/rng.h"

namespace weir::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

Rule requests(std::int64_t amount, Enforcement enforce) {
  return {Unit::requests, amount, seconds(60), enforce, Counting::settle, std::nullopt};
}

std::vector<Arrival> arrivals_at(std::initializer_list<int> times) {
  std::vector<Arrival> arrivals;
  for (const int at : times) {
    Arrival arrival;
    arrival.at = Instant(seconds(at));
    arrival.input_tokens = 10;
    arrival.output_tokens = 20;
    arrivals.push_back(arrival);
  }
  return arrivals;
}

TEST(Oracle, KeepsTheSlidingSumAtEveryInstant) {
  const auto starts = clairvoyant_fifo(arrivals_at({0, 1, 2, 3}),
                                       {requests(2, Enforcement::sliding)}, minutes(10), {});
  EXPECT_EQ(starts[0].at, Instant(seconds(0)));
  EXPECT_EQ(starts[1].at, Instant(seconds(1)));
  EXPECT_EQ(starts[2].at, Instant(seconds(60)));
  EXPECT_EQ(starts[3].at, Instant(seconds(61)));
}

TEST(Oracle, BucketStartsFullAndRefillsExactly) {
  const auto starts = clairvoyant_fifo(arrivals_at({0, 0, 0, 0}),
                                       {requests(2, Enforcement::bucket)}, minutes(10), {});
  EXPECT_EQ(starts[1].at, Instant(seconds(0)));
  EXPECT_EQ(starts[2].at, Instant(seconds(30)));
  EXPECT_EQ(starts[3].at, Instant(seconds(60)));
}

TEST(Oracle, ThoseWhoWaitTooLongLeaveTheLine) {
  const auto starts =
      clairvoyant_fifo(arrivals_at({0, 1, 50}), {requests(1, Enforcement::fixed)}, seconds(20), {});
  EXPECT_TRUE(starts[0].at.has_value());
  EXPECT_FALSE(starts[1].at.has_value());
  EXPECT_EQ(starts[2].at, Instant(seconds(60)));
}

TEST(Oracle, WhatNeverFitsDoesNotBlock) {
  Rule tokens{Unit::total_tokens, 25,          seconds(60), Enforcement::sliding,
              Counting::settle,   std::nullopt};
  auto arrivals = arrivals_at({0, 1});
  arrivals[1].output_tokens = 5;
  const auto starts = clairvoyant_fifo(arrivals, {tokens}, minutes(10), {});
  EXPECT_FALSE(starts[0].at.has_value());
  EXPECT_EQ(starts[1].at, Instant(seconds(1)));
}

TEST(Oracle, ConcurrencyWaitsForAnEnd) {
  const Rule slots{Unit::concurrency, 1,           Duration{0}, Enforcement::unknown,
                   Counting::settle,  std::nullopt};
  const auto starts = clairvoyant_fifo(arrivals_at({0, 1, 2}), {slots}, minutes(10),
                                       {seconds(5), seconds(7), seconds(1)});
  EXPECT_EQ(starts[1].at, Instant(seconds(5)));
  EXPECT_EQ(starts[2].at, Instant(seconds(12)));
}

TEST(Oracle, CostsFollowTheCounting) {
  Arrival arrival;
  arrival.input_tokens = 10;
  arrival.output_tokens = 20;
  arrival.max_output_tokens = 64;
  Rule rule{Unit::total_tokens, 1,           seconds(60), Enforcement::sliding,
            Counting::settle,   std::nullopt};
  EXPECT_EQ(whole_cost(rule, arrival), 30);
  rule.count = Counting::reserve;
  EXPECT_EQ(whole_cost(rule, arrival), 74);
  rule.count = Counting::input;
  EXPECT_EQ(whole_cost(rule, arrival), 10);
  rule.unit = Unit::output_tokens;
  EXPECT_EQ(whole_cost(rule, arrival), 0);
}

TEST(Oracle, NoWindowOfARandomRunIsOverfull) {
  Workload workload;
  workload.arrivals.rates = {{Duration{0}, 20}};
  const auto arrivals = make_arrivals(workload, minutes(5), 3);
  const std::vector<Rule> rules = {requests(600, Enforcement::sliding),
                                   {Unit::total_tokens, 300'000, seconds(60), Enforcement::sliding,
                                    Counting::settle, std::nullopt}};
  const auto starts = clairvoyant_fifo(arrivals, rules, seconds(30), {});
  for (const Rule& rule : rules) {
    std::int64_t sum = 0;
    std::size_t first = 0;
    for (std::size_t index = 0; index < starts.size(); ++index) {
      if (!starts[index].at) continue;
      sum += whole_cost(rule, arrivals[index]);
      for (; !starts[first].at || *starts[index].at - *starts[first].at >= rule.window; ++first) {
        if (starts[first].at) sum -= whole_cost(rule, arrivals[first]);
      }
      ASSERT_LE(sum, rule.amount);
    }
  }
}

TEST(ClairvoyantBackfill, TakesWhatFitsPastOneThatDoesNot) {
  Rule rule;
  rule.unit = Unit::input_tokens;
  rule.amount = 10;
  rule.window = seconds(60);
  std::vector<Arrival> arrivals(4);
  const std::int64_t sizes[] = {6, 8, 3, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    arrivals[i].at = Instant(seconds(static_cast<std::int64_t>(i)));
    arrivals[i].input_tokens = sizes[i];
  }
  const auto fifo = clairvoyant_fifo(arrivals, {rule}, std::chrono::hours(1), {});
  EXPECT_EQ(fifo[1].at, Instant(seconds(60)));
  EXPECT_EQ(fifo[2].at, Instant(seconds(120))) << "behind the large one";
  const auto filled = clairvoyant_backfill(arrivals, {rule}, std::chrono::hours(1), {}, 16);
  EXPECT_EQ(filled[0].at, Instant(seconds(0)));
  EXPECT_EQ(filled[2].at, Instant(seconds(2)));
  EXPECT_EQ(filled[3].at, Instant(seconds(3)));
  EXPECT_EQ(filled[1].at, Instant(seconds(62))) << "6 leave at 60, 3 at 62";
  const auto one = clairvoyant_backfill(arrivals, {rule}, std::chrono::hours(1), {}, 1);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(one[i].at, fifo[i].at) << i;
}

}  // namespace
}  // namespace weir::sim
