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

WindowChecker::WindowChecker(const Rule& rule, Duration phase) : rule_(rule), phase_(phase) {
  level_ = static_cast<double>(rule_.burst.value_or(rule_.amount));
}

bool WindowChecker::counts_at(Instant charged, Instant now) const {
  if (rule_.enforce != Enforcement::fixed) return now - charged < rule_.window;
  const auto window_of = [this](Instant at) {
    const std::int64_t since = (at.time_since_epoch() - phase_).count();
    const std::int64_t window = rule_.window.count();
    return since >= 0 ? since / window : -1 - (-1 - since) / window;
  };
  return window_of(charged) == window_of(now);
}

void WindowChecker::note(double used) {
  const auto limit = static_cast<double>(
      rule_.enforce == Enforcement::bucket ? rule_.burst.value_or(rule_.amount) : rule_.amount);
  worst_ = std::max(worst_, limit > 0 ? used / limit : used * 1e9);
}

void WindowChecker::charge(std::int64_t amount, Instant at) {
  while (!entries_.empty() && !counts_at(entries_.front().at, at)) {
    sum_ -= entries_.front().amount;
    entries_.pop_front();
  }
  entries_.push_back({at, amount});
  sum_ += amount;
  if (rule_.enforce != Enforcement::bucket) {
    note(static_cast<double>(sum_));
    return;
  }
  const auto depth = static_cast<double>(rule_.burst.value_or(rule_.amount));
  const double rate = static_cast<double>(rule_.amount) / to_seconds(rule_.window);
  level_ = std::min(depth, level_ + to_seconds(at - refilled_) * rate);
  refilled_ = at;
  level_ -= static_cast<double>(amount);
  note(depth - level_);
}

void WindowChecker::give_back(std::int64_t amount, Instant charged_at, Instant at) {
  if (rule_.enforce == Enforcement::bucket) {
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
    if (entry->at <= until && counts_at(entry->at, now)) sum += entry->amount;
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
