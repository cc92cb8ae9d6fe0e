// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkers.h"
#include "sim/fair_shares.h"
#include "sim/port.h"
#include "sim/scenario.h"
#include "sim/starvation.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir::sim {

/// Waits of the served, from arrival to departure.
struct Waits {
  Duration p50{0};
  Duration p99{0};
  Duration longest{0};
};

/// Nearest-rank percentiles; all 0 without any.
Waits sum_up(std::vector<Duration> waits);

/// Nearest-rank percentile, `share` in 0..1; 0 without any.
Duration percentile(std::vector<Duration> durations, double share);

/// One goal and whether it was reached.
struct Judgement {
  std::string goal;
  double wanted = 0;
  double reached = 0;
  bool held = false;
};

/// What one run came to.
struct Report {
  std::string style;
  std::string load;
  std::uint64_t seed = 0;
  Books books;
  std::int64_t admitted_in_horizon = 0;
  double allowed = 0;  ///< requests that the provider's windows allow in the horizon
  /// What the scarcest rule charged from `measure_from` to the horizon, of its limit; and what it
  /// would have charged under the clairvoyant packers.
  double use = 0;
  double fifo_use = 0;
  double backfill_use = 0;
  std::int64_t attempts_after_restart = 0;
  std::int64_t rejected_after_restart = 0;
  /// Refusals of what the killed governor had sent and the provider saw after the kill, when cut
  /// streams had been charged: the next governor can do nothing about them. They are judged by a
  /// goal of their own and count neither as its attempts nor in the share of 429s.
  std::int64_t rejected_in_transit = 0;
  double worst_window = 0;   ///< largest share of a limit that the provider counted
  double worst_offered = 0;  ///< the same with the attempts it refused, request rules only
  Waits waits;
  Waits oracle;
  std::int64_t oracle_served = 0;
  std::int64_t answered_in_horizon = 0;
  std::int64_t overloaded = 0;          ///< 503s; `books.rejected` has them, the share of 429s not
  std::int64_t holds = 0;               ///< times that congestion set in, as the governor has it
  std::int64_t congestion_refuted = 0;  ///< and limits that did not help
  Duration p95_first_token{0};          ///< of streams, from departure
  std::int64_t best_fixed =
      0;  ///< calls in flight that answer the most, and how many; 0: not tried
  std::int64_t best_fixed_answered = 0;
  std::vector<Rule> learned;            ///< rules nobody told the governor, kept at the end
  std::vector<std::string> first_429s;  ///< when and by which rule; the first ten
  Duration longest_pause{0};            ///< that a refusal asked for
  Starvation starvation;
  Fairness fairness;
  Violations violations;
  std::vector<Judgement> judgements;
  std::uint64_t digest = 0;  ///< of all decisions in order
  std::int64_t events = 0;   ///< steps of virtual time

  [[nodiscard]] double share_429() const;
  /// Those in transit, as a share of all attempts.
  [[nodiscard]] double share_429_transit() const;
  [[nodiscard]] bool held() const;
};

/// Runs one world with one seed, in virtual time, until the last call has ended. The governor is
/// driven as the gateway's shell drives it. Equal arguments give equal reports, digest included.
/// Threads: any, one run each.
Report run(const Scenario& scenario, std::uint64_t seed);
/// The same with a governor of the caller's making.
Report run(const Scenario& scenario, std::uint64_t seed, const MakePort& make_port);

/// The policy a scenario tells the governor, with another start level after a restart.
Policy make_policy(const Scenario& scenario, double start_level);

/// Reads a scenario file. Errors: io; invalid_config, with every fault as "file:line:column: ...".
Result<ScenarioSet> load_scenarios(const std::string& path);

struct RunOptions {
  bool json = false;
  std::vector<std::uint64_t> seeds;  ///< empty: the file's
  std::string style, load;           ///< not empty: only these
  std::string trace;                 ///< not empty: a CSV file whose arrivals replace the file's
  std::optional<Strategy> strategy;  ///< instead of the file's
  /// Monotonic seconds, read by the caller's clock, for the speed of the simulation; absent: not
  /// printed.
  std::function<double()> wall_seconds;
  /// Every published strategy beside the governor (compare.h) instead of the file's goals; `load`
  /// and the loads are then those of the comparison.
  bool compare = false;
  std::string report;                  ///< not empty: where a comparison's page is written
  std::vector<std::string> ablations;  ///< further contenders: the governor without these
  /// Told after each world of a comparison: how many of how many are done.
  std::function<void(std::size_t, std::size_t)> progress;
};

/// Runs every world of the file with every seed and writes a table, or JSON, to `out` and faults to
/// `faults`. Answers the exit code: 0 all goals held, 1 one was missed, 3 the file or the trace is
/// invalid or nothing was chosen.
int run_scenario_file(const std::string& path, const RunOptions& options, std::ostream& out,
                      std::ostream& faults);

}  // namespace weir::sim
