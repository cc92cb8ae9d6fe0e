// SPDX-License-Identifier: Apache-2.0
#include "governor/growth.h"

#include <algorithm>
#include <cmath>

namespace weir::governor {
namespace {

constexpr std::int64_t kSteps = 10;
constexpr std::int64_t kMostSamples = 4096;
constexpr double kBelowRefused = 0.95;
constexpr double kPartLeast = 0.05;
constexpr Duration kLongest = std::chrono::hours(24 * 31);
constexpr Duration kGivenBack = std::chrono::hours(4);

double nanoseconds(Duration duration) { return static_cast<double>(duration.count()); }

GrowthRule cleaned(GrowthRule rule) {
  rule.ratio = std::clamp(rule.ratio, 1.0, 1e6);
  rule.per = std::clamp(rule.per, Duration(std::chrono::milliseconds(1)), kLongest);
  rule.look_back = std::clamp(rule.look_back, rule.per, 2 * kLongest);
  rule.floor = std::max<std::int64_t>(rule.floor, 0);
  return rule;
}

}  // namespace

GrowthLimit::GrowthLimit(const GrowthRule& rule) : rule_(cleaned(rule)) {}

Duration GrowthLimit::step() const {
  return std::max({rule_.per / kSteps, (rule_.look_back + rule_.per) / kMostSamples, Duration{1}});
}

void GrowthLimit::tell(const GrowthRule& rule) {
  const GrowthRule wanted = cleaned(rule);
  if (wanted == rule_) return;
  rule_ = wanted;
  floor_part_ = ratio_part_ = 1;
}

void GrowthLimit::follow(WindowMeter& log, Duration guard, Instant now) {
  const Duration kept = rule_.look_back + rule_.per;
  if (next_ == kDawn || saturating_sub(now, next_) > kept + rule_.per) {
    fresh_.clear();
    peaks_.clear();
    last_ = 0;
    next_ = saturating_add(now, step());
  }
  for (; next_ <= now; next_ = saturating_add(next_, step())) {
    log.expire(next_, guard);
    // The provider looks at instants of its own: what both of ours saw, it saw between them.
    const std::int64_t sure = std::min(log.sum(), last_);
    last_ = log.sum();
    if (sure > 0) fresh_.push_back({next_, sure});
    if (next_ == kNever) break;
  }
  while (!fresh_.empty() && saturating_sub(now, fresh_.front().at) >= rule_.per + step() + guard) {
    const Sample one = fresh_.front();
    fresh_.pop_front();
    while (!peaks_.empty() && peaks_.back().sum <= one.sum) peaks_.pop_back();
    peaks_.push_back(one);
  }
  while (!peaks_.empty() && saturating_sub(now, peaks_.front().at) > rule_.look_back) {
    peaks_.pop_front();
  }
  if (refused_at_ != kDawn && now > refused_at_) {
    const double back = nanoseconds(now - refused_at_) / nanoseconds(kGivenBack);
    refused_at_ = now;
    floor_part_ = std::min(1.0, floor_part_ + back);
    ratio_part_ = std::min(1.0, ratio_part_ + back);
  }
}

std::int64_t GrowthLimit::most(Duration guard) const {
  const double sure = nanoseconds(rule_.per) / nanoseconds(rule_.per + guard);
  const double peak = peaks_.empty() ? 0 : static_cast<double>(peaks_.front().sum) * sure;
  const double ratio = 1 + (rule_.ratio - 1) * ratio_part_;
  const double value =
      std::max(static_cast<double>(rule_.floor) * floor_part_, std::floor(ratio * peak));
  return value >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(value);
}

std::optional<RememberedGrowth> GrowthLimit::remember(Instant now) const {
  if (floor_part_ >= 1 && ratio_part_ >= 1) return std::nullopt;
  RememberedGrowth growth{floor_part_, ratio_part_, kForever};
  if (refused_at_ != kDawn) growth.refused_ago = saturating_sub(now, refused_at_);
  return growth;
}

void GrowthLimit::recall(const RememberedGrowth& growth, Duration age, Instant now) {
  const auto part = [](double value) {
    return value >= kPartLeast && value < 1 ? value : value < kPartLeast ? kPartLeast : 1.0;
  };
  floor_part_ = part(growth.floor_part);
  ratio_part_ = part(growth.ratio_part);
  // From here on a part of it comes back with time.
  const Duration ago = growth.refused_ago == kForever ? Duration{0} : growth.refused_ago;
  refused_at_ = saturating_add(saturating_add(now, -std::max(ago, Duration{0})), -age);
}

void GrowthLimit::refused(std::int64_t sum, Duration guard, Instant now) {
  refused_at_ = now;
  const double wanted = kBelowRefused * static_cast<double>(std::max<std::int64_t>(sum - 1, 1));
  if (static_cast<double>(most(guard)) <= wanted) return;
  const double sure = nanoseconds(rule_.per) / nanoseconds(rule_.per + guard);
  const double peak = peaks_.empty() ? 0 : static_cast<double>(peaks_.front().sum) * sure;
  const double floor = static_cast<double>(rule_.floor);
  if (floor * floor_part_ > wanted) {
    floor_part_ = std::clamp(wanted / std::max(floor, 1.0), kPartLeast, 1.0);
  }
  const double over = rule_.ratio - 1;
  if (peak > 0 && over > 0 && peak * (1 + over * ratio_part_) > wanted) {
    ratio_part_ = std::clamp((wanted / peak - 1) / over, kPartLeast, 1.0);
  }
}

}  // namespace weir::governor
