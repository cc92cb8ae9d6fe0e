// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace weir {

/// A length of time. Units: nanoseconds, signed 64 bit (292 years).
using Duration = std::chrono::nanoseconds;

/// The clock on which every decision is taken. It has no `now()` on purpose: code that decides is
/// handed the time, and reading the real clock inside it cannot compile. The shell maps a
/// monotonic clock onto it; a simulation invents it.
struct GovernorClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<GovernorClock>;
  static constexpr bool is_steady = true;
};

/// A point on the governor's clock. Threads: a plain value.
using Instant = GovernorClock::time_point;

/// Calendar time, a different type so that the two are never mixed. It has no `now()` either.
struct WallClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<WallClock>;
  static constexpr bool is_steady = false;
};

/// A point in calendar time. Units: nanoseconds since 1970-01-01T00:00:00Z.
using WallTime = WallClock::time_point;

inline constexpr Instant kNever = Instant::max();
inline constexpr Instant kDawn = Instant::min();
inline constexpr Duration kForever = Duration::max();

/// `at + by`, held at `kNever`/`kDawn` instead of overflowing. `kForever` added to anything is
/// `kNever`.
constexpr Instant saturating_add(Instant at, Duration by) {
  std::int64_t sum = 0;
  if (by == kForever) return kNever;
  if (__builtin_add_overflow(at.time_since_epoch().count(), by.count(), &sum)) {
    return by.count() > 0 ? kNever : kDawn;
  }
  return Instant(Duration(sum));
}

/// `later - earlier`, held at the ends of Duration instead of overflowing.
constexpr Duration saturating_sub(Instant later, Instant earlier) {
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(later.time_since_epoch().count(), earlier.time_since_epoch().count(),
                             &difference)) {
    return later > earlier ? Duration::max() : Duration::min();
  }
  return Duration(difference);
}

/// Seconds as a floating number, for reports and ratios; never for a decision that must be exact.
constexpr double to_seconds(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-9;
}

/// A duration from floating seconds, rounded to the nanosecond and held at the ends of Duration.
constexpr Duration from_seconds(double seconds) {
  constexpr double kLimit = 9.2e9;
  if (!(seconds > -kLimit)) return Duration::min();
  if (seconds > kLimit) return Duration::max();
  return Duration(static_cast<std::int64_t>(seconds * 1e9 + (seconds < 0 ? -0.5 : 0.5)));
}

}  // namespace weir
