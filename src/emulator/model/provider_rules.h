// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "emulator/model/growth.h"
#include "emulator/model/meter.h"
#include "weir/rng.h"
#include "weir/rule.h"
#include "weir/time.h"
#include "weir/units.h"

namespace weir::emulator::model {

/// How a modelled provider limits its traffic.
struct ProviderSettings {
  std::vector<Rule> rules;             ///< at most kMaxRules are kept, the first ones
  std::vector<GrowthSettings> growth;  ///< the same; looked at where all rules have room
  bool rejected_counted = false;       ///< a refused attempt counts 1 against every request rule
  /// Where fixed windows and counters begin, from the epoch of the clock; absent: drawn from the
  /// seed, one for each rule. Windows of whole days have a phase of their own.
  std::optional<Duration> phase;
  /// Where windows of whole days begin. 0: at midnight, if the clock's epoch is one.
  Duration day_phase{0};
  /// Reserved as output where a request names no maximum.
  std::int64_t default_max_output = 0;
  std::int64_t max_inflight = 1'000'000;  ///< bound of the table of attempts
  std::uint64_t seed = 1;
};

/// A request as the provider reads it. Units: tokens.
struct AdmitRequest {
  std::int64_t input_tokens = 0;
  std::optional<std::int64_t> max_output_tokens;
};

/// Names an admitted attempt; 0 names none.
using AttemptId = std::uint64_t;

/// The provider's answer at the door.
struct Admission {
  bool admitted = false;
  AttemptId attempt = 0;
  /// The rule that refuses for longest; absent: a growth rule refuses, or the table of attempts is
  /// full.
  std::optional<std::size_t> rule;
  std::optional<std::size_t> growth;    ///< the growth rule that refuses for longest
  std::optional<Duration> retry_after;  ///< absent: unknown
  bool never_fits = false;              ///< more than a rule holds at all
};

/// What one rule would say in a response's headers.
struct Reading {
  Rule rule;
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  Duration reset{0};  ///< until nothing is counted any more
};

/// What the provider has seen since its start.
struct Counters {
  std::int64_t admitted = 0;
  std::int64_t refused = 0;
  std::vector<std::int64_t> refused_by_rule;
  std::int64_t refused_by_growth = 0;
  std::int64_t inflight = 0;
  std::int64_t finished = 0;
  std::int64_t aborted = 0;
  std::int64_t failed = 0;
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
};

/// The rules of a modelled provider: the other side of the governor, which it does not know.
///
/// An attempt is admitted if every rule has room for what that rule counts at admission:
///   requests 1; concurrency 1 until the end; tokens by the rule's counting:
///   reserve          input + maximum output, kept whatever the request really used
///   reserve_refund   the same, corrected to the real usage at the end
///   settle           input; the output is charged at the end and may pass the limit
///   realtime         input; the output is charged as it is produced and may pass the limit
///   input            input, nothing else
/// of which an input rule sees the input part, an output rule the output part, a total rule both.
/// All rules are charged or none. Enforcement `unknown` is drawn from the seed. Growth rules count
/// admitted requests, the input at the door and, where they are of output or of all tokens, the
/// output at the end.
///
/// Pure: no I/O, no clock, no thread. Bounds: rules, attempts, and each log (Meter). An unknown or
/// ended attempt is ignored, so ending twice changes nothing.
class ProviderRules {
 public:
  static constexpr std::size_t kMaxRules = 32;

  ProviderRules(const ProviderSettings& settings, Instant now);

  Admission admit(const AdmitRequest& request, Instant now);
  /// What `admit` would answer, without charging or counting anything; `attempt` stays 0.
  [[nodiscard]] Admission look(const AdmitRequest& request, Instant now);
  /// `output_tokens`: produced by this attempt so far, not since the last call.
  void produced(AttemptId attempt, std::int64_t output_tokens, Instant now);
  void finish(AttemptId attempt, std::int64_t input_tokens, std::int64_t output_tokens,
              Instant now);
  /// The caller left; what was produced is charged.
  void abort(AttemptId attempt, std::int64_t output_so_far, Instant now);
  /// The provider itself failed: no tokens are charged, the request is.
  void fail(AttemptId attempt, Instant now);

  /// Takes other rules while running. A rule keeps its usage if unit, window and enforcement stay;
  /// with another enforcement what was used is carried over as one charge of this instant.
  void set_rules(const std::vector<Rule>& rules, Instant now);

  [[nodiscard]] std::size_t rule_count() const { return meters_.size(); }
  [[nodiscard]] std::vector<Reading> readings(Instant now);
  /// The rule of this unit with the smallest share left; absent: no rule of the unit.
  [[nodiscard]] std::optional<Reading> reading(Unit unit, Instant now);
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] const std::vector<GrowthMeter>& growth() const { return growth_; }

 private:
  struct Metered {
    std::uint32_t id = 0;
    Meter meter;
  };
  struct Held {
    std::uint32_t meter = 0;
    Charge charge;
    std::int64_t counted = 0;  ///< in all, later charges included
  };
  struct Attempt {
    std::int64_t input_tokens = 0;
    std::int64_t output_so_far = 0;
    std::vector<Held> held;
  };
  enum class End : std::uint8_t { finished, aborted, failed };

  Metered make(const Rule& rule, Instant now);
  void look_at_growth(const AdmitRequest& request, Admission& answer, Instant now);
  void count_refusal(const Admission& answer, Instant now);
  void grow(Unit unit, std::int64_t amount, Instant now);
  [[nodiscard]] std::int64_t reserved_output(const AdmitRequest& request) const;
  Metered* find(std::uint32_t id);
  void end(AttemptId attempt, std::int64_t input, std::int64_t output, End how, Instant now);
  void correct(Attempt& attempt, std::int64_t input, std::int64_t output, Instant now);
  [[nodiscard]] Reading read(Meter& meter, Instant now) const;

  ProviderSettings settings_;
  Rng rng_;
  std::uint32_t next_meter_ = 1;
  AttemptId next_attempt_ = 1;
  std::vector<Metered> meters_;
  std::vector<GrowthMeter> growth_;
  std::unordered_map<AttemptId, Attempt> attempts_;
  Counters counters_;
};

}  // namespace weir::emulator::model
