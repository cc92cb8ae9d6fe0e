// SPDX-License-Identifier: Apache-2.0
#include "sim/port.h"

#include <utility>

namespace weir::sim {

DirectPort::DirectPort(std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant now)
    : governor_(std::move(policy), seed, now) {}

governor::Outcome DirectPort::submit(const Call& call, Instant now) {
  return governor_.submit(call, now);
}
bool DirectPort::advance(Instant now, std::vector<governor::Event>& events) {
  return governor_.advance(now, events);
}
Instant DirectPort::next_deadline() const { return governor_.next_deadline(); }
void DirectPort::sent(CallId call, Instant /*granted*/, Instant now) { governor_.sent(call, now); }
void DirectPort::progress(CallId call, std::int64_t output_events, Instant now) {
  governor_.progress(call, output_events, now);
}
void DirectPort::signal(DeploymentId deployment, const Signal& signal, Instant now) {
  governor_.signal(deployment, signal, now);
}
governor::Verdict DirectPort::rejected(CallId call, const Signal& signal, bool replayable,
                                       Instant now) {
  return governor_.rejected(call, signal, replayable, now);
}
governor::Settled DirectPort::settle(CallId call, const Settlement& settlement, Instant now) {
  return governor_.settle(call, settlement, now);
}
void DirectPort::cancel(CallId call, Instant now) { governor_.cancel(call, now); }
void DirectPort::snapshot(governor::Snapshot& into, Instant now) const {
  governor_.snapshot(into, now);
}

Memory DirectPort::remember(Instant now) const {
  Memory memory;
  MemoryCursor at;
  while (governor_.remember(memory, at, now)) {
  }
  return memory;
}
void DirectPort::recall(const Memory& memory, const MemoryAge& age, Instant now) {
  governor_.recall(memory, age, now);
}

MakePort direct_port() {
  return [](std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant now) {
    return std::make_unique<DirectPort>(std::move(policy), seed, now);
  };
}

}  // namespace weir::sim
