// SPDX-License-Identifier: Apache-2.0
// Where calls wait: lanes, the groups of lanes that compete for the same deployments, and
// time-outs.
#include <algorithm>

#include "governor/impl.h"

namespace weir::governor {
namespace {

constexpr std::size_t kMaxLanes = 131072;

constexpr auto kSoonest = [](const auto& left, const auto& right) {
  return left.at != right.at ? left.at > right.at : left.index > right.index;
};
constexpr auto kOldest = [](const auto& left, const auto& right) { return left.seq > right.seq; };

}  // namespace

std::uint64_t Governor::Impl::lane_key(const Call& call) const {
  const std::uint64_t group =
      std::uint64_t{call.traffic_class.value()} * terms_->profiles.size() + call.profile.value();
  return group * terms_->nodes.size() + call.leaf.value();
}

bool Governor::Impl::waits_in_lane(const Call& call) const {
  const auto lane = lane_index_.find(lane_key(call));
  return lane != lane_index_.end() && lanes_[lane->second].count > 0;
}

std::uint32_t Governor::Impl::lane_for(const Call& call) {
  const std::uint64_t key = lane_key(call);
  const auto found = lane_index_.find(key);
  if (found != lane_index_.end()) return found->second;
  if (free_lanes_.empty() && lanes_.size() >= kMaxLanes) sweep_lanes();
  std::uint32_t lane = 0;
  if (free_lanes_.empty()) {
    lane = static_cast<std::uint32_t>(lanes_.size());
    lanes_.emplace_back();
  } else {
    lane = free_lanes_.back();
    free_lanes_.pop_back();
  }
  lanes_[lane].key = key;
  lanes_[lane].group = static_cast<std::uint32_t>(key / terms_->nodes.size());
  lane_index_.emplace(key, lane);
  return lane;
}

void Governor::Impl::sweep_lanes() {
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    if (lane.state != LaneState::idle || lane.count > 0) continue;
    const auto found = lane_index_.find(lane.key);
    if (found == lane_index_.end() || found->second != i) continue;
    lane_index_.erase(found);
    free_lanes_.push_back(i);
  }
}

void Governor::Impl::count_contending(const Lane& lane, std::int64_t by) {
  const ProfileTerms& profile = terms_->profiles[groups_[lane.group].profile];
  for (const CandidateTerms& candidate : profile.candidates) {
    terms_->deployments[candidate.deployment].contending += by;
  }
}

bool Governor::Impl::contended(const ProfileTerms& profile) const {
  return std::any_of(profile.candidates.begin(), profile.candidates.end(), [&](const auto& each) {
    return terms_->deployments[each.deployment].contending > 0;
  });
}

bool Governor::Impl::somebody_due(const ProfileTerms& profile, Instant now) const {
  const std::size_t profiles = terms_->profiles.size();
  for (const CandidateTerms& candidate : profile.candidates) {
    for (const std::uint32_t other : terms_->deployments[candidate.deployment].profiles) {
      for (std::size_t i = other; i < groups_.size(); i += profiles) {
        if (groups_[i].ready_lanes > 0 && groups_[i].blocked_until <= now) return true;
      }
    }
  }
  return false;
}

void Governor::Impl::note_waiting(std::uint32_t slot) {
  const Record& record = calls_[slot];
  Oldest& oldest = class_oldest_[record.call.traffic_class.value()];
  if (oldest.heap.size() >= oldest.tidy_at) {
    std::erase_if(oldest.heap, [&](const Timed& each) {
      return calls_[each.index].generation != each.stamp ||
             calls_[each.index].state != State::queued;
    });
    std::make_heap(oldest.heap.begin(), oldest.heap.end(), kSoonest);
    oldest.tidy_at = std::max<std::size_t>(64, 2 * oldest.heap.size());
  }
  oldest.heap.push_back({record.submitted, slot, record.generation});
  std::push_heap(oldest.heap.begin(), oldest.heap.end(), kSoonest);
}

Duration Governor::Impl::longest_wait(std::uint32_t traffic_class, Instant now) {
  std::vector<Timed>& heap = class_oldest_[traffic_class].heap;
  while (!heap.empty()) {
    const Timed& top = heap.front();
    const Record& record = calls_[top.index];
    if (record.generation == top.stamp && record.state == State::queued) {
      return saturating_sub(now, top.at);
    }
    std::pop_heap(heap.begin(), heap.end(), kSoonest);
    heap.pop_back();
  }
  return Duration{0};
}

void Governor::Impl::push_ready(std::uint32_t index) {
  Lane& lane = lanes_[index];
  Group& group = groups_[lane.group];
  ++lane.stamp;
  if (group.heap.size() > static_cast<std::size_t>(2 * group.ready_lanes + 64)) {
    std::erase_if(group.heap, [&](const ReadyLane& item) {
      return lanes_[item.lane].state != LaneState::ready || lanes_[item.lane].stamp != item.stamp;
    });
    std::make_heap(group.heap.begin(), group.heap.end(), kOldest);
  }
  group.heap.push_back({calls_[lane.head].seq, index, lane.stamp});
  std::push_heap(group.heap.begin(), group.heap.end(), kOldest);
}

