// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weir::governor {

/// Quantiles of a stream of positive amounts in fixed memory.
///
/// An amount x falls into bucket ceil(ln x / ln g) with g = (1 + a) / (1 - a) and a = 1 %; what a
/// bucket stands for is its upper edge times (1 - a), which is within 1 % of everything in it.
/// Once 2000 amounts are counted all counters are halved, so that the last few thousand decide.
/// Invariant: `value()` is within 1 % of the exact quantile (nearest rank) of what is counted.
/// Worked example (also a test): of 1, 2, ... 100 the quantile of 95 % is 95, within 1 %.
/// Source: the bucket scheme is DDSketch's, arxiv.org/abs/1908.10693.
/// Units: of the amounts; above 2^20 all are one. Threads: one owner.
class QuantileSketch {
 public:
  static constexpr std::size_t kBuckets = 695;
  static constexpr std::uint32_t kHalveAt = 2000;
  static constexpr double kAccuracy = 0.01;

  /// The bucket of an amount, for adding it to several sketches. Amounts below 1 count as 1.
  static std::size_t bucket_of(double amount);

  void add(std::size_t bucket);
  /// The tracked quantile, 95 %; 0 if nothing was added. Constant time.
  [[nodiscard]] double value() const;
  /// Any quantile, `share` of 0 to 1; 0 if nothing was added. Walks the buckets.
  [[nodiscard]] double quantile(double share) const;
  [[nodiscard]] std::uint32_t count() const { return total_; }
  /// Which bucket holds how many; the empty ones are left out.
  [[nodiscard]] std::vector<std::pair<std::uint16_t, std::uint16_t>> remember() const;
  /// Takes what another held. What no sketch can hold is left out.
  void recall(const std::vector<std::pair<std::uint16_t, std::uint16_t>>& buckets);

 private:
  void settle();
  void halve();
  [[nodiscard]] std::uint32_t needed() const;

  std::array<std::uint16_t, kBuckets> counts_{};
  std::uint32_t total_ = 0;
  std::uint32_t upto_ = 0;  // counted in the buckets up to `at_`
  std::size_t at_ = 0;
};

/// Keeps the share of amounts above a predicted quantile at 5 %, whatever their distribution: a
/// factor on the prediction that each miss raises and each hit lowers, ln f += eta (miss - 5 %).
///
/// Invariant: over T predictions the share of misses is 5 % to within |ln f_T - ln f_0| / (eta T),
/// as long as the factor's bounds are not met. Worked example (also a test): after 19 hits and one
/// miss the factor is where it was.
/// Threads: one owner.
class ConformalFactor {
 public:
  static constexpr double kStep = 0.02;
  static constexpr double kMisses = 0.05;
  void learn(bool missed);
  [[nodiscard]] double value() const { return factor_; }
  /// Takes the factor of another; it is held in its bounds.
  void recall(double factor);

 private:
  double factor_ = 1;
};

}  // namespace weir::governor
