// SPDX-License-Identifier: Apache-2.0
#include "sim/oracle.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>
#include <utility>

#include "weir/units.h"

namespace weir::sim {
namespace {

/// One rule as the oracle keeps it. `earliest` never goes back, as its callers' times never do.
class Gate {
 public:
  explicit Gate(const Rule& rule) : rule_(rule), level_(full()) {}

  [[nodiscard]] bool never(std::int64_t cost) const {
    if (rule_.unit == Unit::concurrency) return rule_.amount < 1;
    if (rule_.enforce == Enforcement::bucket) {
      return cost > depth() || (rule_.amount == 0 && cost > 0);
    }
    return cost > rule_.amount;
  }

  [[nodiscard]] Instant earliest(std::int64_t cost, Instant from) {
    if (rule_.unit == Unit::concurrency) {
      while (!ends_.empty() && ends_.top() <= from) ends_.pop();
      Instant at = from;
      while (static_cast<std::int64_t>(ends_.size()) >= rule_.amount) {
        at = ends_.top();
        ends_.pop();
      }
      return at;
    }
    if (rule_.enforce == Enforcement::bucket) {
      refill(from);
      const Wide missing = Wide{cost} * rule_.window.count() - level_;
      if (missing <= 0) return from;
      const Wide wait = (missing + rule_.amount - 1) / rule_.amount;
      return saturating_add(
          from, Duration(static_cast<std::int64_t>(std::min<Wide>(wait, Duration::max().count()))));
    }
    Instant at = from;
    forget(at);
    while (sum_ + cost > rule_.amount) {
      at = std::max(at, saturating_add(log_.front().first, rule_.window));
      forget(at);
    }
    return at;
  }

  void charge(std::int64_t cost, Instant at, Duration running) {
    if (rule_.unit == Unit::concurrency) {
      ends_.push(saturating_add(at, running));
    } else if (rule_.enforce == Enforcement::bucket) {
      refill(at);
      level_ -= Wide{cost} * rule_.window.count();
    } else {
      log_.emplace_back(at, cost);
      sum_ += cost;
    }
  }

 private:
  using Wide = __int128;
  [[nodiscard]] std::int64_t depth() const { return rule_.burst.value_or(rule_.amount); }
  [[nodiscard]] Wide full() const { return Wide{depth()} * rule_.window.count(); }
  void refill(Instant at) {
    if (at <= refilled_) return;
    level_ = std::min(full(), level_ + Wide{(at - refilled_).count()} * rule_.amount);
    refilled_ = at;
  }
  void forget(Instant at) {
    while (!log_.empty() && at - log_.front().first >= rule_.window) {
      sum_ -= log_.front().second;
      log_.pop_front();
    }
  }

  Rule rule_;
  std::deque<std::pair<Instant, std::int64_t>> log_;
  std::int64_t sum_ = 0;
  Wide level_ = 0;
  Instant refilled_{};
  std::priority_queue<Instant, std::vector<Instant>, std::greater<>> ends_;
};

}  // namespace

std::int64_t whole_cost(const Rule& rule, const Arrival& arrival) {
  const bool reserves = rule.count == Counting::reserve;
  const std::int64_t output =
      reserves ? arrival.max_output_tokens.value_or(arrival.output_tokens) : arrival.output_tokens;
  switch (rule.unit) {
    case Unit::requests:
    case Unit::concurrency: return 1;
    case Unit::input_tokens: return arrival.input_tokens;
    case Unit::output_tokens: return rule.count == Counting::input ? 0 : output;
    case Unit::total_tokens:
      return arrival.input_tokens + (rule.count == Counting::input ? 0 : output);
  }
  return 0;
}

std::vector<OracleStart> clairvoyant_fifo(const std::vector<Arrival>& arrivals,
                                          const std::vector<Rule>& rules, Duration max_wait,
                                          const std::vector<Duration>& running) {
  std::vector<Gate> gates;
  gates.reserve(rules.size());
  for (const Rule& rule : rules) gates.emplace_back(rule);
  std::vector<OracleStart> starts(arrivals.size());
  Instant before{};
  for (std::size_t index = 0; index < arrivals.size(); ++index) {
    const Arrival& arrival = arrivals[index];
    Instant at = std::max(before, arrival.at);
    bool fits = true;
    // A gate's answer can only move the start on, and charges only leave with time, so one pass
    // over the gates at the moving instant is enough.
    for (std::size_t gate = 0; gate < gates.size() && fits; ++gate) {
      const std::int64_t cost = whole_cost(rules[gate], arrival);
      fits = !gates[gate].never(cost);
      if (fits) at = gates[gate].earliest(cost, at);
    }
    if (!fits) continue;
    before = at;
    if (at - arrival.at > max_wait) continue;
    for (std::size_t gate = 0; gate < gates.size(); ++gate) {
      const Duration holds = index < running.size() ? running[index] : Duration{0};
      gates[gate].charge(whole_cost(rules[gate], arrival), at, holds);
    }
    starts[index].at = at;
  }
  return starts;
}

}  // namespace weir::sim
