// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weir/time.h"

namespace weir::gateway {

/// Where the gateway reads time. The program gives the machine's clocks, tests give their own.
/// Threads: any.
class Clock {
 public:
  virtual ~Clock() = default;
  /// The monotonic clock, exact; the same scale as `http::Loop::now`.
  [[nodiscard]] virtual Instant now() const = 0;
  /// Calendar time, for expiry dates and dates in provider headers.
  [[nodiscard]] virtual WallTime wall() const = 0;
};

}  // namespace weir::gateway
