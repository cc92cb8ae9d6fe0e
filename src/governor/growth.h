// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "governor/window_meter.h"
#include "weir/memory.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir::governor {

/// How much may pass in one period under a rule on growth: at most
///   max(floor, ratio * peak)
/// where peak is the largest sum of a period that ended from `look_back` to one period ago.
///
/// The sums are those of the meter that it belongs to, looked up on a grid of fiftieths of a
/// period, so the peak is never above the true one; the guard's part is taken off, for what left
/// here within a period may arrive there within a little more. A refusal for growth that this does
/// not explain lowers what made the limit, the floor or the ratio, to 95 % of what was refused;
/// each clean hour gives a part of it back.
///
/// Worked example (also a test): ratio 2, 10 s, floor 20. 20 pass at t = 0. At t = 22 s the peak is
/// surely 20 and 40 pass. With no traffic for 5 min 20 s, 20 again.
/// Errors: none; odd rules are held in range. Bounds: at most 4096 entries. Source: control.md
/// section 10.4; the form of the rule is that of interface.md section 3. Threads: one owner.
class GrowthLimit {
 public:
  explicit GrowthLimit(const GrowthRule& rule);

  /// A changed rule: what was learned about the old one is forgotten.
  void tell(const GrowthRule& rule);
  [[nodiscard]] const GrowthRule& rule() const { return rule_; }
  /// Looks up the sums since the last time. `log` has the period as its window.
  void follow(WindowMeter& log, Duration guard, Instant now);
  /// The most for the period that ends now.
  [[nodiscard]] std::int64_t most(Duration guard) const;
  /// When it may be more than it is.
  [[nodiscard]] Instant looks_again() const { return next_; }
  /// The provider refused what made the sum `sum`.
  void refused(std::int64_t sum, Duration guard, Instant now);
  /// What refusals have taken of the rule; nothing where none did.
  [[nodiscard]] std::optional<RememberedGrowth> remember(Instant now) const;
  /// Takes what a predecessor knew, `age` ago.
  void recall(const RememberedGrowth& growth, Duration age, Instant now);

 private:
  struct Sample {
    Instant at;
    std::int64_t sum = 0;
  };
  [[nodiscard]] Duration step() const;

  GrowthRule rule_;
  Instant next_ = kDawn;
  std::int64_t last_ = 0;     // the sum at the last look
  std::deque<Sample> fresh_;  // of periods that ended less than one period ago
  std::deque<Sample> peaks_;  // older ones, falling
  double floor_part_ = 1;     // of the floor and of the ratio's excess over one, as learned
  double ratio_part_ = 1;
  Instant refused_at_ = kDawn;
};

}  // namespace weir::governor
