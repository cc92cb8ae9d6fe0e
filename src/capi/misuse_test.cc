// SPDX-License-Identifier: Apache-2.0
// The C boundary under values that nobody means: whatever comes in, a status comes out, and what
// the governor holds stays whole. Worth the most under sanitizers.
#include <gtest/gtest.h>

#include <array>
#include <new>
#include <stdexcept>
#include <vector>

#include "capi/handles.h"
#include "weir/rng.h"

namespace weir::capi {
namespace {

TEST(CApiBoundary, NoExceptionPassesAndTheHandleSaysSoFromThenOn) {
  weir_policy policy;
  const auto out_of_memory = [](weir_policy&) -> std::int32_t {
    throw std::bad_alloc();  // tidy: allow throw (what the boundary is tested with)
  };
  EXPECT_EQ(guarded(&policy, out_of_memory), WEIR_ERROR_MEMORY);
  EXPECT_EQ(weir_policy_set_max_calls(&policy, 5), WEIR_ERROR_MEMORY);
  EXPECT_STREQ(weir_policy_error(&policy), weir_status_text(WEIR_ERROR_MEMORY));
  weir_policy other;
  const auto fault = [](weir_policy&) -> std::int32_t {
    throw std::logic_error("x");  // tidy: allow throw (what the boundary is tested with)
  };
  EXPECT_EQ(guarded(&other, fault), WEIR_ERROR_INTERNAL);
  EXPECT_EQ(weir_policy_set_max_calls(&other, 5), WEIR_ERROR_INTERNAL);
}

/// Draws values that are good most of the time, else from the ends of their types.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : rng_(seed) {}
  std::uint64_t below(std::uint64_t bound) { return rng_.below(bound); }
  bool rarely() { return rng_.below(40) == 0; }
  std::int64_t number(std::int64_t good) {
    constexpr std::array<std::int64_t, 9> kOdd = {
        INT64_MIN, INT64_MAX, INT64_MAX - 1, -1, -2, 0, 1, 1'000'000'000'000, INT64_MAX / 2};
    if (rarely()) return kOdd[rng_.below(kOdd.size())];
    return static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(good) + 1));
  }
  std::int32_t small(std::int32_t good) {
    constexpr std::array<std::int32_t, 5> kOdd = {INT32_MIN, INT32_MAX, -1, 100, 0};
    if (rarely()) return kOdd[rng_.below(kOdd.size())];
    return static_cast<std::int32_t>(rng_.below(static_cast<std::uint64_t>(good) + 1));
  }

 private:
  Rng rng_;
};

constexpr std::int64_t kSecond = 1'000'000'000;

weir_rule draw_rule(Draw& draw) {
  weir_rule rule;
  weir_rule_init(&rule, sizeof rule);
  rule.unit = draw.small(WEIR_CONCURRENCY);
  rule.amount = draw.number(300);
  rule.window_ns = rule.unit == WEIR_CONCURRENCY ? 0 : draw.number(60 * kSecond);
  rule.enforce = draw.small(WEIR_ENFORCE_UNKNOWN);
  rule.count = draw.small(WEIR_COUNT_INPUT);
  if (rule.enforce == WEIR_BUCKET) rule.burst = draw.number(100);
  return rule;
}

void draw_policy(Draw& draw, weir_policy* policy) {
  constexpr std::array<const char*, 3> kNames = {"a", "b", "c"};
  std::uint32_t id = 0;
  for (const char* name : kNames) {
    weir_deployment one;
    weir_deployment_init(&one, sizeof one);
    one.name = name;
    one.strategy = draw.small(WEIR_SHAPING);
    one.mode = draw.below(4) == 0 ? draw.small(WEIR_OBSERVE) : WEIR_ENFORCE;
    one.start_level = static_cast<double>(draw.below(3)) / 2;
    one.warmup_ns = draw.rarely() ? draw.number(kSecond) : 0;
    one.lease_ns = 1 + draw.number(30 * kSecond) / 2;
    one.retry_attempts = draw.small(5);
    one.retry_base_ns = draw.number(kSecond);
    one.mean_output_tokens = 5;  // or no call would fit the limits drawn here
    if (weir_policy_add_deployment(policy, &one, &id) != WEIR_OK) continue;
    for (int i = 0; i < 3; ++i) {
      const weir_rule rule = draw_rule(draw);
      weir_policy_add_rule(policy, id, &rule);
    }
    std::uint32_t node = 0;
    weir_policy_add_node(policy, name,
                         draw.rarely()        ? 7
                         : draw.below(2) == 0 ? WEIR_NONE
                                              : 0,
                         draw.rarely() ? draw.small(WEIR_OBSERVE) : WEIR_ENFORCE, &node);
    const weir_rule limit = draw_rule(draw);
    weir_policy_limit_node(policy, node, &limit);
    std::uint32_t model = 0;
    weir_policy_add_model(policy, name, draw.small(WEIR_RESERVE_P95), &model);
    for (std::uint32_t to = 0; to < 3; ++to) {
      weir_policy_add_candidate(policy, model, to, draw.small(2), draw.small(3));
    }
    weir_class traffic_class;
    weir_class_init(&traffic_class, sizeof traffic_class);
    traffic_class.name = name;
    traffic_class.max_wait_ns = draw.number(20 * kSecond);
    traffic_class.depth = draw.number(30);
    weir_policy_add_class(policy, &traffic_class, &id);
  }
}

/// One governor under a long drawn sequence of calls of the interface.
class Sequence {
 public:
  explicit Sequence(std::uint64_t seed) : draw_(seed) {}
  ~Sequence() { weir_governor_destroy(governor_); }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  /// How many calls were granted or queued, so that a test can tell that it tested something.
  [[nodiscard]] std::size_t known() const { return calls_.size(); }

