// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "weir/time.h"

namespace weir::governor {

/// What others have used of an account's limit, by what the provider's headers say is used there
/// and our own mirror does not know of.
///
/// One answer may lie: its headers may be some seconds old, or name another limit for once. So the
/// median of the last readings counts, and from one to the next it goes up faster than down. Where
/// it rises, it is carried on to now, for a reading is as old as the answer took to come. Without
/// news it is forgotten over a window: others' charges leave it too.
/// Units: of the rule. Source: control.md section 10.6. Threads: one owner.
class Others {
 public:
  /// `over`: used there beyond what we know of, as of `sent_at`; below zero: we count too much.
  void read(std::int64_t over, Instant sent_at, Instant now);
  [[nodiscard]] std::int64_t used(Duration window, Instant now) const;

 private:
  static constexpr std::size_t kReadings = 5;
  std::array<std::int64_t, kReadings> readings_{};
  std::size_t count_ = 0;
  double used_ = 0;
  double rise_ = 0;  // per nanosecond
  Instant as_of_ = kDawn;
  Instant read_at_ = kDawn;
};

}  // namespace weir::governor
