// SPDX-License-Identifier: Apache-2.0
#include "gateway/answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/limit_fields.h"
#include "http/writer.h"
#include "telemetry/json_writer.h"

namespace weir::gateway {
namespace {

std::int64_t milliseconds_up(Duration wait) {
  constexpr std::int64_t kPerMillisecond = 1'000'000;
  const std::int64_t count = std::max<std::int64_t>(wait.count(), 0);
  return count / kPerMillisecond + (count % kPerMillisecond != 0 ? 1 : 0);
}

void append_number_member(telemetry::JsonWriter& json, std::string_view name,
                          std::optional<std::int64_t> value) {
  if (value) {
    json.member(name, *value);
  } else {
    json.key(name).null();
  }
}

}  // namespace

std::uint16_t status_of(const ErrorAnswer& answer) {
  const std::uint16_t status = row(answer.problem).status;
  if (status != 0) return status;
  // A provider can put an error into a success; the caller must still see a failure.
  return answer.provider_status >= 400 && answer.provider_status < 600 ? answer.provider_status
                                                                       : std::uint16_t{502};
}

void append_error_body(std::string& out, const ErrorAnswer& answer) {
  const ProblemRow& entry = row(answer.problem);
  telemetry::JsonWriter json(out);
  json.begin_object().key("error").begin_object();
  json.member("message", answer.message.empty() ? entry.meaning : answer.message);
  json.member("type", entry.type).member("code", entry.code);
  json.member_or_null("param", answer.param);
  json.member_or_null("limiter", answer.limiter);
  json.member_or_null("limited_by", answer.limited_by);
  json.member_or_null("provider", answer.provider);
  json.key("provider_scope").raw(answer.provider_scope.empty() ? "null" : answer.provider_scope);
  json.member_or_null("model_profile", answer.model_profile);
  json.member_or_null("provider_model", answer.provider_model);
  std::optional<std::int64_t> retry_ms;
  if (answer.retry_after) retry_ms = milliseconds_up(*answer.retry_after);
  append_number_member(json, "retry_after_ms", retry_ms);
  json.member_or_null("tenant_id", answer.tenant_id);
  json.member_or_null("api_key_id", answer.api_key_id);
  json.member_or_null("request_class", answer.request_class);
  append_number_member(json, "estimated_input_tokens", answer.estimated_input_tokens);
  append_number_member(json, "estimated_output_tokens", answer.estimated_output_tokens);
  json.member_or_null("gateway_decision", entry.decision);
  json.member("fallback_allowed", false);
  json.member_or_null("trace_id", answer.trace_id);
  if (!answer.provider_error.empty()) json.key("provider_error").raw(answer.provider_error);
  json.end_object().end_object();
}

Duration spread(Rng& rng) { return std::chrono::milliseconds(500 + rng.below(2500)); }

void append_retry_fields(std::string& out, std::optional<Duration> retry_after) {
  const Duration wait = retry_after.value_or(std::chrono::seconds(1));
  const std::int64_t wait_ms = std::max<std::int64_t>(milliseconds_up(wait), 1);
  const std::int64_t seconds = wait_ms / 1000 + (wait_ms % 1000 != 0 ? 1 : 0);
  const bool longer = seconds > kMaxHintSeconds;
  const std::int64_t told_seconds = std::min(seconds, kMaxHintSeconds);
  const std::int64_t told_ms = longer ? kMaxHintSeconds * 1000 : wait_ms;
  http::append_field(out, "retry-after", static_cast<std::uint64_t>(told_seconds));
  http::append_field(out, "retry-after-ms", static_cast<std::uint64_t>(told_ms));
  if (longer) {
    http::append_field(out, "x-weir-retry-after-ms", static_cast<std::uint64_t>(wait_ms));
    http::append_field(out, "x-should-retry", "false");
  }
}

void append_error_answer(std::string& out, const ErrorAnswer& answer, bool keep_alive,
                         std::string_view extra_fields) {
  const ProblemRow& entry = row(answer.problem);
  std::string body;
  body.reserve(768);
  append_error_body(body, answer);
  out.reserve(out.size() + body.size() + 512);
  const std::uint16_t status = status_of(answer);
  http::append_status_line(out, status);
  http::append_field(out, "content-type", "application/json");
  http::append_field(out, "content-length", body.size());
  http::append_field(out, "cache-control", "no-store");
  if (status == 401) http::append_field(out, "www-authenticate", "Bearer");
  if (!answer.allow.empty()) http::append_field(out, "allow", answer.allow);
  if (!answer.trace_id.empty()) {
    http::append_field(out, "x-weir-trace-id", answer.trace_id);
    http::append_field(out, "x-request-id", answer.trace_id);
    http::append_field(out, "x-weir-decision",
                       answer.decision.empty() ? "refused" : answer.decision);
  }
  const bool hint = entry.retry_hint || status == 429 || status == 503;
  const bool longer =
      hint && answer.retry_after && *answer.retry_after > std::chrono::seconds(kMaxHintSeconds);
  if (hint || answer.retry_after) append_retry_fields(out, answer.retry_after);
  if (answer.limits != nullptr) {
    std::optional<Duration> wait = answer.retry_after;
    if (hint && !wait) wait = std::chrono::seconds(1);
    append_limit_fields(out, *answer.limits, wait);
  }
  if (entry.final && !longer) http::append_field(out, "x-should-retry", "false");
  out += extra_fields;
  if (!keep_alive) http::append_field(out, "connection", "close");
  http::end_head(out);
  out += body;
}

}  // namespace weir::gateway
