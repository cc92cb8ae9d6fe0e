// SPDX-License-Identifier: Apache-2.0
#include "dialects/openai_signal.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "dialects/json_cursor.h"
#include "dialects/openai_error.h"
#include "dialects/retry_hint.h"
#include "dialects/text.h"

namespace weir::dialects {
namespace {

/// Which reading a header is about, and what else its name says.
struct HeaderName {
  enum class What : std::uint8_t { limit, remaining, reset } what = What::limit;
  LimitReading Signal::* reading = nullptr;
  bool day = false;      ///< its window is a day
  bool unnamed = false;  ///< it does not say what it counts
};

/// Takes `part` off the front; true if it was there.
bool take(std::string_view& text, std::string_view part) {
  if (!starts_with_fold(text, part)) return false;
  text.remove_prefix(part.size());
  return true;
}

/// "requests", "tokens", "input-tokens", "tokens-minute", "requests-day", "tokens-generated", …
bool read_dimension(std::string_view text, HeaderName& name) {
  take(text, "project-");
  if (text.empty()) {
    name.reading = &Signal::requests;
    name.unnamed = true;
    return true;
  }
  if (take(text, "input-tokens")) {
    name.reading = &Signal::input_tokens;
  } else if (take(text, "output-tokens") || take(text, "tokens-generated")) {
    name.reading = &Signal::output_tokens;
  } else if (take(text, "tokens-prompt")) {
    name.reading = &Signal::input_tokens;
  } else if (take(text, "tokens")) {
    name.reading = &Signal::tokens;
  } else if (take(text, "requests") || take(text, "req")) {
    name.reading = &Signal::requests;
  } else {
    return false;
  }
  if (text.empty() || same_word(text, "-minute") || same_word(text, "-second")) return true;
  name.day = same_word(text, "-day");
  return name.day;
}

std::optional<HeaderName> parse_name(std::string_view text) {
  HeaderName name;
  const bool tokens = take(text, "x-tokenlimit-");
  if (!tokens && !take(text, "x-ratelimit-") && !take(text, "ratelimit-")) return std::nullopt;
  if (take(text, "limit")) {
    name.what = HeaderName::What::limit;
  } else if (take(text, "remaining")) {
    name.what = HeaderName::What::remaining;
  } else if (take(text, "reset")) {
    name.what = HeaderName::What::reset;
  } else {
    return std::nullopt;
  }
  if (!text.empty() && !take(text, "-")) return std::nullopt;
  if (tokens) {
    name.reading = &Signal::tokens;
    return text.empty() ? std::optional<HeaderName>(name) : std::nullopt;
  }
  if (!read_dimension(text, name)) return std::nullopt;
  return name;
}

/// What the headers of one answer came to, beside the readings in the Signal.
struct HeaderFacts {
  bool requests_per_day = false;
  bool requests_unnamed = false;
};

void merge_remaining(LimitReading& reading, std::optional<std::int64_t> remaining) {
  if (!remaining) return;
  reading.remaining = std::min(reading.remaining.value_or(*remaining), *remaining);
}

void merge_reset(LimitReading& reading, std::optional<Duration> reset) {
  if (reset) reading.reset = std::max(reading.reset.value_or(Duration(0)), *reset);
}

/// The IETF draft's structured field: "burst";r=40;t=3, "daily";r=0;t=36400. The member with the
/// least remaining speaks.
void read_ietf(std::string_view value, WallTime wall_now, LimitReading& reading) {
  std::optional<std::int64_t> remaining;
  std::optional<Duration> reset;
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    std::string_view member = value.substr(0, comma);
    value.remove_prefix(std::min(comma + 1, value.size()));
    std::optional<std::int64_t> member_remaining;
    std::optional<Duration> member_reset;
    while (!member.empty()) {
      const std::size_t semicolon = std::min(member.find(';'), member.size());
      const std::string_view part = trim(member.substr(0, semicolon));
      member.remove_prefix(std::min(semicolon + 1, member.size()));
      if (part.starts_with("r=")) member_remaining = parse_count(part.substr(2));
      if (part.starts_with("t=")) member_reset = parse_reset(part.substr(2), wall_now);
    }
    if (!member_remaining || (remaining && *remaining <= *member_remaining)) continue;
    remaining = member_remaining;
    reset = member_reset;
  }
  merge_remaining(reading, remaining);
  merge_reset(reading, reset);
}

HeaderFacts read_headers(const http::Fields& fields, WallTime wall_now, Signal& signal) {
  HeaderFacts facts;
  for (const http::Field& field : fields.all()) {
    if (field.name.size() < 9) continue;
    const char first = lower(field.name.front());
    if (first != 'x' && first != 'r') continue;
    if (same_word(field.name, "ratelimit")) {
      read_ietf(field.value, wall_now, signal.requests);
      facts.requests_unnamed = true;
      continue;
    }
    const auto name = parse_name(field.name);
    if (!name) continue;
    LimitReading& reading = signal.*(name->reading);
    switch (name->what) {
      case HeaderName::What::limit:
        if (const auto limit = parse_count(trim(field.value))) {
          reading.limit = std::min(reading.limit.value_or(*limit), *limit);
        }
        break;
      case HeaderName::What::remaining:
        merge_remaining(reading, parse_count(trim(field.value)));
        break;
      case HeaderName::What::reset: merge_reset(reading, parse_reset(field.value, wall_now)); break;
    }
    if (name->reading == &Signal::requests) {
      facts.requests_per_day = facts.requests_per_day || name->day;
      facts.requests_unnamed = facts.requests_unnamed || name->unnamed;
    }
  }
  return facts;
}

bool exhausted(const LimitReading& reading) { return reading.remaining == 0; }

/// The limiter that the one exhausted dimension of the headers means.
Limiter limiter_of_headers(const Signal& signal, const HeaderFacts& facts) {
  const int count = int{exhausted(signal.requests)} + int{exhausted(signal.tokens)} +
                    int{exhausted(signal.input_tokens)} + int{exhausted(signal.output_tokens)};
  if (count != 1) return Limiter::unknown;
  if (exhausted(signal.tokens)) return Limiter::total_tpm;
  if (exhausted(signal.input_tokens)) return Limiter::input_tpm;
  if (exhausted(signal.output_tokens)) return Limiter::output_tpm;
  if (facts.requests_unnamed) return Limiter::unknown;
  return facts.requests_per_day ? Limiter::rpd : Limiter::rpm;
}

/// The reset of the dimension that the limiter exhausted, never of another.
std::optional<Duration> reset_of_limiter(const Signal& signal, const HeaderFacts& facts) {
  const LimitReading* reading = nullptr;
  switch (signal.limiter) {
    case Limiter::rpm:
    case Limiter::rps:
      // A day's header says nothing about the minute.
      reading = facts.requests_per_day ? nullptr : &signal.requests;
      break;
    case Limiter::rpd: reading = &signal.requests; break;
    case Limiter::total_tpm:
    case Limiter::tps:
    case Limiter::tpd: reading = &signal.tokens; break;
    case Limiter::input_tpm: reading = &signal.input_tokens; break;
    case Limiter::output_tpm: reading = &signal.output_tokens; break;
    case Limiter::unknown: reading = facts.requests_unnamed ? &signal.requests : nullptr; break;
    case Limiter::burst:
    case Limiter::concurrency:
    case Limiter::budget:
    case Limiter::images:
    case Limiter::audio_seconds:
    case Limiter::tasks:
    case Limiter::stream_seconds: break;
  }
  return reading != nullptr && exhausted(*reading) ? reading->reset : std::nullopt;
}

/// The status that suits a class, for errors that came inside a 200.
std::uint16_t status_of(SignalClass kind) {
  switch (kind) {
    case SignalClass::rate_limited:
    case SignalClass::quota_exhausted: return 429;
    case SignalClass::overloaded: return 503;
    case SignalClass::auth: return 401;
    case SignalClass::bad_request:
    case SignalClass::content_filter:
    case SignalClass::context_length: return 400;
    case SignalClass::timeout: return 504;
    case SignalClass::ok:
    case SignalClass::server_error: break;
  }
  return 500;
}

}  // namespace

