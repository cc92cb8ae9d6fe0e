// SPDX-License-Identifier: Apache-2.0
#include "net/event_loop.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "weir/rng.h"

namespace weir::net {
namespace {

using std::chrono::milliseconds;

struct Fired {
  EventLoop* loop;
  Instant at = kNever;
  int times = 0;
  static void fire(void* self) {
    auto* const fired = static_cast<Fired*>(self);
    fired->at = fired->loop->now();
    ++fired->times;
  }
};

/// Runs the loop until a timer of its own stops it.
void run_for(EventLoop& loop, Duration span) {
  struct Stop {
    static void fire(void* self) { static_cast<EventLoop*>(self)->stop(); }
  };
  Timer timer(loop, Stop::fire, &loop);
  timer.set(loop.now() + span);
  loop.run();
}

TEST(EventLoop, TimersFireOnceAndNotBeforeTheirTime) {
  auto loop = std::move(*EventLoop::create());
  Rng rng(1);
  const Instant start = loop->now();
  std::vector<std::unique_ptr<Fired>> fired;
  std::vector<std::unique_ptr<Timer>> timers;
  std::vector<Instant> due;
  for (int count = 0; count < 200; ++count) {
    fired.push_back(std::make_unique<Fired>(Fired{loop.get()}));
    timers.push_back(std::make_unique<Timer>(*loop, Fired::fire, fired.back().get()));
    timers.back()->set(start + milliseconds(rng.below(40)));
    // Later, earlier, or not at all: the last word holds.
    const std::uint64_t kind = rng.below(4);
    due.push_back(kind == 0 ? kNever : start + milliseconds(rng.below(40)));
    timers.back()->set(due.back());
    if (kind == 1) timers.back().reset();
  }
  run_for(*loop, milliseconds(60));
  for (std::size_t at = 0; at < timers.size(); ++at) {
    const bool armed = timers[at] != nullptr && due[at] != kNever;
    EXPECT_EQ(fired[at]->times, armed ? 1 : 0) << at;
    if (armed) {
      EXPECT_GE(fired[at]->at, due[at]) << at;
    }
  }
}

TEST(EventLoop, ATimerSetToThePastLetsTheTurnEnd) {
  auto loop = std::move(*EventLoop::create());
  struct Again {
    EventLoop* loop;
    Timer* timer = nullptr;
    int times = 0;
    static void fire(void* self) {
      auto* const again = static_cast<Again*>(self);
      if (++again->times == 5) {
        again->loop->stop();
      } else {
        again->timer->set(kDawn);
      }
    }
  };
  Again again{loop.get()};
  Timer timer(*loop, Again::fire, &again);
  again.timer = &timer;
  timer.set(kDawn);
  loop->run();
  EXPECT_EQ(again.times, 5);
}

TEST(EventLoop, DeferredWorkRunsBeforeWhatWasBuriedIsDestroyed) {
  auto loop = std::move(*EventLoop::create());
  std::string order;
  struct Buried final : Watcher, Deferred {
    explicit Buried(std::string& noted) : order(noted) {}
    ~Buried() override { order += "destroyed "; }
    void on_ready(std::uint32_t) override {}
    void run_deferred() override { order += "deferred "; }
    std::string& order;
  };
  auto buried = std::make_unique<Buried>(order);
  loop->defer(*buried);
  loop->defer(*buried);  // once is enough
  loop->bury(std::move(buried));
  EXPECT_EQ(order, "");
  loop->settle();
  EXPECT_EQ(order, "deferred destroyed ");
}

}  // namespace
}  // namespace weir::net
