// SPDX-License-Identifier: Apache-2.0
#include "gateway/limit_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gateway/answer.h"
#include "http/writer.h"

namespace weir::gateway {
namespace {

/// The largest integer of a structured field (RFC 9651).
constexpr std::int64_t kMaxInteger = 999'999'999'999'999;

void append_number(std::string& out, std::int64_t value) {
  std::array<char, 20> text{};
  value = std::clamp<std::int64_t>(value, 0, kMaxInteger);
  const char* end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  out.append(text.data(), static_cast<std::size_t>(end - text.data()));
}

std::int64_t whole_up(Duration wait, Duration unit) {
  const Duration held = std::max(wait, Duration{0});
  return held / unit + (held % unit > Duration{0} ? 1 : 0);
}

void append_legacy(std::string& out, const governor::CallerLimit& limit, std::string_view unit) {
  const auto begin = [&](std::string_view what) {
    out += "x-ratelimit-";
    out += what;
    out += unit;
    out += ": ";
  };
  begin("limit-");
  append_number(out, limit.limit);
  out += "\r\n";
  begin("remaining-");
  append_number(out, limit.remaining);
  out += "\r\n";
  begin("reset-");
  append_reset(out, limit.reset);
  out += "\r\n";
}

void append_policy(std::string& out, const governor::CallerLimit& limit, std::string_view unit) {
  out += '"';
  out += unit;
  out += "\";q=";
  append_number(out, limit.limit);
  // Tokens have no registered unit; the name says what is counted.
  if (unit != "requests") out += ";qu=\"tokens\"";
  constexpr Duration kSecond = std::chrono::seconds(1);
  if (limit.window >= kSecond && limit.window % kSecond == Duration{0}) {
    out += ";w=";
    append_number(out, limit.window / kSecond);
  }
}

void append_state(std::string& out, const governor::CallerLimit& limit, std::string_view unit,
                  std::optional<Duration> wait) {
  constexpr Duration kSecond = std::chrono::seconds(1);
  out += '"';
  out += unit;
  out += "\";r=";
  append_number(out, limit.remaining);
  std::int64_t until = whole_up(limit.reset, kSecond);
  if (wait) {
    const std::int64_t told = std::max<std::int64_t>(1, whole_up(*wait, kSecond));
    if (told > kMaxHintSeconds) return;
    until = std::min(until, told);
  }
  out += ";t=";
  append_number(out, until);
}

}  // namespace

void append_reset(std::string& out, Duration reset) {
  const std::int64_t all = whole_up(reset, std::chrono::milliseconds(1));
  if (all == 0) {
    out += "0s";
    return;
  }
  if (all < 1000) {
    append_number(out, all);
    out += "ms";
    return;
  }
  const std::int64_t hours = all / 3'600'000;
  const std::int64_t minutes = all / 60'000 % 60;
  if (hours > 0) {
    append_number(out, hours);
    out += 'h';
  }
  if (hours > 0 || minutes > 0) {
    append_number(out, minutes);
    out += 'm';
  }
  append_number(out, all / 1000 % 60);
  if (std::int64_t part = all % 1000; part > 0) {
    out += '.';
    for (std::int64_t place = 100; part > 0; place /= 10) {
      out += static_cast<char>('0' + part / place);
      part %= place;
    }
  }
  out += 's';
}

void append_limit_fields(std::string& out, const governor::CallerLimits& limits,
                         std::optional<Duration> wait) {
  if (!limits.requests && !limits.tokens) return;
  if (limits.requests) append_legacy(out, *limits.requests, "requests");
  if (limits.tokens) append_legacy(out, *limits.tokens, "tokens");
  const auto both = [&](std::string_view name, const auto& append) {
    out += name;
    if (limits.requests) append(*limits.requests, "requests");
    if (limits.requests && limits.tokens) out += ',';
    if (limits.tokens) append(*limits.tokens, "tokens");
    out += "\r\n";
  };
  both("ratelimit-policy: ", [&](const governor::CallerLimit& limit, std::string_view unit) {
    append_policy(out, limit, unit);
  });
  both("ratelimit: ", [&](const governor::CallerLimit& limit, std::string_view unit) {
    append_state(out, limit, unit, wait);
  });
}

}  // namespace weir::gateway
