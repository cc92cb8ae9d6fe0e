// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/scenario.h"

namespace weir::sim {

/// What rules on congestion make of rows whose times have nothing to do with how many ran at once.
/// Whatever they find there is false.
struct FalseHolds {
  std::int64_t rows = 0;     ///< of the trace
  std::int64_t orders = 0;   ///< times that they were played, with other times of arrival
  std::int64_t limited = 0;  ///< rows, of all orders, that ended while the governor had a limit
  std::int64_t trials = 0;   ///< limits that it tried
  std::int64_t holds = 0;    ///< of them, those that it kept
  /// Rows that the published rule flags: time per output token above twice its moving average.
  double published = 0;                ///< share, compared before the average takes the row in
  double published_after = 0;          ///< share, compared after
  [[nodiscard]] double share() const;  ///< of rows that ended under a limit
};

/// Plays rows with input, output and time through the governor's Congestion: half of the orders as
/// a batch job with 16 workers, half with random arrivals at 16 under way on average, each row as
/// often as needed for `rows * orders` >= 5000 and once at least. Rows without a time are left out.
FalseHolds find_false_holds(const std::vector<TraceRow>& rows);

/// Two kinds of back ends as the batch trace d has them: 5.1 ms a token and 1.3 s, or, for 30 % of
/// the rows, 30.8 ms and 7.9 s; log-normal lengths, 15 % noise. Pure and seeded.
std::vector<TraceRow> bimodal_rows(std::int64_t rows, std::uint64_t seed);

std::string holds_table(const FalseHolds& found);
std::string holds_json(const FalseHolds& found);

}  // namespace weir::sim
