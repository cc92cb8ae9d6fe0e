// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/wait_queue.h"

#include <algorithm>

namespace weir::emulator::model {
namespace {

/// Where a rule cannot say when it has room, as concurrency cannot.
constexpr Duration kLookAgain = std::chrono::milliseconds(50);

Instant when(const Admission& refused, Instant now) {
  const Duration wait = refused.retry_after.value_or(kLookAgain);
  return saturating_add(now, std::max(wait, Duration(1)));
}

}  // namespace

WaitQueue::Answer WaitQueue::submit(ProviderRules& rules, const AdmitRequest& request,
                                    Duration patience, Instant now) {
  patience = std::min(patience, settings_.longest);
  Admission looked;
  if (waiting_.empty()) looked = rules.look(request, now);
  const bool may_wait = patience > Duration{0} && !looked.never_fits &&
                        static_cast<std::int64_t>(waiting_.size()) < settings_.depth &&
                        (settings_.what == WaitsFor::any || !waiting_.empty() || looked.growth);
  if (looked.admitted || !may_wait) return {0, rules.admit(request, now)};
  const WaitTicket ticket = next_ticket_++;
  if (waiting_.empty()) look_again_ = when(looked, now);
  const Instant until = saturating_add(now, patience);
  waiting_.emplace(ticket, Waiting{request, until});
  ends_.emplace(until, ticket);
  return {ticket, looked};
}

void WaitQueue::advance(ProviderRules& rules, Instant now, std::vector<Answer>& due) {
  look_again_ = kNever;
  while (!waiting_.empty()) {
    const auto& [ticket, first] = *waiting_.begin();
    const Admission looked = rules.look(first.request, now);
    // What came to a line for growth may meet a limit by now, which it may not wait out.
    const bool waits_on = settings_.what == WaitsFor::any || looked.growth;
    if (!looked.admitted && waits_on && now < first.until && !looked.never_fits) {
      look_again_ = when(looked, now);
      break;
    }
    due.push_back({ticket, rules.admit(first.request, now)});
    drop(ticket);
  }
  while (!ends_.empty() && ends_.begin()->first <= now) {
    const WaitTicket ticket = ends_.begin()->second;
    due.push_back({ticket, rules.admit(waiting_.at(ticket).request, now)});
    drop(ticket);
  }
}

Instant WaitQueue::next() const {
  if (ends_.empty()) return kNever;
  return std::min(look_again_, ends_.begin()->first);
}

void WaitQueue::cancel(WaitTicket ticket) {
  if (!waiting_.contains(ticket)) return;
  if (waiting_.begin()->first == ticket) look_again_ = kDawn;
  drop(ticket);
}

void WaitQueue::drop(WaitTicket ticket) {
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return;
  ends_.erase({found->second.until, ticket});
  waiting_.erase(found);
}

}  // namespace weir::emulator::model
