// SPDX-License-Identifier: Apache-2.0
#include "governor/others.h"

#include <algorithm>
#include <cmath>

namespace weir::governor {
namespace {

constexpr double kUp = 0.5;
constexpr double kDown = 0.2;
constexpr double kDeviations = 5;
constexpr Duration kLeastAge = std::chrono::milliseconds(500);
constexpr Duration kOld = std::chrono::seconds(2);
constexpr double kRiseWeight = 0.05;
// How far a rise is carried on.
constexpr Duration kCarried = std::chrono::seconds(2);

double nanoseconds(Duration duration) { return static_cast<double>(duration.count()); }

}  // namespace

void Others::read(std::int64_t over, Instant sent_at, Instant now) {
  // After a silence there is nothing to be steady about.
  const bool anew = read_at_ == kDawn || saturating_sub(now, read_at_) > kOld;
  if (anew) {
    count_ = 0;
    rise_ = 0;
  }
  readings_[count_++ % kReadings] = over;
  std::array<std::int64_t, kReadings> sorted = readings_;
  const std::size_t known = std::min(count_, kReadings);
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(known / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(known));
  const double median = std::max(0.0, static_cast<double>(*middle));
  const double before = used_;
  used_ += (median - used_) * (anew ? 1 : median > used_ ? kUp : kDown);
  if (!anew && sent_at > as_of_) {
    const double rise = (used_ - before) / nanoseconds(saturating_sub(sent_at, as_of_));
    rise_ += (rise - rise_) * kRiseWeight;
  }
  as_of_ = std::max(as_of_, sent_at);
  read_at_ = now;
}

std::int64_t Others::used(Duration window, Instant now) const {
  if (used_ <= 0 || window <= Duration{0}) return 0;
  const Duration age = saturating_sub(now, as_of_);
  const double carried = std::max(0.0, rise_) * nanoseconds(std::min(age, kCarried));
  const double silent = nanoseconds(saturating_sub(now, read_at_)) / nanoseconds(window);
  const double left = std::clamp(1.25 - silent, 0.0, 1.0);
  // What comes of them meanwhile comes at random.
  const double unheard = nanoseconds(std::max(age, kLeastAge)) / nanoseconds(window);
  const double chance = kDeviations * std::sqrt(used_ * std::min(unheard, 1.0));
  return static_cast<std::int64_t>(std::min((used_ + carried + chance) * left, 9e18));
}

}  // namespace weir::governor
