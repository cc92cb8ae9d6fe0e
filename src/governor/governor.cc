// SPDX-License-Identifier: Apache-2.0
#include "weir/governor.h"

#include <algorithm>
#include <map>
#include <string>

#include "governor/impl.h"

namespace weir::governor {
namespace {

constexpr std::int64_t kEventsAtOnce = 64;

void view_congestion(const DeploymentState& state, bool learns, DeploymentView& view) {
  // What was found under another strategy holds nobody up under this one.
  static const Congestion kNothing;
  const Congestion& congestion = learns ? state.congestion : kNothing;
  view.congestion_limit = congestion.limit();
  view.congested = congestion.state() == Congestion::State::holding;
  view.congestion_holds = congestion.holds();
  view.congestion_refuted = congestion.refuted();
  view.normal_first_token_seconds = congestion.normal_first_token();
  // Measured is the time of an event of the stream.
  constexpr std::int64_t kEvents = 1000;
  const auto tokens = static_cast<double>(state.estimator.output_of(kEvents));
  view.normal_token_seconds =
      tokens > 0 ? congestion.normal_per_token() * static_cast<double>(kEvents) / tokens : 0;
}

template <class List>
std::map<std::string, std::uint32_t> index_by_name(const List& list) {
  std::map<std::string, std::uint32_t> index;
  for (std::uint32_t i = 0; i < list.size(); ++i) index.emplace(list[i].name, i);
  return index;
}

std::map<std::pair<NodeKind, std::string>, std::uint32_t> index_nodes(const Policy& policy) {
  std::map<std::pair<NodeKind, std::string>, std::uint32_t> index;
  for (std::uint32_t i = 0; i < policy.nodes.size(); ++i) {
    index.emplace(std::pair(policy.nodes[i].kind, policy.nodes[i].name), i);
  }
  return index;
}

}  // namespace

Governor::Impl::Impl(std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant now)
    : rng_(seed), now_(now) {
  terms_ = registry_.build(std::move(policy), now);
  groups_.resize(terms_->classes.size() * terms_->profiles.size());
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    groups_[i].traffic_class = i / static_cast<std::uint32_t>(terms_->profiles.size());
    groups_[i].profile = i % static_cast<std::uint32_t>(terms_->profiles.size());
  }
  class_queued_.assign(terms_->classes.size(), 0);
  class_oldest_.assign(terms_->classes.size(), Oldest{});
  for (const DeploymentTerms& deployment : terms_->deployments) states_.push_back(deployment.state);
}

Instant Governor::Impl::tick(Instant now) {
  // Time does not go back here, whatever the caller's clock does.
  now_ = std::max(now_, now);
  return now_;
}

CallId Governor::Impl::id_of(std::uint32_t slot) const {
  return CallId{slot, calls_[slot].generation};
}

Governor::Impl::Record* Governor::Impl::find(CallId id) {
  if (id.slot >= calls_.size()) return nullptr;
  Record& record = calls_[id.slot];
  return record.generation == id.generation && record.state != State::free ? &record : nullptr;
}

const Governor::Impl::Record* Governor::Impl::find(CallId id) const {
  if (id.slot >= calls_.size()) return nullptr;
  const Record& record = calls_[id.slot];
  return record.generation == id.generation && record.state != State::free ? &record : nullptr;
}

