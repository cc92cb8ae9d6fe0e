// SPDX-License-Identifier: Apache-2.0
#include "governor/estimator.h"

#include <algorithm>
#include <cmath>

#include "weir/units.h"

namespace weir::governor {
namespace {

constexpr double kPriorTokens = 500;
constexpr double kBytesDecay = 0.98;
// A mean over 721 calls forgets half of what it knew in 500.
constexpr double kMeanCalls = 721;
constexpr double kErrorWeight = 0.02;
constexpr double kEventWeight = 0.05;

std::int64_t bounded(double tokens) {
  if (!(tokens > 0)) return 0;
  if (tokens >= static_cast<double>(kMaxTokens)) return kMaxTokens;
  return static_cast<std::int64_t>(std::ceil(tokens - 1e-9));
}

std::int64_t bounded(std::int64_t tokens) {
  return std::clamp<std::int64_t>(tokens, 0, kMaxTokens);
}

}  // namespace

Estimator::Estimator(double bytes_per_token, double mean_output_tokens)
    : bytes_(kPriorTokens * std::clamp(bytes_per_token, 0.1, 100.0)),
      tokens_(kPriorTokens),
      mean_(std::max(0.0, mean_output_tokens)) {}

Cost Estimator::cost(const Demand& demand, OutputEstimate kind) const {
  Cost cost;
  cost.produces_output = demand.produces_output;
  cost.silent = demand.produces_output && !demand.streaming;
  if (demand.input_tokens) {
    cost.input = bounded(*demand.input_tokens);
  } else {
    cost.input = bounded(static_cast<double>(std::max<std::int64_t>(0, demand.input_bytes)) *
                         tokens_ / bytes_);
  }
  if (!demand.produces_output) return cost;
  const std::int64_t choices = std::max<std::int64_t>(1, demand.choices);
  const std::int64_t mean = bounded(mean_ * static_cast<double>(choices));
  cost.reserve_output = mean;
  cost.output = mean;
  if (demand.max_output_tokens) {
    const std::int64_t most =
        bounded(saturating_multiply(std::max<std::int64_t>(0, *demand.max_output_tokens), choices));
    cost.reserve_output = most;
    cost.output = kind == OutputEstimate::max_tokens ? most : std::min(mean, most);
  }
  return cost;
}

std::int64_t Estimator::output_of(std::int64_t events) const {
  return bounded(static_cast<double>(std::max<std::int64_t>(0, events)) * tokens_per_event_);
}

void Estimator::learn(const Demand& demand, const Cost& cost, const Usage& usage,
                      std::int64_t events) {
  const double input = static_cast<double>(bounded(usage.input_tokens));
  const double output = static_cast<double>(bounded(usage.output_tokens));
  if (demand.input_bytes > 0 && input > 0) {
    const double ratio = static_cast<double>(demand.input_bytes) / input;
    // A ratio outside these bounds is not text (an image, a lie): it teaches nothing.
    if (ratio > 0.1 && ratio < 100) {
      bytes_ = bytes_ * kBytesDecay + static_cast<double>(demand.input_bytes);
      tokens_ = tokens_ * kBytesDecay + input;
    }
  }
  if (demand.produces_output) {
    const double choices = static_cast<double>(std::max<std::int64_t>(1, demand.choices));
    seen_ = std::min(kMeanCalls, seen_ + 1);
    mean_ += (output / choices - mean_) / seen_;
    if (events > 0 && output > 0) {
      const double each = std::clamp(output / static_cast<double>(events), 0.01, 1000.0);
      tokens_per_event_ += (each - tokens_per_event_) * kEventWeight;
    }
  }
  const double actual = input + output;
  if (actual > 0) {
    const double error =
        (static_cast<double>(cost.input) + static_cast<double>(cost.output) - actual) / actual;
    error_ = any_error_ ? error_ + (error - error_) * kErrorWeight : error;
    any_error_ = true;
  }
}

}  // namespace weir::governor
