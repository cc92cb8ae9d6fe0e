// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario.h"
#include "weir/result.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir::sim {

/// One request of a client, with everything that will become of it known to whoever may know.
/// Units: tokens, bytes; times from the start.
struct Arrival {
  Instant at;
  std::uint32_t tenant = 0;
  std::int64_t input_tokens = 0;
  std::int64_t input_bytes = 0;
  std::int64_t output_tokens = 0;
  std::optional<std::int64_t> max_output_tokens;
  bool streaming = true;
  std::optional<Duration> gone_after;  ///< the client leaves then
};

/// Bound of one run; arrivals beyond are cut off.
inline constexpr std::size_t kMaxArrivals = 5'000'000;

/// All requests of a run, by time. Equal seeds give equal requests.
std::vector<Arrival> make_arrivals(const Workload& workload, Duration horizon, std::uint64_t seed);

/// Those of the scenario's workload and of all its flows, by time.
std::vector<Arrival> make_arrivals(const Scenario& scenario, std::uint64_t seed);

/// Sets the rate of `arrivals.of_quota`, if it is there, for a provider with these rules.
void resolve_quota(Workload& workload, const std::vector<Rule>& rules);

/// Reads a trace: a header line, then lines "seconds,input_tokens,output_tokens" with rising
/// seconds; the last two may be empty. A further column that the header calls "tenant" names whose
/// request it is; others are passed over. Errors: malformed with the line's number; too_large.
Result<std::vector<TraceRow>> parse_trace(std::string_view csv);

/// The same from a file. Errors: io too.
Result<std::vector<TraceRow>> read_trace(const std::string& path);

}  // namespace weir::sim
