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
/// phase is not known, so kPhases of them, W/kPhases apart, are kept at once. For a phase p between
/// two of them, k before it and k' after it, cur_p <= cur_k, and what prev_p counts was counted in
/// prev_k or is in cur_k, so
///   cur_k + prev_k * (1 - f_k')   with f_k' = f_k - 1/kPhases
/// is never below its estimate; the largest of these counts, and for the phases whose window is
/// about to begin what the neighbour has just forgotten too. Between two charges none rises. Evenly
/// paced traffic pays 1/kPhases of the limit for it.
///
/// `guard` is how much later than its stamp a charge may arrive. A charge counts the more the later
/// it arrives, so all of them are taken as that late: what was stamped in the last `guard` is still
/// on its way and counts whole, whatever window begins meanwhile.
/// Worked example (also a test): window 256 s, 256 charged at t = 0. The least favourable phase has
/// its window begin just then, so it says 256 until t = 256 s, 128 at 384 s and 0 at 512 s; 1 s of
/// doubt about the phase makes that 129 and 1.
/// Units: of the rule it serves. Cost: kPhases steps a question. Threads: one owner.
class CounterMirror {
 public:
  static constexpr std::size_t kPhases = 256;

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
  struct Travelling {
    Instant stamp;
    std::int64_t amount = 0;
  };
  static constexpr std::size_t kTravelling = 64;
  /// Opens the windows that have begun; the instant as the estimates see it.
  Instant move_to(Duration guard, Instant now);
  void open_windows(Instant until);
  /// For phases between the one that began last and the one that begins next.
  [[nodiscard]] double between(Instant at) const;

  Duration window_;
  Instant latest_;
  Instant next_edge_;
  std::size_t next_phase_ = 0;
  std::int64_t forgotten_ = 0;  ///< by the phase that began last, its neighbours may not have yet
  std::array<Phase, kPhases> phases_;
  // The last stamps, oldest first; when it is full the two youngest become one.
  std::array<Travelling, kTravelling> travelling_;
  std::size_t travelling_count_ = 0;
  std::int64_t travelling_sum_ = 0;
};

}  // namespace weir::governor
