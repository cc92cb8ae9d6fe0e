// SPDX-License-Identifier: Apache-2.0
#include "sim/checkers.h"

#include <fmt/core.h>

#include <algorithm>

namespace weir::sim {

void Violations::add(std::string_view checker, Instant at, std::string_view what) {
  ++count_;
  if (!by(checker)) who_.emplace_back(checker);
  if (first_.size() < kMaxKept) {
    first_.push_back(
        fmt::format("{} at {:.3f} s: {}", checker, to_seconds(at.time_since_epoch()), what));
  }
}

bool Violations::by(std::string_view checker) const {
  return std::find(who_.begin(), who_.end(), checker) != who_.end();
}

WindowChecker::WindowChecker(const Rule& rule, Duration phase)
    : rule_(rule), phase_(phase), amount_(rule.amount) {
  level_ = depth_of(amount_);
}

bool WindowChecker::leaks() const {
  return rule_.enforce == Enforcement::bucket || rule_.enforce == Enforcement::leaky;
}

double WindowChecker::depth_of(std::int64_t amount) const {
  if (rule_.enforce == Enforcement::bucket) {
    return static_cast<double>(rule_.burst.value_or(amount));
  }
  if (rule_.enforce == Enforcement::leaky) {
    return static_cast<double>(std::max<std::int64_t>(1, rule_.burst.value_or(1)));
  }
  return static_cast<double>(amount);
}

std::int64_t WindowChecker::window_of(Instant at) const {
  const std::int64_t since = (at.time_since_epoch() - phase_).count();
  const std::int64_t window = rule_.window.count();
  return since >= 0 ? since / window : -1 - (-1 - since) / window;
}

bool WindowChecker::counts_at(Instant charged, Instant now) const {
  if (rule_.enforce == Enforcement::fixed) return window_of(charged) == window_of(now);
  if (rule_.enforce == Enforcement::counter) return window_of(charged) + 1 >= window_of(now);
  return now - charged < rule_.window;
}

double WindowChecker::estimate(Instant at) const {
  const std::int64_t present = window_of(at);
  const std::int64_t edge = present * rule_.window.count() + phase_.count();
  const double passed = static_cast<double>(at.time_since_epoch().count() - edge) /
                        static_cast<double>(rule_.window.count());
  double older = 0;
  double newer = 0;
  for (const Entry& entry : entries_) {
    (window_of(entry.at) == present ? newer : older) += static_cast<double>(entry.amount);
  }
  return newer + older * (1 - passed);
}

void WindowChecker::set_limit(std::int64_t amount, Instant at) {
  if (amount < amount_) {
    const std::int64_t windows = rule_.enforce == Enforcement::counter ? 2 : 1;
    earlier_.push_back({at + windows * rule_.window, depth_of(amount_)});
  }
  if (leaks()) {
    // What is missing stays missing.
    refill(at);
    level_ += depth_of(amount) - depth_of(amount_);
  }
  amount_ = amount;
}

void WindowChecker::refill(Instant at) {
  const double rate = static_cast<double>(amount_) / to_seconds(rule_.window);
  level_ = std::min(depth_of(amount_), level_ + to_seconds(at - refilled_) * rate);
  refilled_ = at;
}

void WindowChecker::note(double used, Instant at) {
  double limit = depth_of(amount_);
  std::erase_if(earlier_, [&](const Limit& one) { return one.counts_until <= at; });
  for (const Limit& one : earlier_) limit = std::max(limit, one.amount);
  worst_ = std::max(worst_, limit > 0 ? used / limit : used * 1e9);
}

void WindowChecker::charge(std::int64_t amount, Instant at, Whose whose) {
  while (!entries_.empty() && !counts_at(entries_.front().at, at)) {
    sum_ -= entries_.front().amount;
    entries_.pop_front();
  }
  entries_.push_back({at, amount, whose});
  sum_ += amount;
  if (rule_.enforce == Enforcement::counter) {
    note(estimate(at), at);
  } else if (leaks()) {
    refill(at);
    level_ -= static_cast<double>(amount);
    note(depth_of(amount_) - level_, at);
  } else {
    note(static_cast<double>(sum_), at);
  }
}

void WindowChecker::give_back(std::int64_t amount, Instant charged_at, Instant at) {
  if (leaks()) {
    level_ += static_cast<double>(amount);
    return;
  }
  if (!counts_at(charged_at, at)) return;
  for (Entry& entry : entries_) {
    if (entry.at != charged_at || entry.amount < amount) continue;
    entry.amount -= amount;
    sum_ -= amount;
    return;
  }
}

std::int64_t WindowChecker::charged_between(Instant since, Instant until, Instant now) const {
  std::int64_t sum = 0;
  for (auto entry = entries_.rbegin(); entry != entries_.rend() && entry->at > since; ++entry) {
    const bool known = entry->at <= until && entry->whose == Whose::ours;
    if (known && counts_at(entry->at, now)) sum += entry->amount;
  }
  return sum;
}

void FifoChecker::granted(std::size_t lane, std::int64_t number, Instant at,
                          Violations& violations) {
  if (number < last_[lane]) {
    violations.add(
        "fifo", at,
        fmt::format("call {} of lane {} was granted after call {}", number, lane, last_[lane]));
  }
  last_[lane] = std::max(last_[lane], number);
}

void check_open(const OpenCalls& open, const governor::Snapshot& snapshot, Instant at,
                Violations& violations) {
  if (snapshot.inflight != open.granted) {
    violations.add("slots", at,
                   fmt::format("the governor counts {} calls in flight, there are {}",
                               snapshot.inflight, open.granted));
  }
  if (snapshot.queued != open.waiting) {
    violations.add("slots", at,
                   fmt::format("the governor counts {} calls waiting, there are {}",
                               snapshot.queued, open.waiting));
  }
  if (open.granted > 0) return;
  for (const auto& deployment : snapshot.deployments) {
    for (const auto& meter : deployment.meters) {
      if (meter.reserved == 0) continue;
      violations.add("slots", at,
                     fmt::format("{} of {} are reserved though no call is open", meter.reserved,
                                 name(meter.rule.unit)));
    }
  }
}

void check_mirror(const governor::MeterView& meter, std::int64_t surely_counted,
                  std::int64_t tolerance, Instant at, Violations& violations) {
  const std::int64_t known = meter.used + meter.reserved;
  if (known >= surely_counted - tolerance) return;
  violations.add("mirror", at,
                 fmt::format("the governor thinks {} of {} used, the provider surely counts {}",
                             known, name(meter.rule.unit), surely_counted));
}

void check_books(const Books& books, Instant at, Violations& violations) {
  const std::int64_t ended = books.served + books.refused + books.timed_out + books.gave_up +
                             books.failed + books.gone + books.lost;
  if (books.arrivals != ended + books.open) {
    violations.add(
        "books", at,
        fmt::format("{} calls came, {} ended and {} are open", books.arrivals, ended, books.open));
  }
  if (books.sent != books.admitted + books.rejected) {
    violations.add("books", at,
                   fmt::format("{} attempts left, the provider saw {} + {}", books.sent,
                               books.admitted, books.rejected));
  }
}

}  // namespace weir::sim
