// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/meter.h"

#include <algorithm>

#include "weir/units.h"

namespace weir::emulator::model {
namespace {

Rule cleaned(Rule rule) {
  rule.amount = std::max<std::int64_t>(rule.amount, 0);
  if (rule.burst) rule.burst = std::max<std::int64_t>(*rule.burst, 0);
  if (rule.window.count() < 1) rule.window = std::chrono::seconds(1);
  if (rule.enforce == Enforcement::unknown) rule.enforce = Enforcement::sliding;
  return rule;
}

std::int64_t floor_divide(__int128 value, __int128 by) {
  __int128 quotient = value / by;
  if (value % by < 0) --quotient;
  return static_cast<std::int64_t>(quotient);
}

std::int64_t number_of_window(Instant at, Duration phase, Duration window) {
  const __int128 since = __int128{at.time_since_epoch().count()} - phase.count();
  return floor_divide(since, window.count());
}

Duration held(__int128 nanoseconds) {
  if (nanoseconds >= Duration::max().count()) return kForever;
  return Duration(static_cast<std::int64_t>(std::max<__int128>(nanoseconds, 0)));
}

}  // namespace

Meter::Meter(const Rule& rule, Duration phase, Instant now)
    : rule_(cleaned(rule)), phase_(phase), latest_(now) {
  window_number_ = number_of_window(now, phase_, rule_.window);
  level_ = full();
}

std::int64_t Meter::capacity() const { return rule_.depth(); }

Meter::Wide Meter::elapsed(Instant now) const {
  const Wide edge = Wide{window_number_} * scale() + phase_.count();
  return Wide{now.time_since_epoch().count()} - edge;
}

Meter::Wide Meter::estimate(Instant now) const {
  return Wide{sum_} * scale() + Wide{previous_} * (scale() - elapsed(now));
}

void Meter::open_window(std::int64_t number) {
  if (number == window_number_) return;
  const bool next = number == window_number_ + 1;
  previous_ = next && rule_.enforce == Enforcement::counter ? sum_ : 0;
  window_number_ = number;
  sum_ = 0;
}

Instant Meter::move_to(Instant now) {
  if (now < latest_) now = latest_;
  switch (rule_.enforce) {
    case Enforcement::fixed:
    case Enforcement::counter: open_window(number_of_window(now, phase_, rule_.window)); break;
    case Enforcement::bucket:
    case Enforcement::leaky: {
      const Wide gained = Wide{saturating_sub(now, latest_).count()} * rule_.amount;
      level_ = std::min(full(), level_ + gained);
      break;
    }
    case Enforcement::sliding:
    case Enforcement::unknown:
      while (!log_.empty() && saturating_sub(now, log_.front().at) >= rule_.window) {
        sum_ -= log_.front().amount;
        log_.pop_front();
        ++popped_;
      }
      break;
  }
  latest_ = now;
  return now;
}

void Meter::lower_level(Wide by) {
  // Far below what any refill reaches again, and far above where 128 bits would wrap.
  constexpr Wide kDeepest = -(Wide{1} << 126U);
  level_ = level_ < kDeepest + by ? kDeepest : level_ - by;
}

Charge Meter::add(std::int64_t amount, Instant now) {
  now = move_to(now);
  amount = std::max<std::int64_t>(amount, 0);
  if (refills(rule_.enforce)) {
    lower_level(Wide{amount} * scale());
    return {0, amount};
  }
  amount = std::min(amount, INT64_MAX - sum_);
  sum_ += amount;
  if (rule_.enforce == Enforcement::fixed || rule_.enforce == Enforcement::counter) {
    return {static_cast<std::uint64_t>(window_number_), amount};
  }
  if (log_.size() >= kMaxEntries) {
    const std::int64_t oldest = log_.front().amount;
    log_.pop_front();
    ++popped_;
    log_.front().amount += oldest;
  }
  log_.push_back({now, amount});
  return {popped_ + log_.size() - 1, amount};
}

void Meter::give_back(const Charge& charge, std::int64_t amount, Instant now) {
  move_to(now);
  amount = std::clamp<std::int64_t>(amount, 0, charge.amount);
  if (refills(rule_.enforce)) {
    level_ = std::min(full(), level_ + Wide{amount} * scale());
    return;
  }
  if (rule_.enforce == Enforcement::fixed || rule_.enforce == Enforcement::counter) {
    if (charge.mark == static_cast<std::uint64_t>(window_number_)) {
      sum_ -= std::min(amount, sum_);
    } else if (charge.mark == static_cast<std::uint64_t>(window_number_ - 1)) {
      previous_ -= std::min(amount, previous_);
    }
    return;
  }
  if (charge.mark < popped_ || charge.mark - popped_ >= log_.size()) return;
  auto& entry = log_[static_cast<std::size_t>(charge.mark - popped_)];
  amount = std::min(amount, entry.amount);
  entry.amount -= amount;
  sum_ -= amount;
}

void Meter::add_refused(std::int64_t amount, Instant now) {
  if (!refills(rule_.enforce)) {
    add(amount, now);
    return;
  }
  move_to(now);
  if (level_ > 0) level_ = std::max<Wide>(0, level_ - Wide{amount} * scale());
}

std::int64_t Meter::used(Instant now) {
  now = move_to(now);
  // A part of a unit that is still missing counts as a whole one: it cannot be had yet.
  Wide missing = sum_;
  if (refills(rule_.enforce)) missing = (full() - level_ + scale() - 1) / scale();
  if (rule_.enforce == Enforcement::counter) missing = (estimate(now) + scale() - 1) / scale();
  return missing > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(missing);
}

bool Meter::has_room(std::int64_t amount, Instant now) {
  now = move_to(now);
  amount = std::max<std::int64_t>(amount, 0);
  if (refills(rule_.enforce)) return level_ >= Wide{amount} * scale();
  if (rule_.enforce == Enforcement::counter) {
    return estimate(now) <= (Wide{rule_.amount} - amount) * scale();
  }
  return sum_ <= rule_.amount && amount <= rule_.amount - sum_;
}

Duration Meter::wait_for(std::int64_t amount, Instant now) {
  now = move_to(now);
  if (has_room(amount, now)) return Duration{0};
  if (never_fits(amount)) return kForever;
  switch (rule_.enforce) {
    case Enforcement::counter: return counter_wait(amount, now);
    case Enforcement::bucket:
    case Enforcement::leaky: {
      if (rule_.amount == 0) return kForever;
      const Wide missing = Wide{amount} * scale() - level_;
      return held((missing + rule_.amount - 1) / rule_.amount);
    }
    case Enforcement::fixed: return time_to_empty(now);
    case Enforcement::sliding:
    case Enforcement::unknown: break;
  }
  // A long log is read only so far; past that the whole window is an honest, late answer.
  constexpr std::size_t kMaxSteps = 4096;
  std::int64_t left = sum_;
  std::size_t steps = 0;
  for (const Entry& entry : log_) {
    left -= entry.amount;
    if (left <= rule_.amount - amount) {
      return held(Wide{rule_.window.count()} - saturating_sub(now, entry.at).count());
    }
    if (++steps >= kMaxSteps) break;
  }
  return time_to_empty(now);
}

Duration Meter::counter_wait(std::int64_t amount, Instant now) const {
  // The estimate falls on a line of slope previous/W to the edge, and of slope sum/W after it.
  const Wide free = Wide{rule_.amount} - amount;
  const Wide passed = elapsed(now);
  const auto until = [&](Wide room, Wide older) {
    return scale() - room * scale() / std::max<Wide>(older, 1);
  };
  if (Wide{sum_} <= free) return held(until(free - sum_, previous_) - passed);
  return held(scale() - passed + until(free, sum_));
}

Duration Meter::time_to_empty(Instant now) {
  now = move_to(now);
  switch (rule_.enforce) {
    case Enforcement::counter: {
      if (sum_ == 0 && previous_ == 0) return Duration{0};
      return held((sum_ > 0 ? 2 : 1) * scale() - elapsed(now));
    }
    case Enforcement::bucket:
    case Enforcement::leaky: {
      if (level_ >= full()) return Duration{0};
      if (rule_.amount == 0) return kForever;
      return held((full() - level_ + rule_.amount - 1) / rule_.amount);
    }
    case Enforcement::fixed: {
      if (sum_ == 0) return Duration{0};
      const Wide end = (Wide{window_number_} + 1) * scale() + phase_.count();
      return held(end - now.time_since_epoch().count());
    }
    case Enforcement::sliding:
    case Enforcement::unknown: break;
  }
  if (log_.empty()) return Duration{0};
  return held(Wide{rule_.window.count()} - saturating_sub(now, log_.back().at).count());
}

void Meter::resize(const Rule& rule, Instant now) {
  move_to(now);
  const Wide missing = full() - level_;
  const Rule next = cleaned(rule);
  rule_.amount = next.amount;
  rule_.burst = next.burst;
  rule_.count = next.count;
  level_ = full();
  lower_level(missing);
}

}  // namespace weir::emulator::model
