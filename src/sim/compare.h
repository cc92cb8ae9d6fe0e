// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/baseline_recorder.h"
#include "sim/harness.h"

namespace weir::sim {

/// One way of sending, as a comparison runs it.
struct Contender {
  std::string name;
  std::string title;
  MakePort make;
};

/// The published baselines, then `weir` as the scenario tells it, then weir with one thing left out
/// for each of `ablations`.
std::vector<Contender> contenders(const std::vector<std::string>& ablations);

/// One strategy under one load at one provider; seeds put together.
struct Cell {
  std::string style, load, strategy;
  double load_share = 0;  ///< demand of the scarcest rule
  std::int64_t calls = 0, served = 0, attempts = 0, rejected = 0;
  /// Means over the seeds: what the scarcest rule charged within the horizon, of its limit ...
  double use = 0;
  double fifo_use = 0;  ///< ... what the clairvoyant FIFO with window sums <= L has it charge
  double ceiling = 0;   ///< ... and what nobody can pass: see `most_use`
  bool beats_ceiling = false;  ///< with any seed
  double worst_window = 0;
  /// What the tenant that fares worst is served, of its max-min share; absent: there is one only.
  std::optional<double> least_share;
  double p50_s = 0, p99_s = 0;  ///< wait of the served, arrival to the departure that was answered
  std::int64_t retries = 0, retries_answered = 0, tokens = 0;
  std::int64_t violations = 0;  ///< found by the checkers; overtaking is not counted
  std::vector<SeriesPoint> series;

  [[nodiscard]] double success() const;
  [[nodiscard]] double share_429() const;  ///< of attempts
  [[nodiscard]] double attempts_per_call() const;
  [[nodiscard]] double use_of_fifo() const;
};

/// The most of a limit that any sender can have the provider charge within the measured time: what
/// the clients ask for, or what the rules let through, whichever is less.
///   sliding   ceil(T / W) windows of L each
///   fixed     one real window more, because two edges are cut
///   bucket    T / W of L, and its depth once
/// times `worst_window` where more than 1: a provider that charges at the end lets more in than its
/// limit, and says so by that figure. A figure above this is a fault of the books, not a feat.
double most_use(const Scenario& scenario, std::uint64_t seed, double worst_window);

/// Runs one contender in one world with these seeds.
Cell measure(const Scenario& scenario, const Contender& contender,
             const std::vector<std::uint64_t>& seeds, bool with_series);

/// Sets demand to this share of the scarcest rule.
void set_load(Scenario& scenario, double share);

struct CompareOptions {
  std::vector<std::uint64_t> seeds;  ///< at least one
  std::string load;                  ///< not empty: only this one, as "120%"
  std::vector<std::string> ablations;
  /// Told after each world: how many of how many are done.
  std::function<void(std::size_t, std::size_t)> progress;
};

struct Comparison {
  std::string name, about;
  std::vector<std::uint64_t> seeds;
  double horizon_s = 0;
  std::vector<std::string> styles, loads;
  std::vector<double> patience_s;  ///< by style
  std::vector<Contender> strategies;
  std::string pictured_load;  ///< the one with series
  std::vector<Cell> cells;    ///< by style, load, strategy

  [[nodiscard]] const Cell* find(std::string_view style, std::string_view load,
                                 std::string_view strategy) const;
  /// What makes the comparison itself untrustworthy; one line each.
  [[nodiscard]] std::vector<std::string> faults() const;
};

/// The loads of a comparison, as shares of the scarcest rule.
const std::vector<double>& compare_loads();

/// Every contender, under every load, at every style of the scenarios. The world of a style is the
/// file's last one of that style, so that the patience of its clients is the same at all loads.
/// Errors: not_found (no such load).
Result<Comparison> compare(const std::string& name, const std::string& about,
                           const std::vector<Scenario>& scenarios, const CompareOptions& options);

std::string compare_table(const Comparison& comparison);
std::string compare_json(const Comparison& comparison);

}  // namespace weir::sim
