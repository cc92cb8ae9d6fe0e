// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/ids.h"
#include "weir/time.h"
#include "weir/units.h"

namespace weir {

/// What became of a call: `x-weir-decision` for the ones that went, `gateway_decision` for those
/// that did not (interface.md §4).
enum class Decision : std::uint8_t {
  // answered by a provider
  admitted,
  queued,
  spilled,
  observed,
  // refused
  rejected_locally,
  queue_timeout,
  queue_full,
  never_fits,
  admitted_then_provider_rejected,
  admitted_then_provider_failed,
  backpressure,
  draining,
  not_allowed,
};
std::string_view name(Decision decision);

/// The one limit that decided: at which node or deployment, of which unit and window.
struct LimitRef {
  NodeId node;              ///< valid: a node's limit
  DeploymentId deployment;  ///< valid: a deployment's limit
  ClassId traffic_class;    ///< valid: a class's limit, depth or max_wait
  Unit unit = Unit::requests;
  Duration window{0};
  [[nodiscard]] bool any() const {
    return node.valid() || deployment.valid() || traffic_class.valid();
  }
};

/// What a call was expected to cost. Units: tokens.
struct Estimate {
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
};

/// A call that was refused, and all there is to say about it.
struct Refusal {
  Decision decision = Decision::rejected_locally;
  LimitRef limit;
  /// When the same call could start, as well as can be told; absent: never, or unknown.
  std::optional<Duration> retry_after;
  Duration queued{0};
  Estimate estimate;
  std::int32_t attempts = 0;
  /// never_fits: what the call asks of the limit, and the most that the limit lets pass at once.
  /// Units: of the limit.
  std::int64_t asked = 0;
  std::int64_t at_most = 0;
};

/// Leave to send: where, on what reservation.
struct Grant {
  DeploymentId deployment;
  Estimate reserved;
  Decision decision = Decision::admitted;
  Duration queued{0};
  std::int32_t attempt = 1;  ///< 1 for the first
  /// The cap per choice to send with the request, which had none; absent: send it as it is.
  std::optional<std::int64_t> propose_max_tokens;
  /// observe mode: what enforce would have done, and the limit that would have
  std::optional<Decision> would_have;
  std::optional<Duration> would_wait;  ///< until its limit had room; absent: not at all, or never
  LimitRef limit;                      ///< what it waited for longest, if it waited
};

}  // namespace weir
