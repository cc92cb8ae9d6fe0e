// SPDX-License-Identifier: Apache-2.0
#include "config/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace weir::config {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

/// mantissa * 10^exponent, the mantissa without trailing zeros, and what stands behind the number.
struct Decimal {
  std::uint64_t mantissa = 0;
  int exponent = 0;
  std::string_view suffix;
};

std::unexpected<Problem> wrong(std::string message, std::string fix) {
  return std::unexpected(Problem{std::move(message), std::move(fix)});
}

bool digit(char byte) { return byte >= '0' && byte <= '9'; }

/// Reads the exponent of "1e18" at `at`; leaves `at` alone if what stands there is a suffix.
Parsed<int> read_exponent(std::string_view text, std::size_t& at) {
  std::size_t look = at;
  if (look >= text.size() || (text[look] != 'e' && text[look] != 'E')) return 0;
  ++look;
  bool negative = false;
  if (look < text.size() && (text[look] == '+' || text[look] == '-')) {
    negative = text[look] == '-';
    ++look;
  }
  if (look >= text.size() || !digit(text[look])) return 0;
  int exponent = 0;
  for (; look < text.size() && digit(text[look]); ++look) {
    exponent = std::min(1000, exponent * 10 + (text[look] - '0'));
  }
  at = look;
  return negative ? -exponent : exponent;
}

Parsed<Decimal> read_decimal(std::string_view text) {
  constexpr std::uint64_t kMantissaMost = (std::numeric_limits<std::uint64_t>::max() - 9) / 10;
  if (text.empty()) return wrong("is empty", "write a number");
  if (text.front() == '-' && text.size() > 1 && (digit(text[1]) || text[1] == '.')) {
    if (text.find_first_of("123456789") != std::string_view::npos) {
      return wrong("is negative", "write 0 or more");
    }
    text.remove_prefix(1);
  } else if (text.front() == '+') {
    text.remove_prefix(1);
  }
  Decimal value;
  std::size_t at = 0;
  bool point = false;
  bool any = false;
  for (; at < text.size() && (digit(text[at]) || (text[at] == '.' && !point)); ++at) {
    if (text[at] == '.') {
      point = true;
      continue;
    }
    any = true;
    if (value.mantissa > kMantissaMost) {
      return wrong("has too many digits", "shorten the number");
    }
    value.mantissa = value.mantissa * 10 + static_cast<std::uint64_t>(text[at] - '0');
    if (point) --value.exponent;
  }
  if (!any) return wrong("is not a number", "write a number");
  const Parsed<int> exponent = read_exponent(text, at);
  value.exponent += *exponent;
  while (value.mantissa != 0 && value.mantissa % 10 == 0) {
    value.mantissa /= 10;
    ++value.exponent;
  }
  if (value.mantissa == 0) value.exponent = 0;
  value.suffix = text.substr(at);
  return value;
}

enum class Exactness : std::uint8_t { exact, fraction, overflow };

/// value * multiplier as a whole number; where it is not whole, rounded up.
std::pair<std::int64_t, Exactness> scale(const Decimal& value, std::uint64_t multiplier) {
  Wide product = static_cast<Wide>(value.mantissa) * multiplier;
  for (int i = 0; i < value.exponent; ++i) {
    if (product > static_cast<Wide>(kMost)) return {kMost, Exactness::overflow};
    product *= 10;
  }
  bool fraction = false;
  for (int i = 0; i > value.exponent && product != 0; --i) {
    fraction = fraction || product % 10 != 0;
    product /= 10;
  }
  if (product > static_cast<Wide>(kMost)) return {kMost, Exactness::overflow};
  if (fraction) return {static_cast<std::int64_t>(product), Exactness::fraction};
  return {static_cast<std::int64_t>(product), Exactness::exact};
}

double as_double(const Decimal& value) {
  return static_cast<double>(value.mantissa) * std::pow(10.0, value.exponent);
}

struct Suffix {
  std::string_view text;
  std::uint64_t factor;
};

constexpr std::array<Suffix, 4> kCounts = {
    {{"", 1}, {"k", 1'000}, {"M", 1'000'000}, {"G", 1'000'000'000}}};
