// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/scenario.h"

namespace weir::sim {

/// How well one caller's answers were foreseen. Bias: (estimated - actual) / actual, by tokens.
struct KeyEstimates {
  std::uint32_t tenant = 0;  ///< numbered in the order of their first lines
  std::int64_t calls = 0;
  std::int64_t within = 0;      ///< answers no longer than the 95 % quantile estimated at arrival
  std::int64_t blocks = 0;      ///< whole blocks of 1000 calls
  std::int64_t blocks_off = 0;  ///< of them those whose coverage is not 95 +- 1.5 %
  double cold_bias = 0;         ///< of all calls
  double bias = 0;              ///< without the first 200
};

/// How well the answers of one trace, taken as one deployment's, were foreseen.
struct TraceEstimates {
  std::int64_t calls = 0;
  std::int64_t within = 0;
  std::int64_t blocks = 0;
  std::int64_t blocks_off = 0;
  double bias = 0;          ///< of all calls, the first included
  double worst_bias = 0;    ///< of the keys with a whole block, without their first 200 calls
  std::int64_t alarms = 0;  ///< debt alarms that were raised
  std::vector<KeyEstimates> keys;  ///< most calls first
  [[nodiscard]] double coverage() const;
  /// What is missed of: coverage 95 +- 1.5 % on 90 % of the blocks, bias within 1 %, and within
  /// 2 % for each key with a whole block. Empty: nothing.
  [[nodiscard]] std::vector<std::string> missed() const;
};

/// Plays the outputs of a trace through the governor's estimator: each call is estimated when it
/// arrives, by what had been learned by then, and learned from when its answer ends, which takes
/// 0.5 s and 25 ms for each token. Until the longest answers of a new deployment have ended, what
/// is known are the short ones, and the means are too low. `at_once`: answers end as they begin,
/// which leaves the estimator's own errors. Rows without an output are left out.
TraceEstimates replay_estimates(const std::vector<TraceRow>& rows, bool at_once = false);

std::string estimates_table(const TraceEstimates& measured);
std::string estimates_json(const TraceEstimates& measured);

}  // namespace weir::sim
