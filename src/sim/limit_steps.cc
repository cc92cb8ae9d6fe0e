// SPDX-License-Identifier: Apache-2.0
#include "sim/limit_steps.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace weir::sim {

bool same_meters(const std::vector<Rule>& rules, const LimitStep& step) {
  return std::ranges::equal(rules, step.rules, [](const Rule& one, const Rule& other) {
    return one.unit == other.unit && one.window == other.window && one.enforce == other.enforce &&
           one.count == other.count;
  });
}

std::vector<Rule> mean_rules(const std::vector<Rule>& rules, const std::vector<LimitStep>& steps,
                             Duration from, Duration to) {
  std::vector<Rule> means = rules;
  if (steps.empty() || to <= from) return means;
  for (std::size_t index = 0; index < rules.size(); ++index) {
    double sum = 0;
    Duration since = from;
    std::int64_t amount = rules[index].amount;
    const auto until = [&](Duration at) {
      const Duration end = std::clamp(at, since, to);
      sum += static_cast<double>(amount) * to_seconds(end - since);
      since = end;
    };
    for (const LimitStep& step : steps) {
      if (index >= step.rules.size()) continue;
      until(step.at);
      amount = step.rules[index].amount;
    }
    until(to);
    means[index].amount = std::llround(sum / to_seconds(to - from));
  }
  return means;
}

}  // namespace weir::sim