void read_limit_headers(const http::Fields& fields, WallTime wall_now, Signal& signal) {
  read_headers(fields, wall_now, signal);
}

Signal read_openai_signal(std::uint16_t status, const http::Fields& fields,
                          std::string_view error_body, WallTime wall_now) {
  const bool success = status >= 200 && status < 300;
  Signal signal;
  std::optional<Duration> body_hint;
  if (success && error_body.empty()) {
    signal.status = status;
  } else {
    const ProviderError error = find_error(error_body);
    if (success && !error.found) {
      signal.status = status;
    } else {
      signal = success ? read_error_in_success(error_body) : classify(error, status);
      body_hint = error.retry_delay;
      if (!body_hint) body_hint = find_wait_in_text(error.text);
      if (!success) signal.status = status;
    }
  }
  const HeaderFacts facts = read_headers(fields, wall_now, signal);
  if (signal.kind == SignalClass::ok) return signal;
  if (signal.kind == SignalClass::rate_limited && signal.limiter == Limiter::unknown) {
    signal.limiter = limiter_of_headers(signal, facts);
  }
  signal.retry_after = read_retry_headers(fields, wall_now);
  if (!signal.retry_after) signal.retry_after = body_hint;
  if (!signal.retry_after && signal.kind == SignalClass::rate_limited) {
    signal.retry_after = reset_of_limiter(signal, facts);
  }
  return signal;
}

Signal read_error_in_success(std::string_view body) {
  const ProviderError error = find_error(body);
  if (!error.found) return {};
  Signal signal = classify(error, 200);
  if (signal.status < 400) signal.status = status_of(signal.kind);
  signal.retry_after = error.retry_delay;
  if (!signal.retry_after) signal.retry_after = find_wait_in_text(error.text);
  return signal;
}

}  // namespace weir::dialects
