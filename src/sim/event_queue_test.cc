// SPDX-License-Identifier: Apache-2.0
#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "weir/rng.h"

namespace weir::sim {
namespace {

struct Event {
  Instant at;
  std::uint64_t number = 0;
  bool operator>(const Event& other) const {
    return at != other.at ? at > other.at : number > other.number;
  }
};

TEST(EventQueue, GivesOutByTimeAndThenByNumberWhateverLineAnEventCameBy) {
  EventQueue<Event> queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.next(), kNever);
  Rng rng(7);
  Instant now{};
  std::uint64_t number = 0;
  std::size_t inside = 0;
  for (int turn = 0; turn < 20'000; ++turn) {
    // Distances that repeat, so that many events share an instant; line 0 is not always sorted.
    const auto how = rng.below(4);
    const Instant at = now + Duration(static_cast<std::int64_t>(how < 3 ? 5 : rng.below(9)));
    if (how == 2) {
      queue.push({at, number++});
    } else {
      queue.push({at, number++}, how == 1 ? 1 : 0);
    }
    ++inside;
    if (inside < 50 && rng.below(3) > 0) continue;
    const Instant next = queue.next();
    const Event first = queue.pop();
    --inside;
    ASSERT_EQ(first.at, next);
    ASSERT_GE(first.at, now);
    now = first.at;
  }
  Event before = queue.pop();
  while (!queue.empty()) {
    const Event event = queue.pop();
    ASSERT_TRUE(event > before);
    before = event;
  }
}

}  // namespace
}  // namespace weir::sim
