// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/report.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir::cli {

/// The emulator's counters at one moment.
struct Sample {
  double at = 0;  ///< provider's seconds since its reset
  std::int64_t attempts = 0, admitted = 0, refused = 0, inflight = 0;
};

/// Reads what GET /emulator/v1/counters answers. Errors: malformed.
Result<Sample> read_sample(std::string_view json);

/// One way the calls were sent.
struct Run {
  std::string name;
  std::vector<Sample> samples;  ///< the first at the start, the last when all had ended
  load::Report report;
};

/// What the demo measures a run against.
struct DemoLimits {
  std::int64_t requests = 0;  ///< allowed in a window
  double window = 60;         ///< seconds of the provider
  double arrivals_end = 0;    ///< when the last call comes, seconds of the provider
};

struct RunFigures {
  double rejected_share = 0;  ///< provider 429s per attempt
  double use = 0;  ///< of the quota, from the end of the first window to the last arrival
  std::int64_t attempts = 0, rejected = 0;
};
RunFigures figures_of(const Run& run, const DemoLimits& limits);

/// The goals that weir's run misses, one sentence each; empty if it reaches them all.
std::vector<std::string> missed_goals(const Run& run, const DemoLimits& limits);

std::string demo_text(const std::vector<Run>& runs, const DemoLimits& limits);
std::string demo_json(const std::vector<Run>& runs, const DemoLimits& limits);
/// A page without any outside part: the table and a chart for each run.
std::string demo_html(const std::vector<Run>& runs, const DemoLimits& limits);

}  // namespace weir::cli