  void run(int steps) {
    while (governor_ == nullptr) start();
    for (int i = 0; i < steps; ++i) step();
    for (const weir_call call : calls_) weir_cancel(governor_, call, now_);
    weir_totals totals{sizeof totals, -1, -1};
    ASSERT_EQ(weir_snapshot(governor_, now_, &totals), WEIR_OK);
    EXPECT_EQ(totals.queued, 0);
    EXPECT_EQ(totals.inflight, 0);
    weir_deployment_view view{};
    weir_meter_view meter{};
    view.struct_size = sizeof view;
    meter.struct_size = sizeof meter;
    for (std::uint32_t i = 0; i < 3; ++i) {
      if (weir_snapshot_deployment(governor_, i, &view) != WEIR_OK) continue;
      EXPECT_EQ(view.inflight, 0);
      for (std::uint32_t rule = 0; rule < view.meters; ++rule) {
        ASSERT_EQ(weir_snapshot_meter(governor_, i, rule, &meter), WEIR_OK);
        EXPECT_EQ(meter.reserved, 0) << "an ended call holds something";
      }
    }
  }

 private:
  void start() {
    weir_policy* policy = nullptr;
    ASSERT_EQ(weir_policy_create(&policy), WEIR_OK);
    draw_policy(draw_, policy);
    if (governor_ == nullptr) {
      weir_governor_create(policy, draw_.below(9), now_, &governor_);
    } else {
      weir_governor_apply(governor_, policy, now_);
    }
    weir_policy_destroy(policy);
  }
  std::int64_t time() {
    if (draw_.below(1000) == 0) return draw_.number(kSecond);
    now_ += static_cast<std::int64_t>(draw_.below(kSecond / 4));
    return now_;
  }
  weir_call call() {
    if (calls_.empty() || draw_.rarely()) return draw_.below(UINT64_MAX);
    return calls_[draw_.below(calls_.size())];
  }
  // Of nodes, models and classes there are one to three.
  std::uint32_t which() {
    return static_cast<std::uint32_t>(draw_.below(4) == 0 ? draw_.below(4) : 0);
  }
  weir_signal signal() {
    weir_signal made;
    weir_signal_init(&made, sizeof made);
    made.kind = draw_.small(WEIR_SIGNAL_OTHER);
    made.limited_unit = draw_.small(WEIR_CONCURRENCY);
    if (draw_.below(2) == 0) made.retry_after_ns = draw_.number(3 * kSecond);
    if (draw_.below(2) == 0) made.round_trip_ns = draw_.number(kSecond / 100);
    for (weir_reading* each : {&made.requests, &made.tokens, &made.output_tokens}) {
      if (draw_.below(2) == 0) *each = {draw_.number(50), draw_.number(2), draw_.number(kSecond)};
    }
    return made;
  }
  void submit() {
    weir_request request;
    weir_decision decision{};
    decision.struct_size = sizeof decision;
    weir_request_init(&request, sizeof request);
    request.node = which();
    request.model = which();
    request.traffic_class = which();
    if (draw_.rarely()) request.choices = draw_.small(2);
    request.input_bytes = draw_.number(100);
    request.max_output_tokens = draw_.number(30);
    if (draw_.rarely()) request.max_wait_ns = draw_.number(kSecond);
    if (draw_.rarely()) request.deadline_ns = draw_.number(kSecond);
    request.no_output = draw_.rarely() ? 1 : 0;
    if (weir_submit(governor_, &request, time(), &decision) == WEIR_OK && decision.call != 0) {
      calls_.push_back(decision.call);
    }
  }
  void advance() {
    std::array<weir_decision, WEIR_EVENTS_AT_ONCE> events{};
    std::size_t count = 0;
    std::int32_t more = 0;
    weir_advance(governor_, time(), events.data(), sizeof events[0], events.size(), &count, &more);
    ASSERT_LE(count, events.size());
    std::int64_t due = 0;
    ASSERT_EQ(weir_next_deadline(governor_, &due), WEIR_OK);
  }
  void settle() {
    weir_settlement settlement;
    weir_settlement_init(&settlement, sizeof settlement);
    settlement.ending = draw_.small(WEIR_NEVER_SENT);
    if (draw_.below(2) == 0) {
      settlement.input_tokens = draw_.number(100);
      settlement.output_tokens = draw_.number(100);
      settlement.cached_input_tokens = draw_.number(100);
    }
    settlement.output_events = draw_.number(20);
    weir_usage usage{sizeof usage, 0, 0};
    weir_settle(governor_, call(), &settlement, time(), &usage);
  }
  void step() {
    weir_decision decision{};
    decision.struct_size = sizeof decision;
    const weir_signal told = signal();
    switch (draw_.below(12)) {
      case 0: return void(weir_sent(governor_, call(), time()));
      case 1: return void(weir_progress(governor_, call(), draw_.number(50), time()));
      case 2:
        return void(
            weir_observe(governor_, static_cast<std::uint32_t>(draw_.below(4)), &told, time()));
      case 3:
        return void(weir_rejected(governor_, call(), &told, draw_.small(1), time(), &decision));
      case 4:
      case 5: return settle();
      case 6: return void(weir_cancel(governor_, call(), time()));
      case 7:
        if (draw_.rarely()) start();
        return;
      case 8: return advance();
      default: return submit();
    }
  }

  Draw draw_;
  weir_governor* governor_ = nullptr;
  std::vector<weir_call> calls_;
  std::int64_t now_ = 0;
};

TEST(CApiBoundary, DrawnCallsLeaveNothingHeld) {
  std::size_t known = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Sequence sequence(seed);
    sequence.run(400);
    known += sequence.known();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(known, 5'000U);
}

}  // namespace
}  // namespace weir::capi
