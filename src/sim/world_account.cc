// SPDX-License-Identifier: Apache-2.0
//
// What happens at the provider and on the way to it without the gateway's doing: limits change,
// somebody else uses the account, attempts wait in the provider's queue, refusals come late.
#include <algorithm>
#include <utility>

#include "sim/charges.h"
#include "sim/world.h"

namespace weir::sim {
namespace {

namespace model = emulator::model;

/// The other consumer's request as the checkers read it.
Arrival as_arrival(const model::OtherEvent& event) {
  Arrival arrival;
  arrival.input_tokens = event.input_tokens;
  arrival.output_tokens = event.output_tokens;
  arrival.max_output_tokens = event.max_output_tokens;
  return arrival;
}

}  // namespace

void World::step_limits(std::size_t step, Instant now) {
  const std::vector<Rule>& rules = scenario_.steps[step].rules;
  provider_.set_rules(rules, now);
  for (std::size_t rule = 0; rule < admitted_.size() && rule < rules.size(); ++rule) {
    admitted_[rule].set_limit(rules[rule].amount, now);
    offered_[rule].set_limit(rules[rule].amount, now);
  }
  if (queue_.size() > 0) advance_queue(now);
}

bool World::refused_on_the_way() {
  const double share = scenario_.refusals.stray;
  return share > 0 && refusals_.uniform() < share;
}

Duration World::refusal_way() {
  const Refusals& refusals = scenario_.refusals;
  if (refusals.delay.count() == 0 && refusals.jitter.count() == 0) return Duration{0};
  const double spread = static_cast<double>(refusals.jitter.count());
  return refusals.delay + Duration(static_cast<std::int64_t>(refusals_.uniform() * spread));
}

void World::let_others_come(Instant now) {
  const std::int64_t most = scenario_.provider.default_max_output;
  other_.advance(provider_, now, [&](const model::OtherEvent& event) {
    const Arrival arrival = as_arrival(event);
    for (std::size_t rule = 0; rule < admitted_.size(); ++rule) {
      WindowChecker& window = admitted_[rule];
      const std::int64_t at_door = door_charge(window.rule(), arrival, most);
      if (event.kind == model::OtherEvent::Kind::ended) {
        const std::int64_t rest =
            end_charge(window.rule(), arrival, most, event.input_tokens, event.output_tokens);
        if (rest > 0) window.charge(rest, event.at, WindowChecker::Whose::others);
        if (rest < 0 && window.rule().count == Counting::reserve_refund) {
          window.give_back(-rest, event.admitted_at, event.at);
        }
        continue;
      }
      const bool admitted = event.kind == model::OtherEvent::Kind::admitted;
      if (admitted && at_door > 0) {
        window.charge(at_door, event.at, WindowChecker::Whose::others);
      }
      if (window.rule().unit == Unit::requests) offered_[rule].charge(at_door, event.at);
    }
  });
  if (other_.next() != kNever) schedule(other_.next(), Kind::other, 0);
}

void World::advance_queue(Instant now) {
  queue_look_ = kNever;
  std::vector<model::WaitQueue::Answer> due;
  queue_.advance(provider_, now, due);
  for (const model::WaitQueue::Answer& one : due) {
    const auto found = queued_.find(one.ticket);
    const std::uint32_t index = found->second;
    queued_.erase(found);
    calls_[index].ticket = 0;
    // The answer's times count from here.
    calls_[index].reached = now;
    answer_at_door(index, one.admission, now);
  }
  schedule_queue(now);
}

void World::schedule_queue(Instant now) {
  if (queue_.next() == kNever) {
    queue_look_ = kNever;
    return;
  }
  const Instant next = std::max(queue_.next(), now);
  if (next == queue_look_) return;
  queue_look_ = next;
  schedule(next, Kind::queue, 0);
}

}  // namespace weir::sim
