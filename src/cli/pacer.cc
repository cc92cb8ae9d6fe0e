// SPDX-License-Identifier: Apache-2.0
#include "cli/pacer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "net/runtime.h"

namespace weir::cli {

Result<std::unique_ptr<Pacer>> Pacer::start(Work work, Lateness lateness) {
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  if (timer < 0) {
    return fail(ErrorCode::io, std::string("no timer descriptor: ") + std::strerror(errno));
  }
  return std::unique_ptr<Pacer>(new Pacer(timer, std::move(work), std::move(lateness)));
}

Pacer::Pacer(int timer, Work work, Lateness lateness)
    : timer_(timer),
      work_(std::move(work)),
      lateness_(std::move(lateness)),
      thread_([this] { run(); }) {}

Pacer::~Pacer() {
  stopping_.store(true);
  wake(kDawn);
  thread_.join();
  close(timer_);
}

void Pacer::wake(Instant at) {
  const std::lock_guard lock(mutex_);
  if (at >= armed_) return;
  armed_ = at;
  set_timer(at);
}

void Pacer::set_timer(Instant at) {
  // A timer of zero would disarm it, so what is due already is due in a nanosecond's time.
  const std::int64_t at_ns = std::max<std::int64_t>(1, at.time_since_epoch().count());
  itimerspec spec{};
  spec.it_value.tv_sec = at_ns / 1'000'000'000;
  spec.it_value.tv_nsec = at_ns % 1'000'000'000;
  // It fails only for a bad descriptor or value, neither of which can be here.
  timerfd_settime(timer_, TFD_TIMER_ABSTIME, &spec, nullptr);
}

void Pacer::run() {
  while (true) {
    std::uint64_t expirations = 0;
    if (read(timer_, &expirations, sizeof expirations) < 0 && errno != EINTR) return;
    if (stopping_.load()) return;
    Instant armed = kNever;
    {
      const std::lock_guard lock(mutex_);
      std::swap(armed, armed_);
    }
    const Instant now = net::monotonic_now();
    if (armed != kNever) lateness_(std::max(Duration::zero(), saturating_sub(now, armed)));
    const Instant next = work_(now);
    if (next != kNever) wake(next);
  }
}

}  // namespace weir::cli
