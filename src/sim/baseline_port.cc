// SPDX-License-Identifier: Apache-2.0
#include "sim/baseline_port.h"

#include <algorithm>
#include <cmath>

namespace weir::sim {
namespace {

constexpr std::size_t kMostEvents = 64;
/// Beside amounts of one and more; it keeps rounding from asking for a wait of no length.
constexpr double kTiny = 1e-6;

}  // namespace

BaselinePort::BaselinePort(std::shared_ptr<const Policy> policy, std::uint64_t seed)
    : policy_(std::move(policy)), rng_(seed ^ 0xba5eULL) {}

Instant BaselinePort::may_go(const Cost&, Instant now) const { return now; }
void BaselinePort::goes(const Cost&, Instant) {}
void BaselinePort::ended(const Cost&, const End&, Instant) {}
std::optional<Duration> BaselinePort::pause(std::int32_t) { return std::nullopt; }

BaselinePort::Cost BaselinePort::cost_of(const Demand& demand) const {
  Cost cost;
  const double bytes = static_cast<double>(demand.input_bytes);
  cost.input = demand.input_tokens.value_or(
      std::llround(bytes / std::max(deployment().bytes_per_token, kTiny)));
  cost.output = demand.max_output_tokens.value_or(std::llround(deployment().mean_output_tokens));
  return cost;
}

bool BaselinePort::slot_free() const { return slots() == 0 || under_way_ < slots(); }

BaselinePort::Held* BaselinePort::find(CallId call) {
  if (call.slot >= calls_.size()) return nullptr;
  Held& held = calls_[call.slot];
  if (held.state == State::unused || held.generation != call.generation) return nullptr;
  return &held;
}

void BaselinePort::stand_in_line(std::uint32_t slot, Instant patience_ends) {
  Held& held = calls_[slot];
  held.state = State::in_line;
  held.place = next_place_++;
  held.timer = patience_ends;
  line_.emplace(held.place, slot);
  if (held.timer != kNever) timers_.emplace(held.timer, slot);
}

void BaselinePort::leave_line_or_pause(std::uint32_t slot) {
  Held& held = calls_[slot];
  if (held.state == State::in_line) line_.erase({held.place, slot});
  if (held.timer != kNever) timers_.erase({held.timer, slot});
  held.timer = kNever;
}

void BaselinePort::release(std::uint32_t slot) {
  calls_[slot].state = State::unused;
  ++calls_[slot].generation;
  free_.push_back(slot);
}

void BaselinePort::start(std::uint32_t slot, Instant now) {
  Held& held = calls_[slot];
  held.state = State::under_way;
  held.left = now;
  ++under_way_;
  goes(held.cost, now);
}

governor::Outcome BaselinePort::submit(const Call& call, Instant now) {
  if (free_.empty()) {
    if (static_cast<std::int64_t>(calls_.size()) >= policy_->max_calls) {
      Refusal refusal;
      refusal.decision = Decision::queue_full;
      return governor::Refused{refusal};
    }
    free_.push_back(static_cast<std::uint32_t>(calls_.size()));
    calls_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  Held& held = calls_[slot];
  const std::uint32_t generation = held.generation;
  held = {};
  held.generation = generation;
  held.cookie = call.cookie;
  held.cost = cost_of(call.demand);
  held.since = now;
  if (next_tick() <= now) tick(now);
  if (line_.empty() && slot_free() && may_go(held.cost, now) <= now) {
    start(slot, now);
    return governor::Admitted{{slot, generation}, {}};
  }
  ++waiting_;
  stand_in_line(slot, saturating_add(now, policy_->classes.front().max_wait));
  return governor::Queued{{slot, generation}, {}};
}

bool BaselinePort::advance(Instant now, std::vector<governor::Event>& events) {
  if (next_tick() <= now) tick(now);
  std::size_t made = 0;
  while (!timers_.empty() && timers_.begin()->first <= now && made < kMostEvents) {
    const std::uint32_t slot = timers_.begin()->second;
    const bool pausing = calls_[slot].state == State::pausing;
    leave_line_or_pause(slot);
    if (pausing) {
      stand_in_line(slot, kNever);
      continue;
    }
    Refusal refusal;
    refusal.decision = Decision::queue_timeout;
    refusal.queued = now - calls_[slot].since;
    events.push_back({{slot, calls_[slot].generation}, calls_[slot].cookie, refusal});
    --waiting_;
    release(slot);
    ++made;
  }
  while (!line_.empty() && slot_free() && made < kMostEvents) {
    const std::uint32_t slot = line_.begin()->second;
    if (may_go(calls_[slot].cost, now) > now) break;
    leave_line_or_pause(slot);
    --waiting_;
    start(slot, now);
    Grant grant;
    grant.attempt = calls_[slot].attempts;
    grant.queued = now - calls_[slot].since;
    events.push_back({{slot, calls_[slot].generation}, calls_[slot].cookie, grant});
    ++made;
  }
  return made >= kMostEvents;
}

Instant BaselinePort::next_deadline() const {
  Instant due = timers_.empty() ? kNever : timers_.begin()->first;
  if (!line_.empty()) {
    due = std::min(due, next_tick());
    if (slot_free()) {
      due = std::min(due, may_go(calls_[line_.begin()->second].cost, Instant{}));
    }
  }
  return due;
}

governor::Verdict BaselinePort::rejected(CallId call, const Signal&, bool replayable, Instant now) {
  Held* held = find(call);
  if (held == nullptr || held->state != State::under_way) return governor::GaveUp{};
  --under_way_;
  ended(held->cost, {true, {}, now - held->left}, now);
  const std::optional<Duration> wait = replayable ? pause(held->attempts) : std::nullopt;
  if (!wait) {
    Refusal refusal;
    refusal.decision = Decision::admitted_then_provider_rejected;
    refusal.attempts = held->attempts;
    release(call.slot);
    return governor::GaveUp{refusal};
  }
  ++held->attempts;
  ++waiting_;
  held->state = State::pausing;
  held->timer = saturating_add(now, *wait);
  timers_.emplace(held->timer, call.slot);
  return governor::Requeued{*wait};
}

governor::Settled BaselinePort::settle(CallId call, const Settlement& settlement, Instant now) {
  Held* held = find(call);
  if (held == nullptr || held->state != State::under_way) {
    return governor::Settled::already_settled;
  }
  --under_way_;
  ended(held->cost, {false, settlement.reported.value_or(Usage{}), now - held->left}, now);
  release(call.slot);
  return governor::Settled::settled;
}

void BaselinePort::cancel(CallId call, Instant now) {
  Held* held = find(call);
  if (held == nullptr) return;
  if (held->state == State::under_way) {
    --under_way_;
    ended(held->cost, {false, {}, now - held->left}, now);
  } else {
    leave_line_or_pause(call.slot);
    --waiting_;
  }
  release(call.slot);
}

void BaselinePort::snapshot(governor::Snapshot& into, Instant) const {
  into.queued = waiting_;
  into.inflight = under_way_;
}

double DebtBucket::level_at(Instant now) const {
  if (now <= at_) return level_;
  return std::min(capacity_, level_ + to_seconds(now - at_) * per_second_);
}

Instant DebtBucket::covers(double amount, Instant now) const {
  const double missing = std::min(amount, capacity_) - level_;
  if (missing <= kTiny) return std::max(now, at_);
  if (!(per_second_ > 0)) return kNever;
  // One nanosecond more, so that the level is there when the time has come.
  const Duration wait = from_seconds(missing / per_second_) + Duration(1);
  return std::max(now, saturating_add(at_, wait));
}

void DebtBucket::take(double amount, Instant now) {
  level_ = std::min(capacity_, level_at(now) - amount);
  at_ = std::max(at_, now);
}

void DebtBucket::set_rate(double per_second, Instant now) {
  take(0, now);
  per_second_ = per_second;
}

}  // namespace weir::sim
