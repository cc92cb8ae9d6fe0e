// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "weir/rule.h"
#include "weir/time.h"

namespace weir::sim {

/// The provider's limits from a time on. Units, windows and enforcement are those of the rules that
/// the world begins with, in the same order; amounts and depths may differ.
struct LimitStep {
  Duration at{0};
  std::vector<Rule> rules;
};

/// Whether the step changes amounts and depths only.
bool same_meters(const std::vector<Rule>& rules, const LimitStep& step);

/// The rules with the mean of their amounts over a span. Example: 600 a minute, from 30 m on 300;
/// over [0, 40 m) that is 525. Steps are in the order of their times. An empty span: the first.
std::vector<Rule> mean_rules(const std::vector<Rule>& rules, const std::vector<LimitStep>& steps,
                             Duration from, Duration to);

}  // namespace weir::sim
