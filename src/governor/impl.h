// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "governor/terms.h"
#include "weir/governor.h"

namespace weir::governor {

/// What stands behind `Governor`: the table of calls, the lanes they wait in, and the terms they
/// are decided under. Its functions stand in governor.cc (the operations), dispatch.cc (who may go
/// next) and settlement.cc (how calls end).
class Governor::Impl {
 public:
  Impl(std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant now);

  Outcome submit(const Call& call, Instant now);
  bool advance(std::vector<Event>& events, Instant now);
  [[nodiscard]] Instant next_deadline() const;
  void sent(CallId id, Instant now);
  void progress(CallId id, std::int64_t output_events, Instant now);
  void signal(DeploymentId deployment, const Signal& signal, Instant now);
  Verdict rejected(CallId id, const Signal& signal, bool replayable, Instant now);
  Settled settle(CallId id, const Settlement& settlement, Instant now, Usage* charged);
  void cancel(CallId id, Instant now);
  void apply(std::shared_ptr<const Policy> policy, Instant now);
  [[nodiscard]] std::optional<Grant> grant_of(CallId id) const;
  [[nodiscard]] Estimate estimate(DeploymentId deployment, const Demand& demand) const;
  [[nodiscard]] CallerLimits caller_limits(NodeId leaf, ProfileId profile, Instant now);
  void snapshot(Snapshot& into, Instant now);
  bool remember(Memory& into, MemoryCursor& at, Instant now);
  void recall(const Memory& memory, const MemoryAge& age, Instant now);
  [[nodiscard]] bool has_debt_alarms() const { return !debt_alarms_.empty(); }
  std::vector<DebtAlarm> take_debt_alarms() { return std::exchange(debt_alarms_, {}); }
  [[nodiscard]] bool has_learned() const { return !learned_.empty(); }
  std::vector<LearnedNote> take_learned() { return std::exchange(learned_, {}); }
  [[nodiscard]] bool has_congestion_notes() const { return !congestion_notes_.empty(); }
  std::vector<CongestionNote> take_congestion_notes() {
    return std::exchange(congestion_notes_, {});
  }
  [[nodiscard]] const Policy& policy() const { return *terms_->policy; }

 private:
  enum class State : std::uint8_t { free, queued, granted };

  struct Record {
    std::uint32_t generation = 0;
    State state = State::free;
    Call call;
    std::shared_ptr<Terms> terms;  // those it was granted under
    std::uint32_t lane = kNoIndex;
    std::uint32_t prev = kNoIndex;  // in its lane while it waits, in a lease list once granted
    std::uint32_t next = kNoIndex;
    std::uint64_t seq = 0;
    Instant submitted;
    Instant wait_until = kNever;
    Instant not_before = kDawn;
    std::int32_t attempt = 0;
    bool waited = false;
    Instant passed_since = kNever;  // others may have gone before it from here on, for its size
    bool doomed = false;            // its ids are of a policy that is gone; it stands in no lane
    LimitRef limit;
    Cost cost;
    std::uint32_t deployment = 0;
    Grant grant;
    Instant granted_at;
    Instant renewed_at;
    Progressed progressed;
    std::int64_t events = 0;
    bool as_enforced = false;       // it counts where meters stand as if everything were enforced
    bool judged = false;            // the provider's verdict on it has been learned from
    Congestion::Of pace;            // how many were in flight when it left, and when that was
    std::int64_t paced_events = 0;  // up to which its speed has been measured, and when that was
    Instant paced_at = kDawn;
    // Where the windows of the deployment's rules stood when it left, itself included.
    std::array<std::int64_t, kLearnedRules> standing{};
  };

  enum class LaneState : std::uint8_t { idle, ready, parked };

  /// Calls of one (profile, class, leaf), first come first served.
  struct Lane {
    std::uint64_t key = 0;
    std::uint32_t group = 0;
    std::uint32_t head = kNoIndex, tail = kNoIndex;
    std::int64_t count = 0;
    LaneState state = LaneState::idle;
    std::uint64_t stamp = 0;  // invalidates what heaps remember of it
    std::shared_ptr<Metered> parked_on;
    std::uint32_t wait_prev = kNoIndex, wait_next = kNoIndex;
  };

  struct ReadyLane {
    std::uint64_t seq = 0;
    std::uint32_t lane = 0;
    std::uint64_t stamp = 0;
  };

  /// The ready lanes of one (class, profile): they compete for the same deployments.
  struct Group {
    std::uint32_t traffic_class = 0;
    std::uint32_t profile = 0;
    std::vector<ReadyLane> heap;  // oldest head first
    std::int64_t ready_lanes = 0;
    bool active = false;
    Instant blocked_until = kDawn;
    bool only_time_helps = false;  // blocked by requests alone: settled tokens change nothing
  };

  struct Timed {
    Instant at;
    std::uint32_t index = 0;
    std::uint64_t stamp = 0;
  };

  /// The calls that wait in one class, the longest waiting first, with lazy deletion.
  struct Oldest {
    std::vector<Timed> heap;
    std::size_t tidy_at = 64;
  };

