// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "emulator/limit_text.h"
#include "emulator/model/behaviour.h"
#include "emulator/model/other_consumer.h"
#include "emulator/model/provider_rules.h"
#include "emulator/model/wait_queue.h"
#include "emulator/model_request.h"
#include "emulator/settings.h"
#include "weir/time.h"

namespace weir::emulator {

/// An admitted request, with all that was drawn for it.
struct Attempt {
  model::AttemptId id = 0;
  std::uint32_t epoch = 0;  ///< a reset makes older attempts strangers
  std::uint64_t serial = 0;
  Instant begun;            ///< on the caller's clock
  Duration first_token{0};  ///< on the caller's clock, as all times here
  Duration per_token{0};
  model::Fault fault;
  std::int64_t output_tokens = 0;  ///< per choice
  bool cut = false;                ///< the request's maximum ended it
  /// When token `count` (from 1) of a choice is there.
  [[nodiscard]] Instant ready_at(std::int64_t count) const;
};

struct Turned {
  Refusal refusal;
  std::uint64_t serial = 0;
};

/// A request that waits at the provider. Ask again with `knock`, or leave.
struct Waits {
  model::WaitTicket ticket = 0;
  std::uint32_t epoch = 0;
  std::uint64_t serial = 0;
};

/// What `begin` answers, with the rate-limit field lines where the answer is final.
struct Begun {
  std::variant<Attempt, Turned, Waits> what;
  std::string fields;
};

/// The emulated provider: rules, speed, lengths and faults behind one lock, on a clock that runs
/// `time_scale` times as fast as its callers'. Times go in and out on the callers' clock.
///
/// Every attempt that was admitted is ended once, by `finish`, `abort` or `fail`; every one that
/// waits is asked for with `knock` until it is answered, or leaves.
/// The other consumer's requests happen when somebody next calls, each at its own time.
/// Bounds: those of ProviderRules, WaitQueue and OtherConsumer. Threads: any.
class Provider {
 public:
  /// `time_scale` > 0. `wall_start`: calendar time at `start`, for `created`.
  Provider(Settings settings, double time_scale, Instant start, WallTime wall_start);

  /// `patience`: how long the caller would wait, on its own clock; absent: it did not say.
  Begun begin(const ModelRequest& request, std::optional<Duration> patience, Instant now);
  /// Whether it is this one's turn: admitted, refused, or it still waits.
  Begun knock(const Waits& waits, const ModelRequest& request, Instant now);
  /// Who waited has gone, and is not counted as refused.
  void leave(const Waits& waits, Instant now);
  /// Tokens of all choices produced so far.
  void produced(const Attempt& attempt, std::int64_t tokens, Instant now);
  void finish(const Attempt& attempt, std::int64_t input, std::int64_t output, Instant now);
  void abort(const Attempt& attempt, std::int64_t output_so_far, Instant now);
  void fail(const Attempt& attempt, Instant now);

  /// The control plane's values, JSON.
  [[nodiscard]] std::string counters(Instant now);
  [[nodiscard]] std::string rules();
  [[nodiscard]] std::string latency();
  [[nodiscard]] std::string faults();
  void set_rules(const std::vector<Rule>& rules, Instant now);
  void set_latency(const model::LatencySettings& latency);
  void set_faults(const model::FaultSettings& faults);
  /// As if just started: nothing used, nothing counted. Attempts under way are forgotten.
  void reset(Instant now);

  [[nodiscard]] const std::vector<std::string>& models() const { return settings_.models; }
  [[nodiscard]] bool require_key() const { return settings_.require_key; }
  [[nodiscard]] std::uint64_t seed() const { return settings_.seed; }
  /// Seconds since 1970.
  [[nodiscard]] std::int64_t created(Instant now) const;

 private:
  [[nodiscard]] Instant inside(Instant now) const;
  [[nodiscard]] Duration outside(Duration duration) const;
  /// Lets happen what was due, and tells the provider's own time.
  Instant turn_to(Instant now);
  void serve_queue(Instant at);
  std::uint32_t epoch();
  Begun answered(const ModelRequest& request, const model::Admission& admission,
                 std::uint64_t serial, Instant now);
  [[nodiscard]] Refusal explain(const ModelRequest& request, const model::Admission& admission,
                                Instant at);
  [[nodiscard]] std::string limit_fields(Instant at);

  Settings settings_;
  const double time_scale_;
  const Instant start_;
  const WallTime wall_start_;
  std::mutex mutex_;
  std::uint32_t epoch_ = 1;
  std::uint64_t serial_ = 0;
  model::ProviderRules rules_;
  model::OtherConsumer other_;
  model::WaitQueue queue_;
  std::map<model::WaitTicket, model::Admission> called_;  ///< answered, not asked for yet
  model::LatencyModel latency_;
  model::FaultModel faults_;
};

}  // namespace weir::emulator
