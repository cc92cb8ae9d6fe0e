// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/rule.h"
#include "weir/time.h"

namespace weir::emulator {

/// How OpenAI writes about its limits, in headers and in refusals; refused growth, which OpenAI
/// does not know, is written as DashScope's compatible mode writes it. Times given here are the
/// caller's: already divided by the time scale.
/// Source: providers.md section 3, OpenAI
/// (https://platform.openai.com/docs/guides/rate-limits, read 2026-11-30).

/// A duration as Go prints it, rounded up to whole milliseconds: "84ms", "1s", "6m0s",
/// "1h2m3.004s".
std::string go_duration(Duration duration);

/// "requests per min (RPM)", "tokens per day (TPD)", "concurrent requests".
std::string limit_phrase(const Rule& rule);

/// What one unit's headers say.
struct UnitLimit {
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  Duration reset{0};
};

/// The x-ratelimit-* field lines for "requests" or "tokens".
void append_limit_fields(std::string& into, std::string_view unit, const UnitLimit& limit);

/// A refused attempt.
struct Refusal {
  std::string model;
  Rule rule;
  std::int64_t used = 0;
  std::int64_t requested = 0;
  std::optional<Duration> retry_after;
  bool never_fits = false;
  bool growth = false;    ///< it is the growth and no limit that refuses
  bool overload = false;  ///< it is neither: there is too much to do
};

/// The status, the body and the field lines that go with it.
std::uint16_t refusal_status(const Refusal& refusal);
std::string refusal_body(const Refusal& refusal);
void append_retry_fields(std::string& into, const Refusal& refusal);

/// An error body in OpenAI's shape. `code` and `param` empty: null.
std::string error_body(std::string_view message, std::string_view type, std::string_view code = {},
                       std::string_view param = {});

}  // namespace weir::emulator
