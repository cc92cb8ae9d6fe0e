// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "weir/time.h"

namespace weir::governor {

/// What a provider that keeps a sliding counter may estimate, whatever its phase is.
///
/// Such a provider refuses by cur + prev * (1 - f), its sums of the present and of the last fixed
/// window and the part f of the present one that has passed. A burst early in the last window is
/// estimated long after it has left every window of that length, so a sliding log is not safe. The
/// phase is not known, so kPhases of them, W/kPhases apart, are kept at once and the largest
/// estimate counts. Between two charges no estimate rises.
///
/// `guard` makes every window end so much later, for charges that are still on their way.
/// A phase between two that are kept can be off by prev/kPhases for lumps; for traffic that is
/// paced it is off by next to nothing, for what leaves one sum comes into the other.
/// Worked example (also a test): window 60 s, 60 charged at t = 0. The least favourable phase has
/// its window begin just then, so it says 60 until t = 60 s, 30 at 90 s and 0 at 120 s.
/// Units: of the rule it serves. Cost: kPhases steps a question. Threads: one owner.
class CounterMirror {
 public:
  static constexpr std::size_t kPhases = 32;

  CounterMirror(Duration window, Instant now);
  void add(std::int64_t amount, Duration guard, Instant now);
  /// Takes back up to `amount` of what was charged at `stamp`, where a window still counts it.
  void credit(Instant stamp, std::int64_t amount, Duration guard, Instant now);
  /// The largest estimate, rounded up.
  [[nodiscard]] std::int64_t estimate(Duration guard, Instant now);
  /// When it will be at most `most` (>= 0) if nothing is added; `now` if it is.
  [[nodiscard]] Instant falls_to(std::int64_t most, Duration guard, Instant now);

 private:
  struct Phase {
    std::int64_t current = 0;
    std::int64_t previous = 0;
    Instant edge;  ///< at which the current window began
  };
  /// Opens the windows that have begun; the instant as the estimates see it.
  Instant move_to(Duration guard, Instant now);

  Duration window_;
  Instant latest_;
  Instant next_edge_;
  std::size_t next_phase_ = 0;
  std::array<Phase, kPhases> phases_;
};

}  // namespace weir::governor
