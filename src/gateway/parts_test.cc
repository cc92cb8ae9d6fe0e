// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "gateway/answer.h"
#include "gateway/fields.h"
#include "gateway/meters.h"
#include "gateway/plan.h"
#include "gateway/problem.h"
#include "gateway/provider_error.h"
#include "gateway/route.h"
#include "gateway/wishes.h"
#include "telemetry/metrics.h"

namespace weir::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Compares with a file of the repository; WEIR_UPDATE_GOLDEN=1 writes it instead.
void expect_golden(const std::string& file, const std::string& text) {
  const std::string path = std::string(WEIR_SOURCE_DIR) + "/" + file;
  if (std::getenv("WEIR_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream stream(path);
  const std::string golden((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_EQ(text, golden) << file << " is old; run this test with WEIR_UPDATE_GOLDEN=1";
}

TEST(Problem, ThePageIsMadeFromTheTable) {
  expect_golden("docs/reference/errors.md", errors_markdown());
}

TEST(Problem, CodesAreDistinctAndStatusesSane) {
  std::set<std::string_view> codes;
  for (const Problem problem : kAllProblems) {
    const auto& entry = row(problem);
    EXPECT_TRUE(codes.insert(entry.code).second) << entry.code;
    EXPECT_TRUE(entry.status == 0 || (entry.status >= 400 && entry.status < 600)) << entry.code;
    EXPECT_FALSE(entry.meaning.empty());
    EXPECT_FALSE(entry.remedy.empty());
    EXPECT_TRUE(entry.retry_hint || (entry.status != 429 && entry.status != 503)) << entry.code;
  }
}

TEST(Problem, DecisionsMapToTheStatusesOfTheContract) {
  const auto status = [](Decision decision) { return row(problem_of(decision)).status; };
  EXPECT_EQ(status(Decision::rejected_locally), 429);
  EXPECT_EQ(status(Decision::queue_timeout), 429);
  EXPECT_EQ(status(Decision::queue_full), 429);
  EXPECT_EQ(status(Decision::admitted_then_provider_rejected), 0);
  EXPECT_EQ(status(Decision::backpressure), 503);
  EXPECT_EQ(status(Decision::draining), 503);
  EXPECT_EQ(status(Decision::admitted_then_provider_failed), 502);
  EXPECT_EQ(status(Decision::never_fits), 400);
  EXPECT_EQ(status(Decision::not_allowed), 403);
}

TEST(Meters, NamesAreGolden) {
  telemetry::Registry registry;
  const Meters meters(registry);
  expect_golden("src/gateway/golden/metrics.txt", registry.describe());
  expect_golden("docs/reference/metrics.md", registry.markdown());
}

TEST(Answer, RetryFieldsStayWhereClientsAgree) {
  const auto told = [](std::optional<Duration> wait) {
    std::string out;
    append_retry_fields(out, wait);
    return out;
  };
  EXPECT_EQ(told(milliseconds(1)), "retry-after: 1\r\nretry-after-ms: 1\r\n");
  EXPECT_EQ(told(Duration(0)), "retry-after: 1\r\nretry-after-ms: 1\r\n");
  EXPECT_EQ(told(Duration(-5)), "retry-after: 1\r\nretry-after-ms: 1\r\n");
  EXPECT_EQ(told(milliseconds(2400)), "retry-after: 3\r\nretry-after-ms: 2400\r\n");
  EXPECT_EQ(told(seconds(59)), "retry-after: 59\r\nretry-after-ms: 59000\r\n");
  EXPECT_EQ(told(seconds(90)),
            "retry-after: 59\r\nretry-after-ms: 59000\r\nx-weir-retry-after-ms: 90000\r\n"
            "x-should-retry: false\r\n");
  EXPECT_EQ(told(std::nullopt), "retry-after: 1\r\nretry-after-ms: 1000\r\n");
  EXPECT_NE(told(kForever).find("x-should-retry: false"), std::string::npos);
}

TEST(Answer, TheErrorObjectHasEveryMember) {
  ErrorAnswer answer;
  answer.problem = Problem::queue_full;
  answer.message = "Full \"now\".";
  answer.limiter = "rpm";
  answer.limited_by = "tenant:acme";
  answer.retry_after = milliseconds(2400);
  answer.estimated_input_tokens = 4;
  answer.trace_id = "t";
  std::string body;
  append_error_body(body, answer);
  EXPECT_EQ(
      body,
      R"({"error":{"message":"Full \"now\".","type":"rate_limited","code":"queue_full","param":null,)"
      R"("limiter":"rpm","limited_by":"tenant:acme","provider":null,"provider_scope":null,)"
      R"("model_profile":null,"provider_model":null,"retry_after_ms":2400,"tenant_id":null,)"
      R"("api_key_id":null,"request_class":null,"estimated_input_tokens":4,)"
      R"("estimated_output_tokens":null,"gateway_decision":"queue_full","fallback_allowed":false,)"
      R"("trace_id":"t"}})");
}

TEST(Answer, AProvidersSuccessNeverBecomesTheStatusOfAnError) {
  ErrorAnswer answer;
  answer.problem = Problem::provider_rejected;
  answer.provider_status = 200;
  EXPECT_EQ(status_of(answer), 502);
  answer.provider_status = 529;
  EXPECT_EQ(status_of(answer), 529);
}

TEST(Wishes, DurationsAreSecondsOrHaveAUnit) {
  EXPECT_EQ(parse_wait("20"), seconds(20));
  EXPECT_EQ(parse_wait("0"), seconds(0));
  EXPECT_EQ(parse_wait("1.5s"), milliseconds(1500));
  EXPECT_EQ(parse_wait("300ms"), milliseconds(300));
  EXPECT_EQ(parse_wait("2m"), seconds(120));
  for (const char* wrong : {"", "-1", "soon", "1 s", "1e3", "nan", "inf", "99999999", "5d", "+3"}) {
    EXPECT_FALSE(parse_wait(wrong).has_value()) << wrong;
  }
}

TEST(Wishes, LibrariesTimeoutsAreIgnoredWhereTheyMakeNoSense) {
  http::Fields fields;
  fields.add({"X-Stainless-Timeout", "600"});
  fields.add({"X-Weir-Max-Wait", "2s"});
  fields.add({"X-DashScope-Wait-Timeout", "9"});
  const auto wishes = read_wishes(fields);
  ASSERT_TRUE(wishes.has_value());
  EXPECT_EQ(wishes->timeout, seconds(600));
  EXPECT_EQ(wishes->max_wait, seconds(2));
  http::Fields odd;
  odd.add({"x-stainless-timeout", "NaN"});
  EXPECT_TRUE(read_wishes(odd).has_value());
  odd.add({"x-weir-max-wait", "NaN"});
  EXPECT_FALSE(read_wishes(odd).has_value());
}

TEST(Plan, PatternsMatchWholeNames) {
  EXPECT_TRUE(matches_pattern("*", "anything"));
  EXPECT_TRUE(matches_pattern("embed-*", "embed-3"));
  EXPECT_TRUE(matches_pattern("*-mini*", "gpt-4o-mini-2024"));
  EXPECT_FALSE(matches_pattern("embed-*", "xembed-3"));
  EXPECT_FALSE(matches_pattern("embed", "embed-3"));
  EXPECT_TRUE(matches_pattern("", ""));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_FALSE(matches_pattern("*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

TEST(Fields, ConfiguredLinesReplaceTheClients) {
  std::string out;
  append_unconfigured(out, "User-Agent: x\r\nx-extra: y\r\n", {{"user-agent", "own"}});
  EXPECT_EQ(out, "x-extra: y\r\n");
}

TEST(Fields, ResponsesLoseWhatIsTheAccounts) {
  http::Fields fields;
  for (const auto& field :
       {http::Field{"Content-Type", "a/b"}, http::Field{"X-RateLimit-Limit-Tokens", "1"},
        http::Field{"RateLimit", "x"}, http::Field{"ratelimit-policy", "x"},
        http::Field{"Connection", "x-hop"}, http::Field{"X-Hop", "1"},
        http::Field{"X-Weir-Decision", "spoofed"}, http::Field{"x-request-id", "r"},
        http::Field{"Transfer-Encoding", "chunked"}}) {
    fields.add(field);
  }
  std::string out;
  append_response_fields(out, fields);
  EXPECT_EQ(out, "Content-Type: a/b\r\nx-request-id: r\r\n");
}

TEST(ProviderError, ShowsOnlySmallValidJson) {
  EXPECT_EQ(provider_error_json(429, R"({"a":[1,{"b":null}],"error": {"m":"x"} })", "secret"),
            R"({"m":"x"})");
  for (const char* body : {"<html>", "", "{", R"({"error":{"m":"x"})", R"({"error":{"m":01}})",
                           R"({"error":{"m":"secret"}})", R"([{"error":1}])", R"({"error":tru})",
                           "{\"error\":\"a\nb\"}", R"({"error":"\x"})", R"({"error":"\u12g4"})"}) {
    EXPECT_EQ(provider_error_json(429, body, "secret"), R"({"status":429})") << body;
  }
  EXPECT_EQ(json_member(std::string(200, '['), "x"), "");
  const std::string long_body = R"({"error":")" + std::string(5000, 'x') + R"("})";
  EXPECT_EQ(provider_error_json(500, long_body, ""), R"({"status":500})");
}

TEST(Route, QueriesLoseTheKey) {
  const auto passed = [](std::string_view query) {
    std::string out;
    append_query(out, query);
    return out;
  };
  EXPECT_EQ(passed(""), "");
  EXPECT_EQ(passed("?key=secret"), "");
  EXPECT_EQ(passed("?a=1&key=secret&b"), "?a=1&b");
}

}  // namespace
}  // namespace weir::gateway
