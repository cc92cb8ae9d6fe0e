// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <simdjson.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/handler.h"
#include "emulator/limit_text.h"
#include "emulator/model_request.h"
#include "emulator/provider.h"
#include "emulator/settings.h"

namespace weir::emulator {
namespace {

using namespace std::chrono_literals;

class FakeLoop final : public http::Loop {
 public:
  [[nodiscard]] Instant now() const override { return time; }
  void post(std::function<void()> task) override { task(); }
  Instant time = Instant(std::chrono::hours(1));
};

class FakeResponder final : public http::Responder {
 public:
  void write(std::span<const std::string_view> pieces) override {
    for (const auto piece : pieces) bytes += piece;
    ++writes;
  }
  void finish(bool keep_alive) override {
    finished = true;
    kept = keep_alive;
  }
  void abort() override { aborted = true; }
  [[nodiscard]] std::size_t buffered() const override { return held; }
  void set_timer(Instant at) override { timer = at; }

  [[nodiscard]] std::string body() const { return bytes.substr(bytes.find("\r\n\r\n") + 4); }
  [[nodiscard]] std::string head() const { return bytes.substr(0, bytes.find("\r\n\r\n") + 2); }

  std::string bytes;
  int writes = 0;
  bool finished = false, kept = false, aborted = false;
  std::size_t held = 0;
  Instant timer = kNever;
};

constexpr std::string_view kQuiet =
    "latency: {first_token: 100ms, per_input_token: 0ns, per_output_token: 10ms, noise: 0%}\n";

Settings settings(std::string text) {
  const auto read = read_settings(text + std::string(kQuiet), "emulator.yaml");
  for (const auto& fault : read.faults) ADD_FAILURE() << fault.path << ": " << fault.message;
  return read.settings.value_or(Settings{});
}

/// An emulator without sockets.
struct Bench {
  explicit Bench(const std::string& text, double scale = 1)
      : provider(std::make_shared<Provider>(settings(text), scale, loop.now(),
                                            WallTime(std::chrono::seconds(1'800'000'000)))),
        handler(loop, provider) {}

  /// Sends; the session lives until the next call.
  FakeResponder& send(std::string_view method, std::string_view target, std::string_view body) {
    session.reset();
    responder = std::make_unique<FakeResponder>();
    stored = std::string(body);
    stored.append(http::kBodyPadding, '\0');
    http::Request request;
    request.head.method = method;
    request.head.target = target;
    request.head.fields.add({"authorization", "Bearer sk-test"});
    if (!patience.empty()) request.head.fields.add({"x-dashscope-wait-timeout", patience});
    request.body = std::string_view(stored).substr(0, body.size());
    session = handler.on_request(request, *responder);
    return *responder;
  }

  FakeResponder& chat(std::string_view members) {
    return send("POST", "/v1/chat/completions",
                R"({"model":"toy","messages":[{"role":"user","content":"Tell me of rivers"}])" +
                    (members.empty() ? "" : "," + std::string(members)) + "}");
  }

  /// Lets timers fire until the answer has ended; the time it took.
  Duration run() {
    const Instant begun = loop.time;
    for (int turn = 0; turn < 10'000 && !responder->finished && !responder->aborted; ++turn) {
      if (responder->timer == kNever) break;
      loop.time = std::max(loop.time, responder->timer);
      session->on_timer();
    }
    return loop.time - begun;
  }

  std::string counters() {
    const auto held = std::move(session);
    FakeResponder answer;
    http::Request request;
    request.head.method = "GET";
    request.head.target = "/emulator/v1/counters";
    const auto done = handler.on_request(request, answer);
    return answer.body();
  }

  std::string patience;  ///< of X-DashScope-Wait-Timeout; empty: not sent
  FakeLoop loop;
  std::shared_ptr<Provider> provider;
  Handler handler;
  std::unique_ptr<FakeResponder> responder;
  std::string stored;
  std::unique_ptr<http::Session> session;
};

std::int64_t number(const std::string& json, const char* pointer) {
  simdjson::dom::parser parser;
  std::int64_t value = -1;
  const auto document = parser.parse(json);
  if (document.at_pointer(pointer).get(value) != simdjson::SUCCESS) return -1;
  return value;
}

std::string text(const std::string& json, const char* pointer) {
  simdjson::dom::parser parser;
  std::string_view value;
  const auto document = parser.parse(json);
  if (document.at_pointer(pointer).get(value) != simdjson::SUCCESS) return "(none)";
  return std::string(value);
}

/// A chunked body without its framing.
std::string unchunked(std::string_view body) {
  std::string out;
  while (!body.empty()) {
    const std::size_t line = body.find("\r\n");
    const auto size = std::stoul(std::string(body.substr(0, line)), nullptr, 16);
    out += body.substr(line + 2, size);
    body.remove_prefix(line + 2 + size + 2);
  }
  return out;
}

TEST(EmulatorChat, AnswersWithUsageAfterTheTimeItsModelTakes) {
  Bench bench("output: {exact: true}\n");
  auto& responder = bench.chat(R"("max_tokens":11)");
  EXPECT_EQ(bench.run(), 200ms);  // 100 ms and ten more tokens of 10 ms
  EXPECT_TRUE(responder.finished);
  EXPECT_TRUE(responder.kept);
  EXPECT_TRUE(responder.bytes.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(text(responder.body(), "/object"), "chat.completion");
  EXPECT_EQ(text(responder.body(), "/choices/0/finish_reason"), "length");
  EXPECT_EQ(number(responder.body(), "/usage/completion_tokens"), 11);
  EXPECT_EQ(number(responder.body(), "/usage/prompt_tokens"), 4 + 5);
  EXPECT_EQ(number(responder.body(), "/created"), 1'800'000'000);
  EXPECT_NE(responder.head().find("x-request-id: req_"), std::string::npos);
}

TEST(EmulatorChat, EqualPromptsHaveEqualAnswers) {
  Bench bench("");
  bench.chat("");
  bench.run();
  const std::string first = text(bench.responder->body(), "/choices/0/message/content");
  bench.chat(R"("temperature":1)");
  bench.run();
  EXPECT_EQ(text(bench.responder->body(), "/choices/0/message/content"), first);
  EXPECT_GT(first.size(), 3U);
}

TEST(EmulatorChat, AStreamCarriesTheSameTextAndUsageOnlyIfAsked) {
  Bench bench("");
  bench.chat(R"("max_tokens":20)");
  bench.run();
  const std::string whole = text(bench.responder->body(), "/choices/0/message/content");
  for (const bool asked : {false, true}) {
    auto& responder = bench.chat(std::string(R"("max_tokens":20,"stream":true)") +
                                 (asked ? R"(,"stream_options":{"include_usage":true})" : ""));
    bench.run();
    const std::string events = unchunked(responder.body());
    std::string joined;
    int usages = 0;
    for (std::size_t at = 0; at < events.size();) {
      const std::size_t end = events.find("\n\n", at);
      const std::string data = events.substr(at + 6, end - at - 6);
      at = end + 2;
      if (data == "[DONE]") continue;
      const std::string delta = text(data, "/choices/0/delta/content");
      if (delta != "(none)") joined += delta;
      if (number(data, "/usage/completion_tokens") == 20) ++usages;
    }
    EXPECT_EQ(joined, whole);
    EXPECT_EQ(usages, asked ? 1 : 0);
    EXPECT_EQ(events.find("\"usage\"") != std::string::npos, asked);
    EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
  }
}

TEST(EmulatorChat, CallsAToolWhenItMust) {
  Bench bench("");
  auto& responder = bench.chat(
      R"("tool_choice":"required","tools":[{"type":"function","function":{"name":"get_weather",)"
      R"("parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}])");
  bench.run();
  EXPECT_EQ(text(responder.body(), "/choices/0/finish_reason"), "tool_calls");
  EXPECT_EQ(text(responder.body(), "/choices/0/message/tool_calls/0/function/name"), "get_weather");
  EXPECT_EQ(text(responder.body(), "/choices/0/message/tool_calls/0/function/arguments"),
            R"({"city":"Madrid"})");
}

TEST(EmulatorChat, WhatIsNotARequestIsA400ThatNamesTheParameter) {
  Bench bench("");
  EXPECT_TRUE(bench.send("POST", "/v1/chat/completions", R"({"model":"toy","messages":"no"})")
                  .bytes.starts_with("HTTP/1.1 400 "));
  EXPECT_NE(bench.responder->body().find("messages"), std::string::npos);
  for (const char* tokens : {"100000001", "9223372036854775807", "-1"}) {
    const std::string body =
        std::string(R"({"model":"toy","messages":[{"role":"user","content":"no"}],"n":16,)") +
        R"("max_tokens":)" + tokens + "}";
    EXPECT_TRUE(bench.send("POST", "/v1/chat/completions", body).bytes.starts_with("HTTP/1.1 400 "))
        << tokens;
    EXPECT_NE(bench.responder->body().find("max_tokens"), std::string::npos);
  }
  EXPECT_TRUE(bench.send("POST", "/v1/chat/completions", "{").bytes.starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(bench.send("GET", "/v1/nowhere", "").bytes.starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(bench.send("GET", "/v1/embeddings", "").bytes.starts_with("HTTP/1.1 405 "));
}

TEST(EmulatorOther, EmbeddingsAreUnitVectorsInBothEncodings) {
  Bench bench("");
  bench.send("POST", "/v1/embeddings", R"({"model":"toy","input":["one","two"],"dimensions":4})");
  bench.run();
  EXPECT_EQ(number(bench.responder->body(), "/data/1/index"), 1);
  EXPECT_EQ(number(bench.responder->body(), "/usage/total_tokens"), 2);
  bench.send("POST", "/v1/embeddings",
             R"({"model":"toy","input":"one","dimensions":4,"encoding_format":"base64"})");
  bench.run();
  EXPECT_EQ(text(bench.responder->body(), "/data/0/embedding").size(), 24U);  // 16 bytes
}

TEST(EmulatorOther, ModelsAndKeys) {
  Bench bench("models: [toy-chat, toy-embed]\nrequire_key: true\n");
  EXPECT_EQ(text(bench.send("GET", "/v1/models", "").body(), "/data/1/id"), "toy-embed");
  http::Request bare;
  bare.head.method = "GET";
  bare.head.target = "/v1/models";
  FakeResponder refused;
  const auto session = bench.handler.on_request(bare, refused);
  EXPECT_TRUE(refused.bytes.starts_with("HTTP/1.1 401 "));
}

TEST(EmulatorLimits, RefusesAsOpenAiDoesAndCountsIt) {
  Bench bench("rules: [{unit: requests, amount: 1, per: 60s, enforce: sliding}]\n");
  bench.chat(R"("max_tokens":1)");
  bench.run();
  EXPECT_NE(bench.responder->head().find("x-ratelimit-remaining-requests: 0\r\n"),
            std::string::npos);
  bench.loop.time += 20s - 100ms;
  auto& responder = bench.chat("");
  EXPECT_TRUE(responder.bytes.starts_with("HTTP/1.1 429 "));
  EXPECT_NE(responder.head().find("retry-after: 40\r\n"), std::string::npos);
  EXPECT_NE(responder.head().find("retry-after-ms: 40000\r\n"), std::string::npos);
  EXPECT_EQ(text(responder.body(), "/error/code"), "rate_limit_exceeded");
  EXPECT_EQ(text(responder.body(), "/error/message"),
            "Rate limit reached for toy in organization org-emulator on requests per min (RPM): "
            "Limit 1, Used 1, Requested 1. Please try again in 40s.");
  const std::string counters = bench.counters();
  EXPECT_EQ(number(counters, "/attempts"), 2);
  EXPECT_EQ(number(counters, "/refused"), 1);
  EXPECT_EQ(number(counters, "/rules/0/refused"), 1);
  EXPECT_EQ(number(counters, "/inflight"), 0);
}

TEST(EmulatorLimits, ATimeScaleShortensWindowsAnswersAndHints) {
  Bench bench(
      "output: {exact: true}\n"
      "rules: [{unit: requests, amount: 1, per: 60s, enforce: sliding}]\n",
      10);
  bench.chat(R"("max_tokens":11)");
  EXPECT_EQ(bench.run(), 20ms);
  bench.loop.time += 1s - 20ms;
  EXPECT_NE(bench.chat("").head().find("retry-after-ms: 5000\r\n"), std::string::npos);
  bench.loop.time += 5s;
  bench.chat(R"("max_tokens":1)");
  bench.run();
  EXPECT_TRUE(bench.responder->bytes.starts_with("HTTP/1.1 200 "));
}

TEST(EmulatorLimits, RulesChangeWhileRunningAndKeepWhatWasUsed) {
  Bench bench("rules: [{unit: requests, amount: 2, per: 60s, enforce: sliding}]\n");
  bench.chat(R"("max_tokens":1)");
  bench.run();
  const std::string rules = bench.send("GET", "/emulator/v1/rules", "").body();
  EXPECT_EQ(number(rules, "/0/amount"), 2);
  EXPECT_TRUE(
      bench
          .send("PUT", "/emulator/v1/rules", R"([{"unit": "requests", "amount": 1, "per": "60s"}])")
          .bytes.starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(bench.chat("").bytes.starts_with("HTTP/1.1 429 "));
  EXPECT_TRUE(bench.send("POST", "/emulator/v1/reset", "").bytes.starts_with("HTTP/1.1 200 "));
  bench.chat(R"("max_tokens":1)");
  bench.run();
  EXPECT_TRUE(bench.responder->bytes.starts_with("HTTP/1.1 200 "));
  const auto& wrong =
      bench.send("PUT", "/emulator/v1/rules", R"([{"unit":"bananas","amount":1,"per":"60s"}])");
  EXPECT_TRUE(wrong.bytes.starts_with("HTTP/1.1 400 "));
  EXPECT_NE(wrong.body().find("unit"), std::string::npos);
}

TEST(EmulatorFaults, EachKindDoesWhatItsNameSays) {
  const auto with = [](const char* kind) {
    return std::string("output: {exact: true}\nfaults: {") + kind + ": 100%}\n";
  };
  Bench error(with("server_error"));
  error.chat(R"("max_tokens":5)");
  error.run();
  EXPECT_TRUE(error.responder->bytes.starts_with("HTTP/1.1 500 "));
  EXPECT_EQ(number(error.counters(), "/failed"), 1);

  Bench before(with("reset_before"));
  before.chat(R"("max_tokens":5)");
  before.run();
  EXPECT_TRUE(before.responder->aborted);
  EXPECT_TRUE(before.responder->bytes.empty());

  Bench inside(with("reset_inside"));
  inside.chat(R"("max_tokens":50,"stream":true)");
  inside.run();
  EXPECT_TRUE(inside.responder->aborted);
  EXPECT_TRUE(inside.responder->bytes.starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(inside.responder->bytes.find("[DONE]"), std::string::npos);

  Bench malformed(with("malformed"));
  malformed.chat(R"("max_tokens":50,"stream":true)");
  malformed.run();
  EXPECT_NE(malformed.responder->bytes.find("data: {\"id\":\"chatcmpl-\n\n"), std::string::npos);

  Bench slow(with("slow"));
  slow.chat(R"("max_tokens":11)");
  EXPECT_EQ(slow.run(), 2s);
}

TEST(EmulatorChat, ACallerThatLeavesEndsItsAttempt) {
  Bench bench("output: {exact: true}\n");
  bench.chat(R"("max_tokens":100,"stream":true)");
  for (int turn = 0; turn < 5; ++turn) {
    bench.loop.time = bench.responder->timer;
    bench.session->on_timer();
  }
  bench.session->on_peer_gone();
  bench.session.reset();
  const std::string counters = bench.counters();
  EXPECT_EQ(number(counters, "/inflight"), 0);
  EXPECT_EQ(number(counters, "/aborted"), 1);
  EXPECT_GE(number(counters, "/output_tokens"), 4);
}

TEST(EmulatorChat, ASlowReaderIsWaitedFor) {
  Bench bench("output: {exact: true}\n");
  auto& responder = bench.chat(R"("max_tokens":10,"stream":true)");
  responder.held = std::size_t{1} << 20U;
  bench.loop.time = responder.timer;
  bench.session->on_timer();
  EXPECT_EQ(responder.timer, kNever);
  responder.held = 0;
  bench.session->on_writable();
  EXPECT_NE(responder.timer, kNever);
  bench.run();
  EXPECT_TRUE(responder.finished);
}

constexpr std::string_view kGrowing =
    "growth: [{of: requests, floor: 2, per: 10s}]\noutput: {exact: true}\nwait: {longest: 30s}\n";

TEST(EmulatorGrowth, IsRefusedWithItsOwnCodeAndWithoutAHint) {
  Bench bench((std::string(kGrowing)));
  for (int call = 0; call < 2; ++call) {
    bench.chat(R"("max_tokens":1)");
    bench.run();
  }
  bench.chat(R"("max_tokens":1)");
  EXPECT_TRUE(bench.responder->bytes.starts_with("HTTP/1.1 429 "));
  EXPECT_EQ(text(bench.responder->body(), "/error/code"), "limit_burst_rate");
  EXPECT_EQ(bench.responder->head().find("retry-after"), std::string::npos);
  EXPECT_EQ(number(bench.counters(), "/refused_for_growth"), 1);
}

TEST(EmulatorGrowth, AWaitTimeoutHoldsTheRequestUntilItFits) {
  Bench bench((std::string(kGrowing)));
  for (int call = 0; call < 2; ++call) {
    bench.chat(R"("max_tokens":1)");
    bench.run();
  }
  bench.patience = "20";
  bench.chat(R"("max_tokens":1)");
  EXPECT_TRUE(bench.responder->bytes.empty());
  EXPECT_NEAR(to_seconds(bench.run()), 9.9, 0.2) << "the rest of 10 s, and the first token";
  EXPECT_TRUE(bench.responder->bytes.starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(number(bench.counters(), "/refused"), 0);
}

TEST(EmulatorGrowth, AWaitEndsInARefusalAndWhoLeavesIsNotCounted) {
  Bench bench((std::string(kGrowing)));
  for (int call = 0; call < 2; ++call) {
    bench.chat(R"("max_tokens":1)");
    bench.run();
  }
  bench.patience = "3";
  bench.chat(R"("max_tokens":1)");
  EXPECT_NEAR(to_seconds(bench.run()), 3, 0.05);
  EXPECT_TRUE(bench.responder->bytes.starts_with("HTTP/1.1 429 "));
  bench.chat(R"("max_tokens":1)");
  EXPECT_EQ(number(bench.counters(), "/waiting"), 1);
  bench.chat(R"("max_tokens":1)");
  bench.session->on_peer_gone();
  EXPECT_EQ(number(bench.counters(), "/waiting"), 0);
  EXPECT_EQ(number(bench.counters(), "/refused"), 1);
  EXPECT_EQ(number(bench.counters(), "/inflight"), 0);
}

TEST(EmulatorAccount, AnotherConsumerIsSeenInTheHeaders) {
  Bench bench(
      "rules: [{unit: requests, amount: 1000, per: 60s}]\n"
      "other: {per_second: 10, input_tokens: {mean: 10}}\n");
  bench.loop.time += 1min;
  bench.chat(R"("max_tokens":1)");
  bench.run();
  EXPECT_NE(bench.responder->head().find("x-ratelimit-remaining-requests: "), std::string::npos);
  const std::string counters = bench.counters();
  EXPECT_NEAR(static_cast<double>(number(counters, "/attempts")), 600, 100);
  EXPECT_NEAR(static_cast<double>(number(counters, "/rules/0/remaining")), 400, 100);
}

TEST(EmulatorAccount, DaysBeginAtMidnightUtc) {
  // The bench starts at 1,800,000,000 s after 1970: 8 h after midnight.
  Bench bench("rules: [{unit: requests, amount: 1, per: 24h, enforce: fixed}]\n");
  bench.chat(R"("max_tokens":1)");
  bench.run();
  EXPECT_NEAR(static_cast<double>(number(bench.counters(), "/rules/0/reset_ms")), 16 * 3.6e6, 1000);
}

TEST(LimitText, DurationsAreGos) {
  EXPECT_EQ(go_duration(0ns), "0s");
  EXPECT_EQ(go_duration(83'200us), "84ms");
  EXPECT_EQ(go_duration(1s), "1s");
  EXPECT_EQ(go_duration(6min), "6m0s");
  EXPECT_EQ(go_duration(1h + 2min + 3004ms), "1h2m3.004s");
  EXPECT_EQ(go_duration(1500ms), "1.5s");
}

TEST(Settings, EveryFaultHasItsPlace) {
  const auto read = read_settings(
      "rules:\n  - {unit: requests, amount: 1}\nlatncy: {}\nfaults: {slow: 60%, malformed: 60%}\n",
      "x.yaml");
  EXPECT_FALSE(read.settings);
  ASSERT_EQ(read.faults.size(), 3U);
  EXPECT_EQ(read.faults[0].line, 2);
  EXPECT_NE(read.faults[1].fix.find("latency"), std::string::npos);
  EXPECT_NE(read.faults[2].message.find("100%"), std::string::npos);
}

TEST(Settings, ThePartsReadBackWhatTheyWrite) {
  model::LatencySettings latency;
  latency.per_input_token = 1500ns;
  latency.knee = 7;
  const auto again = read_latency(latency_json(latency));
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(again->per_input_token, 1500ns);
  EXPECT_EQ(again->knee, 7);
  const std::vector<Rule> rules = {
      {.unit = Unit::total_tokens,
       .amount = 5,
       .window = 10s,
       .enforce = Enforcement::bucket,
       .count = Counting::reserve,
       .burst = 3},
      {.amount = 5, .window = 24h, .enforce = Enforcement::counter, .burst = std::nullopt},
      {.amount = 5, .window = 1s, .enforce = Enforcement::leaky, .burst = std::nullopt}};
  const auto read = read_rules(rules_json(rules));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, rules);
}

}  // namespace
}  // namespace weir::emulator
