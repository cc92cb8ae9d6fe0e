// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "weir/result.h"
#include "weir/time.h"

namespace weir::cli {

/// The one thread that calls the governor when something falls due. It sleeps on a timer
/// descriptor, so that a grant leaves within some tens of microseconds of its time whatever the
/// I/O loops do, and tells how late it woke.
class Pacer {
 public:
  /// `work(now)` does what is due and returns when to be called next.
  using Work = std::function<Instant(Instant now)>;
  /// Told of each wake-up: how much later than asked.
  using Lateness = std::function<void(Duration)>;

  /// Errors: io (no timer descriptor, no thread).
  static Result<std::unique_ptr<Pacer>> start(Work work, Lateness lateness);
  /// Ends the thread.
  ~Pacer();
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;

  /// Calls `work` at `at` if that is earlier than what it waits for. Threads: any.
  void wake(Instant at);

 private:
  Pacer(int timer, Work work, Lateness lateness);
  void run();
  void set_timer(Instant at);

  int timer_;
  Work work_;
  Lateness lateness_;
  /// When the timer is set to go off. It and the descriptor change together, or a later wake-up
  /// could replace an earlier one.
  std::mutex mutex_;
  Instant armed_ = kNever;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace weir::cli
