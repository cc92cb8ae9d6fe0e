// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/port.h"

namespace weir::sim {

/// The plainest governor that keeps a told sliding rule: one line, first in first out, and a log of
/// what was sent in the last window plus guard for each request rule. It proves the harness against
/// something that is easy to read; tests break it to see that the checkers notice.
class ReferencePort : public GovernorPort {
 public:
  /// What is broken on purpose.
  struct Bugs {
    bool no_guard = false;
    bool last_in_first_out = false;
    bool forgets_ends = false;   ///< settlements do not free the slot
    bool never_answers = false;  ///< calls wait for ever
    bool answers_late = false;   ///< the time in the queue is not looked at
  };
  ReferencePort(std::shared_ptr<const Policy> policy, Bugs bugs)
      : policy_(std::move(policy)), bugs_(bugs) {
    for (const Rule& rule : deployment().rules) {
      if (rule.unit == Unit::requests) logs_.push_back({rule, {}});
    }
  }

  governor::Outcome submit(const Call& call, Instant now) override {
    const CallId id{next_++, 1};
    if (line_.empty() && room_at(now) <= now) {
      grant(id, now);
      return governor::Admitted{id, {}};
    }
    line_.push_back({id, call.cookie, now});
    return governor::Queued{id, {}};
  }

  bool advance(Instant now, std::vector<governor::Event>& events) override {
    const Duration patience = policy_->classes[0].max_wait;
    while (!line_.empty()) {
      if (!bugs_.answers_late && now - line_.front().since >= patience) {
        Refusal refusal;
        refusal.decision = Decision::queue_timeout;
        events.push_back({line_.front().id, line_.front().cookie, refusal});
        line_.pop_front();
        continue;
      }
      if (room_at(now) > now) break;
      const Waiting next = bugs_.last_in_first_out ? line_.back() : line_.front();
      if (bugs_.last_in_first_out) {
        line_.pop_back();
      } else {
        line_.pop_front();
      }
      grant(next.id, now);
      events.push_back({next.id, next.cookie, Grant{}});
    }
    return false;
  }

  [[nodiscard]] Instant next_deadline() const override {
    if (line_.empty() || bugs_.never_answers) return kNever;
    const Instant timeout =
        bugs_.answers_late ? kNever : line_.front().since + policy_->classes[0].max_wait;
    return std::min(timeout, room_at(kDawn));
  }

  void sent(CallId call, Instant /*granted*/, Instant now) override {
    if (open_.contains(call.slot)) {
      for (auto& [rule, log] : logs_) log[call.slot] = now;
    }
  }
  void progress(CallId, std::int64_t, Instant) override {}
  void signal(DeploymentId, const Signal&, Instant) override {}
  governor::Verdict rejected(CallId call, const Signal&, bool, Instant) override {
    open_.erase(call.slot);
    return governor::GaveUp{};
  }
  governor::Settled settle(CallId call, const Settlement&, Instant) override {
    if (!bugs_.forgets_ends) open_.erase(call.slot);
    return governor::Settled::settled;
  }
  void cancel(CallId call, Instant) override {
    std::erase_if(line_, [&](const Waiting& waiting) { return waiting.id == call; });
    open_.erase(call.slot);
  }
  void snapshot(governor::Snapshot& into, Instant) const override {
    into.inflight = static_cast<std::int64_t>(open_.size());
    into.queued = static_cast<std::int64_t>(line_.size());
  }

 private:
  struct Waiting {
    CallId id;
    std::uint64_t cookie;
    Instant since;
  };
  [[nodiscard]] const DeploymentPolicy& deployment() const { return policy_->deployments[0]; }
  void grant(CallId id, Instant now) {
    open_.emplace(id.slot, true);
    for (auto& [rule, log] : logs_) log[id.slot] = now;
  }
  /// When one more may go, as the logs stand; not before `now`.
  [[nodiscard]] Instant room_at(Instant now) const {
    Instant at = now;
    for (const auto& [rule, log] : logs_) {
      const Duration guard =
          bugs_.no_guard ? Duration{0} : deployment().guard.value_or(Duration{0});
      const auto limit = static_cast<std::size_t>(rule.amount);
      if (log.size() < limit) continue;
      auto oldest = log.rbegin();
      std::advance(oldest, static_cast<std::ptrdiff_t>(limit) - 1);
      at = std::max(at, oldest->second + rule.window + guard);
    }
    return at;
  }

  std::shared_ptr<const Policy> policy_;
  Bugs bugs_;
  std::uint32_t next_ = 0;
  std::deque<Waiting> line_;
  std::map<std::uint32_t, bool> open_;
  mutable std::vector<std::pair<Rule, std::map<std::uint32_t, Instant>>> logs_;
};

}  // namespace weir::sim
