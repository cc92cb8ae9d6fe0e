// SPDX-License-Identifier: Apache-2.0
// Who may go next, and where.
#include <algorithm>
#include <array>

#include "governor/impl.h"

namespace weir::governor {
namespace {

constexpr int kPassedOver = 16;  // heads tried in one group before it counts as blocked
constexpr Duration kLookAgain = std::chrono::milliseconds(1);
constexpr Duration kShortestWait = std::chrono::microseconds(50);
constexpr Duration kPinAfter = std::chrono::seconds(8);

bool token_unit(Unit unit) { return unit != Unit::requests && unit != Unit::concurrency; }

std::int64_t admitted(const MeterRef& ref, const Cost& cost) {
  return cost.admitted(ref.claim.unit, ref.claim.count, ref.claim.side);
}

bool meter_fits(RuleMeter& meter, const MeterRef& ref, const Cost& cost, Instant now) {
  return meter.fits(admitted(ref, cost), cost.paced(ref.claim.unit, ref.claim.count), now);
}

bool ref_fits(const MeterRef& ref, const Cost& cost, Instant now) {
  if (!cost.concerns(ref.claim.unit)) return true;
  return meter_fits(ref.meter(), ref, cost, now);
}

Instant meter_when(RuleMeter& meter, const MeterRef& ref, const Cost& cost, std::int64_t returned,
                   Instant now) {
  return meter.when(admitted(ref, cost), cost.paced(ref.claim.unit, ref.claim.count), returned,
                    now);
}

Instant ref_when(const MeterRef& ref, const Cost& cost, std::int64_t returned, Instant now) {
  if (!cost.concerns(ref.claim.unit)) return now;
  return meter_when(ref.meter(), ref, cost, returned, now);
}

/// The same without refunds; a slot, which only the end of a call frees, is expected once in the
/// mean time of a call for each slot.
Instant expected_when(RuleMeter& meter, const MeterRef& ref, const Cost& cost, double mean_seconds,
                      Instant now) {
  if (!cost.concerns(ref.claim.unit)) return now;
  const Instant when = meter_when(meter, ref, cost, 0, now);
  if (when != kNever || !meter.level() || meter.rule().amount <= 0) return when;
  const double share = mean_seconds / static_cast<double>(meter.rule().amount);
  return saturating_add(now, from_seconds(std::max(0.05, share)));
}

}  // namespace

const MeterRef* Governor::Impl::own_blocker(const Terms& terms, const Call& call, const Cost& cost,
                                            Instant now) const {
  const MeterRef* blocker = nullptr;
  each_own(terms, call, [&](const MeterRef& ref) {
    if (!ref.stands() || ref_fits(ref, cost, now)) return true;
    blocker = &ref;
    return false;
  });
  return blocker;
}

bool Governor::Impl::deployment_ready(const DeploymentTerms& deployment, const Record& record,
                                      std::uint32_t slot, const Cost& cost, Instant now) const {
  if (deployment.observe || terms_->nodes[record.call.leaf.value()].observe) return true;
  if (deployment.state->hold_until > now) return false;
  if (deployment.pinned.valid() && deployment.pinned != id_of(slot)) return false;
  return std::all_of(deployment.rules.begin(), deployment.rules.end(), [&](const MeterRef& ref) {
    return !ref.stands() || ref_fits(ref, cost, now);
  });
}

Instant Governor::Impl::deployment_when(const DeploymentTerms& deployment, const Record& record,
                                        const Cost& cost, Instant now, const MeterRef*& by) const {
  by = nullptr;
  Instant at = std::max(now, deployment.state->hold_until);
  for (const MeterRef& ref : deployment.rules) {
    if (!ref.stands()) continue;
    const Instant when = ref_when(ref, cost, 0, now);
    if (when > at || (by == nullptr && !ref_fits(ref, cost, now))) by = &ref;
    at = std::max(at, when);
  }
  if (deployment.pinned.valid() && find(deployment.pinned) != &record) {
    // The pinned call may turn out to need longer than was known when it was pinned.
    at = std::max({at, deployment.pinned_start, saturating_add(now, kLookAgain)});
  }
  return at;
}

Governor::Impl::Try Governor::Impl::attempt(std::uint32_t slot, Instant now, const Cost* known) {
  Record& record = calls_[slot];
  Terms& terms = *terms_;
  ProfileTerms& profile = terms.profiles[record.call.profile.value()];
  Try outcome;
  const bool observe = observes(record.call);
  const auto cost_on = [&](std::uint32_t deployment) {
    return terms.cost(record.call, deployment);
  };
  const Cost first = known != nullptr ? *known : cost_on(profile.candidates.front().deployment);
  if (!observe) {
    outcome.by = own_blocker(terms, record.call, first, now);
    if (outcome.by != nullptr) {
      outcome.own = true;
      outcome.when = ref_when(*outcome.by, first, 0, now);
      return outcome;
    }
  }
  std::array<Cost, 8> costs;
  std::size_t begin = 0;
  while (begin < profile.candidates.size()) {
    const std::int32_t priority = profile.candidates[begin].priority;
    std::size_t end = begin;
    CandidateTerms* best = nullptr;
    std::int64_t total = 0;
    std::size_t chosen = 0;
    for (; end < profile.candidates.size() && profile.candidates[end].priority == priority; ++end) {
      CandidateTerms& candidate = profile.candidates[end];
      const DeploymentTerms& deployment = terms.deployments[candidate.deployment];
      costs[end] = end == 0 ? first : cost_on(candidate.deployment);
      if (!deployment_ready(deployment, record, slot, costs[end], now)) continue;
      if (end > 0 && !observe && own_blocker(terms, record.call, costs[end], now) != nullptr) {
        continue;
      }
      candidate.current += candidate.weight;
      total += candidate.weight;
      if (best == nullptr || candidate.current > best->current) {
        best = &candidate;
        chosen = end;
      }
    }
    if (best != nullptr) {
      best->current -= total;
      outcome.granted = true;
      grant(slot, best->deployment, costs[chosen], begin > 0, now);
      return outcome;
    }
    begin = end;
  }
  outcome.only_time = true;
  for (std::size_t i = 0; i < profile.candidates.size(); ++i) {
    const std::uint32_t index = profile.candidates[i].deployment;
    const MeterRef* by = nullptr;
    const Instant when = deployment_when(terms.deployments[index], record, costs[i], now, by);
    outcome.by_size = outcome.by_size || (by != nullptr && token_unit(by->claim.unit));
    const bool by_requests = by != nullptr && by->claim.unit == Unit::requests;
    outcome.only_time = outcome.only_time && when > now && (by == nullptr || by_requests);
    if (outcome.deployment == kNoIndex || when < outcome.when) {
      outcome.when = when;
      outcome.by = by;
      outcome.deployment = index;
    }
  }
  record.cost = first;
  return outcome;
}

void Governor::Impl::note_observed(Record& record, const DeploymentTerms& deployment,
                                   Instant now) const {
  record.as_enforced = terms_->any_watched;
  if (!terms_->any_watched) return;
  Instant latest = now;
  bool blocked = false;
  bool never = false;
  const bool whole = deployment.observe || terms_->nodes[record.call.leaf.value()].observe;
  bool observed = whole;
  const auto visit = [&](const MeterRef& ref) {
    if (!ref.shared->belief.active || (!ref.watched && !(ref.gates && whole))) return true;
    observed = true;
    RuleMeter& meter = *ref.shared->as_enforced;
    if (!record.cost.concerns(ref.claim.unit) || meter_fits(meter, ref, record.cost, now)) {
      return true;
    }
    // The limit that the call is too large for is the one to name, whatever else it waits for.
    const bool here_never = !meter.ever_fits(admitted(ref, record.cost));
    const Instant when =
        expected_when(meter, ref, record.cost, deployment.state->mean_seconds, now);
    const bool worse = here_never ? !never : !never && (!blocked || when > latest);
    if (worse) record.grant.limit = ref.limit;
    blocked = true;
    never = never || here_never;
    latest = std::max(latest, when);
    return true;
  };
  each_own(*record.terms, record.call, visit);
  for (const MeterRef& ref : deployment.rules) visit(ref);
  if (!observed) return;
  record.grant.decision = Decision::observed;
  if (!blocked) {
    record.grant.would_have = Decision::admitted;
  } else if (never) {
    record.grant.would_have = Decision::never_fits;
  } else {
    record.grant.would_have =
        latest > record.wait_until ? Decision::rejected_locally : Decision::queued;
    if (latest != kNever) record.grant.would_wait = saturating_sub(latest, now);
  }
  record.as_enforced =
      record.grant.would_have == Decision::admitted || record.grant.would_have == Decision::queued;
}

void Governor::Impl::charge_class(const Call& call, std::uint32_t deployment, const Cost& cost) {
  Terms& terms = *terms_;
  const ProfileTerms& profile = terms.profiles[call.profile.value()];
  DeploymentTerms& pool = terms.deployments[profile.candidates.front().deployment];
  double share = 0;
  bool limited = false;
  for (const MeterRef& ref : terms.deployments[deployment].rules) {
    const double amount = static_cast<double>(std::max<std::int64_t>(1, ref.meter().rule().amount));
    const double paced = static_cast<double>(cost.paced(ref.claim.unit, ref.claim.count));
    if (ref.claim.unit == Unit::concurrency || !ref.shared->belief.active) continue;
    limited = true;
    share = std::max(share, paced / amount);
  }
  if (!limited) share = 1;
  double& finish = pool.class_finish[call.traffic_class.value()];
  const double start = std::max(finish, contended(profile) ? finish : pool.virtual_time);
  pool.virtual_time = std::max(pool.virtual_time, start);
  const std::int32_t weight = terms.policy->classes[call.traffic_class.value()].weight;
  finish = start + share / std::max(1, weight);
}

void Governor::Impl::grant(std::uint32_t slot, std::uint32_t index, const Cost& cost, bool spilled,
                           Instant now) {
  Record& record = calls_[slot];
  record.terms = terms_;
  DeploymentTerms& deployment = terms_->deployments[index];
  record.cost = cost;
  record.deployment = index;
  ++record.attempt;
  record.grant = Grant{};
  record.grant.deployment = DeploymentId(index);
  record.grant.reserved = {cost.input, cost.output};
  record.grant.queued = saturating_sub(now, record.submitted);
  record.grant.attempt = record.attempt;
  if (cost.proposed > 0) record.grant.propose_max_tokens = cost.proposed;
  record.grant.limit = record.limit;
  record.grant.decision = spilled         ? Decision::spilled
                          : record.waited ? Decision::queued
                                          : Decision::admitted;
  note_observed(record, deployment, now);
  charge_class(record.call, index, cost);
  bool anybody_waits = false;
  const auto take = [&](const MeterRef& ref) {
    if (cost.concerns(ref.claim.unit)) {
      ref.book(record.as_enforced, [&](RuleMeter& meter) { meter.grant(ref.claim, cost, now); });
    }
    anybody_waits = anybody_waits || ref.shared->waiters.head != kNoIndex;
    return true;
  };
  each_own(*terms_, record.call, take);
  for (const MeterRef& ref : deployment.rules) take(ref);
  if (record.state == State::queued) dequeue(slot);
  unpin(slot);
  record.state = State::granted;
  record.granted_at = now;
  record.renewed_at = now;
  record.progressed = Progressed{};
  record.events = 0;
  record.judged = false;
  record.paced_at = kDawn;
  ++deployment.state->inflight;
  if (deployment.learns) deployment.state->congestion.granted(deployment.state->inflight, now);
  ++deployment.state->attempts;
  ++inflight_;
  lease_push(slot);
  if (!anybody_waits) return;
  // Whoever waits behind this call for the same limit may find room left.
  each_own(*terms_, record.call, [&](const MeterRef& ref) {
    if (ref.shared->waiters.head != kNoIndex && ref_fits(ref, cost, now)) {
      wake_waiters(*ref.shared, 1);
    }
    return true;
  });
}

Governor::Impl::Start Governor::Impl::earliest(const Call& call, Instant now) const {
  const Terms& terms = *terms_;
  const ProfileTerms& profile = terms.profiles[call.profile.value()];
  const bool leaf_observes = terms.nodes[call.leaf.value()].observe;
  Start best;
  for (const CandidateTerms& candidate : profile.candidates) {
    const DeploymentTerms& deployment = terms.deployments[candidate.deployment];
    const Cost cost = terms.cost(call, candidate.deployment);
    Start here;
    here.optimistic = here.realistic = now;
    here.deployment = candidate.deployment;
    const bool observe = deployment.observe || leaf_observes;
    if (!observe) {
      here.optimistic = here.realistic = std::max(now, deployment.state->hold_until);
    }
    const auto visit = [&](const MeterRef& ref) {
      if (!ref.stands() || observe) return true;
      RuleMeter& meter = ref.meter();
      const Instant realistic =
          expected_when(meter, ref, cost, deployment.state->mean_seconds, now);
      const Instant optimistic = ref_when(ref, cost, meter.returnable(), now);
      here.optimistic = std::max(here.optimistic, optimistic);
      if (realistic > here.realistic || (here.by == nullptr && !ref_fits(ref, cost, now))) {
        here.by = &ref;
        here.amount = std::max<std::int64_t>(1, admitted(ref, cost));
      }
      here.realistic = std::max(here.realistic, realistic);
      return true;
    };
    each_own(terms, call, visit);
    for (const MeterRef& ref : deployment.rules) visit(ref);
    if (best.deployment == kNoIndex || here.realistic < best.realistic) {
      here.optimistic = std::min(here.optimistic, best.optimistic);
      best = here;
    } else {
      best.optimistic = std::min(best.optimistic, here.optimistic);
    }
  }
  return best;
}

Duration Governor::Impl::slot_after(const Start& start, Instant now) const {
  if (start.realistic == kNever) return std::chrono::minutes(1);
  if (start.deployment == kNoIndex) return Duration{0};
  Instant at = start.realistic;
  const DeploymentTerms& deployment = terms_->deployments[start.deployment];
  const MeterRef* by = start.by;
  if (by == nullptr) {
    for (const MeterRef& ref : deployment.rules) {
      if (ref.stands() && ref.claim.unit == Unit::requests) by = &ref;
    }
    if (by == nullptr) return saturating_sub(at, now);
  }
  if (by->limit.deployment.valid() && by->meter().rate() > 0) {
    const double ahead =
        static_cast<double>(deployment.contending) * static_cast<double>(start.amount);
    at = saturating_add(at, from_seconds(ahead / by->meter().rate() * 1e-9));
  }
  return saturating_sub(by->meter().promise(at, start.amount), now);
}

void Governor::Impl::maybe_pin(std::uint32_t slot, const Try& outcome, Instant now) {
  if (!outcome.by_size || outcome.deployment == kNoIndex || outcome.when == kNever) return;
  Record& record = calls_[slot];
  record.passed_since = std::min(record.passed_since, now);
  // Counted from when it stood first and did not fit: under a long queue everybody has waited long,
  // and with every head pinned at once nothing would be filled in behind any of them.
  const Duration passed = saturating_sub(now, record.passed_since);
  const Duration half = saturating_sub(record.wait_until, record.submitted) / 2;
  if (passed <= std::min(kPinAfter, half)) return;
  DeploymentTerms& deployment = terms_->deployments[outcome.deployment];
  const CallId id = id_of(slot);
  if (deployment.pinned.valid() && deployment.pinned != id) return;
  deployment.pinned = id;
  deployment.pinned_start = outcome.when;
}

void Governor::Impl::unpin(std::uint32_t slot) {
  const CallId id = id_of(slot);
  const ProfileTerms& profile = terms_->profiles[calls_[slot].call.profile.value()];
  for (const CandidateTerms& candidate : profile.candidates) {
    DeploymentTerms& deployment = terms_->deployments[candidate.deployment];
    if (deployment.pinned != id) continue;
    deployment.pinned = CallId{};
    wake_groups(*terms_, candidate.deployment, true);
  }
}

void Governor::Impl::wake_groups(const Terms& terms, std::uint32_t deployment, bool all) {
  // Only the current terms have queues; a deployment of older ones is found by its state.
  const DeploymentState* state = terms.deployments[deployment].state.get();
  if (&terms != terms_.get()) {
    deployment = kNoIndex;
    for (std::uint32_t i = 0; i < terms_->deployments.size(); ++i) {
      if (terms_->deployments[i].state.get() == state) deployment = i;
    }
    if (deployment == kNoIndex) return;
  }
  const DeploymentTerms& target = terms_->deployments[deployment];
  if (target.contending == 0) return;
  const std::size_t profiles = terms_->profiles.size();
  for (const std::uint32_t profile : target.profiles) {
    for (std::size_t i = profile; i < groups_.size(); i += profiles) {
      if (all || !groups_[i].only_time_helps) groups_[i].blocked_until = kDawn;
    }
  }
}

std::uint32_t Governor::Impl::pick_group(Instant now) {
  std::uint32_t best = kNoIndex;
  double best_finish = 0;
  for (std::size_t i = 0; i < active_.size();) {
    const std::uint32_t index = active_[i];
    Group& group = groups_[index];
    if (group.ready_lanes == 0) {
      group.active = false;
      group.heap.clear();
      active_[i] = active_.back();
      active_.pop_back();
      continue;
    }
    ++i;
    if (group.blocked_until > now) continue;
    const ProfileTerms& profile = terms_->profiles[group.profile];
    const double finish = terms_->deployments[profile.candidates.front().deployment]
                              .class_finish[group.traffic_class];
    if (best == kNoIndex || finish < best_finish || (finish == best_finish && index < best)) {
      best = index;
      best_finish = finish;
    }
  }
  return best;
}

bool Governor::Impl::try_pinned(std::uint32_t group, std::vector<Event>& events, Instant now) {
  const ProfileTerms& profile = terms_->profiles[groups_[group].profile];
  for (const CandidateTerms& candidate : profile.candidates) {
    const CallId pinned = terms_->deployments[candidate.deployment].pinned;
    if (!pinned.valid()) continue;
    const std::uint32_t slot = pinned.slot;
    const Record& record = calls_[slot];
    if (id_of(slot) != pinned || record.state != State::queued) continue;
    const Lane& lane = lanes_[record.lane];
    if (lane.group != group || lane.head != slot || lane.state != LaneState::ready) continue;
    if (record.not_before > now) continue;
    const Try outcome = attempt(slot, now);
    if (outcome.granted) {
      events.push_back({id_of(slot), record.call.cookie, record.grant});
      return true;
    }
    // One that waits for a limit of its own keeps nothing from the others meanwhile.
    if (outcome.own) {
      unpin(slot);
    } else {
      maybe_pin(slot, outcome, now);
    }
  }
  return false;
}

bool Governor::Impl::scan_group(Group& group, std::vector<Event>& events, Instant now) {
  passed_.clear();
  Instant soonest = kNever;
  bool granted = false;
  bool by_time_only = true;
  for (int tried = 0; tried < kPassedOver;) {
    const std::optional<ReadyLane> top = pop_ready(group);
    if (!top) break;
    const std::uint32_t slot = lanes_[top->lane].head;
    Record& record = calls_[slot];
    if (record.not_before > now) {
      unpin(slot);
      park(top->lane, record.not_before, nullptr);
      continue;
    }
    const Try outcome = attempt(slot, now);
    if (outcome.granted) {
      granted = true;
      events.push_back({id_of(slot), record.call.cookie, record.grant});
      break;
    }
    if (outcome.own) {
      record.limit = outcome.by->limit;
      unpin(slot);
      park(top->lane, outcome.when, outcome.by);
      continue;
    }
    passed_.push_back(*top);
    ++tried;
    soonest = std::min(soonest, outcome.when);
    if (outcome.by != nullptr) {
      record.limit = outcome.by->limit;
      const std::int64_t each =
          outcome.by->limit.unit == Unit::requests
              ? 1
              : std::max<std::int64_t>(1, record.cost.input + record.cost.output);
      const std::int64_t queued = terms_->deployments[outcome.deployment].contending;
      outcome.by->meter().note_blocked(saturating_multiply(each, queued), now);
    }
    by_time_only = by_time_only && outcome.only_time;
    maybe_pin(slot, outcome, now);
    // What stops this one for its number, not its size, stops everyone behind it.
    if (!outcome.by_size) break;
  }
  for (const ReadyLane& item : passed_) {
    const Lane& lane = lanes_[item.lane];
    if (lane.state == LaneState::ready && lane.stamp == item.stamp) push_ready(item.lane);
  }
  if (!granted) {
    group.blocked_until = std::max(soonest, saturating_add(now, kShortestWait));
    group.only_time_helps = by_time_only && !passed_.empty();
  }
  return granted;
}

bool Governor::Impl::dispatch(std::vector<Event>& events, std::int64_t& budget, Instant now) {
  while (true) {
    const std::uint32_t index = pick_group(now);
    if (index == kNoIndex) return false;
    if (budget <= 0) return true;
    // First whoever all others wait for: it need not be among the oldest that a scan looks at.
    if (try_pinned(index, events, now) || scan_group(groups_[index], events, now)) --budget;
  }
}

}  // namespace weir::governor