std::optional<Governor::Impl::ReadyLane> Governor::Impl::pop_ready(Group& group) {
  while (!group.heap.empty()) {
    const ReadyLane top = group.heap.front();
    std::pop_heap(group.heap.begin(), group.heap.end(), kOldest);
    group.heap.pop_back();
    const Lane& lane = lanes_[top.lane];
    if (lane.state == LaneState::ready && lane.stamp == top.stamp) return top;
  }
  return std::nullopt;
}

void Governor::Impl::make_ready(std::uint32_t index) {
  Lane& lane = lanes_[index];
  Group& group = groups_[lane.group];
  lane.state = LaneState::ready;
  ++group.ready_lanes;
  count_contending(lane, lane.count);
  push_ready(index);
  if (!group.active) {
    group.active = true;
    active_.push_back(lane.group);
    group.blocked_until = kDawn;
    // A class that comes back gets no credit for the time in which it asked for nothing.
    const ProfileTerms& profile = terms_->profiles[group.profile];
    DeploymentTerms& pool = terms_->deployments[profile.candidates.front().deployment];
    double& finish = pool.class_finish[group.traffic_class];
    finish = std::max(finish, pool.virtual_time);
  } else if (!group.only_time_helps) {
    group.blocked_until = kDawn;
  }
}

void Governor::Impl::leave_ready(std::uint32_t index) {
  Lane& lane = lanes_[index];
  ++lane.stamp;
  --groups_[lane.group].ready_lanes;
  count_contending(lane, -lane.count);
}

void Governor::Impl::park(std::uint32_t index, Instant until, const MeterRef* on) {
  leave_ready(index);
  Lane& lane = lanes_[index];
  lane.state = LaneState::parked;
  if (until != kNever) {
    if (lane_wakes_.size() > 4 * lanes_.size() + 64) {
      std::erase_if(lane_wakes_,
                    [&](const Timed& wake) { return lanes_[wake.index].stamp != wake.stamp; });
      std::make_heap(lane_wakes_.begin(), lane_wakes_.end(), kSoonest);
    }
    lane_wakes_.push_back({until, index, lane.stamp});
    std::push_heap(lane_wakes_.begin(), lane_wakes_.end(), kSoonest);
  }
  if (on == nullptr) return;
  lane.parked_on = on->shared;
  Waiters& list = on->shared->waiters;
  // Kept in the order of the heads; whoever was just woken and failed belongs near the front,
  // whoever comes anew near the end, so the shorter walk is tried from both.
  const std::uint64_t seq = calls_[lane.head].seq;
  const auto older = [&](std::uint32_t other) { return calls_[lanes_[other].head].seq < seq; };
  std::uint32_t before = list.head;
  std::uint32_t after = list.tail;
  while (before != kNoIndex && older(before)) {
    if (older(after)) {
      before = lanes_[after].wait_next;
      break;
    }
    before = lanes_[before].wait_next;
    after = lanes_[after].wait_prev;
  }
  lane.wait_next = before;
  lane.wait_prev = before == kNoIndex ? list.tail : lanes_[before].wait_prev;
  (lane.wait_prev == kNoIndex ? list.head : lanes_[lane.wait_prev].wait_next) = index;
  (before == kNoIndex ? list.tail : lanes_[before].wait_prev) = index;
}

void Governor::Impl::unpark(std::uint32_t index) {
  Lane& lane = lanes_[index];
  ++lane.stamp;
  lane.state = LaneState::idle;
  if (!lane.parked_on) return;
  Waiters& list = lane.parked_on->waiters;
  (lane.wait_prev == kNoIndex ? list.head : lanes_[lane.wait_prev].wait_next) = lane.wait_next;
  (lane.wait_next == kNoIndex ? list.tail : lanes_[lane.wait_next].wait_prev) = lane.wait_prev;
  lane.wait_prev = lane.wait_next = kNoIndex;
  lane.parked_on.reset();
}

void Governor::Impl::enqueue(std::uint32_t slot, bool front) {
  Record& record = calls_[slot];
  record.state = State::queued;
  record.lane = lane_for(record.call);
  record.waited = true;
  record.passed_since = kNever;
  Lane& lane = lanes_[record.lane];
  // A head that is passed over loses its pin: whoever stands before it now could not start for the
  // pin, nor it for them.
  if (front && lane.head != kNoIndex) unpin(lane.head);
  record.prev = front ? kNoIndex : lane.tail;
  record.next = front ? lane.head : kNoIndex;
  (record.prev == kNoIndex ? lane.head : calls_[record.prev].next) = slot;
  (record.next == kNoIndex ? lane.tail : calls_[record.next].prev) = slot;
  ++lane.count;
  ++queued_;
  ++class_queued_[record.call.traffic_class.value()];
  note_waiting(slot);
  if (lane.state == LaneState::ready) {
    count_contending(lane, 1);
    if (front) push_ready(record.lane);
  } else if (lane.state == LaneState::idle || front) {
    if (lane.state == LaneState::parked) unpark(record.lane);
    make_ready(record.lane);
  }
  if (record.wait_until == kNever) return;
  timeouts_.push_back({record.wait_until, slot, record.generation});
  std::push_heap(timeouts_.begin(), timeouts_.end(), kSoonest);
}

