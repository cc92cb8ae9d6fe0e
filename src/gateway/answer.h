// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/problem.h"
#include "weir/governor.h"
#include "weir/rng.h"
#include "weir/time.h"

namespace weir::gateway {

/// More than this is never said in a Retry-After.
inline constexpr std::int64_t kMaxHintSeconds = 59;

/// All that an error answer says. Empty members become null. Views live until it is written.
struct ErrorAnswer {
  Problem problem = Problem::internal;
  DeploymentId deployment;            ///< whose limit refused; invalid: the call's own, if any
  std::uint16_t provider_status = 0;  ///< the status where the table says "the provider's"
  std::string_view decision;          ///< x-weir-decision; empty: refused
  std::string_view message;
  std::string_view param;
  std::string_view limiter;
  std::string_view limited_by;
  std::string_view provider;
  std::string_view model_profile;
  std::string_view provider_model;
  std::string_view tenant_id;
  std::string_view api_key_id;
  std::string_view request_class;
  std::string_view trace_id;
  std::string_view provider_scope;  ///< one valid JSON value
  std::string_view provider_error;  ///< one valid JSON value
  std::string_view allow;           ///< the Allow header of a 405
  std::optional<Duration> retry_after;
  const governor::CallerLimits* limits = nullptr;  ///< the caller's own; null: nobody is known
  std::optional<std::int64_t> estimated_input_tokens;
  std::optional<std::int64_t> estimated_output_tokens;
};

/// The status the answer goes out with.
std::uint16_t status_of(const ErrorAnswer& answer);

/// `{"error": {…}}` with every member.
void append_error_body(std::string& out, const ErrorAnswer& answer);

/// A whole HTTP answer: head and body.
void append_error_answer(std::string& out, const ErrorAnswer& answer, bool keep_alive,
                         std::string_view extra_fields = {});

/// A hint where the gateway itself is the reason: 0.5 to 3 s, another for each caller, so that they
/// do not all come back at once.
Duration spread(Rng& rng);

/// `Retry-After` and its companions. The whole seconds are rounded up and held in 1..59, because
/// client libraries disagree about anything outside (0 and dates in the past: immediate retries;
/// 60 and more: ignored by some, obeyed by others).
/// Source: shipped code of openai, anthropic, ai and langchain for JavaScript, read 2026-11-30.
void append_retry_fields(std::string& out, std::optional<Duration> retry_after);

}  // namespace weir::gateway
