// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/workload.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir::sim {

/// What the oracle makes of one request.
struct OracleStart {
  std::optional<Instant> at;  ///< absent: it gave up waiting, or never fits
};

/// Clairvoyant first-in-first-out: it knows every length and the provider's state, has no network
/// between, charges a request's whole cost at its start, and starts each request at the first
/// instant, not before the one ahead of it, at which every rule holds:
///   sliding, fixed, unknown  sum of the charges in (t - W, t] <= L at every instant t
///   bucket                   the level, full at the start, covers the cost
///   concurrency              fewer than L are running; a request runs for `running` of it
/// Fixed windows are held to the sliding sum too: otherwise the oracle would be paid for sending
/// 2L across a boundary. Output the provider charges later is charged at the start here, which
/// keeps the sum and moves it. Example: L = 2 per 60 s and arrivals at 0, 1, 2 s start at 0, 1, 60.
///
/// A request whose start would come more than `max_wait` after its arrival leaves the line; those
/// behind it do not start before it would have.
/// O(n) for n requests.
std::vector<OracleStart> clairvoyant_fifo(const std::vector<Arrival>& arrivals,
                                          const std::vector<Rule>& rules, Duration max_wait,
                                          const std::vector<Duration>& running);

/// The same, but any of the first `ahead` that wait may start while those before it do not fit:
/// first fit in their order. No request is pinned, so this is what a packer could use at most and
/// not what one should do to a large request. O(n * ahead * log n).
std::vector<OracleStart> clairvoyant_backfill(const std::vector<Arrival>& arrivals,
                                              const std::vector<Rule>& rules, Duration max_wait,
                                              const std::vector<Duration>& running,
                                              std::size_t ahead);

/// What a request costs a rule over its whole life.
std::int64_t whole_cost(const Rule& rule, const Arrival& arrival);

/// `charged` in a time of `span` as a share of what the rule lets through in it; 0 for concurrency.
double share_of_limit(const Rule& rule, double charged, Duration span);

}  // namespace weir::sim
