// SPDX-License-Identifier: Apache-2.0
#include "gateway/problem.h"

#include <fmt/format.h>

#include <iterator>

namespace weir::gateway {
namespace {

constexpr ProblemRow kMalformed{
    400,
    "invalid_request_error",
    "malformed",
    "",
    false,
    false,
    "The body or a header is not what the API says; `param` names the member.",
    "Correct the request as the message says."};
constexpr ProblemRow kUnknownClass{
    400,
    "invalid_request_error",
    "unknown_class",
    "",
    false,
    false,
    "`x-weir-class` names no traffic class of the configuration.",
    "Use one of the configured class names, or leave the header out."};
constexpr ProblemRow kUnauthorized{401,
                                   "authentication_error",
                                   "invalid_api_key",
                                   "",
                                   false,
                                   false,
                                   "The key is missing or not valid.",
                                   "Send a valid key as `Authorization: Bearer <key>`."};
constexpr ProblemRow kModelNotAllowed{403,
                                      "permission_error",
                                      "model_not_allowed",
                                      "not_allowed",
                                      false,
                                      false,
                                      "The key may not use this model.",
                                      "Use a model of `GET /v1/models`, or ask for access."};
constexpr ProblemRow kModelNotFound{
    404,
    "invalid_request_error",
    "model_not_found",
    "",
    false,
    false,
    "No model profile has this name and none takes every name.",
    "Use a model of `GET /v1/models`; the message names what is near."};
constexpr ProblemRow kUnknownPath{404,
                                  "invalid_request_error",
                                  "unknown_path",
                                  "",
                                  false,
                                  false,
                                  "The path is not served.",
                                  "Check the base URL; it ends in `/v1`."};
constexpr ProblemRow kMethodNotAllowed{405,
                                       "invalid_request_error",
                                       "method_not_allowed",
                                       "",
                                       false,
                                       false,
                                       "The path is served, but not with this method.",
                                       "Use the method in the `Allow` header."};
constexpr ProblemRow kTooLarge{413,
                               "invalid_request_error",
                               "too_large",
                               "",
                               false,
                               false,
                               "The body is larger than `server.limits.body`.",
                               "Send less, or raise the limit."};
constexpr ProblemRow kUnsupportedEncoding{
    415,
    "invalid_request_error",
    "unsupported_encoding",
    "",
    false,
    false,
    "The body is compressed; what cannot be read cannot be governed.",
    "Send the body without `Content-Encoding`."};
constexpr ProblemRow kUpgradeUnsupported{501,
                                         "not_built",
                                         "upgrade_unsupported",
                                         "",
                                         false,
                                         true,
                                         "WebSocket and other upgrades are not in this version.",
                                         "Use the HTTP streaming API of the same operation."};
constexpr ProblemRow kNotBuilt{501,
                               "not_built",
                               "not_built",
                               "",
                               false,
                               true,
                               "The path or the header is known, but not in this version.",
                               "Use what the message names, or leave the header out."};
constexpr ProblemRow kTooSlow{408,
                              "invalid_request_error",
                              "request_timed_out",
                              "",
                              false,
                              false,
                              "The request's head or body did not come in time.",
                              "Send it faster, or raise `server.limits`."};
constexpr ProblemRow kTargetTooLong{414,
                                    "invalid_request_error",
                                    "target_too_long",
                                    "",
                                    false,
                                    false,
                                    "The request line is longer than `server.limits.header`.",
                                    "Shorten the path or its query."};
constexpr ProblemRow kExpectationFailed{417,
                                        "invalid_request_error",
                                        "expectation_failed",
                                        "",
                                        false,
                                        false,
                                        "`Expect` asks for something other than `100-continue`.",
                                        "Leave the header out."};
constexpr ProblemRow kHeadTooLarge{
    431,
    "invalid_request_error",
    "head_too_large",
    "",
    false,
    false,
    "The head is larger than `server.limits.header`, or has too many fields.",
    "Send fewer or shorter headers, or raise the limit."};
constexpr ProblemRow kVersionUnsupported{505,
                                         "not_built",
                                         "version_unsupported",
                                         "",
                                         false,
                                         true,
                                         "The request is neither HTTP/1.1 nor HTTP/1.0.",
                                         "Speak HTTP/1.1."};
constexpr ProblemRow kRejectedLocally{
    429,
    "rate_limited",
    "rate_limited",
    "rejected_locally",
    true,
    false,
    "A limit is full and the call could not start before its deadline; it was not queued.",
    "Wait for `retry_after_ms`; `limited_by` and `limiter` name the limit."};
constexpr ProblemRow kQueueTimeout{
    429,
    "rate_limited",
    "queue_timeout",
    "queue_timeout",
    true,
    false,
    "The call waited for its class's `max_wait`, or its own, without getting a start.",
    "Wait for `retry_after_ms`, or allow a longer wait with `x-weir-max-wait`."};
constexpr ProblemRow kQueueFull{429,
                                "rate_limited",
                                "queue_full",
                                "queue_full",
                                true,
                                false,
                                "As many calls wait in the class as its `depth` allows.",
                                "Wait for `retry_after_ms`; send fewer at once."};
constexpr ProblemRow kNeverFits{
    400,
    "invalid_request_error",
    "never_fits",
    "never_fits",
    false,
    true,
    "The call asks for more than a limit's whole capacity, or can never meet its deadline.",
    "Shorten the prompt or `max_tokens`, or raise the limit in `limited_by`."};
constexpr ProblemRow kBackpressure{503,
                                   "overloaded",
                                   "backpressure",
                                   "backpressure",
                                   true,
                                   false,
                                   "A bound of the gateway itself is full.",
                                   "Wait for `retry_after_ms`."};
constexpr ProblemRow kDraining{503,
                               "overloaded",
                               "draining",
                               "draining",
                               true,
                               false,
                               "The gateway is shutting down.",
                               "Send it again; another instance answers."};
constexpr ProblemRow kNotAllowed{403,
                                 "permission_error",
                                 "not_allowed",
                                 "not_allowed",
                                 false,
                                 false,
                                 "The caller may not do this.",
                                 "Ask for access."};
constexpr ProblemRow kProviderRejected{
    0,
    "rate_limited",
    "provider_rate_limited",
    "admitted_then_provider_rejected",
    true,
    false,
    "The provider refused the call for its rate or its load; `provider_error` holds its words.",
    "Wait for `retry_after_ms`."};
constexpr ProblemRow kProviderQuota{
    0,
    "quota_exhausted",
    "provider_quota_exhausted",
    "admitted_then_provider_rejected",
    true,
    true,
    "The provider account's quota or credit is used up; waiting does not help.",
    "Raise the account's quota at the provider, or use another model."};
constexpr ProblemRow kProviderFailed{
    502,
    "provider_error",
    "provider_failed",
    "admitted_then_provider_failed",
    false,
    false,
    "The provider could not be reached, broke off, or answered with an error of its own.",
    "Try again; if it lasts, look at the provider's status."};
constexpr ProblemRow kProviderTimedOut{
    504,
    "provider_error",
    "provider_timed_out",
    "admitted_then_provider_failed",
    false,
    false,
    "The provider did not answer within the configured time.",
    "Try again, ask for less output, or raise the provider's time-outs."};
constexpr ProblemRow kProviderKeyRefused{
    502,
    "provider_error",
    "provider_key_refused",
    "admitted_then_provider_failed",
    false,
    true,
    "The provider does not accept the gateway's own key.",
    "Correct `api_key` of the provider in the gateway's configuration."};
constexpr ProblemRow kStreamBroken{
    502,
    "provider_error",
    "stream_broken",
    "admitted_then_provider_failed",
    false,
    false,
    "The provider broke off in the middle of a stream; sent as an event inside the stream.",
    "Send the whole request again if a complete answer is needed."};
constexpr ProblemRow kInternal{500,
                               "internal_error",
                               "internal",
                               "",
                               false,
                               false,
                               "A fault of the gateway.",
                               "Report it with the `trace_id`."};

}  // namespace

const ProblemRow& row(Problem problem) {
  switch (problem) {
    case Problem::malformed: return kMalformed;
    case Problem::unknown_class: return kUnknownClass;
    case Problem::unauthorized: return kUnauthorized;
    case Problem::model_not_allowed: return kModelNotAllowed;
    case Problem::model_not_found: return kModelNotFound;
    case Problem::unknown_path: return kUnknownPath;
    case Problem::method_not_allowed: return kMethodNotAllowed;
    case Problem::too_large: return kTooLarge;
    case Problem::unsupported_encoding: return kUnsupportedEncoding;
    case Problem::upgrade_unsupported: return kUpgradeUnsupported;
    case Problem::not_built: return kNotBuilt;
    case Problem::too_slow: return kTooSlow;
    case Problem::target_too_long: return kTargetTooLong;
    case Problem::expectation_failed: return kExpectationFailed;
    case Problem::head_too_large: return kHeadTooLarge;
    case Problem::version_unsupported: return kVersionUnsupported;
    case Problem::rejected_locally: return kRejectedLocally;
    case Problem::queue_timeout: return kQueueTimeout;
    case Problem::queue_full: return kQueueFull;
    case Problem::never_fits: return kNeverFits;
    case Problem::backpressure: return kBackpressure;
    case Problem::draining: return kDraining;
    case Problem::not_allowed: return kNotAllowed;
    case Problem::provider_rejected: return kProviderRejected;
    case Problem::provider_quota: return kProviderQuota;
    case Problem::provider_failed: return kProviderFailed;
    case Problem::provider_timed_out: return kProviderTimedOut;
    case Problem::provider_key_refused: return kProviderKeyRefused;
    case Problem::stream_broken: return kStreamBroken;
    case Problem::internal: return kInternal;
  }
  return kInternal;
}

Problem problem_of(Decision decision) {
  switch (decision) {
    case Decision::rejected_locally: return Problem::rejected_locally;
    case Decision::queue_timeout: return Problem::queue_timeout;
    case Decision::queue_full: return Problem::queue_full;
    case Decision::never_fits: return Problem::never_fits;
    case Decision::admitted_then_provider_rejected: return Problem::provider_rejected;
    case Decision::admitted_then_provider_failed: return Problem::provider_failed;
    case Decision::backpressure: return Problem::backpressure;
    case Decision::draining: return Problem::draining;
    case Decision::not_allowed: return Problem::not_allowed;
    case Decision::admitted:
    case Decision::queued:
    case Decision::spilled:
    case Decision::observed: return Problem::internal;
  }
  return Problem::internal;
}

Problem problem_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::malformed: return Problem::malformed;
    case ErrorCode::too_large: return Problem::too_large;
    case ErrorCode::unauthorized: return Problem::unauthorized;
    case ErrorCode::not_allowed: return Problem::not_allowed;
    case ErrorCode::not_found: return Problem::unknown_path;
    case ErrorCode::unsupported: return Problem::upgrade_unsupported;
    case ErrorCode::rate_limited: return Problem::rejected_locally;
    case ErrorCode::never_fits: return Problem::never_fits;
    case ErrorCode::connect_failed:
    case ErrorCode::tls_failed:
    case ErrorCode::connection_lost:
    case ErrorCode::bad_response: return Problem::provider_failed;
    case ErrorCode::timed_out: return Problem::provider_timed_out;
    case ErrorCode::overloaded: return Problem::backpressure;
    case ErrorCode::draining: return Problem::draining;
    case ErrorCode::invalid_config:
    case ErrorCode::io:
    case ErrorCode::internal: return Problem::internal;
  }
  return Problem::internal;
}

