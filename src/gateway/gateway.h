// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "config/config.h"
#include "gateway/clock.h"
#include "gateway/dispatcher.h"
#include "gateway/meters.h"
#include "gateway/plan.h"
#include "http/exchange.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace weir::gateway {

/// What a Gateway is given. Everything outlives it.
struct GatewayParts {
  const Clock& clock;
  telemetry::Registry& registry;
  telemetry::Log& log;
  Dispatcher::Wake wake;   ///< sets the pacer's timer; called from any loop
  std::uint64_t seed = 0;  ///< of jitter and trace ids; from the system's randomness
};

/// The gateway of one process: the configuration in force, the governor, the metrics, and the
/// handlers that serve requests with them. It does no I/O and owns no thread.
/// Threads: any.
class Gateway {
 public:
  Gateway(std::shared_ptr<const config::Config> config, GatewayParts parts);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  /// Makes the handler of one loop and listener. The gateway must outlive it.
  std::unique_ptr<http::Handler> make_handler(http::Loop& loop, http::Connector& connector);

  /// The pacer's work: grants and refuses what fell due; returns when to call again.
  Instant poll(Instant now) { return dispatcher_.poll(now); }
  /// How late the pacer's timer was, for the metrics.
  void note_pacer_lateness(Duration late) { lateness_.observe(late); }

  /// Puts a new, valid configuration in force. Requests in flight keep their terms; those that
  /// wait are decided under the new one.
  void reload(std::shared_ptr<const config::Config> config);
  /// A reload was refused: counts and logs it. Nothing else changes.
  void note_failed_reload(std::string_view reason);

  /// Stops taking requests: new ones and those that wait get 503.
  void drain();
  /// The drain's time is over: streams get an error event, everything else ends.
  void end_all();
  [[nodiscard]] bool draining() const { return draining_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::shared_ptr<const Plan> plan() { return dispatcher_.plan(); }
  /// Grows with each reload, so that handlers see that their plan is old.
  [[nodiscard]] std::uint64_t plan_version() const {
    return plan_version_.load(std::memory_order_acquire);
  }
  /// The governor's state; the gauges of the metrics are set to it.
  governor::Snapshot observe(Instant now);

  /// What a successor should know. It may take some milliseconds, but holds up nobody for longer
  /// than a piece of it takes.
  Memory remember() { return dispatcher_.remember(clock_.now()); }
  /// Takes what a predecessor knew, before the first handler is made.
  void recall(const Memory& memory, const MemoryAge& age) {
    dispatcher_.recall(memory, age, clock_.now());
  }

  /// Counts and logs the tenants whose calls cost more than they were charged at admission.
  void tell_debts();
  /// Logs what was learned of providers' limits.
  void tell_learned();
  void tell_congestion();

  Dispatcher& dispatcher() { return dispatcher_; }
  Meters& meters() { return meters_; }
  telemetry::Log& log() { return log_; }
  [[nodiscard]] const Clock& clock() const { return clock_; }
  std::uint64_t next_seed();

 private:
  const Clock& clock_;
  telemetry::Log& log_;
  Meters meters_;
  telemetry::Histogram& lateness_;
  Dispatcher dispatcher_;
  std::atomic<std::uint64_t> plan_version_{1};
  std::atomic<std::uint64_t> seed_;
  std::atomic<bool> draining_{false};
};

}  // namespace weir::gateway