void Governor::Impl::dequeue(std::uint32_t slot) {
  Record& record = calls_[slot];
  --queued_;
  // The ids of a call that a reload took the ground from mean nothing in the present policy.
  if (record.doomed) return;
  --class_queued_[record.call.traffic_class.value()];
  unpin(slot);
  const std::uint32_t index = record.lane;
  Lane& lane = lanes_[index];
  const bool was_head = lane.head == slot;
  // The lane leaves the lists ordered by its head before the head changes.
  const bool parked = lane.state == LaneState::parked;
  if (was_head && parked) unpark(index);
  (record.prev == kNoIndex ? lane.head : calls_[record.prev].next) = record.next;
  (record.next == kNoIndex ? lane.tail : calls_[record.next].prev) = record.prev;
  record.prev = record.next = kNoIndex;
  record.lane = kNoIndex;
  if (lane.state == LaneState::ready) count_contending(lane, -1);
  --lane.count;
  if (!was_head) return;
  if (lane.state == LaneState::ready) {
    if (lane.count > 0) {
      push_ready(index);
    } else {
      leave_ready(index);
      lane.state = LaneState::idle;
    }
    if (!groups_[lane.group].only_time_helps) groups_[lane.group].blocked_until = kDawn;
  } else if (lane.count > 0) {
    make_ready(index);
  }
}

void Governor::Impl::wake_due_lanes(Instant now) {
  while (!lane_wakes_.empty() && lane_wakes_.front().at <= now) {
    const Timed wake = lane_wakes_.front();
    std::pop_heap(lane_wakes_.begin(), lane_wakes_.end(), kSoonest);
    lane_wakes_.pop_back();
    const Lane& lane = lanes_[wake.index];
    if (lane.stamp != wake.stamp || lane.state != LaneState::parked) continue;
    unpark(wake.index);
    make_ready(wake.index);
  }
}

void Governor::Impl::wake_waiters(Metered& metered, std::int64_t most) {
  for (; most > 0 && metered.waiters.head != kNoIndex; --most) {
    const std::uint32_t lane = metered.waiters.head;
    unpark(lane);
    make_ready(lane);
  }
}

bool Governor::Impl::expire_queued(std::vector<Event>& events, std::int64_t& budget,
                                   Instant before) {
  while (!timeouts_.empty() && timeouts_.front().at <= before) {
    const Timed due = timeouts_.front();
    const bool live =
        calls_[due.index].generation == due.stamp && calls_[due.index].state == State::queued;
    if (live && budget <= 0) return true;
    std::pop_heap(timeouts_.begin(), timeouts_.end(), kSoonest);
    timeouts_.pop_back();
    if (!live) continue;
    Record& record = calls_[due.index];
    Refusal refusal;
    refusal.decision =
        record.attempt > 0 ? Decision::admitted_then_provider_rejected : Decision::queue_timeout;
    refusal.limit = record.limit;
    const Start start = earliest(record.call, now_);
    if (!refusal.limit.any() && start.by != nullptr) refusal.limit = start.by->limit;
    refusal.retry_after = slot_after(start, now_);
    refusal.queued = saturating_sub(now_, record.submitted);
    refusal.estimate = {record.cost.input, record.cost.output};
    refusal.attempts = record.attempt;
    events.push_back({id_of(due.index), record.call.cookie, refusal});
    dequeue(due.index);
    release_slot(due.index);
    --budget;
  }
  return false;
}

void Governor::Impl::clean_heaps() {
  while (!timeouts_.empty()) {
    const Timed& top = timeouts_.front();
    if (calls_[top.index].generation == top.stamp && calls_[top.index].state == State::queued) {
      break;
    }
    std::pop_heap(timeouts_.begin(), timeouts_.end(), kSoonest);
    timeouts_.pop_back();
  }
  if (timeouts_.size() > static_cast<std::size_t>(2 * queued_ + 64)) {
    std::erase_if(timeouts_, [&](const Timed& each) {
      return calls_[each.index].generation != each.stamp ||
             calls_[each.index].state != State::queued;
    });
    std::make_heap(timeouts_.begin(), timeouts_.end(), kSoonest);
  }
  while (!lane_wakes_.empty() &&
         lanes_[lane_wakes_.front().index].stamp != lane_wakes_.front().stamp) {
    std::pop_heap(lane_wakes_.begin(), lane_wakes_.end(), kSoonest);
    lane_wakes_.pop_back();
  }
}

}  // namespace weir::governor
