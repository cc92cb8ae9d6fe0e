// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sim/harness.h"

namespace weir::sim {

/// What stands above a table and around the JSON.
struct RunSummary {
  std::string name;
  std::string about;
  double wall_seconds = 0;  ///< of the machine, for the simulation's speed; 0: not measured
};

/// One line for each world, its seeds put together (worst figure of any seed), and what missed.
std::string table(const RunSummary& summary, const std::vector<Report>& reports);

/// Every run in full, as one JSON object. Names come from scenario files, whose loader lets only
/// plain characters through.
std::string json(const RunSummary& summary, const std::vector<Report>& reports);

}  // namespace weir::sim
