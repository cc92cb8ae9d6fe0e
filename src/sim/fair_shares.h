// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "sim/scenario.h"
#include "sim/starvation.h"
#include "sim/workload.h"

namespace weir::sim {

/// How a run's service was divided among its tenants, beside what max-min fairness would give.
struct Fairness {
  std::size_t tenants = 0;  ///< that asked for anything
  double least = 1;         ///< smallest of service / max-min share
  double jain = 1;          ///< Jain's index over min(1, service / max-min share)
};

/// Max-min shares of `capacity`: nobody gets more than he demands, and whoever gets less than that
/// gets as much as anybody does (water-filling). Example: 10 among demands of 2, 8 and 10 gives 2,
/// 4 and 4. Units: any, the same for all. O(n log n).
std::vector<double> max_min_shares(const std::vector<double>& demands, double capacity);

/// Judges the run from `measure_from` to the horizon, on the provider's rule that the demand is
/// largest of: what each tenant asked for in that time, what the rule lets through in it, and what
/// each tenant's calls that were admitted in it cost. Over a whole run, not from minute to minute:
/// a tenant that comes late is owed what it asked for since then.
Fairness fairness_of(const Scenario& scenario, const std::vector<Rule>& rules,
                     const std::vector<Arrival>& arrivals, const std::vector<Turn>& turns);

}  // namespace weir::sim
