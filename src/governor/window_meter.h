// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weir/memory.h"
#include "weir/time.h"

namespace weir::governor {

/// A sliding log of what was charged, as a ring of entries in the order of their stamps.
///
/// An entry leaves at `last stamp + window + guard`; it leaves whole, so coalescing stamps closer
/// than window/cells makes the log pessimistic by at most that, never optimistic.
///
/// Invariant: sum() = the sum of the entries that have not left; at most cells * (1 + guard/window)
/// + 2 entries exist.
/// Worked example (also a test): window 60 s, guard 0; 3 at t=0 and 4 at t=10; at t=59.9 the sum is
/// 7, at t=60 it is 4; crediting 1 at stamp 10 leaves 3; crediting 3 at stamp 0 changes nothing.
/// Units: of the rule it serves. Threads: one owner.
class WindowMeter {
 public:
  WindowMeter(Duration window, std::int64_t cells);

  /// Drops what has left at `now`.
  void expire(Instant now, Duration guard) {
    if (count_ > 0 && leaves(0, guard) <= now) drop(now, guard);
  }
  /// Charges `amount` at `at`, which must not be before the last stamp.
  void add(Instant at, std::int64_t amount);
  /// Takes back up to `amount` of what was charged at `stamp`, if it is still in the window.
  std::int64_t credit(Instant stamp, std::int64_t amount);
  [[nodiscard]] std::int64_t sum() const { return sum_; }
  /// When at least `amount` (> 0) of the present sum will have left; kNever if it is not there.
  [[nodiscard]] Instant frees(std::int64_t amount, Duration guard) const;
  /// When the log is empty if nothing is added; kDawn if it is.
  [[nodiscard]] Instant empties(Duration guard) const;
  [[nodiscard]] std::size_t entries() const { return count_; }
  /// The amount that leaves next.
  [[nodiscard]] std::int64_t oldest() const { return count_ > 0 ? at(0).amount : 0; }
  /// What is in it, oldest first, in at most about `most` pieces (>= 1): what is put together
  /// counts as charged when the last of it was.
  [[nodiscard]] std::vector<RememberedCharge> remember(std::int64_t most, Instant now) const;

 private:
  struct Entry {
    Instant first;
    Instant last;
    std::int64_t amount = 0;
  };
  [[nodiscard]] const Entry& at(std::size_t index) const {
    return ring_[(head_ + index) & (ring_.size() - 1)];
  }
  Entry& at(std::size_t index) { return ring_[(head_ + index) & (ring_.size() - 1)]; }
  [[nodiscard]] Instant leaves(std::size_t index, Duration guard) const {
    return saturating_add(saturating_add(at(index).last, window_), guard);
  }
  void drop(Instant now, Duration guard);
  void grow();

  Duration window_;
  Duration cell_;
  std::vector<Entry> ring_;  // a power of two long, or empty
  std::size_t head_ = 0;
  std::size_t count_ = 0;
  std::int64_t sum_ = 0;
};

}  // namespace weir::governor
