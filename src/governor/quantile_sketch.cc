// SPDX-License-Identifier: Apache-2.0
#include "governor/quantile_sketch.h"

#include <algorithm>
#include <cmath>

namespace weir::governor {
namespace {

constexpr double kGrowth = (1 + QuantileSketch::kAccuracy) / (1 - QuantileSketch::kAccuracy);
constexpr std::uint32_t kPerMille = 950;
constexpr double kFactorMost = 8;

double log_growth() {
  static const double value = std::log(kGrowth);
  return value;
}

double stands_for(std::size_t bucket) {
  static const auto edges = [] {
    std::array<double, QuantileSketch::kBuckets> made{};
    double edge = 1;
    for (double& each : made) {
      each = edge * (1 - QuantileSketch::kAccuracy);
      edge *= kGrowth;
    }
    return made;
  }();
  return edges[bucket];
}

}  // namespace

std::size_t QuantileSketch::bucket_of(double amount) {
  if (!(amount > 1)) return 0;
  // A whole power of the growth belongs to the bucket it is the edge of.
  const double exact = std::ceil(std::log(amount) / log_growth() - 1e-9);
  return static_cast<std::size_t>(std::min(exact, static_cast<double>(kBuckets - 1)));
}

std::uint32_t QuantileSketch::needed() const {
  return std::max<std::uint32_t>(1, (total_ * kPerMille + 999) / 1000);
}

void QuantileSketch::add(std::size_t bucket) {
  bucket = std::min(bucket, kBuckets - 1);
  ++counts_[bucket];
  ++total_;
  if (bucket <= at_) ++upto_;
  if (total_ >= kHalveAt) halve();
  settle();
}

// Most steps are none or one; the walk is as long as the quantile moved.
void QuantileSketch::settle() {
  const std::uint32_t need = needed();
  while (upto_ < need && at_ + 1 < kBuckets) upto_ += counts_[++at_];
  while (at_ > 0 && upto_ - counts_[at_] >= need) upto_ -= counts_[at_--];
}

void QuantileSketch::halve() {
  // What one bucket cannot halve goes to the next, or a thin tail would be forgotten at once.
  std::uint32_t carry = 0;
  total_ = 0;
  for (std::uint16_t& each : counts_) {
    const std::uint32_t whole = each + carry;
    each = static_cast<std::uint16_t>(whole / 2);
    carry = whole % 2;
    total_ += each;
  }
  upto_ = 0;
  for (std::size_t i = 0; i <= at_; ++i) upto_ += counts_[i];
}

double QuantileSketch::value() const { return total_ == 0 ? 0 : stands_for(at_); }

double QuantileSketch::quantile(double share) const {
  if (total_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(share, 0.0, 1.0) * total_ - 1e-9);
  const auto need = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(wanted));
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    sum += counts_[i];
    if (sum >= need) return stands_for(i);
  }
  return stands_for(kBuckets - 1);
}

std::vector<std::pair<std::uint16_t, std::uint16_t>> QuantileSketch::remember() const {
  std::vector<std::pair<std::uint16_t, std::uint16_t>> buckets;
  buckets.reserve(static_cast<std::size_t>(
      std::count_if(counts_.begin(), counts_.end(), [](std::uint16_t each) { return each > 0; })));
  for (std::size_t i = 0; i < kBuckets; ++i) {
    if (counts_[i] > 0) buckets.emplace_back(static_cast<std::uint16_t>(i), counts_[i]);
  }
  return buckets;
}

void QuantileSketch::recall(const std::vector<std::pair<std::uint16_t, std::uint16_t>>& buckets) {
  *this = QuantileSketch();
  for (const auto& [bucket, count] : buckets) {
    if (bucket >= kBuckets || total_ + count >= kHalveAt) continue;
    counts_[bucket] = static_cast<std::uint16_t>(counts_[bucket] + count);
    total_ += count;
  }
  upto_ = counts_[0];
  settle();
}

void ConformalFactor::recall(double factor) {
  factor_ = factor > 0 ? std::clamp(factor, 1 / kFactorMost, kFactorMost) : 1;
}

void ConformalFactor::learn(bool missed) {
  static const double up = std::exp(kStep * (1 - kMisses));
  static const double down = std::exp(-kStep * kMisses);
  factor_ = std::clamp(factor_ * (missed ? up : down), 1 / kFactorMost, kFactorMost);
}

}  // namespace weir::governor
