// SPDX-License-Identifier: Apache-2.0
#include "load/driver.h"

#include <utility>

#include "load/call.h"

namespace weir::load {

Driver::Driver(const Workload& workload, Target target, http::Loop& loop,
               http::Connector& connector, Scheduler& scheduler, std::function<void()> done)
    : workload_(workload),
      target_(std::move(target)),
      loop_(loop),
      connector_(connector),
      scheduler_(scheduler),
      done_(std::move(done)),
      arrivals_(workload_),
      jitter_(workload.seed ^ 0x6a697474ULL) {}

Driver::~Driver() = default;

void Driver::start() {
  begun_ = loop_.now();
  schedule_next();
}

void Driver::schedule_next() {
  const auto arrival = arrivals_.next();
  if (!arrival) {
    all_arrived_ = true;
    finish_if_over();
    return;
  }
  scheduler_.at(begun_ + arrival->at, [this, arrival = *arrival] {
    arrive(arrival);
    schedule_next();
  });
}

void Driver::arrive(const Arrival& arrival) {
  if (static_cast<std::int64_t>(calls_.size()) >= workload_.in_flight) {
    CallRecord record;
    record.client = arrival.client;
    record.outcome = Outcome::not_sent;
    record.arrived = arrival.at;
    records_.push_back(record);
    return;
  }
  const auto placed = calls_.emplace(arrival.number, std::make_unique<Call>(*this, arrival)).first;
  placed->second->start();
}

void Driver::ended(std::uint64_t number, const CallRecord& record) {
  calls_.erase(number);
  records_.push_back(record);
  note_reason(records_.back());
  finish_if_over();
}

void Driver::note_reason(CallRecord& record) {
  if (record.outcome != Outcome::refused && record.outcome != Outcome::failed) return;
  constexpr std::size_t kMostReasons = 64;  // a server could make up a code for each call
  const std::pair<std::uint16_t, std::string> kind(record.status, record.code);
  if (reasons_.contains(kind)) {
    record.message.clear();
  } else if (reasons_.size() < kMostReasons) {
    reasons_.insert(kind);
  } else {
    record.code = "other";
    record.message.clear();
  }
}

void Driver::finish_if_over() {
  if (all_arrived_ && calls_.empty() && done_) std::exchange(done_, nullptr)();
}

}  // namespace weir::load
