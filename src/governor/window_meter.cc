// SPDX-License-Identifier: Apache-2.0
#include "governor/window_meter.h"

#include <algorithm>
#include <limits>

#include "weir/units.h"

namespace weir::governor {

WindowMeter::WindowMeter(Duration window, std::int64_t cells)
    : window_(window), cell_(window / std::max<std::int64_t>(cells, 1)) {}

void WindowMeter::drop(Instant now, Duration guard) {
  while (count_ > 0 && leaves(0, guard) <= now) {
    sum_ -= at(0).amount;
    head_ = (head_ + 1) & (ring_.size() - 1);
    --count_;
  }
}

void WindowMeter::add(Instant at_time, std::int64_t amount) {
  // At the largest count that there is, the log is full whatever comes on top.
  amount = std::min(amount, std::numeric_limits<std::int64_t>::max() - sum_);
  if (amount <= 0) return;
  if (count_ > 0) {
    Entry& newest = at(count_ - 1);
    if (at_time < newest.last) at_time = newest.last;
    if (saturating_sub(at_time, newest.first) <= cell_) {
      newest.last = at_time;
      newest.amount += amount;
      sum_ += amount;
      return;
    }
  }
  if (count_ == ring_.size()) grow();
  ++count_;
  at(count_ - 1) = Entry{at_time, at_time, amount};
  sum_ += amount;
}

std::int64_t WindowMeter::credit(Instant stamp, std::int64_t amount) {
  if (amount <= 0) return 0;
  std::size_t low = 0;
  std::size_t high = count_;
  // Most calls end soon after they were sent, while their stamp is in the newest entry.
  if (count_ > 0 && at(count_ - 1).first <= stamp) low = count_ - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (at(middle).last < stamp) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  // Entries never overlap, so the first that ends at or after the stamp is the one that holds it,
  // unless the stamp's own entry has left already.
  if (low == count_ || at(low).first > stamp) return 0;
  Entry& entry = at(low);
  const std::int64_t taken = std::min(amount, entry.amount);
  entry.amount -= taken;
  sum_ -= taken;
  return taken;
}

Instant WindowMeter::frees(std::int64_t amount, Duration guard) const {
  std::int64_t left = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    left += at(i).amount;
    if (left >= amount) return saturating_add(saturating_add(at(i).last, window_), guard);
  }
  return kNever;
}

Instant WindowMeter::empties(Duration guard) const {
  if (count_ == 0) return kDawn;
  return saturating_add(saturating_add(at(count_ - 1).last, window_), guard);
}

std::vector<RememberedCharge> WindowMeter::remember(std::int64_t most, Instant now) const {
  std::vector<RememberedCharge> charges;
  const Duration together = window_ / std::max<std::int64_t>(most - 1, 1);
  Instant first = kDawn;
  for (std::size_t i = 0; i < count_; ++i) {
    const Entry& entry = at(i);
    if (entry.amount <= 0) continue;
    const Duration age = std::max(Duration{0}, saturating_sub(now, entry.last));
    if (!charges.empty() && saturating_sub(entry.last, first) <= together) {
      charges.back().age = age;
      charges.back().amount += entry.amount;
      continue;
    }
    if (charges.capacity() == 0) charges.reserve(static_cast<std::size_t>(most) + 2);
    charges.push_back({age, entry.amount});
    first = entry.first;
  }
  return charges;
}

void WindowMeter::grow() {
  std::vector<Entry> larger(std::max<std::size_t>(ring_.size() * 2, 16));
  for (std::size_t i = 0; i < count_; ++i) larger[i] = at(i);
  ring_ = std::move(larger);
  head_ = 0;
}

}  // namespace weir::governor