constexpr std::array<Suffix, 7> kBytes = {{{"", 1},
                                           {"k", 1'000},
                                           {"M", 1'000'000},
                                           {"G", 1'000'000'000},
                                           {"KiB", 1024},
                                           {"MiB", 1024 * 1024},
                                           {"GiB", 1024 * 1024 * 1024}}};
constexpr std::array<Suffix, 5> kTimes = {{{"ms", 1'000'000},
                                           {"s", 1'000'000'000},
                                           {"m", 60'000'000'000},
                                           {"h", 3'600'000'000'000},
                                           {"d", 86'400'000'000'000}}};

template <std::size_t N>
const Suffix* find_suffix(const std::array<Suffix, N>& suffixes, std::string_view text) {
  for (const Suffix& suffix : suffixes) {
    if (suffix.text == text) return &suffix;
  }
  return nullptr;
}

template <std::size_t N>
Parsed<std::int64_t> scaled_count(std::string_view text, const std::array<Suffix, N>& suffixes,
                                  std::string_view allowed) {
  const Parsed<Decimal> value = read_decimal(text);
  if (!value) return std::unexpected(value.error());
  const Suffix* suffix = find_suffix(suffixes, value->suffix);
  if (suffix == nullptr) {
    return wrong("has no known unit behind the number",
                 fmt::format("use a plain number or {}", allowed));
  }
  const auto [count, exactness] = scale(*value, suffix->factor);
  switch (exactness) {
    case Exactness::exact: return count;
    case Exactness::fraction: return wrong("is not a whole number", "write a whole number");
    case Exactness::overflow: break;
  }
  return wrong("is beyond 2^63-1", "write a smaller number");
}

}  // namespace

Parsed<std::int64_t> parse_count(std::string_view text) {
  return scaled_count(text, kCounts, "k, M, G");
}

Parsed<std::int64_t> parse_bytes(std::string_view text) {
  return scaled_count(text, kBytes, "KiB, MiB, GiB, k, M, G");
}

Parsed<Duration> parse_duration(std::string_view text) {
  const Parsed<Decimal> value = read_decimal(text);
  if (!value) {
    Problem problem = value.error();
    if (problem.fix == "write a number") problem.fix = "write a duration such as 300ms, 1.5s or 2m";
    return std::unexpected(std::move(problem));
  }
  if (value->suffix.empty() && value->mantissa == 0) return Duration::zero();
  const Suffix* suffix = find_suffix(kTimes, value->suffix);
  if (suffix == nullptr) {
    return wrong("has no unit of time", "add ms, s, m, h or d, such as 1.5s");
  }
  const auto [nanoseconds, exactness] = scale(*value, suffix->factor);
  switch (exactness) {
    case Exactness::exact: return Duration(nanoseconds);
    case Exactness::fraction: return wrong("is finer than a nanosecond", "round it");
    case Exactness::overflow: break;
  }
  return wrong("is longer than 292 years", "write a shorter time");
}

Parsed<double> parse_percent(std::string_view text) {
  const Parsed<Decimal> value = read_decimal(text);
  if (!value) {
    Problem problem = value.error();
    if (problem.fix == "write a number") problem.fix = "write a percentage such as 25%";
    return std::unexpected(std::move(problem));
  }
  if (value->suffix != "%") {
    return wrong("is not a percentage", "write it as 25%");
  }
  Decimal share = *value;
  share.exponent -= 2;
  return as_double(share);
}

Parsed<double> parse_decimal(std::string_view text) {
  const Parsed<Decimal> value = read_decimal(text);
  if (!value) return std::unexpected(value.error());
  const double number = as_double(*value);
  if (!value->suffix.empty() || !std::isfinite(number)) {
    return wrong("is not a number", "write a decimal number");
  }
  return number;
}

Parsed<double> parse_rate(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return wrong("is not a rate", "write it as 2.0/m or 10%/m");
  }
  const std::string_view amount = text.substr(0, slash);
  const Parsed<double> number =
      amount.ends_with('%') ? parse_percent(amount) : parse_decimal(amount);
  if (!number) return number;
  const Suffix* suffix = find_suffix(kTimes, text.substr(slash + 1));
  if (suffix == nullptr) {
    return wrong("has no unit of time behind the slash", "write it as 2.0/m or 10%/m");
  }
  return *number * 1e9 / static_cast<double>(suffix->factor);
}

Parsed<MicroUsd> parse_money(std::string_view text) {
  const Parsed<Decimal> value = read_decimal(text);
  if (!value) return std::unexpected(value.error());
  const Suffix* suffix = find_suffix(kCounts, value->suffix);
  if (suffix == nullptr) {
    return wrong("is not an amount of US dollars", "write a plain number such as 2.50");
  }
  const auto [micros, exactness] = scale(*value, suffix->factor * 1'000'000);
  switch (exactness) {
    case Exactness::exact: return MicroUsd{micros};
    case Exactness::fraction:
      return wrong("is finer than a millionth of a dollar", "round it to six decimals");
    case Exactness::overflow: break;
  }
  return wrong("is beyond 9.2 trillion dollars", "write a smaller amount");
}

Parsed<Allowance> parse_allowance(std::string_view text, Duration window) {
  const Parsed<Decimal> value = read_decimal(text);
  if (!value) {
    Problem problem = value.error();
    problem.fix = "write 0 (nothing passes), a positive number, or leave it out (unlimited)";
    return std::unexpected(std::move(problem));
  }
  const Suffix* suffix = find_suffix(kCounts, value->suffix);
  if (suffix == nullptr) {
    return wrong("has no known unit behind the number", "use a plain number or k, M, G");
  }
  const auto [amount, exactness] = scale(*value, suffix->factor);
  if (exactness == Exactness::overflow) {
    return wrong("is beyond 2^63-1", "write a smaller number, or leave it out (unlimited)");
  }
  if (exactness == Exactness::exact) return Allowance{amount, window};
  if (amount >= 1 || window == Duration::zero()) {
    return wrong("is not a whole number",
                 "write a whole number; only amounts below 1 per window may be fractions");
  }
  // 1 per window / share, rounded up so that never more than the stated rate passes.
  constexpr Duration kLongest = std::chrono::hours(24 * 366);
  constexpr auto kLongestCount = static_cast<Wide>(kLongest.count());
  constexpr Wide kFinest = static_cast<Wide>(1'000'000'000'000'000'000) * 1'000;
  Wide numerator = static_cast<Wide>(window.count());
  const Wide share = static_cast<Wide>(value->mantissa) * suffix->factor;
  if (share > kFinest) return wrong("has too many digits", "shorten the number");
  for (int i = 0; i > value->exponent && numerator <= kLongestCount * share; --i) numerator *= 10;
  const Wide longer = (numerator + share - 1) / share;
  if (longer > kLongestCount) {
    return wrong("means less than one in a year", "write 0 (nothing passes) or a larger number");
  }
  return Allowance{1, Duration(static_cast<std::int64_t>(longer))};
}

Problem about(const Node& node, Problem problem) {
  if (node.kind == Node::Kind::scalar) {
    problem.message = fmt::format("{} {}", config::quoted(node.source), problem.message);
  }
  return problem;
}

Parsed<std::string_view> quantity_text(const Node& node) {
  if (node.kind != Node::Kind::scalar) {
    return wrong(node.kind == Node::Kind::map ? "a map stands where one value belongs"
                                              : "a list stands where one value belongs",
                 "write one value");
  }
  if (!node.plain && !node.expanded && !node.text.empty() &&
      (digit(node.text.back()) || node.text.back() == '.') &&
      node.text.find_first_not_of("0123456789.eE+-") == std::string::npos) {
    return wrong("is text, not a number",
                 fmt::format("write {} without quotes", node.text.substr(0, 40)));
  }
  return std::string_view(node.text);
}

std::string show(Duration duration) {
  const std::int64_t count = duration.count();
  for (auto suffix = kTimes.rbegin(); suffix != kTimes.rend(); ++suffix) {
    const auto factor = static_cast<std::int64_t>(suffix->factor);
    if (count != 0 && count % factor == 0) return fmt::format("{}{}", count / factor, suffix->text);
  }
  if (count == 0) return "0s";
  std::string digits = fmt::format("{}.{:09}", count / 1'000'000'000, count % 1'000'000'000);
  while (digits.back() == '0') digits.pop_back();
  return digits + "s";
}

std::string show_count(std::int64_t count) {
  for (auto suffix = kCounts.rbegin(); suffix != kCounts.rend(); ++suffix) {
    const auto factor = static_cast<std::int64_t>(suffix->factor);
    if (count != 0 && count % factor == 0) return fmt::format("{}{}", count / factor, suffix->text);
  }
  return "0";
}

std::string show_bytes(std::int64_t bytes) {
  for (auto suffix = kBytes.rbegin(); suffix != kBytes.rend(); ++suffix) {
    const auto factor = static_cast<std::int64_t>(suffix->factor);
    if (suffix->text.size() == 3 && bytes != 0 && bytes % factor == 0) {
      return fmt::format("{}{}", bytes / factor, suffix->text);
    }
  }
  return fmt::format("{}", bytes);
}

std::string show_percent(double share) { return fmt::format("{:.10g}%", share * 100); }

}  // namespace weir::config
