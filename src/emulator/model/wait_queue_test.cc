// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/wait_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::emulator::model {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Instant at(Duration since) { return Instant(since); }
const Instant kStart = at(seconds(0));

ProviderRules one_per_second() {
  ProviderSettings settings;
  settings.rules = {
      {Unit::requests, 1, seconds(1), Enforcement::sliding, Counting::settle, std::nullopt}};
  return {settings, kStart};
}

/// Moves on until nothing waits; when each ticket was answered and whether it was admitted.
struct Answered {
  WaitTicket ticket;
  Instant when;
  bool admitted;
  bool operator==(const Answered&) const = default;
};
std::vector<Answered> play(WaitQueue& queue, ProviderRules& rules) {
  std::vector<Answered> all;
  std::vector<WaitQueue::Answer> due;
  for (int turn = 0; turn < 1000 && queue.next() != kNever; ++turn) {
    const Instant now = queue.next();
    due.clear();
    queue.advance(rules, now, due);
    for (const auto& one : due) all.push_back({one.ticket, now, one.admission.admitted});
  }
  return all;
}

TEST(WaitQueue, AdmitsInOrderAndRefusesWhenTheTimeIsOver) {
  ProviderRules rules = one_per_second();
  WaitQueue queue({.longest = seconds(3), .what = WaitsFor::any});
  EXPECT_TRUE(queue.submit(rules, {}, seconds(60), kStart).admission.admitted);
  for (WaitTicket ticket = 1; ticket <= 4; ++ticket) {
    EXPECT_EQ(queue.submit(rules, {}, seconds(60), kStart).ticket, ticket);
  }
  EXPECT_EQ(rules.counters().refused, 0) << "who waits is not refused yet";
  const std::vector<Answered> wanted = {{1, at(seconds(1)), true},
                                        {2, at(seconds(2)), true},
                                        {3, at(seconds(3)), true},
                                        {4, at(seconds(3)), false}};
  EXPECT_EQ(play(queue, rules), wanted);
  EXPECT_EQ(rules.counters().refused, 1);
  EXPECT_EQ(rules.counters().admitted, 4);
}

TEST(WaitQueue, WithoutPatienceOrLengthNothingWaits) {
  ProviderRules rules = one_per_second();
  WaitQueue none({});
  WaitQueue queue({.longest = seconds(3), .what = WaitsFor::any});
  EXPECT_TRUE(queue.submit(rules, {}, seconds(1), kStart).admission.admitted);
  EXPECT_EQ(none.submit(rules, {}, seconds(60), kStart).ticket, 0U);
  EXPECT_EQ(queue.submit(rules, {}, Duration{0}, kStart).ticket, 0U);
  EXPECT_EQ(rules.counters().refused, 2);
}

TEST(WaitQueue, WaitsOutGrowthOnlyUnlessToldOtherwise) {
  ProviderSettings settings;
  settings.rules = {
      {Unit::requests, 12, seconds(60), Enforcement::sliding, Counting::settle, std::nullopt}};
  settings.growth = {{.of = Unit::requests, .floor = 10}};
  ProviderRules rules(settings, kStart);
  WaitQueue queue({.longest = seconds(30)});
  for (int call = 0; call < 10; ++call) {
    EXPECT_TRUE(queue.submit(rules, {}, seconds(30), kStart).admission.admitted);
  }
  for (int call = 0; call < 3; ++call) {
    EXPECT_NE(queue.submit(rules, {}, seconds(30), kStart).ticket, 0U);
  }
  const std::vector<Answered> wanted = {
      {1, at(seconds(10)), true}, {2, at(seconds(10)), true}, {3, at(seconds(10)), false}};
  EXPECT_EQ(play(queue, rules), wanted) << "the thirteenth meets the limit, which it may not wait";
  EXPECT_EQ(rules.counters().refused_by_growth, 0);
}

TEST(WaitQueue, WhoLeavesMakesRoomAndIsNotCounted) {
  ProviderRules rules = one_per_second();
  WaitQueue queue({.longest = seconds(10), .what = WaitsFor::any, .depth = 2});
  queue.submit(rules, {}, seconds(10), kStart);
  const WaitTicket first = queue.submit(rules, {}, seconds(10), kStart).ticket;
  const WaitTicket second = queue.submit(rules, {}, seconds(10), kStart).ticket;
  EXPECT_EQ(queue.submit(rules, {}, seconds(10), kStart).ticket, 0U) << "the queue is full";
  queue.cancel(first);
  queue.cancel(first);
  EXPECT_EQ(queue.size(), 1U);
  std::vector<WaitQueue::Answer> due;
  queue.advance(rules, at(milliseconds(500)), due);
  EXPECT_TRUE(due.empty());
  const std::vector<Answered> wanted = {{second, at(seconds(1)), true}};
  EXPECT_EQ(play(queue, rules), wanted);
  EXPECT_EQ(rules.counters().refused, 1);
}

TEST(WaitQueue, WhatNeverFitsDoesNotWait) {
  ProviderSettings settings;
  settings.rules = {
      {Unit::input_tokens, 100, seconds(60), Enforcement::sliding, Counting::input, std::nullopt}};
  ProviderRules rules(settings, kStart);
  WaitQueue queue({.longest = seconds(10), .what = WaitsFor::any});
  const auto answer = queue.submit(rules, {101, 0}, seconds(10), kStart);
  EXPECT_EQ(answer.ticket, 0U);
  EXPECT_TRUE(answer.admission.never_fits);
}

TEST(WaitQueue, AFreedSlotIsTakenWithoutAHint) {
  ProviderSettings settings;
  settings.rules = {
      {Unit::concurrency, 1, Duration{0}, Enforcement::unknown, Counting::settle, std::nullopt}};
  ProviderRules rules(settings, kStart);
  WaitQueue queue({.longest = seconds(10), .what = WaitsFor::any});
  const auto running = queue.submit(rules, {}, seconds(10), kStart);
  const auto waiting = queue.submit(rules, {}, seconds(10), kStart);
  EXPECT_NE(waiting.ticket, 0U);
  rules.finish(running.admission.attempt, 1, 1, at(seconds(2)));
  std::vector<WaitQueue::Answer> due;
  queue.advance(rules, at(seconds(2)), due);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_TRUE(due[0].admission.admitted);
}

}  // namespace
}  // namespace weir::emulator::model
