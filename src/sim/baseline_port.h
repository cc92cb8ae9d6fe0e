// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/port.h"
#include "weir/rng.h"

namespace weir::sim {

/// What every published client-side strategy has in common: calls wait in one line, first in first
/// out; the strategy says when the head may go; a semaphore bounds those under way; an attempt that
/// the provider refuses comes back after a pause, at the end of the line, six attempts in all.
///
/// The sources sleep instead of standing in a line: a debt bucket lets a caller reserve at once and
/// sleep until its debt is paid. The start times are the same, because each debt is paid after
/// those before it; the line is kinder to the strategy in two ways, and both are meant: what is
/// given back shortens the wait of those that wait already, and a caller that leaves has taken
/// nothing. A first attempt waits at most the traffic class's `max_wait`, as for the governor; the
/// pauses between attempts are not held against that time.
///
/// Bounds: the policy's `max_calls`. Threads: one owner. Time: `now`, which never goes back.
class BaselinePort : public GovernorPort {
 public:
  BaselinePort(std::shared_ptr<const Policy> policy, std::uint64_t seed);
  governor::Outcome submit(const Call& call, Instant now) final;
  bool advance(Instant now, std::vector<governor::Event>& events) final;
  [[nodiscard]] Instant next_deadline() const final;
  void sent(CallId, Instant, Instant) final {}
  void progress(CallId, std::int64_t, Instant) final {}
  void signal(DeploymentId, const Signal&, Instant) final {}
  governor::Verdict rejected(CallId call, const Signal& signal, bool replayable, Instant now) final;
  governor::Settled settle(CallId call, const Settlement& settlement, Instant now) final;
  void cancel(CallId call, Instant now) final;
  void snapshot(governor::Snapshot& into, Instant now) const final;

 protected:
  /// What a call is believed to cost. Units: tokens.
  struct Cost {
    std::int64_t input = 0;
    std::int64_t output = 0;  ///< where the provider charges it at the door; else learned later
  };
  /// How an attempt ended.
  struct End {
    bool rejected = false;
    Usage used;  ///< zero where nothing is known to have been charged
    Duration took{0};
  };
  /// When the next attempt may go, were it alone; not before `now`. Must be no later than `now`
  /// when asked again at the instant it answered.
  [[nodiscard]] virtual Instant may_go(const Cost& cost, Instant now) const;
  /// The attempt goes.
  virtual void goes(const Cost& cost, Instant now);
  virtual void ended(const Cost& cost, const End& end, Instant now);
  /// The pause before the attempt after the `attempts`-th; absent: the strategy gives up.
  [[nodiscard]] virtual std::optional<Duration> pause(std::int32_t attempts);
  /// When the strategy itself has something to do, and doing it.
  [[nodiscard]] virtual Instant next_tick() const { return kNever; }
  virtual void tick(Instant) {}
  /// How many attempts may be under way; 0: no bound.
  [[nodiscard]] virtual std::int64_t slots() const { return 0; }

  [[nodiscard]] const DeploymentPolicy& deployment() const { return policy_->deployments.front(); }
  Rng& rng() { return rng_; }

 private:
  enum class State : std::uint8_t { unused, in_line, pausing, under_way };
  struct Held {
    State state = State::unused;
    std::uint32_t generation = 0;
    std::uint64_t cookie = 0;
    std::int32_t attempts = 1;
    Cost cost;
    Instant timer = kNever;  ///< in line: the end of its patience; pausing: the end of the pause
    Instant since;
    Instant left;
    std::uint64_t place = 0;
  };
  [[nodiscard]] Cost cost_of(const Demand& demand) const;
  [[nodiscard]] bool slot_free() const;
  [[nodiscard]] Held* find(CallId call);
  void stand_in_line(std::uint32_t slot, Instant patience_ends);
  void leave_line_or_pause(std::uint32_t slot);
  void release(std::uint32_t slot);
  void start(std::uint32_t slot, Instant now);

  std::shared_ptr<const Policy> policy_;
  Rng rng_;
  std::vector<Held> calls_;
  std::vector<std::uint32_t> free_;
  std::set<std::pair<std::uint64_t, std::uint32_t>> line_;  ///< by place
  std::set<std::pair<Instant, std::uint32_t>> timers_;
  std::uint64_t next_place_ = 0;
  std::int64_t under_way_ = 0;
  std::int64_t waiting_ = 0;
};

/// A bucket of one unit that may fall into debt. An amount larger than the capacity goes when the
/// bucket is full.
class DebtBucket {
 public:
  DebtBucket(double capacity, double per_second, double level)
      : capacity_(capacity), per_second_(per_second), level_(level) {}
  [[nodiscard]] Instant covers(double amount, Instant now) const;
  void take(double amount, Instant now);
  /// From `now` on. What was earned until then stays.
  void set_rate(double per_second, Instant now);

 private:
  [[nodiscard]] double level_at(Instant now) const;
  double capacity_;
  double per_second_;
  double level_;
  Instant at_{};
};

}  // namespace weir::sim
