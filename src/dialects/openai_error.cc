// SPDX-License-Identifier: Apache-2.0
#include "dialects/openai_error.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "dialects/json_cursor.h"
#include "dialects/retry_hint.h"
#include "dialects/text.h"

namespace weir::dialects {
namespace {

constexpr std::size_t kMaxText = 4096;

bool has(std::string_view text, std::initializer_list<std::string_view> needles) {
  return std::any_of(needles.begin(), needles.end(), [text](std::string_view needle) {
    return text.find(needle) != std::string_view::npos;
  });
}

bool is(std::string_view text, std::initializer_list<std::string_view> values) {
  return std::find(values.begin(), values.end(), text) != values.end();
}

void append_text(ProviderError& error, std::string_view raw) {
  if (!error.text.empty()) error.text.push_back(' ');
  error.text += lower(unescape(raw.substr(0, kMaxText)));
  if (error.text.size() > 2 * kMaxText) error.text.resize(2 * kMaxText);
}

void set_status(ProviderError& error, std::string_view digits) {
  const auto number = parse_count(digits);
  if (number && *number >= 400 && *number <= 599) {
    error.status = static_cast<std::uint16_t>(*number);
  }
}

/// A member that may be a string or a number: its text in lower case.
std::string word(JsonCursor& at) {
  const char first = at.peek();
  if (first == '"') return lower(unescape(at.string().substr(0, 256)));
  const std::string_view raw = at.skip();
  return is_digit(first) ? std::string(raw.substr(0, 32)) : std::string();
}

/// details: [{"@type": "…RetryInfo", "retryDelay": "26.66s"}]
void read_details(JsonCursor& at, ProviderError& error) {
  if (at.peek() != '[') {
    at.skip();
    return;
  }
  at.enter_array();
  while (at.next_element()) {
    if (at.peek() != '{') {
      at.skip();
      continue;
    }
    at.enter_object();
    for (std::string_view key; at.next_member(key);) {
      if (key != "retryDelay") {
        at.skip();
        continue;
      }
      const auto delay = at.string_if();
      // Never a date: a protobuf duration is "26.66s".
      if (delay && !delay->empty() && !is_digit(delay->back())) {
        error.retry_delay = parse_reset(*delay, WallTime());
      }
    }
  }
}

/// The members an error object and the flat forms share. True if `key` was one of them.
bool read_error_member(JsonCursor& at, std::string_view key, ProviderError& error) {
  if (key == "message" || key == "detail" || key == "title" || key == "msg") {
    const auto text = at.string_if();
    if (text) append_text(error, *text);
  } else if (key == "code") {
    error.code = word(at);
    set_status(error, error.code);
  } else if (key == "type" || key == "error_type") {
    error.type = word(at);
  } else if (key == "status" || key == "statusCode" || key == "http_status_code") {
    const std::string status = word(at);
    set_status(error, status);
    if (!status.empty() && !is_digit(status.front())) {
      if (!error.type.empty()) error.type.push_back(' ');
      error.type += status;
    }
  } else if (key == "details") {
    read_details(at, error);
  } else {
    return false;
  }
  return true;
}

void read_error_value(JsonCursor& at, ProviderError& error) {
  const char first = at.peek();
  if (first == '"') {
    const std::string_view text = at.string();
    error.found = true;
    append_text(error, text);
    return;
  }
  if (first != '{') {
    at.skip();
    return;
  }
  ProviderError inner;
  at.enter_object();
  for (std::string_view key; at.next_member(key);) {
    if (!read_error_member(at, key, inner)) at.skip();
  }
  inner.found = true;
  if (!error.text.empty()) inner.text += " " + error.text;
  if (inner.type.empty()) inner.type = std::move(error.type);
  if (inner.code.empty()) inner.code = std::move(error.code);
  if (inner.status == 0) inner.status = error.status;
  error = std::move(inner);
}

ProviderError find_in_json(std::string_view body) {
  ProviderError error;
  JsonCursor at(body);
  if (at.peek() == '[') {
    at.enter_array();
    if (!at.next_element()) return error;
  }
  if (at.peek() != '{' || !at.enter_object()) return error;
  for (std::string_view key; at.next_member(key);) {
    if (key == "error") {
      read_error_value(at, error);
    } else if (key == "object") {
      if (at.string_if() == "error") error.found = true;
    } else if (error.found && key == "type") {
      const std::string type = word(at);
      if (error.type.empty()) error.type = type;
    } else if (!read_error_member(at, key, error)) {
      at.skip();
    }
  }
  if (error.type == "error") error.found = true;
  return error;
}

bool is_content_filter(const ProviderError& error) {
  return is(error.code, {"content_filter", "content_policy_violation", "moderation_blocked"}) ||
         has(error.type, {"content_filter"}) ||
         has(error.text, {"content management policy", "content policy violation"});
}

bool is_context_length(const ProviderError& error) {
  return is(error.code, {"context_length_exceeded", "string_above_max_length"}) ||
         has(error.type, {"exceed_context_size_error", "context_length_exceeded"}) ||
         has(error.text, {"maximum context length", "context window", "context size",
                          "max_tokens must be at most", "prompt is too long"});
}

bool is_money(const ProviderError& error, std::uint16_t status) {
  const auto permanent = [](std::string_view word) {
    return is(word, {"insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached",
                     "billing_not_active", "organization_usage_limit_exceeded"}) ||
           has(word, {"spend_limit_exceeded", "insufficient_balance", "insufficient_credits"});
  };
  return status == 402 || permanent(error.code) || permanent(error.type) ||
         has(error.text,
             {"exceeded your current quota", "insufficient balance", "insufficient credits",
              "credit balance", "account suspended", "call volume quota"});
}

/// Text alone makes a rate limit only where the status does not say that the request is at fault.
bool names_rate_limit(const ProviderError& error, std::uint16_t status) {
  const auto limited = [](std::string_view word) {
    return has(word, {"rate_limit", "too_many_requests", "too_many_tokens", "resource_exhausted",
                      "rate_limited", "quota_exceeded", "limit_requests", "limit_burst_rate"});
  };
  const bool text_counts = status != 400 && status != 404 && status != 422;
  if (limited(error.code) || limited(error.type)) return true;
  return text_counts && has(error.text, {"rate limit", "too many requests", "tokens per min",
                                         "requests per min", "being rate limited"});
}

bool is_overloaded(const ProviderError& error, std::uint16_t status) {
  const auto full = [](std::string_view word) {
    return has(word, {"overloaded", "service_unavailable", "unavailable_error", "queue_exceeded",
                      "over_capacity"});
  };
  return status == 503 || status == 529 || full(error.code) || full(error.type) ||
         has(error.text,
             {"overloaded", "over capacity", "at capacity", "loading model", "queue is full",
              "server busy", "total request limit reached", "maximum pending requests"});
}

Limiter capacity_limiter(const ProviderError& error) {
  return has(error.text,
             {"queue is full", "total request limit", "pending requests", "model is overloaded"})
             ? Limiter::concurrency
             : Limiter::unknown;
}

/// The limiter that code, type or text name; unknown if they name none.
Limiter named_limiter(const ProviderError& error) {
  struct Phrase {
    std::string_view text;
    Limiter limiter;
  };
  // More specific phrases stand before those they contain.
  static constexpr std::array<Phrase, 30> kPhrases = {{
      {"(otpm)", Limiter::output_tpm},
      {"output tokens per min", Limiter::output_tpm},
      {"(itpm)", Limiter::input_tpm},
      {"input tokens per min", Limiter::input_tpm},
      {"audio per", Limiter::unknown},
      {"(tpm)", Limiter::total_tpm},
      {"tokens per min", Limiter::total_tpm},
      {"tokens-per-min", Limiter::total_tpm},
      {"(tpd)", Limiter::tpd},
      {"tokens per day", Limiter::tpd},
      {"tokens-per-day", Limiter::tpd},
      {"(tps)", Limiter::tps},
      {"tokens per sec", Limiter::tps},
      {"(rpm)", Limiter::rpm},
      {"requests per min", Limiter::rpm},
      {"requests-per-min", Limiter::rpm},
      {"(rpd)", Limiter::rpd},
      {"requests per day", Limiter::rpd},
      {"requests-per-day", Limiter::rpd},
      {"(rps)", Limiter::rps},
      {"requests per sec", Limiter::rps},
      {"(ipm)", Limiter::images},
      {"images per min", Limiter::images},
      {"concurren", Limiter::concurrency},
      {"simultaneous", Limiter::concurrency},
      {"token rate limit", Limiter::total_tpm},
      {"call rate limit", Limiter::rpm},
      {"request rate limit", Limiter::rpm},
      {"requests in parallel", Limiter::concurrency},
      {"burst", Limiter::burst},
  }};
  if (is(error.code, {"slow_down", "limit_burst_rate"})) return Limiter::burst;
  for (const Phrase& phrase : kPhrases) {
    if (error.text.find(phrase.text) != std::string::npos) return phrase.limiter;
  }
  if (error.type == "tokens") return Limiter::total_tpm;
  if (error.type == "requests" || error.code == "limit_requests") return Limiter::rpm;
  return Limiter::unknown;
}

/// The number after `label` in "limit 30000, used 1, requested 34307".
std::optional<std::int64_t> number_after(std::string_view text, std::string_view label) {
  for (std::size_t found = text.find(label); found != std::string_view::npos;
       found = text.find(label, found + 1)) {
    const std::string_view rest = text.substr(found + label.size());
    const std::size_t length = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (length > 0) return parse_count(rest.substr(0, length));
  }
  return std::nullopt;
}

bool is_oversize(const ProviderError& error) {
  if (has(error.text, {"request too large", "tokens must be reduced", "retry after 86400 sec"})) {
    return true;
  }
  const auto limit = number_after(error.text, "limit ");
  const auto requested = number_after(error.text, "requested ");
  return limit && requested && *limit > 0 && *requested > *limit;
}

SignalClass class_by_status(std::uint16_t status) {
  switch (status) {
    case 401:
    case 403: return SignalClass::auth;
    case 402: return SignalClass::quota_exhausted;
    case 408:
    case 504: return SignalClass::timeout;
    case 429: return SignalClass::rate_limited;
    case 503:
    case 529: return SignalClass::overloaded;
    case 424: return SignalClass::server_error;  // a part behind the server failed, not the request
    default: break;
  }
  return status >= 400 && status < 500 ? SignalClass::bad_request : SignalClass::server_error;
}

}  // namespace

ProviderError find_error(std::string_view body) {
  body = trim(body.starts_with("\xef\xbb\xbf") ? body.substr(3) : body);
  if (body.empty()) return {};
  if (body.front() != '{' && body.front() != '[') {
    ProviderError error;
    append_text(error, body);
    return error;
  }
  ProviderError error = find_in_json(body);
  // Some gateways put the provider's whole error, as text, into their own message.
  const std::string_view text = trim(error.text);
  if (text.starts_with('{') || text.starts_with('[')) {
    ProviderError inner = find_in_json(text);
    if (inner.found) return inner;
  }
  return error;
}

Signal classify(const ProviderError& error, std::uint16_t status) {
  Signal signal;
  // A 200 or 500 around another status: the body's own is nearer to the cause.
  const bool outer_says_little = status < 400 || status == 500;
  const std::uint16_t effective = outer_says_little && error.status != 0 ? error.status : status;
  signal.status = effective;
  if (is_content_filter(error)) {
    signal.kind = SignalClass::content_filter;
  } else if (is_context_length(error)) {
    signal.kind = SignalClass::context_length;
  } else if (is_money(error, effective)) {
    signal.kind = SignalClass::quota_exhausted;
    signal.limiter = Limiter::budget;
  } else if (is(error.code, {"slow_down"})) {
    signal.kind = SignalClass::rate_limited;
    signal.limiter = Limiter::burst;
  } else if (is_overloaded(error, effective)) {
    signal.kind = SignalClass::overloaded;
    signal.limiter = capacity_limiter(error);
  } else if (effective == 429 ||
             (effective != 401 && effective != 408 && names_rate_limit(error, effective))) {
    signal.kind = SignalClass::rate_limited;
    signal.limiter = named_limiter(error);
    signal.oversize = is_oversize(error);
  } else {
    signal.kind = class_by_status(effective);
  }
  return signal;
}

}  // namespace weir::dialects
