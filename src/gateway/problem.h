// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "weir/decision.h"
#include "weir/result.h"

namespace weir::gateway {

/// Every way in which the gateway itself answers instead of a provider.
enum class Problem : std::uint8_t {
  // the request
  malformed,
  unknown_class,
  unauthorized,
  model_not_allowed,
  model_not_found,
  unknown_path,
  method_not_allowed,
  too_large,
  unsupported_encoding,
  upgrade_unsupported,
  not_built,
  too_slow,
  target_too_long,
  expectation_failed,
  head_too_large,
  version_unsupported,
  // the governor's decisions
  rejected_locally,
  queue_timeout,
  queue_full,
  never_fits,
  backpressure,
  draining,
  not_allowed,
  // the provider
  provider_rejected,
  provider_quota,
  provider_failed,
  provider_timed_out,
  provider_key_refused,
  stream_broken,
  // ourselves
  internal,
};
inline constexpr std::array kAllProblems = {Problem::malformed,
                                            Problem::unknown_class,
                                            Problem::unauthorized,
                                            Problem::model_not_allowed,
                                            Problem::model_not_found,
                                            Problem::unknown_path,
                                            Problem::method_not_allowed,
                                            Problem::too_large,
                                            Problem::unsupported_encoding,
                                            Problem::upgrade_unsupported,
                                            Problem::not_built,
                                            Problem::too_slow,
                                            Problem::target_too_long,
                                            Problem::expectation_failed,
                                            Problem::head_too_large,
                                            Problem::version_unsupported,
                                            Problem::rejected_locally,
                                            Problem::queue_timeout,
                                            Problem::queue_full,
                                            Problem::never_fits,
                                            Problem::backpressure,
                                            Problem::draining,
                                            Problem::not_allowed,
                                            Problem::provider_rejected,
                                            Problem::provider_quota,
                                            Problem::provider_failed,
                                            Problem::provider_timed_out,
                                            Problem::provider_key_refused,
                                            Problem::stream_broken,
                                            Problem::internal};

/// One row of the table that maps problems to HTTP.
struct ProblemRow {
  std::uint16_t status = 500;  ///< 0: the provider's own status
  std::string_view type;       ///< error.type
  std::string_view code;       ///< error.code
  std::string_view decision;   ///< error.gateway_decision; empty: null
  bool retry_hint = false;     ///< carries Retry-After and retry-after-ms
  bool final = false;          ///< carries `x-should-retry: false`
  std::string_view meaning;    ///< for the reference page
  std::string_view remedy;     ///< for the reference page
};

/// The table. Exhaustive: a problem without a row does not compile.
const ProblemRow& row(Problem problem);

/// The problem that a refusal of the governor is. Answered decisions map to `internal`.
Problem problem_of(Decision decision);
/// The problem that an error is, where it stopped a request.
Problem problem_of(ErrorCode code);
/// The problem that the server's own refusal with `status` is.
Problem problem_of_status(std::uint16_t status);

/// The reference page docs/reference/errors.md, made from the table.
std::string errors_markdown();

}  // namespace weir::gateway
