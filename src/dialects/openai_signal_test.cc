// SPDX-License-Identifier: Apache-2.0
#include "dialects/openai_signal.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dialects/dialect.h"

namespace weir::dialects {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr WallTime kNow{seconds(1'796'126'400)};

Signal read(std::uint16_t status, std::string_view body,
            const std::vector<http::Field>& headers = {}) {
  http::Fields fields;
  for (const http::Field& field : headers) fields.add(field);
  return openai().read_signal(status, fields, body, kNow);
}

TEST(OpenAiSignal, T004_RequestsAndTokensAreApart) {
  const Signal signal = read(200, "",
                             {{"x-ratelimit-limit-requests", "500"},
                              {"x-ratelimit-remaining-requests", "499"},
                              {"x-ratelimit-reset-requests", "500ms"},
                              {"X-RateLimit-Limit-Tokens", "30000"},
                              {"x-ratelimit-remaining-tokens", "29000"},
                              {"x-ratelimit-reset-tokens", "1m42.653s"}});
  EXPECT_EQ(signal.kind, SignalClass::ok);
  EXPECT_EQ(signal.status, 200);
  EXPECT_EQ(signal.requests.limit, 500);
  EXPECT_EQ(signal.requests.remaining, 499);
  EXPECT_EQ(signal.requests.reset, milliseconds(500));
  EXPECT_EQ(signal.tokens.limit, 30'000);
  EXPECT_EQ(signal.tokens.remaining, 29'000);
  EXPECT_EQ(signal.tokens.reset, milliseconds(102'653));
  EXPECT_EQ(signal.retry_after, std::nullopt);
}

TEST(OpenAiSignal, MinusOneIsUnknown) {
  const Signal signal = read(200, "",
                             {{"x-ratelimit-remaining-requests", "-1"},
                              {"x-ratelimit-limit-tokens", "-1"},
                              {"x-ratelimit-reset-tokens", "-1"}});
  EXPECT_EQ(signal.requests.remaining, std::nullopt);
  EXPECT_EQ(signal.tokens.limit, std::nullopt);
  EXPECT_EQ(signal.tokens.reset, std::nullopt);
}

TEST(OpenAiSignal, TheExhaustedDimensionNamesTheWait) {
  const std::string body =
      R"({"error":{"message":"Too many requests","code":"rate_limit_exceeded"}})";
  const Signal signal = read(429, body,
                             {{"x-ratelimit-remaining-requests", "12"},
                              {"x-ratelimit-reset-requests", "9h"},
                              {"x-ratelimit-remaining-tokens", "0"},
                              {"x-ratelimit-reset-tokens", "2s"}});
  EXPECT_EQ(signal.limiter, Limiter::total_tpm);
  EXPECT_EQ(signal.retry_after, seconds(2));
  const Signal both = read(429, body,
                           {{"x-ratelimit-remaining-requests", "0"},
                            {"x-ratelimit-reset-requests", "9h"},
                            {"x-ratelimit-remaining-tokens", "0"},
                            {"x-ratelimit-reset-tokens", "2s"}});
  EXPECT_EQ(both.limiter, Limiter::unknown);
  EXPECT_EQ(both.retry_after, std::nullopt);
}

TEST(OpenAiSignal, T001_T002_HintsDegradeInOrder) {
  const std::string body =
      R"({"error":{"message":"on requests per min (RPM). Please try again in 84ms.",)"
      R"("type":"requests"}})";
  EXPECT_EQ(read(429, body, {{"retry-after", "7"}}).retry_after, seconds(7));
  EXPECT_EQ(read(429, body, {{"retry-after", "soon"}}).retry_after, milliseconds(84));
  EXPECT_EQ(read(429, body, {{"retry-after", "1234567890123456789012345"}}).retry_after,
            milliseconds(84));
  EXPECT_EQ(read(429, "", {{"retry-after", "-5"}}).retry_after, std::nullopt);
  EXPECT_EQ(read(429, "", {{"retry-after", "172800"}}).retry_after, std::chrono::hours(24));
}

TEST(OpenAiSignal, T005_DelaysInTheBody) {
  const auto delayed = [](std::string_view delay) {
    return read(429,
                std::string(R"({"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"q",)"
                            R"("details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo",)"
                            R"("retryDelay":")")
                    .append(delay)
                    .append("\"}]}}"))
        .retry_after;
  };
  EXPECT_EQ(delayed("26.660853464s"), milliseconds(26'661));
  EXPECT_EQ(delayed("373.8ms"), milliseconds(374));
  EXPECT_EQ(delayed("-3s"), std::nullopt);
  EXPECT_EQ(delayed("1796126425"), std::nullopt);
  EXPECT_EQ(read(429, R"({"error":{"message":"Retry after 20 seconds."}})").retry_after,
            seconds(20));
}

TEST(OpenAiSignal, T007_OutOfCreditIsTerminal) {
  const Signal signal = read(429, R"({"error":{"message":"You exceeded your current quota",)"
                                  R"("type":"insufficient_quota","code":"insufficient_quota"}})");
  EXPECT_EQ(signal.kind, SignalClass::quota_exhausted);
  EXPECT_EQ(signal.limiter, Limiter::budget);
  EXPECT_EQ(read(402, "").kind, SignalClass::quota_exhausted);
}

TEST(OpenAiSignal, T016_NonJsonBodies) {
  const std::string html =
      "<!DOCTYPE html><html><body>" + std::string(20'000, 'x') + "</body></html>";
  const Signal signal = read(521, html);
  EXPECT_EQ(signal.kind, SignalClass::server_error);
  EXPECT_EQ(signal.status, 521);
  const Signal busy = read(503, R"({"message":"busy"})", {{"Retry-After", "2"}});
  EXPECT_EQ(busy.kind, SignalClass::overloaded);
  EXPECT_EQ(busy.retry_after, seconds(2));
  EXPECT_EQ(read(429, std::string("\0\xff{", 3)).kind, SignalClass::rate_limited);
  EXPECT_EQ(read(429, "{\"error\":{\"message\":\"\\").kind, SignalClass::rate_limited);
  EXPECT_EQ(read(400, std::string(100'000, '[')).kind, SignalClass::bad_request);
}

TEST(OpenAiSignal, ClassesByStatus) {
  EXPECT_EQ(read(200, "").kind, SignalClass::ok);
  EXPECT_EQ(read(401, "").kind, SignalClass::auth);
  EXPECT_EQ(read(403, "").kind, SignalClass::auth);
  EXPECT_EQ(read(400, "").kind, SignalClass::bad_request);
  EXPECT_EQ(read(404, "").kind, SignalClass::bad_request);
  EXPECT_EQ(read(408, "").kind, SignalClass::timeout);
  EXPECT_EQ(read(504, "").kind, SignalClass::timeout);
  EXPECT_EQ(read(500, "").kind, SignalClass::server_error);
  EXPECT_EQ(read(529, "").kind, SignalClass::overloaded);
  EXPECT_EQ(read(302, "").kind, SignalClass::server_error);
}

TEST(OpenAiSignal, Oversize) {
  const Signal signal =
      read(429, R"({"error":{"message":"Rate limit reached on tokens per min (TPM): )"
                R"(Limit 30000, Used 0, Requested 34307.","type":"tokens"}})");
  EXPECT_TRUE(signal.oversize);
  EXPECT_EQ(signal.limiter, Limiter::total_tpm);
  EXPECT_FALSE(read(429,
                    R"({"error":{"message":"on tokens per min (TPM): Limit 30000, Used 29999, )"
                    R"(Requested 4000.","type":"tokens"}})")
                   .oversize);
}

TEST(OpenAiSignal, ABadRequestThatSpeaksOfRateLimitsIsABadRequest) {
  EXPECT_EQ(
      read(400,
           R"({"error":{"message":"Unknown field rate limit","type":"invalid_request_error"}})")
          .kind,
      SignalClass::bad_request);
}

TEST(OpenAiSignal, ErrorInSuccess) {
  const Signal limited = read_error_in_success(R"({"error":{"code":429,"message":"x"}})");
  EXPECT_EQ(limited.kind, SignalClass::rate_limited);
  EXPECT_EQ(limited.status, 429);
  const Signal worded = read_error_in_success(R"({"error":{"type":"overloaded_error"}})");
  EXPECT_EQ(worded.kind, SignalClass::overloaded);
  EXPECT_EQ(worded.status, 503);
  EXPECT_EQ(read_error_in_success(R"({"choices":[]})").kind, SignalClass::ok);
  EXPECT_EQ(read_error_in_success(R"({"error":null})").kind, SignalClass::ok);
  EXPECT_EQ(read_error_in_success("").kind, SignalClass::ok);
}

}  // namespace
}  // namespace weir::dialects
