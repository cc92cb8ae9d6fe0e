// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sim/port.h"
#include "sim/scenario.h"

namespace weir::sim {

/// The governor behind a clock that is stepped: what it is told as `now` is the world's time plus
/// the sum of the steps so far. A step back stands for a host that was suspended: its clock is
/// behind afterwards. The governor takes an earlier `now` for the latest it has seen, so it stands
/// still until the clock has caught up; `next_deadline` is translated back, and while the clock is
/// behind, an advance that is due happens at the world's time at which the clock will show it.
/// Answers the port unchanged where there are no steps.
MakePort stepped_clock(std::vector<ClockStep> steps, MakePort inner);

}  // namespace weir::sim
