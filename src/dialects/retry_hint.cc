// SPDX-License-Identifier: Apache-2.0
#include "dialects/retry_hint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>

#include "dialects/text.h"

namespace weir::dialects {
namespace {

constexpr double kYearSeconds = 365.0 * 86400.0;

/// Digits with at most one point among them, and nothing else.
std::optional<double> parse_decimal(std::string_view text) {
  if (text.empty() || text.size() > 40) return std::nullopt;
  std::size_t points = 0;
  std::size_t digits = 0;
  for (const char byte : text) {
    if (byte == '.') {
      ++points;
    } else if (is_digit(byte)) {
      ++digits;
    } else {
      return std::nullopt;
    }
  }
  if (points > 1 || digits == 0 || text.front() == '.') return std::nullopt;
  if (points == 0 && digits <= 15) {
    std::int64_t whole = 0;
    std::from_chars(text.data(), text.data() + text.size(), whole);
    return static_cast<double>(whole);
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Seconds as a hint: not negative, up to whole milliseconds, at most kLongestHint.
Duration as_hint(double seconds) {
  if (!(seconds > 0)) return Duration(0);
  if (seconds >= to_seconds(kLongestHint)) return kLongestHint;
  // The small slack keeps binary fractions from adding a millisecond.
  const double milliseconds = std::ceil(seconds * 1000.0 - 1e-3);
  return std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds));
}

Duration until(WallTime at, WallTime now) {
  return as_hint(to_seconds(at.time_since_epoch()) - to_seconds(now.time_since_epoch()));
}

/// One token after another of a date, cut at the bytes of `cuts`.
class Tokens {
 public:
  Tokens(std::string_view text, std::string_view cuts) : text_(text), cuts_(cuts) {}
  std::string_view next() {
    const std::size_t start = std::min(text_.find_first_not_of(cuts_), text_.size());
    text_.remove_prefix(start);
    const std::string_view token = text_.substr(0, text_.find_first_of(cuts_));
    text_.remove_prefix(token.size());
    return token;
  }

 private:
  std::string_view text_;
  std::string_view cuts_;
};

std::optional<int> parse_int(std::string_view text, int low, int high) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || !is_digit(text.front()) || error != std::errc() ||
      stop != text.data() + text.size() || value < low || value > high) {
    return std::nullopt;
  }
  return value;
}

std::optional<int> parse_month(std::string_view text) {
  constexpr std::array<std::string_view, 12> kMonths = {"jan", "feb", "mar", "apr", "may", "jun",
                                                        "jul", "aug", "sep", "oct", "nov", "dec"};
  const std::string lowered = lower(text);
  const auto* const found = std::find(kMonths.begin(), kMonths.end(), lowered);
  if (found == kMonths.end()) return std::nullopt;
  return static_cast<int>(found - kMonths.begin()) + 1;
}

struct Clock {
  int hour = 0, minute = 0, second = 0;
};

std::optional<Clock> parse_clock(std::string_view text) {
  if (text.size() != 8 || text[2] != ':' || text[5] != ':') return std::nullopt;
  const auto hour = parse_int(text.substr(0, 2), 0, 23);
  const auto minute = parse_int(text.substr(3, 2), 0, 59);
  const auto second = parse_int(text.substr(6, 2), 0, 60);
  if (!hour || !minute || !second) return std::nullopt;
  return Clock{*hour, *minute, *second};
}

std::optional<WallTime> make_time(int year, int month, int day, Clock clock) {
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  // Nanoseconds since 1970 hold the years 1678 to 2261.
  if (!date.ok() || year < 1970 || year > 2200) return std::nullopt;
  const Duration whole = std::chrono::sys_days(date).time_since_epoch();
  return WallTime(whole + std::chrono::hours(clock.hour) + std::chrono::minutes(clock.minute) +
                  std::chrono::seconds(clock.second));
}

