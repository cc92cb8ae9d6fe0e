// SPDX-License-Identifier: Apache-2.0
// What the times of calls tell Congestion, and the limit it answers with.
#include <algorithm>

#include "governor/impl.h"

namespace weir::governor {
namespace {

// A time per token is measured over so many events of a stream, so that how they are bundled on
// their way does not matter; shorter answers give a time to first token only.
constexpr std::int64_t kEventsMeasured = 64;
constexpr std::int64_t kEventsLeast = 32;
constexpr std::size_t kNotes = 64;

}  // namespace

void Governor::Impl::note_departure(Record& record) {
  record.pace = {record.terms->deployments[record.deployment].state->inflight,
                 record.progressed.sent_at};
}

void Governor::Impl::note_output(Record& record, std::int64_t output_events, Instant now) {
  const DeploymentTerms& deployment = record.terms->deployments[record.deployment];
  if (!deployment.learns || !record.call.demand.streaming || output_events <= 0) return;
  Congestion& congestion = deployment.state->congestion;
  if (record.paced_at == kDawn) {
    congestion.first_token(record.pace, saturating_sub(now, record.progressed.sent_at),
                           record.cost.input, now);
  } else {
    const std::int64_t more = output_events - record.paced_events;
    if (more < kEventsMeasured) return;
    congestion.tokens(record.pace, saturating_sub(now, record.paced_at), more, now);
  }
  record.paced_at = now;
  record.paced_events = output_events;
  keep_congestion_limit(*record.terms, record.deployment);
}

void Governor::Impl::note_answer(Record& record, const Settlement& settlement, Instant now) {
  const DeploymentTerms& deployment = record.terms->deployments[record.deployment];
  if (!deployment.learns || settlement.ending != Ending::completed || !settlement.reported) return;
  Congestion& congestion = deployment.state->congestion;
  if (!record.call.demand.streaming) {
    congestion.whole(record.pace, saturating_sub(now, record.progressed.sent_at),
                     settlement.reported->input_tokens, settlement.reported->output_tokens, now);
  } else {
    const std::int64_t more = settlement.output_events - record.paced_events;
    if (record.paced_at == kDawn || more < kEventsLeast) return;
    congestion.tokens(record.pace, saturating_sub(now, record.paced_at), more, now);
  }
  keep_congestion_limit(*record.terms, record.deployment);
}

void Governor::Impl::note_overload(Record& record, const Signal& signal, Instant now) {
  const DeploymentTerms& deployment = record.terms->deployments[record.deployment];
  const bool too_many =
      signal.kind == SignalClass::overloaded || signal.kind == SignalClass::timeout ||
      (signal.kind == SignalClass::rate_limited && signal.limiter == Limiter::concurrency);
  if (!deployment.learns || !too_many) return;
  deployment.state->congestion.overloaded(record.pace, now);
  keep_congestion_limit(*record.terms, record.deployment);
}

void Governor::Impl::tell_congestion(const Terms& terms, std::uint32_t index) {
  DeploymentState& state = *terms.deployments[index].state;
  const bool holds = state.congestion.state() == Congestion::State::holding;
  if (holds == state.congestion_told) return;
  state.congestion_told = holds;
  if (congestion_notes_.size() >= kNotes) return;
  congestion_notes_.push_back(
      {terms.policy->deployments[index].name, holds ? state.congestion.limit() : 0});
}

void Governor::Impl::keep_congestion_limit(const Terms& terms, std::uint32_t index) {
  tell_congestion(terms, index);
  const DeploymentTerms& deployment = terms.deployments[index];
  const std::int64_t limit = deployment.state->congestion.limit();
  // The meter is shared by the terms of all policies, so it does not matter which are asked.
  for (const MeterRef& ref : deployment.rules) {
    if (!ref.congestion) continue;
    Belief& belief = ref.shared->belief;
    const std::int64_t kept = belief.active ? ref.meter().rule().amount : 0;
    if (kept == limit) return;
    belief.active = limit > 0;
    if (limit > 0) ref.book(true, [&](RuleMeter& meter) { meter.set_slots(limit); });
    const bool more = limit == 0 || (kept > 0 && limit > kept);
    if (more) wake_groups(terms, index, true);
    return;
  }
}

}  // namespace weir::governor
