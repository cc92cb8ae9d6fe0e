// SPDX-License-Identifier: Apache-2.0
#include "sim/oracle.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "weir/units.h"

namespace weir::sim {
namespace {

/// One rule as the oracle keeps it. Times given to `charge` never go back.
class Gate {
 public:
  explicit Gate(const Rule& rule) : rule_(rule), level_(full()) {}

  [[nodiscard]] bool never(std::int64_t cost) const {
    if (rule_.unit == Unit::concurrency) return rule_.amount < 1;
    if (refills(rule_.enforce)) {
      return cost > depth() || (rule_.amount == 0 && cost > 0);
    }
    return cost > rule_.amount;
  }

  /// The first instant from `from` on at which `cost`, which fits some time, has room.
  [[nodiscard]] Instant earliest(std::int64_t cost, Instant from) const {
    if (rule_.unit == Unit::concurrency) {
      const auto running = static_cast<std::int64_t>(ends_.size());
      if (running < rule_.amount) return from;
      auto end = ends_.begin();
      std::advance(end, running - rule_.amount);
      return std::max(from, *end);
    }
    if (refills(rule_.enforce)) {
      const Wide missing = Wide{cost} * rule_.window.count() - level_at(from);
      if (missing <= 0) return from;
      const Wide wait = (missing + rule_.amount - 1) / rule_.amount;
      return saturating_add(
          from, Duration(static_cast<std::int64_t>(std::min<Wide>(wait, Duration::max().count()))));
    }
    // The log's entries carry the sum of all before them, so what must leave is found by halving.
    const std::int64_t sum = charged_ - (left_ == log_.size() ? charged_ : log_[left_].before);
    const std::int64_t must_leave = sum + cost - rule_.amount;
    if (must_leave <= 0) return from;
    const std::int64_t mark = log_[left_].before + must_leave;
    const auto last =
        std::partition_point(log_.begin() + static_cast<std::ptrdiff_t>(left_), log_.end(),
                             [&](const Entry& one) { return one.before + one.cost < mark; });
    return std::max(from, saturating_add(last->at, rule_.window));
  }

  /// No question will be about an instant before `now` any more.
  void forget(Instant now) {
    while (left_ < log_.size() && now - log_[left_].at >= rule_.window) ++left_;
    constexpr std::size_t kTidyAt = 4096;
    if (left_ < kTidyAt || left_ < log_.size() / 2) return;
    log_.erase(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(left_));
    left_ = 0;
  }

  void charge(std::int64_t cost, Instant at, Duration running) {
    if (rule_.unit == Unit::concurrency) {
      ends_.erase(ends_.begin(), ends_.upper_bound(at));
      ends_.insert(saturating_add(at, running));
    } else if (refills(rule_.enforce)) {
      level_ = level_at(at) - Wide{cost} * rule_.window.count();
      refilled_ = std::max(refilled_, at);
    } else {
      log_.push_back({at, cost, charged_});
      charged_ += cost;
    }
  }

 private:
  using Wide = __int128;
  struct Entry {
    Instant at;
    std::int64_t cost;
    std::int64_t before;  ///< sum of all charges before this one
  };
  [[nodiscard]] std::int64_t depth() const { return rule_.depth(); }
  [[nodiscard]] Wide full() const { return Wide{depth()} * rule_.window.count(); }
  [[nodiscard]] Wide level_at(Instant at) const {
    if (at <= refilled_) return level_;
    return std::min(full(), level_ + Wide{(at - refilled_).count()} * rule_.amount);
  }

  Rule rule_;
  std::vector<Entry> log_;
  std::size_t left_ = 0;  ///< the first of the log that still counts
  std::int64_t charged_ = 0;
  Wide level_ = 0;
  Instant refilled_{};
  std::multiset<Instant> ends_;
};

/// All rules together.
class Gates {
 public:
  explicit Gates(const std::vector<Rule>& rules) : rules_(rules) {
    gates_.reserve(rules.size());
    for (const Rule& rule : rules) gates_.emplace_back(rule);
  }