/// RFC 9110 section 5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
/// "Sun Nov  6 08:49:37 1994".
std::optional<WallTime> parse_http_date(std::string_view text, WallTime wall_now) {
  if (text.size() > 64) return std::nullopt;
  const std::size_t comma = text.find(',');
  std::string_view day_text, month_text, year_text, clock_text;
  if (comma == std::string_view::npos) {
    Tokens tokens(text, " ");
    tokens.next();
    month_text = tokens.next();
    day_text = tokens.next();
    clock_text = tokens.next();
    year_text = tokens.next();
    if (!tokens.next().empty()) return std::nullopt;
  } else {
    Tokens tokens(text.substr(comma + 1), " -");
    day_text = tokens.next();
    month_text = tokens.next();
    year_text = tokens.next();
    clock_text = tokens.next();
    if (tokens.next() != "GMT" || !tokens.next().empty()) return std::nullopt;
  }
  const auto day = parse_int(day_text, 1, 31);
  const auto month = parse_month(month_text);
  auto year = parse_int(year_text, 0, 9999);
  const auto clock = parse_clock(clock_text);
  if (!day || !month || !year || !clock) return std::nullopt;
  if (year_text.size() == 2) {
    // Two digits more than 50 years ahead are the most recent past year that ends so.
    const auto today = std::chrono::floor<std::chrono::days>(
        std::chrono::sys_time<Duration>(wall_now.time_since_epoch()));
    const int this_year = static_cast<int>(std::chrono::year_month_day(today).year());
    *year += this_year / 100 * 100;
    if (*year > this_year + 50) *year -= 100;
  } else if (year_text.size() != 4) {
    return std::nullopt;
  }
  return make_time(*year, *month, *day, *clock);
}

/// "2026-12-01T12:00:45Z", with an optional fraction and an offset "+02:00" instead of Z.
std::optional<WallTime> parse_rfc3339(std::string_view text) {
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || (text[10] | 0x20) != 't') {
    return std::nullopt;
  }
  const auto year = parse_int(text.substr(0, 4), 0, 9999);
  const auto month = parse_int(text.substr(5, 2), 1, 12);
  const auto day = parse_int(text.substr(8, 2), 1, 31);
  const auto clock = parse_clock(text.substr(11, 8));
  if (!year || !month || !day || !clock) return std::nullopt;
  const auto base = make_time(*year, *month, *day, *clock);
  if (!base) return std::nullopt;
  std::string_view rest = text.substr(19);
  double fraction = 0;
  if (rest.front() == '.') {
    const std::size_t length = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    const auto parsed = parse_decimal(std::string("0").append(rest.substr(0, length)));
    if (!parsed) return std::nullopt;
    fraction = *parsed;
    rest.remove_prefix(length);
  }
  const WallTime at = *base + from_seconds(fraction);
  if (rest == "Z" || rest == "z") return at;
  if (rest.size() != 6 || rest[3] != ':' || (rest[0] != '+' && rest[0] != '-')) {
    return std::nullopt;
  }
  const auto hours = parse_int(rest.substr(1, 2), 0, 23);
  const auto minutes = parse_int(rest.substr(4, 2), 0, 59);
  if (!hours || !minutes) return std::nullopt;
  const Duration offset = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return rest[0] == '+' ? at - offset : at + offset;
}

struct Suffix {
  std::string_view text;
  double seconds;
};

/// Go's unit names (the micro sign has two code points), longest first where one begins another.
constexpr std::array<Suffix, 8> kGoUnits = {{{"ms", 1e-3},
                                             {"us", 1e-6},
                                             {"\xc2\xb5s", 1e-6},
                                             {"\xce\xbcs", 1e-6},
                                             {"ns", 1e-9},
                                             {"h", 3600},
                                             {"m", 60},
                                             {"s", 1}}};

/// Unit words of prose beside those of Go, longest first.
constexpr std::array<Suffix, 12> kWordUnits = {{{"milliseconds", 1e-3},
                                                {"millisecond", 1e-3},
                                                {"seconds", 1},
                                                {"second", 1},
                                                {"secs", 1},
                                                {"sec", 1},
                                                {"minutes", 60},
                                                {"minute", 60},
                                                {"mins", 60},
                                                {"hours", 3600},
                                                {"hour", 3600},
                                                {"days", 86400}}};

/// Takes one unit off the front of `text`; 0: there is none.
template <std::size_t kSize>
double take_unit(std::string_view& text, const std::array<Suffix, kSize>& units) {
  for (const Suffix& unit : units) {
    if (text.starts_with(unit.text)) {
      text.remove_prefix(unit.text.size());
      return unit.seconds;
    }
  }
  return 0;
}