  struct Try {
    bool granted = false;
    bool own = false;        // one of the call's own nodes blocks it
    bool by_size = false;    // a smaller call might pass
    bool only_time = false;  // on every candidate only time helps, no ending of another call
    const MeterRef* by = nullptr;
    std::uint32_t deployment = kNoIndex;
    Instant when = kNever;
  };

  struct Start {
    Instant optimistic = kNever;
    Instant realistic = kNever;
    const MeterRef* by = nullptr;
    std::uint32_t deployment = kNoIndex;
    std::int64_t amount = 1;
  };

  /// A limit that a call is too large for, what it asks of it and the most that ever fits.
  struct TooLarge {
    LimitRef limit;
    std::int64_t asked = 0;
    std::int64_t at_most = 0;
  };

  /// An expired reservation, kept so that its late usage is booked once.
  struct Tombstone {
    CallId id;
    std::shared_ptr<Terms> terms;
    Call call;
    std::uint32_t deployment = 0;
    Cost cost;
    Actual booked;
    bool sent = false;  // its request left, before the expiry or after it
    bool stamped_late = false;
    bool as_enforced = false;
  };

  // governor.cc
  Instant tick(Instant now);
  Record* find(CallId id);
  [[nodiscard]] const Record* find(CallId id) const;
  [[nodiscard]] CallId id_of(std::uint32_t slot) const;
  std::uint32_t take_slot();
  void release_slot(std::uint32_t slot);
  [[nodiscard]] bool known(const Call& call) const;
  Outcome refuse_or_queue(std::uint32_t slot, bool may_wait, const Try& tried, Instant now);
  /// The limit that the call is too large for on every candidate. `first`: its cost on the first.
  [[nodiscard]] std::optional<TooLarge> never_fits(const Call& call, const Cost& first) const;
  void remap_queued(const Policy& old);
  /// Whether the call is only watched: nothing delays or refuses it.
  [[nodiscard]] bool observes(const Call& call) const;

  // dispatch.cc
  /// `known`: the call's cost on its first candidate, where it was just worked out.
  Try attempt(std::uint32_t slot, Instant now, const Cost* known = nullptr);
  bool deployment_ready(const DeploymentTerms& deployment, const Record& record, std::uint32_t slot,
                        const Cost& cost, Instant now) const;
  Instant deployment_when(const DeploymentTerms& deployment, const Record& record, const Cost& cost,
                          Instant now, const MeterRef*& by) const;
  const MeterRef* own_blocker(const Terms& terms, const Call& call, const Cost& cost,
                              Instant now) const;
  void grant(std::uint32_t slot, std::uint32_t deployment, const Cost& cost, bool spilled,
             Instant now);
  void note_observed(Record& record, const DeploymentTerms& deployment, Instant now) const;
  void charge_class(const Call& call, std::uint32_t deployment, const Cost& cost);
  [[nodiscard]] Start earliest(const Call& call, Instant now) const;
  [[nodiscard]] Duration slot_after(const Start& start, Instant now) const;
  bool dispatch(std::vector<Event>& events, std::int64_t& budget, Instant now);
  std::uint32_t pick_group(Instant now);
  bool scan_group(Group& group, std::vector<Event>& events, Instant now);
  bool try_pinned(std::uint32_t group, std::vector<Event>& events, Instant now);
  void maybe_pin(std::uint32_t slot, const Try& outcome, Instant now);
  void unpin(std::uint32_t slot);
  void wake_groups(const Terms& terms, std::uint32_t deployment, bool all);
  void wake_waiters(Metered& metered, std::int64_t most);

  // lanes.cc
  [[nodiscard]] std::uint64_t lane_key(const Call& call) const;
  std::uint32_t lane_for(const Call& call);
  /// Whether others of the call's own lane wait.
  [[nodiscard]] bool waits_in_lane(const Call& call) const;
  void sweep_lanes();
  void enqueue(std::uint32_t slot, bool front);
  void dequeue(std::uint32_t slot);
  void make_ready(std::uint32_t lane);
  void leave_ready(std::uint32_t lane);
  void park(std::uint32_t lane, Instant until, const MeterRef* on);
  void unpark(std::uint32_t lane);
  void push_ready(std::uint32_t lane);
  void count_contending(const Lane& lane, std::int64_t by);
  std::optional<ReadyLane> pop_ready(Group& group);
  void wake_due_lanes(Instant now);
  bool expire_queued(std::vector<Event>& events, std::int64_t& budget, Instant before);
  void clean_heaps();
  [[nodiscard]] bool contended(const ProfileTerms& profile) const;
  /// Whether somebody who waits for one of its deployments may go as soon as he is looked at.
  [[nodiscard]] bool somebody_due(const ProfileTerms& profile, Instant now) const;
  void note_waiting(std::uint32_t slot);
  [[nodiscard]] Duration longest_wait(std::uint32_t traffic_class, Instant now);

