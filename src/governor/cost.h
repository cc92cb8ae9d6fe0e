// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "weir/rule.h"

namespace weir::governor {

/// Whose limit a rule is: the provider's, mirrored as it is enforced there, or one of our own.
enum class Side : std::uint8_t { provider, own };

/// No call counts for more than this, so that sums over every call known cannot overflow.
inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40U;

/// What one call costs on one deployment. Units: tokens.
struct Cost {
  std::int64_t input = 0;           ///< estimated
  std::int64_t output = 0;          ///< estimated: min(max_tokens, learned mean), times choices
  std::int64_t cached_input = 0;    ///< the part of `input` expected to come from a cache
  std::int64_t reserve_output = 0;  ///< what a provider that reserves at admission charges
  std::int64_t proposed = 0;        ///< max_tokens that the request is sent with; 0: as it is
  bool produces_output = true;
  bool cached_counts = true;  ///< the provider counts cached input
  bool silent = false;        ///< what it produces is not heard of before it ends

  /// What a meter holds from the grant on. A rule that counts output later (`settle`, `realtime`)
  /// holds the input only: holding output not yet produced would strand quota in a window in which
  /// it will not fall; the pacer carries its mean instead.
  [[nodiscard]] std::int64_t admitted(Unit unit, Counting count, Side side) const;
  /// What the pacer is charged: the mean of what the call will have cost in the end.
  [[nodiscard]] std::int64_t paced(Unit unit, Counting count) const;
  /// Whether the unit concerns the call at all.
  [[nodiscard]] bool concerns(Unit unit) const {
    return unit != Unit::output_tokens || produces_output;
  }
};

/// What a call did cost. Units: tokens.
struct Actual {
  std::int64_t input = 0;
  std::int64_t output = 0;
  bool request_counted = true;  ///< the attempt stays charged against request rules
  bool tokens_charged = true;   ///< false: the provider charged no tokens at all
  bool reported = false;  ///< the provider said so; otherwise it is what was estimated or seen

  [[nodiscard]] std::int64_t of(Unit unit) const;
};

// Asked for every rule a call passes, several times: they stand here to be inlined.

inline std::int64_t Cost::admitted(Unit unit, Counting count, Side side) const {
  const bool reserves = count == Counting::reserve || count == Counting::reserve_refund;
  const std::int64_t out = side == Side::own ? output : reserves ? reserve_output : 0;
  switch (unit) {
    case Unit::requests:
    case Unit::concurrency: return 1;
    case Unit::input_tokens: return input;
    case Unit::output_tokens: return out;
    case Unit::total_tokens: return input + out;
  }
  return 0;
}

inline std::int64_t Cost::paced(Unit unit, Counting count) const {
  const bool reserves = count == Counting::reserve;
  const std::int64_t out = count == Counting::input ? 0 : (reserves ? reserve_output : output);
  const std::int64_t in = cached_counts ? input : input - cached_input;
  switch (unit) {
    case Unit::requests: return 1;
    case Unit::concurrency: return 0;
    case Unit::input_tokens: return in;
    case Unit::output_tokens: return out;
    case Unit::total_tokens: return in + out;
  }
  return 0;
}

inline std::int64_t Actual::of(Unit unit) const {
  switch (unit) {
    case Unit::requests: return request_counted ? 1 : 0;
    case Unit::concurrency: return 0;
    case Unit::input_tokens: return tokens_charged ? input : 0;
    case Unit::output_tokens: return tokens_charged ? output : 0;
    case Unit::total_tokens: return tokens_charged ? input + output : 0;
  }
  return 0;
}

}  // namespace weir::governor
