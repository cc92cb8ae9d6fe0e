// SPDX-License-Identifier: Apache-2.0
#include "net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "net/runtime.h"

namespace weir::net {

Instant monotonic_now() {
  return Instant(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

Timer::~Timer() { loop_.remove(*this); }

void Timer::set(Instant at) {
  due_ = at;
  if (at == kNever || (index_ != kOut && placed_ <= at)) return;
  // Never in the turn that sets it, so that a timer set to the past cannot keep a turn for itself.
  placed_ = std::max(at, loop_.now_ + Duration(1));
  if (index_ == kOut) {
    loop_.push(*this);
  } else {
    loop_.sift_up(index_);
  }
}

EventLoop::EventLoop()
    : now_(monotonic_now()),
      scratch_(std::make_unique<std::array<char, std::size_t{64} << 10U>>()) {}

EventLoop::~EventLoop() { settle(); }

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  std::unique_ptr<EventLoop> loop(new EventLoop());
  loop->epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  loop->wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = nullptr;
  if (!loop->epoll_.valid() || !loop->wake_.valid() ||
      ::epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->wake_.get(), &event) != 0) {
    return fail(ErrorCode::io, std::string("cannot make an event loop: ") + std::strerror(errno));
  }
  return loop;
}

void EventLoop::post(std::function<void()> task) {
  {
    const std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(task));
  }
  if (!woken_.exchange(true)) {
    const std::uint64_t one = 1;
    // The counter cannot overflow: it is written only when it was taken back.
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
  }
}

void EventLoop::stop() {
  post([this] { stopping_ = true; });
}

void EventLoop::run() {
  while (!stopping_) turn();
}

void EventLoop::turn() {
  // Writes wait for the turn's end, so a turn is kept short: 64 events take about a millisecond.
  std::array<epoll_event, 64> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
  now_ = monotonic_now();
  bool woken = false;
  for (int at = 0; at < count; ++at) {
    const epoll_event& event = events[static_cast<std::size_t>(at)];
    if (event.data.ptr == nullptr) {
      woken = true;
    } else {
      static_cast<Watcher*>(event.data.ptr)->on_ready(event.events);
    }
  }
  if (woken) run_posted();
  run_timers();
  settle();
}

void EventLoop::run_posted() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(wake_.get(), &count, sizeof count);
  woken_.store(false);
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(posted_mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks) task();
}

void EventLoop::run_timers() {
  while (!heap_.empty() && heap_.front()->placed_ <= now_) {
    Timer& timer = *heap_.front();
    remove(timer);
    if (timer.due_ <= now_) {
      timer.due_ = kNever;
      timer.fire_(timer.owner_);
    } else if (timer.due_ != kNever) {
      timer.placed_ = timer.due_;
      push(timer);
    }
  }
}

void EventLoop::settle() {
  while (!deferred_.empty() || !buried_.empty()) {
    running_.swap(deferred_);
    for (Deferred* work : running_) {
      work->queued_ = false;
      work->run_deferred();
    }
    running_.clear();
    if (!deferred_.empty()) continue;
    std::vector<std::unique_ptr<Watcher>> gone;
    gone.swap(buried_);
  }
}

int EventLoop::wait_ms() const {
  if (heap_.empty()) return -1;
  const Duration wait = saturating_sub(heap_.front()->placed_, now_);
  if (wait.count() <= 0) return 0;
  constexpr std::int64_t kLongest = 3'600'000;
  return static_cast<int>(std::min(kLongest, wait.count() / 1'000'000 + 1));
}

bool EventLoop::watch(int fd, Watcher& watcher) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &watcher;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool EventLoop::watch_listener(int fd, Watcher& watcher, bool exclusive) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (exclusive) event.events |= EPOLLEXCLUSIVE;
  event.data.ptr = &watcher;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void EventLoop::unwatch(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void EventLoop::defer(Deferred& work) {
  if (work.queued_) return;
  work.queued_ = true;
  deferred_.push_back(&work);
}

void EventLoop::bury(std::unique_ptr<Watcher> watcher) { buried_.push_back(std::move(watcher)); }

void EventLoop::place(std::size_t index, Timer* timer) {
  heap_[index] = timer;
  timer->index_ = index;
}

void EventLoop::sift_up(std::size_t index) {
  Timer* const timer = heap_[index];
  while (index > 0) {
    const std::size_t parent = (index - 1) / 2;
    if (heap_[parent]->placed_ <= timer->placed_) break;
    place(index, heap_[parent]);
    index = parent;
  }
  place(index, timer);
}

void EventLoop::sift_down(std::size_t index) {
  Timer* const timer = heap_[index];
  while (true) {
    std::size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1]->placed_ < heap_[child]->placed_) ++child;
    if (timer->placed_ <= heap_[child]->placed_) break;
    place(index, heap_[child]);
    index = child;
  }
  place(index, timer);
}

void EventLoop::push(Timer& timer) {
  heap_.push_back(&timer);
  sift_up(heap_.size() - 1);
}

void EventLoop::remove(Timer& timer) {
  const std::size_t index = timer.index_;
  if (index == Timer::kOut) return;
  timer.index_ = Timer::kOut;
  Timer* const last = heap_.back();
  heap_.pop_back();
  if (last == &timer) return;
  place(index, last);
  sift_up(index);
  sift_down(last->index_);
}

}  // namespace weir::net