  /// Absent: it never fits.
  [[nodiscard]] std::optional<Instant> earliest(const Arrival& arrival, Instant from) const {
    // A gate's answer can only move the start on, and charges only leave with time, so one pass
    // over the gates at the moving instant is enough.
    for (std::size_t gate = 0; gate < gates_.size(); ++gate) {
      const std::int64_t cost = whole_cost(rules_[gate], arrival);
      if (gates_[gate].never(cost)) return std::nullopt;
      from = gates_[gate].earliest(cost, from);
    }
    return from;
  }

  /// No question will be about an instant before `now` any more.
  void forget(Instant now) {
    for (Gate& gate : gates_) gate.forget(now);
  }

  void charge(const Arrival& arrival, Instant at, Duration running) {
    for (std::size_t gate = 0; gate < gates_.size(); ++gate) {
      gates_[gate].charge(whole_cost(rules_[gate], arrival), at, running);
    }
  }

 private:
  const std::vector<Rule>& rules_;
  std::vector<Gate> gates_;
};

Duration running_of(const std::vector<Duration>& running, std::size_t index) {
  return index < running.size() ? running[index] : Duration{0};
}

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

double share_of_limit(const Rule& rule, double charged, Duration span) {
  if (rule.unit == Unit::concurrency || rule.amount <= 0 || span.count() <= 0) return 0;
  const double windows = to_seconds(span) / to_seconds(std::max(rule.window, Duration{1}));
  return charged / (static_cast<double>(rule.amount) * windows);
}

std::vector<OracleStart> clairvoyant_fifo(const std::vector<Arrival>& arrivals,
                                          const std::vector<Rule>& rules, Duration max_wait,
                                          const std::vector<Duration>& running) {
  Gates gates(rules);
  std::vector<OracleStart> starts(arrivals.size());
  Instant before{};
  for (std::size_t index = 0; index < arrivals.size(); ++index) {
    const Arrival& arrival = arrivals[index];
    const Instant from = std::max(before, arrival.at);
    gates.forget(from);
    const auto at = gates.earliest(arrival, from);
    if (!at) continue;
    before = *at;
    if (*at - arrival.at > max_wait) continue;
    gates.charge(arrival, *at, running_of(running, index));
    starts[index].at = *at;
  }
  return starts;
}

std::vector<OracleStart> clairvoyant_backfill(const std::vector<Arrival>& arrivals,
                                              const std::vector<Rule>& rules, Duration max_wait,
                                              const std::vector<Duration>& running,
                                              std::size_t ahead) {
  Gates gates(rules);
  std::vector<OracleStart> starts(arrivals.size());
  std::vector<std::size_t> waiting;  // the first `ahead` that have come and not started
  std::size_t next = 0;
  Instant now{};
  while (next < arrivals.size() || !waiting.empty()) {
    gates.forget(now);
    while (next < arrivals.size() && waiting.size() < ahead && arrivals[next].at <= now) {
      waiting.push_back(next++);
    }
    const bool room = waiting.size() < ahead && next < arrivals.size();
    Instant look = room ? arrivals[next].at : kNever;
    // Whoever did not fit does not fit after another's start either, so one pass finds all that
    // start among these; the places they leave are filled, and looked at, in the next.
    std::size_t kept = 0;
    for (const std::size_t index : waiting) {
      const auto at = gates.earliest(arrivals[index], now);
      const bool late = !at || *at - arrivals[index].at > max_wait;
      if (!late && *at > now) {
        look = std::min(look, *at);
        waiting[kept++] = index;
      } else if (!late) {
        gates.charge(arrivals[index], now, running_of(running, index));
        starts[index].at = now;
      }
    }
    const bool gone = kept < waiting.size();
    waiting.resize(kept);
    if (!gone) now = std::max(now, look);
  }
  return starts;
}

}  // namespace weir::sim
