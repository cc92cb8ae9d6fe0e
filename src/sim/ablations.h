// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "sim/port.h"

namespace weir::sim {

/// The governor without one of its parts, or with what the textbook has in its place.
struct Ablation {
  std::string_view name;
  std::string_view title;  ///< one line for people
  MakePort (*make)();
};

/// nullptr: there is none of that name.
const Ablation* find_ablation(std::string_view name);
/// All of them, for help and faults: "a, b, c".
std::string ablation_names();

/// Additive increase, multiplicative decrease on the told limits: a refusal takes `kCut` of them,
/// once in `kEpoch`, and every `kEpoch` without one gives back `kStep` of what was told, up to
/// that. Open in the textbook, and chosen here: the three constants.
struct Aimd {
  static constexpr double kCut = 0.3;
  static constexpr double kStep = 0.02;
  static constexpr double kLeast = 0.02;
  static constexpr Duration kEpoch = std::chrono::seconds(10);
};

}  // namespace weir::sim
