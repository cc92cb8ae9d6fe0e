// SPDX-License-Identifier: Apache-2.0
#include "sim/charges.h"

#include "weir/units.h"

namespace weir::sim {

std::int64_t door_charge(const Rule& rule, const Arrival& arrival, std::int64_t default_output) {
  if (rule.unit == Unit::requests) return 1;
  if (rule.unit == Unit::concurrency) return 0;
  const std::int64_t input = rule.unit == Unit::output_tokens ? 0 : arrival.input_tokens;
  if (rule.count == Counting::input || rule.count == Counting::realtime ||
      rule.count == Counting::settle)
    return input;
  const std::int64_t most = arrival.max_output_tokens.value_or(default_output);
  return input + (rule.unit == Unit::input_tokens ? 0 : most);
}

std::int64_t end_charge(const Rule& rule, const Arrival& arrival, std::int64_t default_output,
                        std::int64_t input, std::int64_t output) {
  if (rule.unit == Unit::requests || rule.unit == Unit::concurrency) return 0;
  if (rule.count == Counting::reserve || rule.count == Counting::input) return 0;
  std::int64_t whole = 0;
  if (rule.unit != Unit::output_tokens) whole += input;
  if (rule.unit != Unit::input_tokens) whole += output;
  return whole - door_charge(rule, arrival, default_output);
}

}  // namespace weir::sim
