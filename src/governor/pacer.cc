// SPDX-License-Identifier: Apache-2.0
#include "governor/pacer.h"

#include <algorithm>
#include <cmath>

namespace weir::governor {
namespace {

double nanoseconds(Duration duration) { return static_cast<double>(duration.count()); }

}  // namespace

double Slope::share(Instant at) const {
  if (warmup <= Duration{0}) return 1;
  const double passed = nanoseconds(saturating_sub(at, start)) / nanoseconds(warmup);
  return std::clamp(passed, 0.0, 1.0);
}

double Slope::work(Instant from, Instant to) const {
  if (to <= from) return 0;
  if (warmup <= Duration{0}) return per_ns * nanoseconds(saturating_sub(to, from));
  const Instant warm = saturating_add(start, warmup);
  const Instant ramp_from = std::clamp(from, start, warm);
  const Instant ramp_to = std::clamp(to, start, warm);
  double sum = per_ns * nanoseconds(saturating_sub(ramp_to, ramp_from)) *
               (share(ramp_from) + share(ramp_to)) / 2;
  if (to > warm) sum += per_ns * nanoseconds(saturating_sub(to, std::max(from, warm)));
  return sum;
}

Instant Slope::reach(Instant from, double amount) const {
  if (amount <= 0) return from;
  if (per_ns <= 0) return kNever;
  double wait = 0;
  Instant base = from;
  if (warmup > Duration{0} && share(from) < 1) {
    base = std::max(from, start);
    // The work since the start grows with the square of the time, so the time is its root.
    const double span = nanoseconds(warmup);
    const double begun = share(base) * span;
    const double until = std::sqrt(begun * begun + 2 * span * amount / per_ns);
    if (until <= span) {
      wait = until - begun;
    } else {
      const double ramp = per_ns * (span - begun) * (1 + begun / span) / 2;
      wait = (span - begun) + (amount - ramp) / per_ns;
    }
  } else {
    wait = amount / per_ns;
  }
  if (!(wait < 9e18)) return kNever;
  return saturating_add(base, Duration(static_cast<std::int64_t>(std::ceil(wait))));
}

double Pacer::debt(const Slope& slope, Instant now) const {
  return std::max(0.0, debt_ - slope.work(at_, now));
}

void Pacer::charge(double amount, const Slope& slope, Instant now) {
  correct(std::max(0.0, amount), slope, now);
}

void Pacer::correct(double delta, const Slope& slope, Instant now) {
  debt_ = std::max(0.0, debt(slope, now) + delta);
  at_ = std::max(at_, now);
}

void Pacer::raise(double amount, const Slope& slope, Instant at) {
  debt_ = std::max(amount, debt(slope, at));
  at_ = std::max(at_, at);
}

void Pacer::rescale(double factor, const Slope& before, Instant now) {
  debt_ = debt(before, now) * std::clamp(factor, 0.0, 1.0);
  at_ = std::max(at_, now);
}

Instant Pacer::falls_to(double level, const Slope& slope, Instant now) const {
  const Instant from = std::max(at_, now);
  const double excess = debt(slope, from) - level;
  if (excess <= kSlack) return now >= at_ || debt_ <= level + kSlack ? now : at_;
  return slope.reach(from, excess);
}

}  // namespace weir::governor
