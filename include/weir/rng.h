// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace weir {

/// A small seeded generator (xoshiro256**, seeded by splitmix64). The same seed gives the same
/// numbers on every machine, which the standard distributions do not promise.
/// Source: Blackman and Vigna, https://prng.di.unimi.it/ (public domain algorithm, own code).
/// Threads: one owner.
class Rng {
 public:
  explicit constexpr Rng(std::uint64_t seed) {
    for (auto& word : state_) {
      seed += 0x9e3779b97f4a7c15ULL;
      std::uint64_t mixed = seed;
      mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9ULL;
      mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebULL;
      word = mixed ^ (mixed >> 31U);
    }
  }

  /// 64 uniform bits.
  constexpr std::uint64_t next() {
    const std::uint64_t result = rotate(state_[1] * 5U, 7) * 9U;
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  /// Uniform in [0, 1).
  constexpr double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

  /// Uniform in [0, bound); 0 when bound is 0. The bias is below 2^-32 for bounds below 2^32.
  constexpr std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64U);
  }

  /// Exponentially distributed with the given mean.
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }

  /// Standard normal (Box-Muller, one value per call).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

  /// Log-normal with the given mean and sigma of the underlying normal.
  double log_normal(double mean, double sigma) {
    return mean * std::exp(sigma * normal() - sigma * sigma / 2);
  }

 private:
  static constexpr std::uint64_t rotate(std::uint64_t value, unsigned by) {
    return (value << by) | (value >> (64U - by));
  }
  std::uint64_t state_[4]{};
};

}  // namespace weir
