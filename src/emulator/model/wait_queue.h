// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "emulator/model/provider_rules.h"
#include "weir/time.h"

namespace weir::emulator::model {

/// Which refusals an attempt may wait out at the provider.
enum class WaitsFor : std::uint8_t {
  growth,  ///< growth rules only
  any,     ///< every rule that will have room
};

/// A provider that lets attempts wait before it refuses them.
/// Source: help.aliyun.com model-studio/rate-limit, read 2026-11: `X-DashScope-Wait-Timeout: N`
/// lets a request that meets the growth limit wait up to N seconds, 3 to 120 advised.
struct WaitSettings {
  Duration longest{0};  ///< no attempt waits longer; 0: nothing waits
  WaitsFor what = WaitsFor::growth;
  std::int64_t depth = 10'000;  ///< what comes to a full queue takes its chance at once
};

/// Names an attempt that waits; 0 names none.
using WaitTicket = std::uint64_t;

/// The provider's queue in front of its rules: first in, first out. An attempt that does not fit,
/// or comes while others wait, waits for at most the smaller of what it asks for and
/// `WaitSettings::longest`, and is counted once: when it is admitted or refused.
///
/// Worked example (also a test): 1 request per second, sliding, waits of up to 3 s. Five come at
/// t = 0: the first passes, the others at 1 s, 2 s and 3 s, and the fifth is refused at 3 s.
/// Bound: `depth`. Threads: one owner. Time: `now` must not go back.
class WaitQueue {
 public:
  explicit WaitQueue(const WaitSettings& settings) : settings_(settings) {}

  struct Answer {
    WaitTicket ticket = 0;
    Admission admission;
  };
  /// Admitted, refused, or a ticket (then `admission` says what it would have been told at once).
  Answer submit(ProviderRules& rules, const AdmitRequest& request, Duration patience, Instant now);
  /// Appends the answers that fell due. Call it at `next()` and after any attempt has ended.
  void advance(ProviderRules& rules, Instant now, std::vector<Answer>& due);
  /// When to call `advance` again; kNever while nothing waits.
  [[nodiscard]] Instant next() const;
  /// The caller left; it is not counted.
  void cancel(WaitTicket ticket);
  [[nodiscard]] std::size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    AdmitRequest request;
    Instant until;
  };
  void drop(WaitTicket ticket);

  WaitSettings settings_;
  WaitTicket next_ticket_ = 1;
  std::map<WaitTicket, Waiting> waiting_;  ///< in the order in which they came
  std::set<std::pair<Instant, WaitTicket>> ends_;
  Instant look_again_ = kNever;  ///< when the first in line may fit
};

}  // namespace weir::emulator::model