  // settlement.cc
  void finish(std::uint32_t slot, const Actual& actual, Instant now);
  void release_own(Record& record, const Actual& actual, Instant now);
  void learn(const Record& record, const Settlement& settlement);
  [[nodiscard]] Actual actual_of(const Record& record, const Settlement& settlement) const;
  Settled settle_late(CallId id, const Settlement& settlement, Instant now, Usage* charged);
  void sent_late(CallId id, Instant now);
  bool expire_leases(Instant now);
  void lease_push(std::uint32_t slot);
  void lease_remove(std::uint32_t slot);
  [[nodiscard]] Instant next_lease() const;
  bool hold_for(DeploymentTerms& deployment, const Signal& signal, Instant until, Instant now);
  void decrease(DeploymentTerms& deployment, const Signal& signal, Record& record, Instant now);
  Refusal give_up(const Record& record, const Signal& signal, Instant earliest, Instant now);

  // slowness.cc
  void note_departure(Record& record);
  void note_output(Record& record, std::int64_t output_events, Instant now);
  void note_answer(Record& record, const Settlement& settlement, Instant now);
  /// Whether the signal, or the refusal, says that the provider has too much to do.
  void note_overload(Record& record, const Signal& signal, Instant now);
  void keep_congestion_limit(const Terms& terms, std::uint32_t deployment);
  void tell_congestion(const Terms& terms, std::uint32_t deployment);

  // learning.cc
  void note_standing(Record& record, const DeploymentTerms& deployment, Instant now);
  void learn_headers(const Record& record, const Signal& signal, Instant now);
  void learn_acceptance(Record& record, Instant now);
  /// Tells of it if something was learned of the limit.
  void note_learned(const Record& record, const MeterRef& ref);
  /// False: nothing that is known or guessed has to do with the refusal.
  bool learn_refusal(DeploymentTerms& deployment, const Signal& signal, Record& record,
                     Instant now);

  // recall.cc
  [[nodiscard]] RememberedDeployment remember_deployment(std::size_t index) const;
  void remember_caller(Memory& into, std::size_t index) const;
  static void recall_deployment(const RememberedDeployment& from, const DeploymentTerms& deployment,
                                const MemoryAge& age, Instant now);
  static void recall_meter(const RememberedMeter& from, const MeterRef& ref,
                           const DeploymentTerms& deployment, const MemoryAge& age, Instant now);
  static void recall_limit(const RememberedMeter& from, const MeterRef& ref, const MemoryAge& age,
                           Instant now);
  static std::int64_t may_have_left(const DeploymentTerms& deployment, const Rule& rule,
                                    Duration time);

  template <class Visit>
  static bool each_own(const Terms& terms, const Call& call, Visit&& visit);

  std::shared_ptr<Terms> terms_;
  Registry registry_;
  Rng rng_;
  Instant now_;
  std::deque<Record> calls_;
  std::vector<std::uint32_t> free_;
  std::int64_t known_calls_ = 0;
  std::int64_t queued_ = 0;
  std::int64_t inflight_ = 0;
  std::uint64_t next_seq_ = 1;
  std::uint64_t revision_ = 0;  // of what is remembered

  std::deque<Lane> lanes_;
  std::vector<std::uint32_t> free_lanes_;
  std::unordered_map<std::uint64_t, std::uint32_t> lane_index_;
  std::vector<Group> groups_;  // class * profiles + profile
  std::vector<std::uint32_t> active_;
  std::vector<std::int64_t> class_queued_;
  std::vector<Oldest> class_oldest_;
  std::vector<Timed> lane_wakes_;  // heaps, soonest first, with lazy deletion
  std::vector<Timed> timeouts_;
  std::vector<ReadyLane> passed_;
  std::vector<CallId> doomed_;  // queued calls whose profile a reload took away
  std::vector<std::shared_ptr<DeploymentState>> states_;
  std::vector<DebtAlarm> debt_alarms_;
  std::vector<LearnedNote> learned_;
  std::vector<CongestionNote> congestion_notes_;
  std::vector<Tombstone> tombstones_;
  std::size_t next_tombstone_ = 0;
};

/// Calls `visit` with every limit of our own that the call passes, from its leaf to the root, then
/// its profile's and its class's. Stops and returns false as soon as `visit` does.
template <class Visit>
bool Governor::Impl::each_own(const Terms& terms, const Call& call, Visit&& visit) {
  for (std::uint32_t at = call.leaf.value(); at < terms.nodes.size(); at = terms.nodes[at].parent) {
    for (const MeterRef& ref : terms.nodes[at].rules) {
      if (!visit(ref)) return false;
    }
  }
  const std::uint32_t profile_node = terms.profiles[call.profile.value()].node;
  if (profile_node < terms.nodes.size()) {
    for (const MeterRef& ref : terms.nodes[profile_node].rules) {
      if (!visit(ref)) return false;
    }
  }
  for (const MeterRef& ref : terms.classes[call.traffic_class.value()].rules) {
    if (!visit(ref)) return false;
  }
  return true;
}

}  // namespace weir::governor
