// SPDX-License-Identifier: Apache-2.0
#include "emulator/limit_text.h"

#include <fmt/format.h>

#include "http/writer.h"

namespace weir::emulator {
namespace {

constexpr std::int64_t kMillisecondsPerHour = 3'600'000;
constexpr std::int64_t kMillisecondsPerMinute = 60'000;

std::int64_t milliseconds_up(Duration duration) {
  constexpr std::int64_t kMillisecond = 1'000'000;
  const std::int64_t count = duration.count() < 0 ? 0 : duration.count();
  return count / kMillisecond + (count % kMillisecond != 0 ? 1 : 0);
}

struct Period {
  std::string_view words;
  std::string_view letter;
};

/// The word and the letter of the usual windows; empty for any other.
Period period_of(Duration window) {
  using std::chrono::seconds;
  if (window == seconds(1)) return {"sec", "S"};
  if (window == seconds(60)) return {"min", "M"};
  if (window == seconds(3600)) return {"hour", "H"};
  if (window == seconds(86'400)) return {"day", "D"};
  return {};
}

std::string_view quoted_or_null(std::string& buffer, std::string_view text) {
  if (text.empty()) return "null";
  buffer = "\"";
  http::append_json_text(buffer, text);
  buffer += '"';
  return buffer;
}

}  // namespace

std::string go_duration(Duration duration) {
  std::int64_t left = milliseconds_up(duration);
  if (left < 1000) return left == 0 ? "0s" : fmt::format("{}ms", left);
  std::string text;
  const std::int64_t hours = left / kMillisecondsPerHour;
  left %= kMillisecondsPerHour;
  const std::int64_t minutes = left / kMillisecondsPerMinute;
  left %= kMillisecondsPerMinute;
  if (hours > 0) text += fmt::format("{}h", hours);
  if (hours > 0 || minutes > 0) text += fmt::format("{}m", minutes);
  text += fmt::format("{}", left / 1000);
  if (left % 1000 != 0) {
    std::string decimals = fmt::format(".{:03}", left % 1000);
    decimals.erase(decimals.find_last_not_of('0') + 1);
    text += decimals;
  }
  return text + "s";
}

std::string limit_phrase(const Rule& rule) {
  std::string_view what;
  std::string_view letters;
  switch (rule.unit) {
    case Unit::requests:
      what = "requests";
      letters = "RP";
      break;
    case Unit::input_tokens:
      what = "input tokens";
      letters = "ITP";
      break;
    case Unit::output_tokens:
      what = "output tokens";
      letters = "OTP";
      break;
    case Unit::total_tokens:
      what = "tokens";
      letters = "TP";
      break;
    case Unit::concurrency: return "concurrent requests";
  }
  const Period period = period_of(rule.window);
  if (period.words.empty()) return fmt::format("{} per {}", what, go_duration(rule.window));
  return fmt::format("{} per {} ({}{})", what, period.words, letters, period.letter);
}

void append_limit_fields(std::string& into, std::string_view unit, const UnitLimit& limit) {
  fmt::format_to(std::back_inserter(into),
                 "x-ratelimit-limit-{0}: {1}\r\nx-ratelimit-remaining-{0}: {2}\r\n"
                 "x-ratelimit-reset-{0}: {3}\r\n",
                 unit, limit.limit, limit.remaining, go_duration(limit.reset));
}

std::uint16_t refusal_status(const Refusal& refusal) { return refusal.overload ? 503 : 429; }

std::string refusal_body(const Refusal& refusal) {
  if (refusal.overload) {
    return error_body("The engine is currently overloaded, please try again later",
                      "service_unavailable");
  }
  if (refusal.growth) {
    return error_body(
        "Request rate increased too quickly. To ensure system stability, please adjust your client "
        "logic to scale requests more smoothly over time.",
        "limit_burst_rate", "limit_burst_rate");
  }
  const std::string_view type =
      refusal.rule.unit == Unit::requests || refusal.rule.unit == Unit::concurrency ? "requests"
                                                                                    : "tokens";
  const std::string where = fmt::format("{} in organization org-emulator on {}", refusal.model,
                                        limit_phrase(refusal.rule));
  if (refusal.never_fits) {
    return error_body(fmt::format("Request too large for {}: Limit {}, Requested {}. The input or "
                                  "output tokens must be reduced in order to run successfully.",
                                  where, refusal.rule.amount, refusal.requested),
                      type, "rate_limit_exceeded");
  }
  std::string message = fmt::format("Rate limit reached for {}: Limit {}, Used {}, Requested {}.",
                                    where, refusal.rule.amount, refusal.used, refusal.requested);
  if (refusal.retry_after) {
    message += fmt::format(" Please try again in {}.", go_duration(*refusal.retry_after));
  }
  return error_body(message, type, "rate_limit_exceeded");
}

void append_retry_fields(std::string& into, const Refusal& refusal) {
  if (!refusal.retry_after || refusal.never_fits || refusal.growth) return;
  const std::int64_t milliseconds = milliseconds_up(*refusal.retry_after);
  fmt::format_to(std::back_inserter(into), "retry-after: {}\r\nretry-after-ms: {}\r\n",
                 (milliseconds + 999) / 1000, milliseconds);
}

std::string error_body(std::string_view message, std::string_view type, std::string_view code,
                       std::string_view param) {
  std::string text, code_text, param_text;
  http::append_json_text(text, message);
  return fmt::format(R"({{"error":{{"message":"{}","type":"{}","param":{},"code":{}}}}})", text,
                     type, quoted_or_null(param_text, param), quoted_or_null(code_text, code));
}

}  // namespace weir::emulator
