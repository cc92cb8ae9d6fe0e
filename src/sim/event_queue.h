// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "weir/time.h"

namespace weir::sim {

/// Events of virtual time, the earliest first, those of one instant in the order of their numbers.
/// `E` has `at`, `number` and an operator> by both.
///
/// Most events of a run come at one fixed distance from the present: the next look at a stream, the
/// next report of it. Such a series is sorted as it is made, so it stands in a line of its own and
/// costs nothing, where a heap would sink each through all others. A line that is not sorted after
/// all loses nothing but that: what would stand before its end goes to the heap.
/// Threads: one owner.
template <class E>
class EventQueue {
 public:
  static constexpr std::size_t kLines = 2;

  void push(const E& event) { heap_.push(event); }
  /// `line`: < kLines, of the events that are made with the same distance.
  void push(const E& event, std::size_t line) {
    std::deque<E>& events = lines_[line];
    if (!events.empty() && events.back() > event) {
      heap_.push(event);
    } else {
      events.push_back(event);
    }
  }

  [[nodiscard]] bool empty() const {
    for (const std::deque<E>& line : lines_) {
      if (!line.empty()) return false;
    }
    return heap_.empty();
  }
  /// When the earliest comes; kNever without any.
  [[nodiscard]] Instant next() const {
    Instant at = heap_.empty() ? kNever : heap_.top().at;
    for (const std::deque<E>& line : lines_) {
      if (!line.empty() && line.front().at < at) at = line.front().at;
    }
    return at;
  }
  /// Takes the earliest; there must be one.
  E pop() {
    std::deque<E>* from = nullptr;
    for (std::deque<E>& line : lines_) {
      if (line.empty() || (from != nullptr && line.front() > from->front())) continue;
      from = &line;
    }
    if (from == nullptr || (!heap_.empty() && from->front() > heap_.top())) {
      const E event = heap_.top();
      heap_.pop();
      return event;
    }
    const E event = from->front();
    from->pop_front();
    return event;
  }

 private:
  std::priority_queue<E, std::vector<E>, std::greater<>> heap_;
  std::array<std::deque<E>, kLines> lines_;
};

}  // namespace weir::sim
