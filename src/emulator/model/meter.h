// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "weir/rule.h"
#include "weir/time.h"

namespace weir::emulator::model {

/// Names one charge so that it can be given back while the provider still counts it.
struct Charge {
  std::uint64_t mark = 0;
  std::int64_t amount = 0;
};

/// What one rule of the provider has counted, exactly as its enforcement says:
///   sliding  every charge counts for one window from its own instant: used = sum of (now-W, now]
///   fixed    charges count until the next boundary phase + k*W, then all are forgotten
///   bucket   a level of at most `burst` (or `amount`) refilled at amount/W; used = depth - level
///   leaky    the same with a depth of 1, or `burst`: charges pass one by one, W/amount apart
///   counter  two fixed windows: used = cur + prev * (1 - f), f the part of the current one that
///            has passed; the estimate refuses, whatever the true sum of the last W is
/// Amounts are whole numbers; buckets and counters are kept in amount x nanoseconds on 128 bits, so
/// nothing is ever rounded. Example: 10 per second, bucket: after 10 charges at t = 0 the level is
/// 0; at 100 ms it is exactly 1 and `used` is 9. Example: 60 per 60 s, counter of phase 0: 60
/// charges at t = 0 count 60 until t = 60 s, 45 at 75 s, 30 at 90 s; the 31st of the second window
/// waits until 91 s. A sliding window would have taken all 60 at t = 60 s.
///
/// Bound: the sliding log holds at most kMaxEntries charges. When it is full the two oldest become
/// one with the younger's instant, which only counts the older a little too long.
/// Errors: none; negative amounts count as 0, a window below 1 ns as 1 s, and sums stay below 2^63.
/// Time: `now` must not go back; an earlier one is taken for the latest seen. Threads: one owner.
class Meter {
 public:
  static constexpr std::size_t kMaxEntries = std::size_t{1} << 20U;

  /// `rule.enforce` unknown is treated as sliding; ProviderRules decides it before.
  Meter(const Rule& rule, Duration phase, Instant now);

  /// Counts `amount`; a bucket's level may fall below zero.
  Charge add(std::int64_t amount, Instant now);
  /// Takes back up to `amount` of an earlier charge, if it still counts.
  void give_back(const Charge& charge, std::int64_t amount, Instant now);
  /// Counts what is still there but never below an empty bucket: for refused attempts.
  void add_refused(std::int64_t amount, Instant now);

  [[nodiscard]] std::int64_t used(Instant now);
  [[nodiscard]] bool has_room(std::int64_t amount, Instant now);
  /// More than the rule can ever hold.
  [[nodiscard]] bool never_fits(std::int64_t amount) const { return amount > capacity(); }
  /// How long until `amount` has room if nothing else comes; kForever if it never has.
  [[nodiscard]] Duration wait_for(std::int64_t amount, Instant now);
  /// How long until nothing is counted any more.
  [[nodiscard]] Duration time_to_empty(Instant now);

  /// What one window, or the full bucket, holds.
  [[nodiscard]] std::int64_t capacity() const;
  [[nodiscard]] const Rule& rule() const { return rule_; }

  /// Takes another amount or depth; what was used stays used.
  void resize(const Rule& rule, Instant now);

 private:
  using Wide = __int128;
  struct Entry {
    Instant at;
    std::int64_t amount;
  };
  Instant move_to(Instant now);
  [[nodiscard]] Wide scale() const { return Wide{rule_.window.count()}; }
  [[nodiscard]] Wide full() const { return Wide{capacity()} * scale(); }
  /// Since the current window's edge.
  [[nodiscard]] Wide elapsed(Instant now) const;
  /// counter: the estimate in amount x nanoseconds.
  [[nodiscard]] Wide estimate(Instant now) const;
  void open_window(std::int64_t number);
  [[nodiscard]] Duration counter_wait(std::int64_t amount, Instant now) const;
  void lower_level(Wide by);

  Rule rule_;
  Duration phase_;
  Instant latest_;
  // sliding: the log and its sum; fixed: only the sum
  std::deque<Entry> log_;
  std::uint64_t popped_ = 0;
  std::int64_t sum_ = 0;
  // fixed, counter: the number of the current window; counter: what the one before it held
  std::int64_t window_number_ = 0;
  std::int64_t previous_ = 0;
  // bucket, leaky: amount x nanoseconds
  Wide level_ = 0;
};

}  // namespace weir::emulator::model
