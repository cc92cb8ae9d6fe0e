// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/compare.h"

namespace weir::sim {

/// One page with the picture of a comparison: for each provider style four charts against load and
/// one strip over time for each strategy, and a table with every figure. It stands alone: styles
/// and drawings are inline, nothing is loaded, no script runs. Each cell of the table carries its
/// figure as `compare_json` prints it in `data-value`.
std::string compare_html(const Comparison& comparison);

}  // namespace weir::sim
