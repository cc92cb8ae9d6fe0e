// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/time.h"
#include "weir/units.h"

namespace weir {

/// How a limit's window moves.
///   counter  two fixed windows of a phase nobody tells; what the older one held counts by the
///   share
///            of it that a window ending now still covers: cur + prev * (1 - f)
///   leaky    a bucket that is one deep unless its `burst` says otherwise: only evenly spaced
///            traffic passes. The emulator and the simulator have it; the configuration's word for
///            it is a bucket with a burst
///   unknown  kept safe under sliding, fixed and bucket alike
enum class Enforcement : std::uint8_t { sliding, fixed, bucket, unknown, counter, leaky };

/// Whether the limit is a level that refills, and not a window that forgets.
constexpr bool refills(Enforcement enforcement) {
  return enforcement == Enforcement::bucket || enforcement == Enforcement::leaky;
}

/// When and what a provider counts against a token limit.
enum class Counting : std::uint8_t {
  reserve,         ///< input + max_tokens at admission, never given back
  reserve_refund,  ///< the same, corrected to real usage at the end
  settle,          ///< input at admission, real output at the end of the response
  realtime,        ///< input at admission, output as it is produced
  input,           ///< input only
};

constexpr std::string_view name(Enforcement enforcement) {
  switch (enforcement) {
    case Enforcement::sliding: return "sliding";
    case Enforcement::fixed: return "fixed";
    case Enforcement::bucket: return "bucket";
    case Enforcement::counter: return "counter";
    case Enforcement::leaky: return "leaky";
    case Enforcement::unknown: return "unknown";
  }
  return "unknown";
}

constexpr std::string_view name(Counting counting) {
  switch (counting) {
    case Counting::reserve: return "reserve";
    case Counting::reserve_refund: return "reserve_refund";
    case Counting::settle: return "settle";
    case Counting::realtime: return "realtime";
    case Counting::input: return "input";
  }
  return "unknown";
}

/// One limit: an amount of a unit per window. The same value describes a provider's rule, a limit
/// of our own on a node of the hierarchy, and a rule of the emulator.
/// Units: `amount` and `burst` in `unit`; `window` 0 for concurrency.
/// `amount` 0 means nothing passes; an absent rule means unlimited.
struct Rule {
  Unit unit = Unit::requests;
  std::int64_t amount = 0;
  Duration window{0};
  Enforcement enforce = Enforcement::unknown;
  Counting count = Counting::settle;
  /// Bucket and leaky only: the depth; absent: `amount`, and 1 for leaky.
  std::optional<std::int64_t> burst;

  /// The most that can be counted at once.
  [[nodiscard]] constexpr std::int64_t depth() const {
    if (enforce == Enforcement::bucket) return burst.value_or(amount);
    if (enforce != Enforcement::leaky) return amount;
    const std::int64_t wanted = burst.value_or(1);
    return amount <= 0 ? 0 : wanted < 1 ? 1 : wanted;
  }

  bool operator==(const Rule&) const = default;
};

/// A limit on how fast traffic may grow: in one period at most max(floor, ratio * peak), where the
/// peak is the largest sum of a period that ended from `look_back` to one period ago.
/// Units: `floor` in `of`.
struct GrowthRule {
  Unit of = Unit::requests;
  double ratio = 2;
  Duration per = std::chrono::seconds(10);
  std::int64_t floor = 20;
  Duration look_back = std::chrono::minutes(5);

  bool operator==(const GrowthRule&) const = default;
};

/// The limiter's short name as errors and metrics give it: rpm, rps, input_tpm, total_tpm, tps,
/// rpd, tpd, concurrency, or `<unit>_per_<window>` for any other.
std::string limiter_name(Unit unit, Duration window);

}  // namespace weir