/// Takes "6m0s" off the front; with `prose` also "20 seconds" and "0h 1m 3s". Stops before what is
/// not a number with a unit.
std::optional<double> take_duration(std::string_view& text, bool prose) {
  double total = 0;
  bool any = false;
  for (;;) {
    std::string_view rest = text;
    if (prose) rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const std::size_t length = std::min(rest.find_first_not_of("0123456789."), rest.size());
    auto number = parse_decimal(rest.substr(0, length));
    if (!number) break;
    rest.remove_prefix(length);
    if (prose && rest.starts_with(' ')) rest.remove_prefix(1);
    double unit = prose ? take_unit(rest, kWordUnits) : 0;
    if (unit == 0) unit = take_unit(rest, kGoUnits);
    const bool word_ends = rest.empty() || !is_letter(rest.front());
    if (unit == 0 || (prose && !word_ends)) break;
    total += *number * unit;
    any = true;
    text = rest;
  }
  return any ? std::optional<double>(total) : std::nullopt;
}

}  // namespace

std::optional<Duration> parse_retry_after(std::string_view value, WallTime wall_now) {
  value = trim(value);
  if (const auto seconds = parse_decimal(value)) {
    if (*seconds > kYearSeconds) return std::nullopt;
    return as_hint(*seconds);
  }
  if (const auto date = parse_http_date(value, wall_now)) return until(*date, wall_now);
  if (value.find(',') == std::string_view::npos) return std::nullopt;
  std::optional<Duration> largest;
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    const auto seconds = parse_decimal(trim(value.substr(0, comma)));
    if (!seconds || *seconds > kYearSeconds) return std::nullopt;
    largest = std::max(largest.value_or(Duration(0)), as_hint(*seconds));
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return largest;
}

std::optional<Duration> parse_retry_after_ms(std::string_view value) {
  const auto milliseconds = parse_decimal(trim(value));
  if (!milliseconds || !(*milliseconds > 0) || *milliseconds > kYearSeconds * 1000) {
    return std::nullopt;
  }
  return as_hint(*milliseconds / 1000);
}

std::optional<Duration> parse_reset(std::string_view value, WallTime wall_now) {
  value = trim(value);
  if (const auto number = parse_decimal(value)) {
    const double now = to_seconds(wall_now.time_since_epoch());
    if (*number > 1e15) return std::nullopt;
    if (*number > 1e12) return as_hint(*number / 1000 - now);
    if (*number > 1e9) return as_hint(*number - now);
    return as_hint(*number);
  }
  if (value.size() > 64) return std::nullopt;
  if (const auto date = parse_rfc3339(value)) return until(*date, wall_now);
  std::string_view rest = value;
  const auto seconds = take_duration(rest, false);
  if (!seconds || !rest.empty()) return std::nullopt;
  return as_hint(*seconds);
}

std::optional<Duration> find_wait_in_text(std::string_view text) {
  constexpr std::array<std::string_view, 6> kLeads = {
      "try again in ", "retry in ", "retry after ", "reset in ", "resets in: ", "resets in "};
  for (const std::string_view lead : kLeads) {
    const std::size_t found = text.find(lead);
    if (found == std::string_view::npos) continue;
    std::string_view rest = text.substr(found + lead.size());
    const auto seconds = take_duration(rest, true);
    if (seconds && *seconds <= kYearSeconds) return as_hint(*seconds);
  }
  return std::nullopt;
}

std::optional<Duration> read_retry_headers(const http::Fields& fields, WallTime wall_now) {
  std::optional<Duration> exact, vendor, standard;
  for (const http::Field& field : fields.all()) {
    if (same_word(field.name, "retry-after-ms")) {
      if (const auto hint = parse_retry_after_ms(field.value)) exact = std::max(exact, hint);
    } else if (same_word(field.name, "x-ms-retry-after-ms")) {
      if (const auto hint = parse_retry_after_ms(field.value)) vendor = std::max(vendor, hint);
    } else if (same_word(field.name, "retry-after")) {
      if (const auto hint = parse_retry_after(field.value, wall_now)) {
        standard = std::max(standard, hint);
      }
    }
  }
  if (exact) return exact;
  return vendor ? vendor : standard;
}

}  // namespace weir::dialects
