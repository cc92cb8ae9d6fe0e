// SPDX-License-Identifier: Apache-2.0
#include "governor/counter_mirror.h"

#include <algorithm>
#include <cmath>

#include "weir/units.h"

namespace weir::governor {
namespace {

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

Instant CounterMirror::move_to(Duration guard, Instant now) {
  // A guard that grows would turn the clock back; the windows wait for it instead.
  latest_ = std::max(latest_, now - guard);
  while (next_edge_ <= latest_) {
    Phase& phase = phases_[next_phase_];
    phase.edge = phase.edge + window_;
    phase.previous = phase.current;
    phase.current = 0;
    next_phase_ = (next_phase_ + 1) % kPhases;
    next_edge_ = phases_[next_phase_].edge + window_;
    // After a long silence nothing is left, so the windows in between need not be opened.
    if (next_phase_ == 0 && latest_ - next_edge_ > 3 * window_) {
      const Duration skipped = window_ * ((latest_ - next_edge_) / window_ - 1);
      for (Phase& each : phases_) each = {0, 0, each.edge + skipped};
      next_edge_ += skipped;
    }
  }
  return latest_;
}

void CounterMirror::add(std::int64_t amount, Duration guard, Instant now) {
  move_to(guard, now);
  for (Phase& phase : phases_) phase.current = saturating_add(phase.current, amount);
}

void CounterMirror::credit(Instant stamp, std::int64_t amount, Duration guard, Instant now) {
  move_to(guard, now);
  for (Phase& phase : phases_) {
    // Where a charge fell is known to within the guard; in doubt it stays.
    if (stamp >= phase.edge + guard) {
      phase.current = std::max<std::int64_t>(0, phase.current - amount);
    } else if (stamp < phase.edge && stamp >= phase.edge - window_ + guard) {
      phase.previous = std::max<std::int64_t>(0, phase.previous - amount);
    }
  }
}

std::int64_t CounterMirror::estimate(Duration guard, Instant now) {
  const Instant at = move_to(guard, now);
  double most = 0;
  for (const Phase& phase : phases_) {
    const double left = 1 - nanoseconds(at - phase.edge) / nanoseconds(window_);
    const double value = static_cast<double>(phase.current) +
                         static_cast<double>(phase.previous) * std::clamp(left, 0.0, 1.0);
    most = std::max(most, value);
  }
  const double whole = std::ceil(most - 1e-6);
  return whole >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(whole);
}

Instant CounterMirror::falls_to(std::int64_t most, Duration guard, Instant now) {
  const Instant at = move_to(guard, now);
  most = std::max<std::int64_t>(most, 0);
  Instant latest = at;
  // The part of `older` that may be left is most - newer; it is reached when that part of the
  // window is still to come.
  const auto reached = [&](Instant edge, std::int64_t newer, std::int64_t older) {
    const double part = static_cast<double>(most - newer) / static_cast<double>(older);
    const double wait = std::ceil((1 - part) * nanoseconds(window_)) + 1;
    return saturating_add(edge, Duration(static_cast<std::int64_t>(std::min(wait, 9e18))));
  };
  for (const Phase& phase : phases_) {
    if (phase.current > most) {
      latest = std::max(latest, reached(phase.edge + window_, 0, phase.current));
    } else if (saturating_add(phase.current, phase.previous) > most) {
      latest = std::max(latest, reached(phase.edge, phase.current, phase.previous));
    }
  }
  return latest <= at ? now : std::max(now, saturating_add(latest, guard));
}

}  // namespace weir::governor
