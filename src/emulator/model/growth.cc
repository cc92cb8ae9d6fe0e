// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/growth.h"

#include <algorithm>
#include <cmath>

#include "weir/rng.h"

namespace weir::emulator::model {
namespace {

constexpr Duration kKnots = std::chrono::minutes(1);
constexpr Duration kLongest = std::chrono::hours(24 * 7);

GrowthSettings cleaned(GrowthSettings settings) {
  settings.ratio = std::clamp(settings.ratio, 1.0, 1e6);
  settings.per = std::clamp(settings.per, Duration(std::chrono::milliseconds(1)), kLongest);
  settings.look_back = std::clamp(settings.look_back, settings.per, 2 * kLongest);
  settings.floor = std::max<std::int64_t>(settings.floor, 0);
  settings.wander = std::clamp(settings.wander, 0.0, 0.9);
  return settings;
}

/// Ten points a period, fewer where the look-back would need more than are kept.
Duration step_of(const GrowthSettings& settings) {
  const Duration most = (settings.look_back + settings.per) / GrowthMeter::kMaxSamples;
  return std::max({settings.per / 10, most, Duration(1)});
}

Rule rule_of(const GrowthSettings& settings) {
  return {settings.of,          settings.floor,     settings.per,
          Enforcement::sliding, Counting::realtime, std::nullopt};
}

}  // namespace

GrowthMeter::GrowthMeter(const GrowthSettings& settings, std::uint64_t seed, Instant now)
    : settings_(cleaned(settings)),
      seed_(seed),
      step_(step_of(settings_)),
      next_sample_(saturating_add(now, step_)),
      recent_(rule_of(settings_), Duration{0}, now) {}

void GrowthMeter::move_to(Instant now) {
  const Duration kept = settings_.look_back + settings_.per;
  // After a long silence every point of the grid would be zero.
  if (saturating_sub(now, next_sample_) > kept + 2 * settings_.per) {
    peaks_.clear();
    fresh_.clear();
    next_sample_ = saturating_add(now, step_);
    return;
  }
  for (; next_sample_ <= now; next_sample_ = saturating_add(next_sample_, step_)) {
    if (next_sample_ == kNever) break;
    const std::int64_t sum = recent_.used(next_sample_);
    if (sum > 0) fresh_.push_back({next_sample_, sum});
  }
  while (!fresh_.empty() && saturating_sub(now, fresh_.front().at) >= settings_.per) {
    const Sample one = fresh_.front();
    fresh_.pop_front();
    while (!peaks_.empty() && peaks_.back().sum <= one.sum) peaks_.pop_back();
    peaks_.push_back(one);
  }
  while (!peaks_.empty() && saturating_sub(now, peaks_.front().at) > settings_.look_back) {
    peaks_.pop_front();
  }
}

double GrowthMeter::wandered(Instant now) const {
  if (settings_.wander <= 0) return 1;
  const std::int64_t since = now.time_since_epoch().count();
  const std::int64_t knot = since / kKnots.count();
  const double share =
      static_cast<double>(since % kKnots.count()) / static_cast<double>(kKnots.count());
  const auto at_knot = [this](std::int64_t number) {
    return 2 * Rng(seed_ ^ (static_cast<std::uint64_t>(number) * 0x9e37ULL)).uniform() - 1;
  };
  const double drift = at_knot(knot) * (1 - share) + at_knot(knot + 1) * share;
  return 1 + settings_.wander * drift;
}

std::int64_t GrowthMeter::threshold(Instant now) {
  move_to(now);
  const double peak = peaks_.empty() ? 0 : static_cast<double>(peaks_.front().sum);
  const double most = std::max(static_cast<double>(settings_.floor), settings_.ratio * peak);
  const double value = std::floor(most * wandered(now) + 1e-9);
  return value >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(value);
}

Duration GrowthMeter::wait_for(std::int64_t amount, Instant now) {
  const std::int64_t most = threshold(now);
  Rule rule = recent_.rule();
  rule.amount = most;
  recent_.resize(rule, now);
  if (recent_.used(now) == 0 || recent_.has_room(amount, now)) return Duration{0};
  return recent_.never_fits(amount) ? recent_.time_to_empty(now) : recent_.wait_for(amount, now);
}

void GrowthMeter::add(std::int64_t amount, Instant now) {
  move_to(now);
  recent_.add(amount, now);
}

}  // namespace weir::emulator::model
