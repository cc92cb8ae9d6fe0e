// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "http/exchange.h"
#include "net/fd.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir::net {

class EventLoop;

/// Something with a socket on a loop. It is told of edges: a readiness that was not used up is not
/// told again. Destroyed only through `EventLoop::bury`, so that `this` outlives any callback.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// `events` as epoll gives them. May still come after the socket was closed in the same turn.
  virtual void on_ready(std::uint32_t events) = 0;
};

/// Work for the end of the current turn, when no callback is on the stack. Queued at most once.
class Deferred {
 public:
  virtual ~Deferred() = default;
  virtual void run_deferred() = 0;

 private:
  friend class EventLoop;
  bool queued_ = false;
};

/// A timer whose setting is a store in most cases: a later time than the one in the heap is only
/// noted, and put in place when the earlier one comes up. Fires at most once per `set`.
class Timer {
 public:
  using Fire = void (*)(void* owner);
  Timer(EventLoop& loop, Fire fire, void* owner) : loop_(loop), fire_(fire), owner_(owner) {}
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Fires once at `at` or up to a millisecond later; kNever disarms.
  void set(Instant at);

 private:
  friend class EventLoop;
  static constexpr std::size_t kOut = static_cast<std::size_t>(-1);
  EventLoop& loop_;
  Fire fire_;
  void* owner_;
  Instant due_ = kNever;     ///< when it shall fire
  Instant placed_ = kNever;  ///< its place in the heap, not after `due_`
  std::size_t index_ = kOut;
};

/// One thread's loop over epoll. Threads: the loop's, except `post` and `stop`.
///
/// A turn: wait, note the time, tell watchers, run posted tasks, fire timers, run deferred work,
/// destroy what was buried.
class EventLoop final : public http::Loop {
 public:
  static Result<std::unique_ptr<EventLoop>> create();
  ~EventLoop() override;

  [[nodiscard]] Instant now() const override { return now_; }
  void post(std::function<void()> task) override;

  /// Turns until `stop`. Afterwards `settle` runs what is left of deferred work.
  void run();
  void stop();
  /// Runs deferred work and destroys what was buried, until there is none.
  void settle();

  /// Tells `watcher` of edges on `fd` until it is closed. False if the kernel has no room.
  bool watch(int fd, Watcher& watcher);
  /// The same level-triggered and for reading only, for listeners; `exclusive`: one of the loops
  /// sharing the socket is woken.
  bool watch_listener(int fd, Watcher& watcher, bool exclusive);
  void unwatch(int fd);

  void defer(Deferred& work);
  /// Takes an object out of use; it is destroyed at the end of the turn.
  void bury(std::unique_ptr<Watcher> watcher);

  /// A buffer for one read, used and given up within one callback.
  [[nodiscard]] std::array<char, std::size_t{64} << 10U>& scratch() { return *scratch_; }

 private:
  friend class Timer;
  EventLoop();
  void turn();
  void run_posted();
  void run_timers();
  [[nodiscard]] int wait_ms() const;
  void place(std::size_t index, Timer* timer);
  void sift_up(std::size_t index);
  void sift_down(std::size_t index);
  void push(Timer& timer);
  void remove(Timer& timer);

  Fd epoll_;
  Fd wake_;
  Instant now_;
  bool stopping_ = false;
  std::vector<Timer*> heap_;
  std::vector<Deferred*> deferred_;
  std::vector<Deferred*> running_;
  std::vector<std::unique_ptr<Watcher>> buried_;
  std::unique_ptr<std::array<char, std::size_t{64} << 10U>> scratch_;

  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;
  std::atomic<bool> woken_ = false;
};

}  // namespace weir::net
