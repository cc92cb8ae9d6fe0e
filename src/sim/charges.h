// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sim/workload.h"
#include "weir/rule.h"

namespace weir::sim {

/// What the rule charges when the request is at the provider's door; an own reading of `Counting`,
/// so that the checkers do not lean on the code they check. Units: of the rule.
std::int64_t door_charge(const Rule& rule, const Arrival& arrival, std::int64_t default_output);

/// What it charges later, or gives back, once the usage is known.
std::int64_t end_charge(const Rule& rule, const Arrival& arrival, std::int64_t default_output,
                        std::int64_t input, std::int64_t output);

}  // namespace weir::sim
