// SPDX-License-Identifier: Apache-2.0
#include "gateway/wishes.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "http/text.h"

namespace weir::gateway {
namespace {

constexpr double kMaxSeconds = 86'400;

std::unexpected<Error> not_a_duration(std::string_view field) {
  return fail(ErrorCode::malformed,
              std::string(field) +
                  " is not a duration; write seconds (\"20\") or a number with ms, s, m or h "
                  "(\"1.5s\"), at most a day.",
              Origin::client);
}

}  // namespace

std::optional<Duration> parse_wait(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double scale = 0;
  if (unit.empty() || unit == "s") {
    scale = 1;
  } else if (unit == "ms") {
    scale = 1e-3;
  } else if (unit == "m") {
    scale = 60;
  } else if (unit == "h") {
    scale = 3600;
  } else {
    return std::nullopt;
  }
  const double seconds = number * scale;
  if (!(seconds <= kMaxSeconds)) return std::nullopt;
  return from_seconds(seconds);
}

Result<Wishes> read_wishes(const http::Fields& fields) {
  Wishes wishes;
  for (const auto& field : fields.all()) {
    // All of them start with an x, and most fields do not.
    if (field.name.empty() || http::lower(field.name.front()) != 'x') continue;
    if (http::same_word(field.name, "x-weir-class")) {
      wishes.traffic_class = field.value;
    } else if (http::same_word(field.name, "x-weir-max-wait")) {
      wishes.max_wait = parse_wait(field.value);
      if (!wishes.max_wait) return not_a_duration("x-weir-max-wait");
    } else if (http::same_word(field.name, "x-dashscope-wait-timeout")) {
      const auto wait = parse_wait(field.value);
      if (!wait) return not_a_duration("X-DashScope-Wait-Timeout");
      if (!wishes.max_wait) wishes.max_wait = wait;
    } else if (http::same_word(field.name, "x-stainless-timeout") ||
               http::same_word(field.name, "x-server-timeout")) {
      const auto timeout = parse_wait(field.value);
      if (timeout && *timeout > Duration::zero()) wishes.timeout = timeout;
    }
  }
  return wishes;
}

std::string_view unbuilt_wish(const http::Fields& fields) {
  constexpr std::string_view kAsync = "respond-async";
  if (fields.has("x-weir-route")) return "x-weir-route";
  if (fields.has("x-weir-callback")) return "x-weir-callback";
  for (const auto& field : fields.all()) {
    if (!http::same_word(field.name, "prefer")) continue;
    std::string_view rest = field.value;
    while (!rest.empty()) {
      const std::string_view wish = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), wish.size() + 1));
      if (http::same_word(http::trimmed(wish.substr(0, wish.find(';'))), kAsync)) {
        return "Prefer: respond-async";
      }
    }
  }
  return {};
}

}  // namespace weir::gateway
