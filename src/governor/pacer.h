// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weir/time.h"

namespace weir::governor {

/// A rate that may grow linearly from zero at `start` over `warmup`, and is constant afterwards.
/// Units: work per nanosecond.
struct Slope {
  double per_ns = 0;
  Instant start = kDawn;
  Duration warmup{0};

  /// The share of the full rate at `at`, 0..1.
  [[nodiscard]] double share(Instant at) const;
  /// The work done between two instants.
  [[nodiscard]] double work(Instant from, Instant to) const;
  /// When `amount` of work is done, counted from `from`; rounded up to the next nanosecond.
  [[nodiscard]] Instant reach(Instant from, double amount) const;
};

/// Debt on a virtual clock: what has been charged and not yet worked off. It never goes below zero,
/// so idle time earns nothing beyond the burst.
///
/// A charge c fits when debt + c <= max(burst, c): anything passes an idle pacer, and whatever
/// passed is worked off at the slope. Departures in any time T are at most
/// max(burst, c_max) + slope * T.
/// Worked example (also a test): 10 per second, burst 5: five units at once, the sixth 0.1 s later;
/// a unit of 20 passes when the debt is zero, and the next unit waits 1.6 s.
/// The same object is the exact mirror of a provider's token bucket of depth `burst`.
/// Threads: one owner.
class Pacer {
 public:
  void charge(double amount, const Slope& slope, Instant now);
  /// Corrects an earlier charge; a credit never makes the debt negative.
  void correct(double delta, const Slope& slope, Instant now);
  /// Puts the debt to at least `amount`, as it will stand at `at`.
  void raise(double amount, const Slope& slope, Instant at);
  /// The slope is about to change to `factor` times what it was: a debt keeps its length in time
  /// where the slope falls, and its amount where it rises.
  void rescale(double factor, const Slope& before, Instant now);
  [[nodiscard]] double debt(const Slope& slope, Instant now) const;
  /// When the debt will be at most `level`; `now` if it is.
  [[nodiscard]] Instant falls_to(double level, const Slope& slope, Instant now) const;

 private:
  double debt_ = 0;
  Instant at_ = kDawn;
};

/// Rounding slack of comparisons between floating amounts, in units; far below one.
inline constexpr double kSlack = 1e-6;

}  // namespace weir::governor
