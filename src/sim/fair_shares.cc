// SPDX-License-Identifier: Apache-2.0
#include "sim/fair_shares.h"

#include <algorithm>
#include <numeric>

#include "sim/oracle.h"
#include "weir/units.h"

namespace weir::sim {
namespace {

struct Tenants {
  std::vector<double> demand;
  std::vector<double> served;
  double sum = 0;
};

Tenants ask(const Scenario& scenario, const Rule& rule, const std::vector<Arrival>& arrivals,
            const std::vector<Turn>& turns) {
  Tenants tenants;
  const Instant from(scenario.measure_from);
  const Instant until(scenario.horizon);
  for (std::size_t index = 0; index < arrivals.size(); ++index) {
    const Arrival& arrival = arrivals[index];
    if (arrival.tenant >= tenants.demand.size()) {
      tenants.demand.resize(arrival.tenant + 1, 0);
      tenants.served.resize(arrival.tenant + 1, 0);
    }
    const auto cost = static_cast<double>(whole_cost(rule, arrival));
    if (arrival.at >= from && arrival.at < until) {
      tenants.demand[arrival.tenant] += cost;
      tenants.sum += cost;
    }
    const std::optional<Instant>& admitted = turns[index].admitted;
    if (admitted && *admitted >= from && *admitted < until) tenants.served[arrival.tenant] += cost;
  }
  return tenants;
}

}  // namespace

std::vector<double> max_min_shares(const std::vector<double>& demands, double capacity) {
  std::vector<std::size_t> order(demands.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return demands[left] != demands[right] ? demands[left] < demands[right] : left < right;
  });
  std::vector<double> shares(demands.size(), 0);
  auto left = static_cast<double>(demands.size());
  for (const std::size_t index : order) {
    shares[index] = std::min(demands[index], capacity / left);
    capacity -= shares[index];
    --left;
  }
  return shares;
}

Fairness fairness_of(const Scenario& scenario, const std::vector<Rule>& rules,
                     const std::vector<Arrival>& arrivals, const std::vector<Turn>& turns) {
  Fairness result;
  const Duration span = scenario.horizon - scenario.measure_from;
  Tenants binding;
  double capacity = 0;
  double most = 0;
  for (const Rule& rule : rules) {
    if (rule.unit == Unit::concurrency || rule.amount <= 0 || span.count() <= 0) continue;
    Tenants asked = ask(scenario, rule, arrivals, turns);
    const double share = share_of_limit(rule, asked.sum, span);
    if (share <= most) continue;
    most = share;
    capacity = asked.sum / share;
    binding = std::move(asked);
  }
  const std::vector<double> shares = max_min_shares(binding.demand, capacity);
  double sum = 0;
  double squares = 0;
  for (std::size_t tenant = 0; tenant < shares.size(); ++tenant) {
    if (!(shares[tenant] > 0)) continue;
    const double ratio = binding.served[tenant] / shares[tenant];
    const double capped = std::min(1.0, ratio);
    result.least = result.tenants == 0 ? ratio : std::min(result.least, ratio);
    ++result.tenants;
    sum += capped;
    squares += capped * capped;
  }
  if (squares > 0) result.jain = sum * sum / (static_cast<double>(result.tenants) * squares);
  if (result.tenants > 0 && !(squares > 0)) result.jain = 0;
  return result;
}

}  // namespace weir::sim