Problem problem_of_status(std::uint16_t status) {
  switch (status) {
    case 400: return Problem::malformed;
    case 408: return Problem::too_slow;
    case 413: return Problem::too_large;
    case 414: return Problem::target_too_long;
    case 417: return Problem::expectation_failed;
    case 431: return Problem::head_too_large;
    case 503: return Problem::backpressure;
    case 505: return Problem::version_unsupported;
    default: return Problem::internal;
  }
}

std::string errors_markdown() {
  std::string page =
      "# Errors\n\n"
      "<!-- Made from the table in src/gateway/problem.cc; edit that. -->\n\n"
      "Every refusal of the gateway is one JSON object, `{\"error\": {…}}`, with these members, "
      "`null` where they do not apply: `message`, `type`, `code`, `param`, `limiter`, "
      "`limited_by`, `provider`, `provider_scope`, `model_profile`, `provider_model`, "
      "`retry_after_ms`, `tenant_id`, `api_key_id`, `request_class`, `estimated_input_tokens`, "
      "`estimated_output_tokens`, `gateway_decision`, `fallback_allowed`, `trace_id`; with "
      "`provider_error` besides where a provider said something.\n\n"
      "Where *hint* says yes the answer carries `Retry-After` (1 to 59 whole seconds, rounded up) "
      "and `retry-after-ms`. A longer true wait stands in `retry_after_ms` and in "
      "`x-weir-retry-after-ms`, with `x-should-retry: false`. *Final* answers carry "
      "`x-should-retry: false` always.\n\n"
      "A provider's other 4xx answers pass through byte for byte.\n\n"
      "The request headers `x-weir-route`, `x-weir-callback` and `Prefer: respond-async` are "
      "answered with `not_built`. `x-weir-customer`, `x-weir-tags` and `Idempotency-Key` have no "
      "effect in this version.\n\n"
      "| status | `type` | `code` | `gateway_decision` | hint | final | meaning | what to do |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Problem problem : kAllProblems) {
    const ProblemRow& entry = row(problem);
    const std::string status =
        entry.status == 0 ? "the provider's" : fmt::format("{}", entry.status);
    const std::string decision = entry.decision.empty() ? "" : fmt::format("`{}`", entry.decision);
    fmt::format_to(std::back_inserter(page), "| {} | `{}` | `{}` | {} | {} | {} | {} | {} |\n",
                   status, entry.type, entry.code, decision, entry.retry_hint ? "yes" : "",
                   entry.final ? "yes" : "", entry.meaning, entry.remedy);
  }
  return page;
}

}  // namespace weir::gateway
