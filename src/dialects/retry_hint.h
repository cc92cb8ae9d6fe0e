// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "http/head.h"
#include "weir/time.h"

/// How long a provider asks to wait, in the many forms they write it. All results are rounded up to
/// whole milliseconds, never negative, and held at kLongestHint. What is not one of the forms is
/// nothing: it is never guessed at.
namespace weir::dialects {

/// A longer hint is held at this: nobody waits in line for a day.
inline constexpr Duration kLongestHint = std::chrono::hours(24);

/// A value of Retry-After (RFC 9110 section 10.2.3): seconds, decimals tolerated, or one of the
/// three forms of an HTTP date (a past one is 0; the weekday is not checked). "120, 60", two fields
/// that a proxy merged, is the larger. Refused: a sign, hexadecimal, exponents, words, nothing, and
/// more than 365 days.
std::optional<Duration> parse_retry_after(std::string_view value, WallTime wall_now);

/// A value of retry-after-ms: decimal milliseconds above zero (Azure sends 0 beside a real
/// Retry-After; providers.md section 1).
std::optional<Duration> parse_retry_after_ms(std::string_view value);

/// A value of x-ratelimit-reset-*: a duration as Go writes it ("6m0s", "1h2m3.004s", "12ms",
/// "250µs"), RFC 3339, or a bare number: seconds, above 1e9 seconds since 1970, above 1e12
/// milliseconds since 1970.
std::optional<Duration> parse_reset(std::string_view value, WallTime wall_now);

/// A wait named in prose: "try again in 6m0s", "retry in 10h17m5.7s", "retry after 20 seconds",
/// "resets in: 0h 1m 3s". `text` must be in lower case.
std::optional<Duration> find_wait_in_text(std::string_view text);

/// The header hints in their order: retry-after-ms, x-ms-retry-after-ms, retry-after (the largest
/// of several fields). A value that cannot be read gives way to the next.
std::optional<Duration> read_retry_headers(const http::Fields& fields, WallTime wall_now);

}  // namespace weir::dialects
