// SPDX-License-Identifier: Apache-2.0
// How granted calls end: settled, refused by the provider, cancelled, or lost.
#include <algorithm>

#include "governor/impl.h"
#include "governor/meant.h"

namespace weir::governor {
namespace {

constexpr std::size_t kTombstones = 1024;
constexpr std::size_t kDebtAlarms = 64;
constexpr double kSpeedWeight = 1.0 / 64;
constexpr int kLostAtOnce = 64;
constexpr int kSpentInRow = 5;
constexpr Duration kMaxHint = std::chrono::hours(24);
constexpr std::int64_t kWokenAtOnce = 16;

// What a call was booked with, as a usage: a report is told as it came, cached tokens included.
Usage charged_of(const Settlement& settlement, const Actual& actual) {
  if (!actual.tokens_charged) return {};
  Usage usage = settlement.reported.value_or(Usage{});
  if (!settlement.reported) usage.input_tokens = actual.input;
  usage.input_tokens = std::clamp<std::int64_t>(usage.input_tokens, 0, kMaxTokens);
  usage.output_tokens = actual.output;
  return usage;
}

}  // namespace

void Governor::Impl::lease_push(std::uint32_t slot) {
  Record& record = calls_[slot];
  DeploymentState& state = *record.terms->deployments[record.deployment].state;
  const std::size_t list = record.progressed.sent ? 1 : 0;
  record.prev = state.lease_tail[list];
  record.next = kNoIndex;
  (record.prev == kNoIndex ? state.lease_head[list] : calls_[record.prev].next) = slot;
  state.lease_tail[list] = slot;
}

void Governor::Impl::lease_remove(std::uint32_t slot) {
  Record& record = calls_[slot];
  DeploymentState& state = *record.terms->deployments[record.deployment].state;
  const std::size_t list = record.progressed.sent ? 1 : 0;
  (record.prev == kNoIndex ? state.lease_head[list] : calls_[record.prev].next) = record.next;
  (record.next == kNoIndex ? state.lease_tail[list] : calls_[record.next].prev) = record.prev;
  record.prev = record.next = kNoIndex;
}

Instant Governor::Impl::next_lease() const {
  Instant soonest = kNever;
  for (const auto& state : states_) {
    for (const std::size_t list : {0U, 1U}) {
      if (state->lease_head[list] == kNoIndex) continue;
      const Duration lease = list == 0 ? state->send_lease : state->lease;
      soonest =
          std::min(soonest, saturating_add(calls_[state->lease_head[list]].renewed_at, lease));
    }
  }
  return soonest;
}

bool Governor::Impl::expire_leases(Instant now) {
  int left = kLostAtOnce;
  for (const auto& state : states_) {
    for (const std::size_t list : {0U, 1U}) {
      const Duration lease = list == 0 ? state->send_lease : state->lease;
      while (state->lease_head[list] != kNoIndex) {
        const std::uint32_t slot = state->lease_head[list];
        Record& record = calls_[slot];
        if (saturating_add(record.renewed_at, lease) > now) break;
        if (left-- == 0) return true;
        Settlement lost;
        lost.ending = record.progressed.sent ? Ending::truncated : Ending::never_sent;
        lost.output_events = record.events;
        const Actual actual = actual_of(record, lost);
        Tombstone stone{id_of(slot), record.terms, record.call,           record.deployment,
                        record.cost, actual,       record.progressed.sent};
        stone.as_enforced = record.as_enforced;
        if (!record.progressed.sent) stone.booked = Actual{0, 0, false, false};
        if (tombstones_.size() < kTombstones) {
          tombstones_.push_back(std::move(stone));
        } else {
          tombstones_[next_tombstone_] = std::move(stone);
          next_tombstone_ = (next_tombstone_ + 1) % kTombstones;
        }
        finish(slot, actual, now);
      }
    }
  }
  return false;
}

// A request that leaves after its reservation was given up still reaches the provider: the mirrors
// have to hold it, though its slot is not taken again.
void Governor::Impl::sent_late(CallId id, Instant now) {
  const auto found = std::find_if(tombstones_.begin(), tombstones_.end(),
                                  [&](const Tombstone& stone) { return stone.id == id; });
  if (found == tombstones_.end() || !id.valid() || found->sent) return;
  found->sent = found->stamped_late = true;
  const auto stamp = [&](const MeterRef& ref) {
    if (!found->cost.concerns(ref.claim.unit)) return true;
    ref.book(found->as_enforced,
             [&](RuleMeter& meter) { meter.sent_late(ref.claim, found->cost, now); });
    return true;
  };
  each_own(*found->terms, found->call, stamp);
  for (const MeterRef& ref : found->terms->deployments[found->deployment].rules) stamp(ref);
}

Actual Governor::Impl::actual_of(const Record& record, const Settlement& settlement) const {
  const DeploymentTerms& deployment = record.terms->deployments[record.deployment];
  const DeploymentPolicy& policy = record.terms->policy->deployments[record.deployment];
  Actual actual;
  if (settlement.ending == Ending::never_sent) return Actual{0, 0, false, false};
  if (settlement.reported) {
    const Usage& usage = *settlement.reported;
    actual.reported = true;
    actual.input = std::clamp<std::int64_t>(usage.input_tokens, 0, kMaxTokens);
    actual.output = std::clamp<std::int64_t>(usage.output_tokens, 0, kMaxTokens);
    if (!policy.cached_input_counted && usage.cached_input_tokens) {
      const std::int64_t cached =
          std::clamp<std::int64_t>(*usage.cached_input_tokens, 0, actual.input);
      actual.input -= cached;
    }
    return actual;
  }
  if (settlement.ending == Ending::failed) {
    actual.tokens_charged = false;
    return actual;
  }
  const std::int64_t events = std::max(record.events, settlement.output_events);
  const std::int64_t seen = deployment.state->estimator.output_of(events);
  actual.input = record.cost.input;
  actual.output = std::max(seen, record.cost.output);
  if (events > 0) actual.output = std::max<std::int64_t>(1, actual.output);
  return actual;
}

void Governor::Impl::learn(const Record& record, const Settlement& settlement) {
  const Terms& terms = *record.terms;
  const DeploymentTerms& deployment = terms.deployments[record.deployment];
  const DebtNote note = deployment.state->estimator.learn(
      record.call.demand, terms.asked(record.call, record.deployment), record.cost,
      *settlement.reported, std::max(record.events, settlement.output_events));
  if ((!note.input && !note.output) || debt_alarms_.size() >= kDebtAlarms) return;
  const std::uint32_t tenant = terms.nodes[record.call.leaf.value()].tenant_node;
  if (tenant >= terms.nodes.size()) return;
  debt_alarms_.push_back(
      {terms.policy->nodes[tenant].name, terms.policy->deployments[record.deployment].name,
       note.output ? Unit::output_tokens : Unit::input_tokens, note.charged, note.settled});
}

void Governor::Impl::release_own(Record& record, const Actual& actual, Instant now) {
  each_own(*record.terms, record.call, [&](const MeterRef& ref) {
    if (!record.cost.concerns(ref.claim.unit)) return true;
    ref.book(record.as_enforced, [&](RuleMeter& meter) {
      meter.finish(ref.claim, record.cost, record.progressed, actual, now);
    });
    if (ref.shared->waiters.head != kNoIndex) wake_waiters(*ref.shared, kWokenAtOnce);
    return true;
  });
}

void Governor::Impl::finish(std::uint32_t slot, const Actual& actual, Instant now) {
  ++revision_;
  Record& record = calls_[slot];
  lease_remove(slot);
  DeploymentTerms& deployment = record.terms->deployments[record.deployment];
  Progressed progressed = record.progressed;
  for (const MeterRef& ref : deployment.rules) {
    if (!record.cost.concerns(ref.claim.unit)) continue;
    ref.book(record.as_enforced, [&](RuleMeter& meter) {
      meter.finish(ref.claim, record.cost, progressed, actual, now);
    });
  }
  release_own(record, actual, now);
  DeploymentState& state = *deployment.state;
  --state.inflight;
  --inflight_;
  if (progressed.sent) {
    const double held = to_seconds(saturating_sub(now, record.granted_at));
    state.mean_seconds += (held - state.mean_seconds) * 0.05;
    if (record.cost.produces_output && actual.tokens_charged) {
      const double passed = to_seconds(saturating_sub(now, progressed.sent_at));
      state.produced += (static_cast<double>(actual.output) - state.produced) * kSpeedWeight;
      state.producing += (passed - state.producing) * kSpeedWeight;
      const double speed = state.producing > 0 ? state.produced / state.producing : 0;
      for (const MeterRef& ref : deployment.rules) {
        ref.book(true, [&](RuleMeter& meter) { meter.set_speed(speed); });
      }
    }
  }
  const bool requests_freed = !progressed.sent || !actual.request_counted;
  wake_groups(*record.terms, record.deployment, requests_freed);
  release_slot(slot);
}

Settled Governor::Impl::settle(CallId id, const Settlement& settlement, Instant now,
                               Usage* charged) {
  now = tick(now);
  if (charged != nullptr) *charged = Usage{};
  Record* record = find(id);
  if (record == nullptr) return settle_late(id, settlement, now, charged);
  if (record->state != State::granted) return Settled::already_settled;
  if (settlement.ending == Ending::never_sent && record->progressed.sent) {
    // It was stamped after all: whatever the provider got of it, no whole request was among it.
    const Actual none{0, 0, false, false};
    finish(id.slot, none, now);
    return Settled::settled;
  }
  if (settlement.ending != Ending::never_sent && !record->progressed.sent) sent(id, now);
  const Actual actual = actual_of(*record, settlement);
  if (charged != nullptr) *charged = charged_of(settlement, actual);
  if (settlement.reported || settlement.response_started) learn_acceptance(*record, now);
  note_answer(*record, settlement, now);
  DeploymentState& state = *record->terms->deployments[record->deployment].state;
  if (settlement.reported && settlement.ending == Ending::completed) {
    state.failures_in_row = 0;
    learn(*record, settlement);
  }
  finish(id.slot, actual, now);
  return Settled::settled;
}

Settled Governor::Impl::settle_late(CallId id, const Settlement& settlement, Instant now,
                                    Usage* charged) {
  if (settlement.ending != Ending::never_sent) sent_late(id, now);
  const auto found = std::find_if(tombstones_.begin(), tombstones_.end(),
                                  [&](const Tombstone& stone) { return stone.id == id; });
  if (found == tombstones_.end() || !id.valid()) return Settled::already_settled;
  Record record;
  record.call = found->call;
  record.terms = found->terms;
  record.deployment = found->deployment;
  record.cost = found->cost;
  const Actual actual = actual_of(record, settlement);
  const auto book = [&](const MeterRef& ref) {
    const Unit unit = ref.claim.unit;
    if (!record.cost.concerns(unit)) return true;
    const std::int64_t before =
        found->stamped_late ? RuleMeter::mirrored(ref.claim, found->cost) : found->booked.of(unit);
    ref.book(found->as_enforced,
             [&](RuleMeter& meter) { meter.book_late(ref.claim, actual.of(unit) - before, now); });
    return true;
  };
  each_own(*record.terms, record.call, book);
  for (const MeterRef& ref : record.terms->deployments[record.deployment].rules) book(ref);
  if (charged != nullptr) {
    *charged = charged_of(settlement, actual);
    // What the expiry booked is not given back.
    if (found->booked.tokens_charged) {
      charged->input_tokens = std::max(charged->input_tokens, found->booked.input);
      charged->output_tokens = std::max(charged->output_tokens, found->booked.output);
    }
  }
  // Keeps the ring in order: the place stays, the stone is blank.
  found->id = CallId{};
  found->terms.reset();
  return Settled::booked_late;
}

void Governor::Impl::cancel(CallId id, Instant now) {
  now = tick(now);
  Record* record = find(id);
  if (record == nullptr) return;
  if (record->state == State::queued) {
    dequeue(id.slot);
    release_slot(id.slot);
    clean_heaps();
    return;
  }
  Settlement settlement;
  settlement.ending = record->progressed.sent ? Ending::client_gone : Ending::never_sent;
  settlement.output_events = record->events;
  settle(id, settlement, now, nullptr);
}

bool Governor::Impl::hold_for(DeploymentTerms& deployment, const Signal& signal, Instant until,
                              Instant now) {
  const bool named = each_meant(deployment, signal.limiter,
                                [&](const MeterRef& ref) { ref.meter().hold(until, now); });
  if (named) return true;
  deployment.state->hold_until = std::max(deployment.state->hold_until, until);
  for (const MeterRef& ref : deployment.rules) ref.meter().hold(until, now);
  return false;
}

void Governor::Impl::decrease(DeploymentTerms& deployment, const Signal& signal, Record& record,
                              Instant now) {
  DeploymentState& state = *deployment.state;
  if (signal.limiter == Limiter::burst && record.progressed.sent_at > state.decreased_at) {
    bool known = false;
    for (const MeterRef& ref : deployment.rules) {
      known = known || ref.meter().grows();
      ref.meter().grew_too_fast(now);
    }
    if (known) state.decreased_at = now;
    if (known) return;
  }
  if (deployment.learns && learn_refusal(deployment, signal, record, now)) return;
  if (record.progressed.sent_at <= state.decreased_at) return;
  state.decreased_at = now;
  // What is learned by sums has been seen to.
  const auto slow_down = [&](const MeterRef& ref) {
    if (ref.meter().bracket() == nullptr) ref.meter().unexplained(now);
  };
  const bool named = each_meant(deployment, signal.limiter, slow_down);
  if (!deployment.learns) {
    if (named) return;
    for (const MeterRef& ref : deployment.rules) slow_down(ref);
  }
  if (signal.retry_after) return;
  // No rule was told that could explain it: the deployment as a whole slows down.
  state.failures_in_row = std::min(state.failures_in_row + 1, 10);
  const Duration pause =
      std::min<Duration>(std::chrono::milliseconds(50) * (std::int64_t{1} << state.failures_in_row),
                         std::chrono::seconds(10));
  state.hold_until = std::max(state.hold_until, saturating_add(now, pause));
}

// What the caller is told. Where we shape the traffic it gets a slot of its own at or after
// `earliest`, so that those who were refused together do not come back together.
Refusal Governor::Impl::give_up(const Record& record, const Signal& signal, Instant earliest,
                                Instant now) {
  Refusal refusal;
  refusal.decision = Decision::admitted_then_provider_rejected;
  refusal.limit.deployment = DeploymentId(record.deployment);
  const DeploymentTerms& deployment = record.terms->deployments[record.deployment];
  const MeterRef* meant = nullptr;
  each_meant(deployment, signal.limiter, [&](const MeterRef& ref) {
    if (meant == nullptr) meant = &ref;
  });
  if (meant != nullptr) refusal.limit = meant->limit;
  refusal.queued = record.grant.queued;
  refusal.estimate = {record.cost.input, record.cost.output};
  refusal.attempts = record.attempt;
  if (signal.retry_after) refusal.retry_after = std::min(*signal.retry_after, kMaxHint);
  const bool busy =
      signal.kind == SignalClass::rate_limited || signal.kind == SignalClass::overloaded;
  const DeploymentPolicy& policy = record.terms->policy->deployments[record.deployment];
  const bool shaped = policy.strategy != Strategy::passthrough && !deployment.observe &&
                      !record.terms->nodes[record.call.leaf.value()].observe;
  if (!busy || !shaped) return refusal;
  if (meant == nullptr || meant->meter().rate() <= 0) {
    meant = nullptr;
    for (const MeterRef& ref : deployment.rules) {
      if (ref.stands() && ref.claim.unit == Unit::requests) meant = &ref;
    }
  }
  if (meant == nullptr) {
    const double wait = std::max(1.0, to_seconds(saturating_sub(earliest, now)));
    refusal.retry_after =
        saturating_sub(saturating_add(earliest, from_seconds(wait * rng_.uniform() / 2)), now);
    return refusal;
  }
  const Claim& claim = meant->claim;
  const std::int64_t amount = record.cost.admitted(claim.unit, claim.count, claim.side);
  refusal.retry_after = saturating_sub(meant->meter().promise(earliest, amount), now);
  return refusal;
}

Verdict Governor::Impl::rejected(CallId id, const Signal& signal, bool replayable, Instant now) {
  now = tick(now);
  Record* found = find(id);
  if (found == nullptr || found->state != State::granted) {
    Refusal refusal;
    refusal.decision = Decision::admitted_then_provider_rejected;
    return GaveUp{refusal};
  }
  if (!found->progressed.sent) sent(id, now);
  Record& record = *found;
  const std::shared_ptr<Terms> terms = record.terms;
  DeploymentTerms& deployment = terms->deployments[record.deployment];
  const DeploymentPolicy& policy = terms->policy->deployments[record.deployment];
  DeploymentState& state = *deployment.state;
  const bool throttled = signal.kind == SignalClass::rate_limited;
  const bool busy = throttled || signal.kind == SignalClass::overloaded;
  if (throttled) ++state.rejections;
  ++revision_;

  if (throttled) decrease(deployment, signal, record, now);
  note_overload(record, signal, now);
  if (busy && signal.retry_after) {
    const Duration wait = std::clamp(*signal.retry_after, Duration{0}, kMaxHint);
    hold_for(deployment, signal, saturating_add(now, wait), now);
  }
  Actual actual{0, 0, policy.rejected_counted, false};
  const bool may_retry = busy && replayable && !signal.oversize && terms == terms_ &&
                         policy.strategy != Strategy::passthrough &&
                         record.attempt < policy.retry.attempts &&
                         !terms->nodes[record.call.leaf.value()].observe;
  const Duration asked = signal.retry_after ? std::clamp(*signal.retry_after, Duration{0}, kMaxHint)
                                            : std::min(policy.retry.base, policy.retry.cap);
  if (!may_retry) {
    const Refusal refusal = give_up(record, signal, saturating_add(now, asked), now);
    finish(id.slot, actual, now);
    return GaveUp{refusal};
  }
  Instant not_before = now;
  if (!signal.retry_after) {
    const std::int32_t doublings = std::min(record.attempt - 1, 30);
    const Duration base = std::min(
        policy.retry.cap,
        Duration(saturating_multiply(policy.retry.base.count(), std::int64_t{1} << doublings)));
    // Between half of the step and all of it: spread, and still growing from step to step.
    not_before = saturating_add(now, from_seconds(to_seconds(base) * (0.5 + rng_.uniform() / 2)));
  }
  const Start start = earliest(record.call, now);
  if (std::max(not_before, start.optimistic) > record.wait_until) {
    const Instant earliest =
        signal.retry_after ? saturating_add(now, asked) : std::max(not_before, now);
    const Refusal late = give_up(record, signal, earliest, now);
    finish(id.slot, actual, now);
    return GaveUp{late};
  }
  // The attempt ends, the call goes on: what it held is released and taken anew when it goes.
  lease_remove(id.slot);
  for (const MeterRef& ref : deployment.rules) {
    if (!record.cost.concerns(ref.claim.unit)) continue;
    ref.book(record.as_enforced, [&](RuleMeter& meter) {
      meter.finish(ref.claim, record.cost, record.progressed, actual, now);
    });
  }
  const Actual nothing{0, 0, false, false};
  release_own(record, nothing, now);
  --state.inflight;
  --inflight_;
  record.not_before = not_before;
  record.terms.reset();
  enqueue(id.slot, true);
  wake_groups(*terms_, record.deployment, true);
  return Requeued{saturating_sub(std::max(not_before, start.realistic), now)};
}

void Governor::Impl::signal(DeploymentId id, const Signal& signal, Instant now) {
  now = tick(now);
  if (id.value() >= terms_->deployments.size()) return;
  DeploymentTerms& deployment = terms_->deployments[id.value()];
  if (signal.round_trip) {
    deployment.state->jitter.sample(*signal.round_trip, now);
    const Duration spread = deployment.state->jitter.spread();
    for (const MeterRef& ref : deployment.rules) {
      ref.book(true, [&](RuleMeter& meter) { meter.set_spread(spread); });
    }
  }
  if (signal.call) {
    Record* record = find(*signal.call);
    const bool sent = record != nullptr && record->state == State::granted &&
                      record->deployment == id.value() && record->progressed.sent;
    if (sent && record->terms->deployments[record->deployment].learns) {
      if (signal.kind == SignalClass::ok) learn_acceptance(*record, now);
      note_overload(*record, signal, now);
      learn_headers(*record, signal, now);
    }
  }
  // A dimension that the provider says is used up although our mirror has room: somebody else uses
  // the account. `reset` is for many providers the time until all of it is back, so it only bounds
  // the pause; the next answer corrects again.
  const auto exhausted = [&](const LimitReading& reading, Unit unit) {
    if (!reading.remaining) return;
    const bool spent = *reading.remaining == 0;
    for (const MeterRef& ref : deployment.rules) {
      if (ref.claim.unit != unit) continue;
      RuleMeter& meter = ref.meter();
      // Nobody lets call after call in and has nothing left each time: for some, 0 means unknown.
      if (signal.kind == SignalClass::ok && meter.says_spent(spent) > kSpentInRow) continue;
      if (!spent || !reading.reset) continue;
      if (*reading.reset <= Duration{0} || *reading.reset > kMaxHint) continue;
      const std::int64_t taken = saturating_add(meter.used(now), meter.open());
      if (taken >= meter.rule().amount - meter.rule().amount / 10) continue;
      meter.hold(saturating_add(now, std::min(*reading.reset, ref.limit.window / 20)), now);
    }
  };
  exhausted(signal.requests, Unit::requests);
  exhausted(signal.tokens, Unit::total_tokens);
  exhausted(signal.input_tokens, Unit::input_tokens);
  exhausted(signal.output_tokens, Unit::output_tokens);
}

}  // namespace weir::governor