std::uint32_t Governor::Impl::take_slot() {
  ++known_calls_;
  if (free_.empty()) {
    calls_.emplace_back();
    return static_cast<std::uint32_t>(calls_.size() - 1);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void Governor::Impl::release_slot(std::uint32_t slot) {
  Record& record = calls_[slot];
  --known_calls_;
  ++record.generation;
  record.state = State::free;
  record.terms.reset();
  record.lane = kNoIndex;
  free_.push_back(slot);
}

bool Governor::Impl::known(const Call& call) const {
  return call.leaf.value() < terms_->nodes.size() &&
         call.profile.value() < terms_->profiles.size() &&
         call.traffic_class.value() < terms_->classes.size() &&
         !terms_->profiles[call.profile.value()].candidates.empty();
}

bool Governor::Impl::observes(const Call& call) const {
  return terms_->profiles[call.profile.value()].observe || terms_->nodes[call.leaf.value()].observe;
}

std::optional<Governor::Impl::TooLarge> Governor::Impl::never_fits(const Call& call,
                                                                   const Cost& first_cost) const {
  const Terms& terms = *terms_;
  const ProfileTerms& profile = terms.profiles[call.profile.value()];
  if (observes(call)) return std::nullopt;
  std::optional<TooLarge> first;
  for (const CandidateTerms& candidate : profile.candidates) {
    const DeploymentTerms& deployment = terms.deployments[candidate.deployment];
    const bool is_first = &candidate == profile.candidates.data();
    const Cost cost = is_first ? first_cost : terms.cost(call, candidate.deployment);
    std::optional<TooLarge> here;
    const auto visit = [&](const MeterRef& ref) {
      if (!ref.gates || ref.shared->belief.guessed || !cost.concerns(ref.claim.unit)) return true;
      const std::int64_t asked = cost.admitted(ref.claim.unit, ref.claim.count, ref.claim.side);
      if (ref.meter().ever_fits(asked)) return true;
      here = TooLarge{ref.limit, asked, ref.meter().largest()};
      return false;
    };
    if (each_own(terms, call, visit) && !deployment.observe) {
      for (const MeterRef& ref : deployment.rules) {
        if (!visit(ref)) break;
      }
    }
    if (!here) return std::nullopt;
    if (!first) first = here;
  }
  return first;
}

Outcome Governor::Impl::submit(const Call& call, Instant now) {
  now = tick(now);
  if (!known(call)) {
    Refusal refusal;
    refusal.decision = Decision::not_allowed;
    return Refused{refusal};
  }
  const auto refuse = [&](Decision decision, LimitRef limit, std::optional<Duration> retry) {
    Refusal refusal;
    refusal.decision = decision;
    refusal.limit = limit;
    refusal.retry_after = retry;
    const ProfileTerms& asked = terms_->profiles[call.profile.value()];
    refusal.estimate = estimate(DeploymentId(asked.candidates.front().deployment), call.demand);
    return Refused{refusal};
  };
  if (known_calls_ >= terms_->policy->max_calls) {
    // Not one second for everyone: they would come back together.
    return refuse(Decision::backpressure, {}, from_seconds(0.5 + 2.5 * rng_.uniform()));
  }
  const ProfileTerms& profile = terms_->profiles[call.profile.value()];
  const std::uint32_t first = profile.candidates.front().deployment;
  const Cost cost = terms_->cost(call, first);
  if (const std::optional<TooLarge> large = never_fits(call, cost)) {
    Refused refused = refuse(Decision::never_fits, large->limit, std::nullopt);
    refused.refusal.asked = large->asked;
    refused.refusal.at_most = large->at_most;
    return refused;
  }
  const ClassPolicy& traffic_class = terms_->policy->classes[call.traffic_class.value()];
  const Duration wait =
      std::max(Duration{0}, std::min(traffic_class.max_wait, call.max_wait.value_or(kForever)));
  const std::uint32_t slot = take_slot();
  Record& record = calls_[slot];
  record.call = call;
  record.seq = next_seq_++;
  record.submitted = now;
  record.wait_until = std::min(call.deadline, saturating_add(now, wait));
  record.not_before = kDawn;
  record.attempt = 0;
  record.waited = false;
  record.doomed = false;
  record.limit = {};
  if (record.wait_until < now) {
    release_slot(slot);
    return refuse(Decision::queue_timeout, {}, std::nullopt);
  }
  const bool behind_own = queued_ > 0 && waits_in_lane(call);
  // Whoever may not wait goes when the others could not go yet, never in front of one who can.
  const bool behind_others =
      contended(profile) && (wait > Duration{0} || somebody_due(profile, now));
  Try outcome;
  if (observes(call) || (!behind_own && !behind_others)) {
    outcome = attempt(slot, now, &cost);
    if (outcome.granted) return Admitted{id_of(slot), record.grant};
    if (outcome.by != nullptr) {
      record.limit = outcome.by->limit;
      if (!outcome.own) outcome.by->meter().note_blocked(1, now);
    }
  }
  return refuse_or_queue(slot, wait > Duration{0}, outcome, now);
}

Outcome Governor::Impl::refuse_or_queue(std::uint32_t slot, bool may_wait, const Try& tried,
                                        Instant now) {
  Record& record = calls_[slot];
  const ClassId class_id = record.call.traffic_class;
  const Start start = earliest(record.call, now);
  if (start.by != nullptr) record.limit = start.by->limit;
  record.cost = terms_->cost(record.call, start.deployment);
  const bool full =
      class_queued_[class_id.value()] >= terms_->policy->classes[class_id.value()].depth;
  const bool hopeless = !may_wait || start.optimistic > record.wait_until;
  if (hopeless || full) {
    Refusal refusal;
    refusal.decision = hopeless ? Decision::rejected_locally : Decision::queue_full;
    refusal.limit = record.limit;
    if (!hopeless) {
      refusal.limit = {};
      refusal.limit.traffic_class = class_id;
    }
    refusal.retry_after = slot_after(start, now);
    refusal.estimate = {record.cost.input, record.cost.output};
    release_slot(slot);
    return Refused{refusal};
  }
  enqueue(slot, false);
  const std::uint32_t lane = record.lane;
  Group& group = groups_[lanes_[lane].group];
  // What was just found out need not be found out again.
  if (tried.own && lanes_[lane].count == 1) {
    park(lane, tried.when, tried.by);
  } else if (tried.deployment != kNoIndex && group.ready_lanes == 1) {
    group.blocked_until = std::max(tried.when, saturating_add(now, Duration{1}));
    group.only_time_helps = tried.only_time;
  }
  return Queued{id_of(slot), saturating_sub(std::max(now, start.realistic), now)};
}

bool Governor::Impl::advance(std::vector<Event>& events, Instant now) {
  now = tick(now);
  std::int64_t budget = kEventsAtOnce;
  const bool more_lost = expire_leases(now);
  while (!doomed_.empty() && budget > 0) {
    const CallId id = doomed_.back();
    doomed_.pop_back();
    const Record* record = find(id);
    if (record == nullptr || record->state != State::queued) continue;
    Refusal refusal;
    refusal.decision = Decision::not_allowed;
    refusal.queued = saturating_sub(now, record->submitted);
    events.push_back({id, record->call.cookie, refusal});
    --queued_;
    release_slot(id.slot);
    --budget;
  }
  // Whoever's time ended before now is too late even if there is room; whoever's ends now may
  // still go.
  bool more = expire_queued(events, budget, saturating_add(now, Duration{-1}));
  wake_due_lanes(now);
  more = dispatch(events, budget, now) || more;
  more = expire_queued(events, budget, now) || more;
  clean_heaps();
  return more || more_lost || !doomed_.empty();
}

Instant Governor::Impl::next_deadline() const {
  if (!doomed_.empty()) return now_;
  Instant soonest = next_lease();
  if (!timeouts_.empty()) soonest = std::min(soonest, timeouts_.front().at);
  if (!lane_wakes_.empty()) soonest = std::min(soonest, lane_wakes_.front().at);
  for (const std::uint32_t index : active_) {
    if (groups_[index].ready_lanes > 0) soonest = std::min(soonest, groups_[index].blocked_until);
  }
  return std::max(soonest, now_);
}

void Governor::Impl::sent(CallId id, Instant now) {
  now = tick(now);
  Record* record = find(id);
  if (record == nullptr) return sent_late(id, now);
  if (record->state != State::granted || record->progressed.sent) return;
  ++revision_;
  lease_remove(id.slot);
  record->progressed.sent = true;
  record->progressed.sent_at = now;
  record->renewed_at = now;
  lease_push(id.slot);
  const auto stamp = [&](const MeterRef& ref) {
    if (!record->cost.concerns(ref.claim.unit)) return true;
    ref.book(record->as_enforced,
             [&](RuleMeter& meter) { meter.sent(ref.claim, record->cost, now); });
    return true;
  };
  each_own(*record->terms, record->call, stamp);
  const DeploymentTerms& deployment = record->terms->deployments[record->deployment];
  for (const MeterRef& ref : deployment.rules) stamp(ref);
  if (!deployment.learns) return;
  note_standing(*record, deployment, now);
  note_departure(*record);
}

void Governor::Impl::progress(CallId id, std::int64_t output_events, Instant now) {
  now = tick(now);
  Record* record = find(id);
  if (record == nullptr || record->state != State::granted) return;
  if (!record->progressed.sent) sent(id, now);
  lease_remove(id.slot);
  record->renewed_at = now;
  lease_push(id.slot);
  learn_acceptance(*record, now);
  note_output(*record, output_events, now);
  if (output_events <= record->events || !record->cost.produces_output) return;
  record->events = output_events;
  const DeploymentTerms& deployment = record->terms->deployments[record->deployment];
  const std::int64_t metered = deployment.state->estimator.output_of(output_events);
  const std::int64_t delta = metered - record->progressed.metered;
  if (delta <= 0) return;
  record->progressed.metered = metered;
  record->progressed.last_metered = delta;
  record->progressed.metered_at = now;
  for (const MeterRef& ref : deployment.rules) {
    ref.book(record->as_enforced, [&](RuleMeter& meter) { meter.progress(ref.claim, delta, now); });
  }
}

std::optional<Grant> Governor::Impl::grant_of(CallId id) const {
  const Record* record = find(id);
  if (record == nullptr) return std::nullopt;
  if (record->state == State::granted) return record->grant;
  Grant waiting;
  waiting.decision = Decision::queued;
  waiting.attempt = record->attempt;
  waiting.limit = record->limit;
  waiting.reserved = {record->cost.input, record->cost.output};
  waiting.queued = saturating_sub(now_, record->submitted);
  return waiting;
}

Estimate Governor::Impl::estimate(DeploymentId deployment, const Demand& demand) const {
  if (deployment.value() >= terms_->deployments.size()) return {};
  const DeploymentTerms& terms = terms_->deployments[deployment.value()];
  Asked asked;
  if (!terms.profiles.empty()) asked.output = terms_->profiles[terms.profiles.front()].output;
  const Cost cost = terms.state->estimator.cost(demand, asked);
  return {cost.input, cost.output};
}

void Governor::Impl::apply(std::shared_ptr<const Policy> policy, Instant now) {
  now = tick(now);
  ++revision_;
  const std::shared_ptr<Terms> old = terms_;
  // What waits is taken out first, in order, and lines up again under the new policy.
  for (Lane& lane : lanes_) {
    // A meter that the new policy does not have lives on with the calls it counts.
    if (lane.parked_on) lane.parked_on->waiters = Waiters{};
    lane = Lane{};
  }
  terms_ = registry_.build(std::move(policy), now);
  lanes_.clear();
  free_lanes_.clear();
  lane_index_.clear();
  active_.clear();
  lane_wakes_.clear();
  timeouts_.clear();
  groups_.assign(terms_->classes.size() * terms_->profiles.size(), Group{});
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    groups_[i].traffic_class = i / static_cast<std::uint32_t>(terms_->profiles.size());
    groups_[i].profile = i % static_cast<std::uint32_t>(terms_->profiles.size());
  }
  class_queued_.assign(terms_->classes.size(), 0);
  class_oldest_.assign(terms_->classes.size(), Oldest{});
  std::erase_if(states_, [](const auto& state) { return state->inflight == 0; });
  for (const DeploymentTerms& deployment : terms_->deployments) {
    if (std::find(states_.begin(), states_.end(), deployment.state) == states_.end()) {
      states_.push_back(deployment.state);
    }
  }
  remap_queued(*old->policy);
}

void Governor::Impl::remap_queued(const Policy& old) {
  const Policy& fresh = *terms_->policy;
  const auto profiles = index_by_name(fresh.profiles);
  const auto classes = index_by_name(fresh.classes);
  const auto nodes = index_nodes(fresh);
  std::vector<std::uint32_t> waiting;
  for (std::uint32_t slot = 0; slot < calls_.size(); ++slot) {
    if (calls_[slot].state == State::queued) waiting.push_back(slot);
  }
  std::sort(waiting.begin(), waiting.end(), [&](std::uint32_t left, std::uint32_t right) {
    return calls_[left].seq < calls_[right].seq;
  });
  queued_ = 0;
  for (const std::uint32_t slot : waiting) {
    Record& record = calls_[slot];
    record.prev = record.next = record.lane = kNoIndex;
    record.limit = {};
    bool kept = !record.doomed;
    if (kept) {
      const NodePolicy& node = old.nodes[record.call.leaf.value()];
      const auto leaf = nodes.find(std::pair(node.kind, node.name));
      const auto profile = profiles.find(old.profiles[record.call.profile.value()].name);
      const auto traffic_class = classes.find(old.classes[record.call.traffic_class.value()].name);
      kept = leaf != nodes.end() && profile != profiles.end() && traffic_class != classes.end();
      if (kept) {
        record.call.leaf = NodeId(leaf->second);
        record.call.profile = ProfileId(profile->second);
        record.call.traffic_class = ClassId(traffic_class->second);
        kept = known(record.call);
      }
    }
    if (kept) {
      enqueue(slot, false);
    } else {
      ++queued_;
      if (!record.doomed) doomed_.push_back(id_of(slot));
      record.doomed = true;
    }
  }
}

CallerLimits Governor::Impl::caller_limits(NodeId leaf, ProfileId profile, Instant now) {
  now = tick(now);
  CallerLimits found;
  const auto visit = [&](const NodeTerms& node) {
    for (const MeterRef& ref : node.rules) {
      RuleMeter& meter = ref.meter();
      if (meter.level()) continue;
      const std::int64_t limit = std::max<std::int64_t>(0, meter.rule().amount);
      const std::int64_t taken = saturating_add(meter.used(now), meter.open());
      const CallerLimit here{limit, std::clamp<std::int64_t>(limit - taken, 0, limit),
                             std::max(Duration{0}, saturating_sub(meter.empties(now), now)),
                             ref.limit.window};
      auto& best = ref.claim.unit == Unit::requests ? found.requests : found.tokens;
      const auto share = [](const CallerLimit& each) {
        return static_cast<double>(each.remaining) /
               static_cast<double>(std::max<std::int64_t>(1, each.limit));
      };
      if (!best || share(here) < share(*best)) best = here;
    }
  };
  for (std::uint32_t at = leaf.value(); at < terms_->nodes.size(); at = terms_->nodes[at].parent) {
    visit(terms_->nodes[at]);
  }
  if (profile.value() < terms_->profiles.size()) {
    const std::uint32_t node = terms_->profiles[profile.value()].node;
    if (node < terms_->nodes.size()) visit(terms_->nodes[node]);
  }
  return found;
}

void Governor::Impl::snapshot(Snapshot& into, Instant now) {
  now = tick(now);
  into.deployments.resize(terms_->deployments.size());
  for (std::uint32_t i = 0; i < terms_->deployments.size(); ++i) {
    const DeploymentTerms& from = terms_->deployments[i];
    DeploymentView& view = into.deployments[i];
    view.deployment = DeploymentId(i);
    view.inflight = from.state->inflight;
    view.attempts = from.state->attempts;
    view.rejections = from.state->rejections;
    const EstimateView learned = from.state->estimator.view();
    view.bytes_per_token = learned.bytes_per_token;
    view.mean_output_tokens = learned.mean_output;
    view.p95_output_tokens = learned.p95_output;
    view.estimate_error_ratio = learned.error;
    view.output_bias_ratio = learned.output_bias;
    view.p95_coverage_ratio = learned.p95_coverage;
    view.cached_input_ratio = learned.cached_ratio;
    view_congestion(*from.state, from.learns, view);
    view.guard = Duration{0};
    view.meters.resize(from.rules.size());
    std::size_t shown = 0;
    for (const MeterRef& ref : from.rules) {
      const Belief& belief = ref.shared->belief;
      if (!belief.active || ref.congestion) continue;
      RuleMeter& meter = ref.meter();
      MeterView& out = view.meters[shown++];
      out.guessed = belief.guessed;
      out.evidence = belief.score;
      out.refused_ago =
          belief.refused_at == kDawn ? kForever : saturating_sub(now, belief.refused_at);
      out.recalled = ref.shared->recalled;
      out.kept = meter.bracket() != nullptr ? meter.bracket()->amount() : meter.rule().amount;
      out.rule = meter.rule();
      out.used = meter.used(now);
      out.reserved = meter.held();
      out.pending = meter.level() ? 0 : meter.open();
      const std::int64_t taken = saturating_add(out.used, out.pending);
      out.remaining = std::max<std::int64_t>(0, meter.limit(now) - taken);
      const Instant empty = meter.empties(now);
      out.refill = empty == kNever ? kForever : std::max(Duration{0}, saturating_sub(empty, now));
      view.guard = std::max(view.guard, meter.guard(now));
    }
    view.meters.resize(shown);
  }
  into.classes.resize(terms_->classes.size());
  for (std::uint32_t i = 0; i < terms_->classes.size(); ++i) {
    into.classes[i] = {ClassId(i), class_queued_[i], longest_wait(i, now)};
  }
  into.queued = queued_;
  into.inflight = inflight_;
}

Governor::Governor(std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant now)
    : impl_(std::make_unique<Impl>(std::move(policy), seed, now)) {}
Governor::~Governor() = default;

Outcome Governor::submit(const Call& call, Instant now) { return impl_->submit(call, now); }
bool Governor::advance(Instant now, std::vector<Event>& events) {
  return impl_->advance(events, now);
}
Instant Governor::next_deadline() const { return impl_->next_deadline(); }
void Governor::sent(CallId call, Instant now) { impl_->sent(call, now); }
void Governor::progress(CallId call, std::int64_t output_events, Instant now) {
  impl_->progress(call, output_events, now);
}
void Governor::signal(DeploymentId deployment, const Signal& signal, Instant now) {
  impl_->signal(deployment, signal, now);
}
Verdict Governor::rejected(CallId call, const Signal& signal, bool replayable, Instant now) {
  return impl_->rejected(call, signal, replayable, now);
}
Settled Governor::settle(CallId call, const Settlement& settlement, Instant now, Usage* charged) {
  return impl_->settle(call, settlement, now, charged);
}
void Governor::cancel(CallId call, Instant now) { impl_->cancel(call, now); }
void Governor::apply(std::shared_ptr<const Policy> policy, Instant now) {
  impl_->apply(std::move(policy), now);
}
std::optional<Grant> Governor::grant_of(CallId call) const { return impl_->grant_of(call); }
Estimate Governor::estimate(DeploymentId deployment, const Demand& demand) const {
  return impl_->estimate(deployment, demand);
}
CallerLimits Governor::caller_limits(NodeId leaf, ProfileId profile, Instant now) const {
  return impl_->caller_limits(leaf, profile, now);
}
void Governor::snapshot(Snapshot& into, Instant now) const { impl_->snapshot(into, now); }
bool Governor::remember(Memory& into, MemoryCursor& at, Instant now) const {
  return impl_->remember(into, at, now);
}
void Governor::recall(const Memory& memory, const MemoryAge& age, Instant now) {
  impl_->recall(memory, age, now);
}
bool Governor::has_debt_alarms() const { return impl_->has_debt_alarms(); }
std::vector<DebtAlarm> Governor::take_debt_alarms() { return impl_->take_debt_alarms(); }
bool Governor::has_learned() const { return impl_->has_learned(); }
std::vector<LearnedNote> Governor::take_learned() { return impl_->take_learned(); }
bool Governor::has_congestion_notes() const { return impl_->has_congestion_notes(); }
std::vector<CongestionNote> Governor::take_congestion_notes() {
  return impl_->take_congestion_notes();
}
const Policy& Governor::policy() const { return impl_->policy(); }

}  // namespace weir::governor
