// SPDX-License-Identifier: Apache-2.0
#include "governor/estimate_level.h"

#include <algorithm>
#include <cmath>

namespace weir::governor {
namespace {

// Half of a call's weight is gone after 200 more. Slower forgetting leaves more bias behind on the
// traces that are shipped (`weir sim estimates`), faster adds noise.
constexpr double kCallDecay = 0.99654026;
constexpr double kShrinkMost = 20;
constexpr double kRelativeVarianceMost = 4;
constexpr double kPriorTokens = 500;
constexpr double kPriorBytes = 2000;
constexpr double kBytesDecay = 0.98;
constexpr double kCacheDecay = 0.99;
// One answer longer than declared is remembered for some 70 that are not.
constexpr double kDistrustDecay = 0.99;
constexpr double kWitnessWeight = 0.02;
constexpr double kDebtDecay = 0.99;
constexpr double kDebtCalls = 50;
constexpr double kDebtRaised = 1.5;
constexpr double kDebtOver = 1.2;

}  // namespace

EstimateLevel::EstimateLevel(double bytes_per_token, double mean_output)
    : mean_(std::max(0.0, mean_output)),
      weight_(kShrinkMost),
      variance_(mean_ * mean_),
      bytes_(kPriorTokens * std::clamp(bytes_per_token, 0.1, 100.0)),
      tokens_(kPriorTokens) {}

EstimateLevel::Belief EstimateLevel::own_belief() const {
  return {mean_, variance_, bytes_ > 0 ? tokens_ / bytes_ : 0,
          cacheable_ > 0 ? cached_ / cacheable_ : 0};
}

EstimateLevel::Belief EstimateLevel::belief(const Belief& parent) const {
  Belief made = parent;
  made.tokens_per_byte = (tokens_ + kPriorBytes * parent.tokens_per_byte) / (bytes_ + kPriorBytes);
  if (cacheable_ > 0) made.cached_ratio = cached_ / cacheable_;
  if (weight_ <= 0) return made;
  const double square = parent.mean * parent.mean;
  const double relative = parent.variance < kRelativeVarianceMost * square
                              ? parent.variance / square
                              : kRelativeVarianceMost;
  // One call more, with the relative variance of the level above, so that two equal answers do not
  // look like a law.
  const double within = (variance_ * weight_ + relative * mean_ * mean_) / (weight_ + 1);
  const double gap = (mean_ - parent.mean) * (mean_ - parent.mean);
  const double lean = within >= kShrinkMost * gap ? kShrinkMost : within / gap;
  made.mean = (weight_ * mean_ + lean * parent.mean) / (weight_ + lean);
  made.variance = within;
  return made;
}

bool EstimateLevel::Debt::update(double charged_now, double settled_now, double calls) {
  charged = charged * kDebtDecay + charged_now;
  settled = settled * kDebtDecay + settled_now;
  if (raised) {
    raised = settled > charged * kDebtOver;
    return false;
  }
  raised = calls >= kDebtCalls && settled > charged * kDebtRaised;
  return raised;
}

void EstimateLevel::learn(const Learned& one, double predicted_p95, bool witness) {
  if (one.input_bytes > 0 && one.input > 0) {
    bytes_ = bytes_ * kBytesDecay + one.input_bytes;
    tokens_ = tokens_ * kBytesDecay + one.input;
  }
  cached_ = cached_ * kCacheDecay + one.cached;
  cacheable_ = cacheable_ * kCacheDecay + one.input;
  debt_calls_ = debt_calls_ * kDebtDecay + 1;
  input_alarm_ = input_debt_.update(one.charged_input, one.input, debt_calls_);
  output_alarm_ = output_debt_.update(one.charged_output, one.settled_output, debt_calls_);
  if (!one.has_output) return;
  if (witness) {
    const double seen = one.beyond_cap ? 1.0 : 0.0;
    if (one.beyond_cap || one.within_cap) distrust_ += (seen - distrust_) * kWitnessWeight;
  } else if (one.beyond_cap) {
    distrust_ = 1;
  } else if (one.within_cap) {
    distrust_ *= kDistrustDecay;
  }
  factor_.learn(one.output > predicted_p95);
  weight_ = weight_ * kCallDecay + 1;
  const double delta = one.output - mean_;
  mean_ += delta / weight_;
  variance_ += (delta * (one.output - mean_) - variance_) / weight_;
  sketch_.add(one.bucket);
  ++answers_;
}

}  // namespace weir::governor
