// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gateway/guarded.h"
#include "gateway/plan.h"
#include "http/exchange.h"
#include "weir/governor.h"

namespace weir::gateway {

/// One who waits for the governor's answer, on its own loop.
class Receiver {
 public:
  virtual ~Receiver() = default;
  /// `plan` is the configuration under which `event` was decided; its ids belong to it.
  virtual void on_event(const governor::Event& event, const std::shared_ptr<const Plan>& plan) = 0;
  /// The process is about to end. `last` false: stop waiting. `last` true: end at once.
  virtual void on_drain(bool last) = 0;
};

/// The receivers of one handler, addressed by cookies whose generation makes a stale one harmless.
/// Threads: its loop's; only `Dispatcher` posts to it.
class Mailbox {
 public:
  Mailbox(std::uint32_t number, http::Loop& loop) : number_(number), loop_(loop) {}

  /// Gives a receiver its address. `close` must be called before it dies.
  std::uint64_t open(Receiver& receiver);
  void close(std::uint64_t cookie);
  void deliver(const governor::Event& event, const std::shared_ptr<const Plan>& plan);
  void drain(bool last);
  [[nodiscard]] http::Loop& loop() const { return loop_; }
  [[nodiscard]] std::size_t size() const { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    Receiver* receiver = nullptr;
    std::uint32_t generation = 0;
  };
  Receiver* find(std::uint64_t cookie);

  std::uint32_t number_;
  http::Loop& loop_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

/// The one governor of the process behind its lock, and the way back from its events to the loops
/// that own the requests.
///
/// Whoever changes something asks the governor afterwards for its next deadline; if it became
/// earlier than the one the pacer is set to, `wake` is called, outside the lock. The pacer (a
/// thread of the program) calls `poll` at each deadline. What fell due through the change itself
/// is granted within the call, without the pacer.
/// Threads: any.
class Dispatcher {
 public:
  using Wake = std::function<void(Instant)>;

  Dispatcher(std::shared_ptr<const Plan> plan, std::uint64_t seed, Instant now, Wake wake);

  /// Makes the mailbox of a handler. Threads: any; the mailbox belongs to `loop` then.
  std::shared_ptr<Mailbox> make_mailbox(http::Loop& loop);

  /// What became of a call, and the caller's own limits once it is counted.
  struct Submission {
    governor::Outcome outcome;
    governor::CallerLimits limits;
  };
  /// Absent: `plan` is no longer the one in force; read the new one and ask again.
  std::optional<Submission> submit(const Call& call, const Plan& plan, Instant now);
  void sent(CallId call, Instant now);
  void progress(CallId call, std::int64_t output_events, Instant now);
  void signal(DeploymentId deployment, const Plan& plan, const Signal& signal, Instant now);
  governor::Verdict rejected(CallId call, const Signal& signal, bool replayable, Instant now);
  governor::Settled settle(CallId call, const Settlement& settlement, Instant now,
                           Usage* charged = nullptr);
  void cancel(CallId call, Instant now);

  /// Whether there may be alarms to take; cheap, without the lock.
  [[nodiscard]] bool has_debt_alarms() const {
    return debt_alarms_.load(std::memory_order_relaxed);
  }
  std::vector<governor::DebtAlarm> take_debt_alarms();
  /// The same of congestion that set in or ended.
  [[nodiscard]] bool has_congestion_notes() const {
    return congestion_notes_.load(std::memory_order_relaxed);
  }
  std::vector<governor::CongestionNote> take_congestion_notes();

  /// The same of what was learned of limits.
  [[nodiscard]] bool has_learned() const { return learned_.load(std::memory_order_relaxed); }
  std::vector<governor::LearnedNote> take_learned();

  /// The limits of a caller as they stand now. Absent: `plan`, to which the ids belong, is no
  /// longer the one in force.
  std::optional<governor::CallerLimits> caller_limits(NodeId leaf, ProfileId profile,
                                                      const Plan& plan, Instant now);

  /// Does what fell due, at most 64 events for each hold of the lock, and returns when to call
  /// again (kNever: when woken).
  Instant poll(Instant now);

  /// Puts a new configuration in force; calls in flight keep their terms.
  void apply(std::shared_ptr<const Plan> plan, Instant now);
  [[nodiscard]] std::shared_ptr<const Plan> plan();
  void snapshot(governor::Snapshot& into, Instant now);
  /// What a successor should know, taken in pieces: requests go on between them.
  Memory remember(Instant now);
  /// Takes what a predecessor knew, before the first request.
  void recall(const Memory& memory, const MemoryAge& age, Instant now);
  /// Tells every receiver on its own loop (Receiver::on_drain).
  void drain(bool last);

 private:
  struct Core {
    Core(std::shared_ptr<const Plan> plan, std::uint64_t seed, Instant now);
    std::shared_ptr<const Plan> plan;
    governor::Governor governor;
    Instant armed = kNever;  ///< when the pacer will call by itself
    std::vector<governor::Event> events;
  };
  struct Due {
    std::vector<governor::Event> events;
    std::shared_ptr<const Plan> plan;
    std::optional<Instant> wake;
    bool learned = false;
  };

  /// Collects what fell due and decides whether the pacer must be woken. Called under the lock.
  static void collect(Core& core, Instant now, Due& due);
  void deliver(Due& due);

  Guarded<Core> core_;
  std::atomic<bool> debt_alarms_{false};
  std::atomic<bool> learned_{false};
  std::atomic<bool> congestion_notes_{false};
  Guarded<std::vector<std::shared_ptr<Mailbox>>> mailboxes_;
  Wake wake_;
};

}  // namespace weir::gateway
