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
// What a predecessor says cannot be more.
constexpr double kTokensMost = 1e9;
constexpr double kSumMost = 1e15;

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

RememberedCalls EstimateLevel::remember() const {
  RememberedCalls calls;
  calls.mean = mean_;
  calls.weight = weight_;
  calls.variance = variance_;
  calls.bytes = bytes_;
  calls.tokens = tokens_;
  calls.cached = cached_;
  calls.cacheable = cacheable_;
  calls.distrust = distrust_;
  calls.factor = factor_.value();
  calls.answers = answers_;
  calls.buckets = sketch_.remember();
  calls.believed_mean = remembered_.mean;
  calls.believed_variance = remembered_.variance;
  calls.believed_tokens_per_byte = remembered_.tokens_per_byte;
  calls.believed_cached_ratio = remembered_.cached_ratio;
  return calls;
}

void EstimateLevel::recall(const RememberedCalls& calls) {
  const auto held = [](double value, double most) {
    return value > 0 ? std::min(value, most) : 0.0;
  };
  mean_ = held(calls.mean, kTokensMost);
  weight_ = held(calls.weight, 1 / (1 - kCallDecay));
  variance_ = held(calls.variance, kTokensMost * kTokensMost);
  bytes_ = held(calls.bytes, kSumMost);
  tokens_ = held(calls.tokens, kSumMost);
  // A ratio outside these bounds is not text, wherever it comes from.
  if (bytes_ < tokens_ * 0.1 || bytes_ > tokens_ * 100) bytes_ = tokens_ = 0;
  cacheable_ = held(calls.cacheable, kSumMost);
  cached_ = held(calls.cached, cacheable_);
  distrust_ = held(calls.distrust, 1);
  factor_.recall(calls.factor);
  sketch_.recall(calls.buckets);
  answers_ = std::clamp<std::int64_t>(calls.answers, 0, std::int64_t{1} << 40U);
  // Without a sketch nothing is known of quantiles.
  if (sketch_.count() == 0) answers_ = 0;
  remembered_.mean = held(calls.believed_mean, kTokensMost);
  remembered_.variance = held(calls.believed_variance, kTokensMost * kTokensMost);
  remembered_.tokens_per_byte = held(calls.believed_tokens_per_byte, 10);
  remembered_.cached_ratio = held(calls.believed_cached_ratio, 1);
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
