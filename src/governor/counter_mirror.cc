// SPDX-License-Identifier: Apache-2.0
#include "governor/counter_mirror.h"

#include <algorithm>
#include <cmath>

#include "weir/units.h"

namespace weir::governor {
namespace {

/// How much of a window the phase may be off.
constexpr double kDoubt = 1.0 / static_cast<double>(CounterMirror::kPhases);

double nanoseconds(Duration duration) { return static_cast<double>(duration.count()); }

}  // namespace

CounterMirror::CounterMirror(Duration window, Instant now)
    : window_(std::max(window, Duration(static_cast<std::int64_t>(kPhases)))),
      latest_(now),
      next_edge_(now) {
  const Duration step = window_ / static_cast<std::int64_t>(kPhases);
  for (std::size_t index = 0; index < kPhases; ++index) {
    phases_[index].edge = now - window_ + step * static_cast<std::int64_t>(index);
  }
}

void CounterMirror::open_windows(Instant until) {
  while (next_edge_ <= until) {
    Phase& phase = phases_[next_phase_];
    phase.edge = phase.edge + window_;
    forgotten_ = phase.previous;
    phase.previous = phase.current;
    phase.current = 0;
    next_phase_ = (next_phase_ + 1) % kPhases;
    next_edge_ = phases_[next_phase_].edge + window_;
    // After a long silence nothing is left, so the windows in between need not be opened.
    if (next_phase_ == 0 && until - next_edge_ > 3 * window_) {
      const Duration skipped = window_ * ((until - next_edge_) / window_ - 1);
      for (Phase& each : phases_) each = {0, 0, each.edge + skipped};
      forgotten_ = 0;
      next_edge_ += skipped;
    }
  }
}

Instant CounterMirror::move_to(Duration guard, Instant now) {
  // A guard that grows would turn the clock back; the windows wait for it instead.
  latest_ = std::max(latest_, now - guard);
  std::size_t arrived = 0;
  for (; arrived < travelling_count_ && travelling_[arrived].stamp <= latest_; ++arrived) {
    const Travelling& one = travelling_[arrived];
    open_windows(one.stamp);
    for (Phase& phase : phases_) phase.current = saturating_add(phase.current, one.amount);
    travelling_sum_ -= one.amount;
  }
  std::move(travelling_.begin() + static_cast<std::ptrdiff_t>(arrived),
            travelling_.begin() + static_cast<std::ptrdiff_t>(travelling_count_),
            travelling_.begin());
  travelling_count_ -= arrived;
  open_windows(latest_);
  return latest_;
}

void CounterMirror::add(std::int64_t amount, Duration guard, Instant now) {
  move_to(guard, now);
  amount = std::clamp<std::int64_t>(amount, 0, INT64_MAX - travelling_sum_);
  if (travelling_count_ == kTravelling) {
    Travelling& youngest = travelling_[kTravelling - 1];
    youngest = {now, youngest.amount + amount};
  } else {
    travelling_[travelling_count_++] = {now, amount};
  }
  travelling_sum_ += amount;
}

void CounterMirror::credit(Instant stamp, std::int64_t amount, Duration guard, Instant now) {
  move_to(guard, now);
  for (std::size_t index = 0; index < travelling_count_; ++index) {
    Travelling& one = travelling_[index];
    if (one.stamp != stamp) continue;
    amount = std::min(amount, one.amount);
    one.amount -= amount;
    travelling_sum_ -= amount;
    return;
  }
  for (Phase& phase : phases_) {
    if (stamp >= phase.edge) {
      phase.current = std::max<std::int64_t>(0, phase.current - amount);
    } else if (stamp >= phase.edge - window_) {
      phase.previous = std::max<std::int64_t>(0, phase.previous - amount);
    }
  }
}

double CounterMirror::between(Instant at) const {
  const Phase& newest = phases_[(next_phase_ + kPhases - 1) % kPhases];
  const double left = nanoseconds(next_edge_ - at) / nanoseconds(window_);
  return static_cast<double>(newest.current) + static_cast<double>(newest.previous) +
         static_cast<double>(forgotten_) * std::clamp(left, 0.0, 1.0);
}

std::int64_t CounterMirror::estimate(Duration guard, Instant now) {
  const Instant at = move_to(guard, now);
  double most = between(at);
  for (const Phase& phase : phases_) {
    const double left = 1 + kDoubt - nanoseconds(at - phase.edge) / nanoseconds(window_);
    const double value = static_cast<double>(phase.current) +
                         static_cast<double>(phase.previous) * std::clamp(left, 0.0, 1.0);
    most = std::max(most, value);
  }
  const double whole = std::ceil(most + static_cast<double>(travelling_sum_) - 1e-6);
  return whole >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(whole);
}

Instant CounterMirror::falls_to(std::int64_t most, Duration guard, Instant now) {
  const Instant at = move_to(guard, now);
  most = std::max<std::int64_t>(most, 0);
  Instant latest = at;
  // The part of `older` that may be left is most - newer; it is reached when that part of the
  // window is still to come, and at its end the whole of `older` is forgotten.
  const auto reached = [&](Instant edge, std::int64_t newer, std::int64_t older) {
    const double part = static_cast<double>(most - newer) / static_cast<double>(older);
    const double wait = std::ceil((1 + kDoubt - part) * nanoseconds(window_)) + 1;
    return edge + std::min(window_, Duration(static_cast<std::int64_t>(std::min(wait, 9e18))));
  };
  for (const Phase& phase : phases_) {
    const std::int64_t current = saturating_add(phase.current, travelling_sum_);
    if (current > most) {
      latest = std::max(latest, reached(phase.edge + window_, 0, current));
    } else if (saturating_add(current, phase.previous) > most) {
      latest = std::max(latest, reached(phase.edge, current, phase.previous));
    }
  }
  if (between(at) + static_cast<double>(travelling_sum_) > static_cast<double>(most)) {
    latest = std::max(latest, next_edge_);
  }
  return latest <= at ? now : std::max(now, saturating_add(latest, guard));
}

}  // namespace weir::governor
