// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir {

/// What a limit counts. Amounts of every unit are whole numbers.
enum class Unit : std::uint8_t {
  requests,       ///< calls sent
  input_tokens,   ///< tokens of the prompt
  output_tokens,  ///< tokens produced, reasoning included
  total_tokens,   ///< input and output together
  concurrency,    ///< calls in flight; a level, not a rate: its window is zero
};
inline constexpr std::size_t kUnitCount = 5;
inline constexpr std::array<Unit, kUnitCount> kAllUnits = {
    Unit::requests, Unit::input_tokens, Unit::output_tokens, Unit::total_tokens, Unit::concurrency};

/// The unit's name as it stands in the configuration, metrics and errors.
constexpr std::string_view name(Unit unit) {
  switch (unit) {
    case Unit::requests: return "requests";
    case Unit::input_tokens: return "input_tokens";
    case Unit::output_tokens: return "output_tokens";
    case Unit::total_tokens: return "total_tokens";
    case Unit::concurrency: return "concurrency";
  }
  return "unknown";
}

/// One amount for each unit.
class Amounts {
 public:
  constexpr std::int64_t& operator[](Unit unit) { return of_[static_cast<std::size_t>(unit)]; }
  constexpr std::int64_t operator[](Unit unit) const { return of_[static_cast<std::size_t>(unit)]; }
  constexpr bool operator==(const Amounts&) const = default;

 private:
  std::array<std::int64_t, kUnitCount> of_{};
};

/// Money in millionths of a US dollar, exact.
struct MicroUsd {
  std::int64_t value = 0;
  constexpr auto operator<=>(const MicroUsd&) const = default;
  constexpr MicroUsd operator+(MicroUsd other) const { return {value + other.value}; }
};

/// The sum of two non-negative amounts, held at 2^63-1.
constexpr std::int64_t saturating_add(std::int64_t left, std::int64_t right) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(left, right, &sum)) return left < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

/// The product of two amounts, held at the ends of the 64-bit range.
constexpr std::int64_t saturating_multiply(std::int64_t left, std::int64_t right) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(left, right, &product)) {
    return (left < 0) == (right < 0) ? INT64_MAX : INT64_MIN;
  }
  return product;
}

}  // namespace weir
