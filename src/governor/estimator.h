// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "governor/cost.h"
#include "weir/demand.h"
#include "weir/policy.h"
#include "weir/usage.h"

namespace weir::governor {

/// Learns what calls cost on one deployment, and says what one will cost.
///
/// input  = exact count, or bytes / bytes_per_token, rounded up
/// output = min(max_tokens, mean) * choices; mean and bytes per token start at the policy's values
///          (4 bytes of English prose to a token, the figure OpenAI's own help pages give) and
///          follow reported usage.
/// Worked example (also a test): 400 bytes, 4 bytes per token, mean 256, max_tokens 100, 2 choices:
/// input 100, output 200.
/// Threads: one owner.
class Estimator {
 public:
  Estimator(double bytes_per_token, double mean_output_tokens);

  [[nodiscard]] Cost cost(const Demand& demand, OutputEstimate kind) const;
  /// What streamed events amount to, until usage is known.
  [[nodiscard]] std::int64_t output_of(std::int64_t events) const;
  /// Learns from a call that came to its end with usage.
  void learn(const Demand& demand, const Cost& cost, const Usage& usage, std::int64_t events);

  [[nodiscard]] double bytes_per_token() const { return bytes_ / tokens_; }
  [[nodiscard]] double mean_output() const { return mean_; }
  [[nodiscard]] double error() const { return error_; }

 private:
  double bytes_;  // decayed sums, so that large prompts weigh as much as they cost
  double tokens_;
  double mean_;
  double seen_ = 20;  // the prior counts as so many calls
  double tokens_per_event_ = 1;
  double error_ = 0;
  bool any_error_ = false;
};

}  // namespace weir::governor
