// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "weir/ids.h"

namespace weir {

/// A granted or queued call that is cancelled when its handle is dropped unsettled.
///
/// `Canceller` is called with the CallId; it takes whatever lock guards the governor, so the handle
/// itself lives outside the lock. Move-only; a moved-from handle holds nothing.
/// Errors: none; cancelling is idempotent. Threads: a handle has one owner at a time.
template <class Canceller>
class Reservation {
 public:
  Reservation() = default;
  Reservation(CallId call, Canceller canceller) : call_(call), canceller_(std::move(canceller)) {}
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  Reservation(Reservation&& other) noexcept
      : call_(std::exchange(other.call_, CallId{})), canceller_(std::move(other.canceller_)) {}
  Reservation& operator=(Reservation&& other) noexcept {
    if (this != &other) {
      drop();
      call_ = std::exchange(other.call_, CallId{});
      canceller_ = std::move(other.canceller_);
    }
    return *this;
  }
  ~Reservation() { drop(); }

  [[nodiscard]] CallId call() const { return call_; }
  [[nodiscard]] bool holds() const { return call_.valid(); }
  /// Gives the call up to whoever settles it; nothing is cancelled any more.
  CallId release() { return std::exchange(call_, CallId{}); }
  /// Cancels the call now; nothing is held afterwards.
  void drop() {
    if (call_.valid()) canceller_(std::exchange(call_, CallId{}));
  }

 private:
  CallId call_;
  Canceller canceller_{};
};

}  // namespace weir
