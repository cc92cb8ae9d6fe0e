// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gateway/fake_world.h"

namespace weir::gateway::fake {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(Session, RelaysAChatCall) {
  World world(config_text());
  auto client = world.chat();
  ASSERT_EQ(world.connector.attempts.size(), 1U);
  Attempt& attempt = world.connector.last();
  EXPECT_TRUE(attempt.head.starts_with("POST /base/v1/chat/completions HTTP/1.1\r\n"));
  EXPECT_TRUE(attempt.has_line("host: 127.0.0.1:9001"));
  EXPECT_TRUE(attempt.has_line("authorization: Bearer sk-provider-canary"));
  EXPECT_TRUE(attempt.has_line("accept-encoding: identity"));
  EXPECT_TRUE(attempt.has_line("content-length: " + std::to_string(attempt.body.size())));
  EXPECT_EQ(
      attempt.body,
      R"({"model":"big-model","messages":[{"role":"user","content":"prompt-canary"}],"max_tokens":20})");
  attempt.sent();
  EXPECT_EQ(world.snapshot().inflight, 1);
  attempt.answer(200, World::kAnswer,
                 {{"Content-Type", "application/json"},
                  {"x-request-id", "req-1"},
                  {"Set-Cookie", "a=b"},
                  {"Alt-Svc", "h3"},
                  {"x-ratelimit-remaining-requests", "5"}});
  EXPECT_EQ(client->status(), 200);
  EXPECT_EQ(client->body(), World::kAnswer);
  EXPECT_EQ(client->writes, 1);
  EXPECT_TRUE(client->finished);
  EXPECT_TRUE(client->kept_alive);
  EXPECT_EQ(client->field("x-request-id"), "req-1");
  EXPECT_EQ(client->field("set-cookie"), "");
  EXPECT_EQ(client->field("alt-svc"), "");
  EXPECT_EQ(client->field("x-weir-decision"), "admitted");
  EXPECT_EQ(client->field("x-weir-deployment"), "chat-1");
  EXPECT_EQ(client->field("x-weir-model"), "big-model");
  EXPECT_EQ(client->field("x-weir-attempts"), "1");
  EXPECT_EQ(client->field("x-weir-trace-id").size(), 32U);
  EXPECT_TRUE(world.idle());
  EXPECT_TRUE(world.metric(
      R"(weir_requests_total{deployment="chat-1",tenant="acme",class="standard",decision="admitted"} 1)"));
  EXPECT_TRUE(world.metric(R"(weir_attempts_total{deployment="chat-1",status="200"} 1)"));
  EXPECT_TRUE(world.metric(
      R"(weir_tokens_total{kind="output",deployment="chat-1",tenant="acme",class="standard"} 7)"));
}

constexpr std::string_view kEvent =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
constexpr std::string_view kFinish =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
constexpr std::string_view kUsage =
    "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,"
    "\"total_tokens\":5}}\n\n";
constexpr std::string_view kDone = "data: [DONE]\n\n";

const Lines kEventStream = {{"content-type", "text/event-stream"}};

void begin_stream(Attempt& attempt) {
  attempt.sent();
  attempt.answer_head(200, kEventStream, http::BodyKind::chunked);
}

TEST(Session, RelaysAStreamEventByEvent) {
  World world(config_text());
  auto client = world.chat(World::kStream);
  Attempt& attempt = world.connector.last();
  begin_stream(attempt);
  EXPECT_EQ(client->writes, 0) << "the head waits for the first event";
  attempt.answer_body(kEvent);
  EXPECT_EQ(client->writes, 1);
  attempt.answer_body(kEvent);
  EXPECT_EQ(client->writes, 2);
  attempt.answer_body(kFinish);
  attempt.answer_body(kUsage);
  attempt.answer_body(kDone);
  attempt.answer_end();
  EXPECT_TRUE(client->finished);
  EXPECT_TRUE(client->kept_alive);
  EXPECT_EQ(client->field("transfer-encoding"), "chunked");
  EXPECT_EQ(client->unchunked(),
            std::string(kEvent) + std::string(kEvent) + std::string(kFinish) + std::string(kDone));
  EXPECT_TRUE(world.idle());
}

TEST(Session, T048_AskingForUsageStaysInvisible) {
  World world(config_text());
  auto client = world.chat(World::kStream);
  EXPECT_TRUE(contains(world.connector.last().body, R"("include_usage":true)"));
  begin_stream(world.connector.last());
  world.connector.last().answer_body(std::string(kEvent) + std::string(kFinish) +
                                     std::string(kUsage) + std::string(kDone));
  world.connector.last().answer_end();
  EXPECT_FALSE(contains(client->out, "usage"));
  EXPECT_TRUE(world.metric(
      R"(weir_tokens_total{kind="input",deployment="chat-1",tenant="acme",class="standard"} 3)"));

  const std::string asking =
      R"({"model":"fast-chat","messages":[],"stream":true,"stream_options":{"include_usage":true}})";
  auto asker = world.chat(asking);
  begin_stream(world.connector.last());
  world.connector.last().answer_body(std::string(kEvent) + std::string(kFinish) +
                                     std::string(kUsage) + std::string(kDone));
  world.connector.last().answer_end();
  EXPECT_TRUE(contains(asker->out, "\"usage\":{\"prompt_tokens\":3"));
}

TEST(Session, Http10ClientsGetUntilClose) {
  World world(config_text());
  Lines fields = {{"Authorization", "Bearer weir-acme"}};
  auto client = world.request("POST", "/v1/chat/completions", fields, World::kStream, 0);
  begin_stream(world.connector.last());
  world.connector.last().answer_body(std::string(kEvent) + std::string(kDone));
  world.connector.last().answer_end();
  EXPECT_EQ(client->field("transfer-encoding"), "");
  EXPECT_EQ(client->field("connection"), "close");
  EXPECT_EQ(client->body(), std::string(kEvent) + std::string(kDone));
  EXPECT_FALSE(client->kept_alive);
}

TEST(Session, T026_CredentialsStayWithTheirTarget) {
  World world(config_text());
  auto client = world.chat(World::kChat, {{"x-api-key", "weir-acme"},
                                          {"api-key", "weir-acme"},
                                          {"X-Goog-Api-Key", "weir-acme"},
                                          {"Cookie", "session=canary"},
                                          {"OpenAI-Organization", "org-client"},
                                          {"OpenAI-Project", "proj-client"},
                                          {"X-Weir-Class", "batch"},
                                          {"X-Forwarded-For", "203.0.113.9"},
                                          {"Forwarded", "for=203.0.113.9"},
                                          {"X-Real-IP", "203.0.113.9"},
                                          {"Connection", "keep-alive, x-hop"},
                                          {"x-hop", "hop-canary"},
                                          {"TE", "trailers"},
                                          {"Expect", "100-continue"},
                                          {"Accept-Encoding", "gzip"},
                                          {"User-Agent", "OpenAI/JS"},
                                          {"x-stainless-retry-count", "1"},
                                          {"traceparent", "00-aa-bb-01"}});
  const std::string& head = world.connector.last().head;
  for (const char* canary : {"weir-acme", "session=", "org-client", "proj-client", "203.0.113.9",
                             "x-hop", "hop-canary", "TE:", "Expect", "gzip", "eir-Class"}) {
    EXPECT_FALSE(contains(head, canary)) << canary;
  }
  EXPECT_TRUE(contains(head, "OpenAI-Organization: org-own\r\n"));
  EXPECT_TRUE(contains(head, "User-Agent: OpenAI/JS\r\n"));
  EXPECT_TRUE(contains(head, "x-stainless-retry-count: 1\r\n"));
  EXPECT_TRUE(contains(head, "traceparent: 00-aa-bb-01\r\n"));
  // A redirect is not followed and not passed on, whoever it names.
  world.connector.last().sent();
  world.connector.last().answer(307, "", {{"Location", "http://other.example/"}});
  EXPECT_EQ(client->status(), 502);
  EXPECT_FALSE(contains(client->out, "other.example"));
  EXPECT_EQ(world.connector.attempts.size(), 1U);
}

TEST(Session, KeyInTheQueryNeverLeaves) {
  World world(config_text());
  auto client =
      world.request("POST", "/v1/chat/completions?a=1&key=weir-acme&b=2", {}, World::kChat);
  EXPECT_TRUE(world.connector.last().head.starts_with(
      "POST /base/v1/chat/completions?a=1&b=2 HTTP/1.1\r\n"));
}

TEST(Session, T011_ErrorObjectInsideASuccess) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(200, R"({"error":{"code":502,"message":"bad"}})");
  EXPECT_EQ(client->status(), 502);
  EXPECT_TRUE(contains(client->body(), "admitted_then_provider_failed"));
  EXPECT_TRUE(world.idle());
}

TEST(Session, T011_RateLimitInsideASuccessIsRetried) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(
      200, R"({"error":{"code":429,"message":"Rate limit reached. Please try again in 1s."}})");
  EXPECT_FALSE(client->finished);
  world.pass(seconds(10));
  ASSERT_EQ(world.connector.attempts.size(), 2U);
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  EXPECT_EQ(client->status(), 200);
  EXPECT_TRUE(world.idle());
}

TEST(Session, RequeuesAfterAProviderRefusal) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(429, R"({"error":{"message":"slow","type":"requests"}})",
                                {{"retry-after", "2"}});
  EXPECT_FALSE(client->finished);
  EXPECT_EQ(client->writes, 0);
  world.pass(milliseconds(1900));
  EXPECT_EQ(world.connector.attempts.size(), 1U) << "the hint is obeyed";
  world.pass(seconds(5));
  ASSERT_EQ(world.connector.attempts.size(), 2U);
  EXPECT_EQ(world.connector.attempts[0]->body, world.connector.attempts[1]->body);
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  EXPECT_EQ(client->status(), 200);
  EXPECT_EQ(client->field("x-weir-attempts"), "2");
  EXPECT_TRUE(world.idle());
  EXPECT_TRUE(world.metric(R"(weir_retries_total{deployment="chat-1",reason="rate_limited"} 1)"));
}

TEST(Session, GivesUpWithTheProvidersWords) {
  World world(config_text());
  auto client = world.chat();
  for (int i = 0; i < 5 && !client->finished; ++i) {
    world.connector.last().sent();
    world.connector.last().answer(
        429, R"({"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}})",
        {{"retry-after", "2"}});
    world.pass(seconds(6));
  }
  ASSERT_TRUE(client->finished);
  EXPECT_EQ(client->status(), 429);
  EXPECT_TRUE(contains(client->body(), R"("gateway_decision":"admitted_then_provider_rejected")"));
  EXPECT_TRUE(contains(client->body(), R"("provider_error":{"message":"slow down")"));
  EXPECT_TRUE(contains(client->body(), R"("provider":"up")"));
  EXPECT_GE(std::stoi(client->field("retry-after")), 1);
  EXPECT_LE(std::stoi(client->field("retry-after")), 59);
  EXPECT_NE(client->field("retry-after-ms"), "");
  EXPECT_TRUE(world.idle());
}

TEST(Session, OutOfCreditIsFinal) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(429,
                                R"({"error":{"message":"no credit","code":"insufficient_quota"}})");
  EXPECT_EQ(client->status(), 429);
  EXPECT_EQ(world.connector.attempts.size(), 1U);
  EXPECT_EQ(client->field("x-should-retry"), "false");
  EXPECT_TRUE(contains(client->body(), "provider_quota_exhausted"));
  EXPECT_TRUE(world.idle());
}

TEST(Session, T016_NonJsonErrorBodies) {
  World world(config_text());
  for (const auto body : {World::kChat, World::kStream}) {
    auto client = world.chat(body);
    world.connector.last().sent();
    const std::string page = "<html>" + std::string(20'000, 'x') + "</html>";
    world.connector.last().answer(521, page, {{"content-type", "text/html"}});
    EXPECT_EQ(client->status() / 100, 5);
    EXPECT_FALSE(contains(client->out, "<html>"));
    EXPECT_LT(client->out.size(), 2000U);
    EXPECT_EQ(client->field("content-type"), "application/json");
  }
  EXPECT_TRUE(world.idle());
}

TEST(Session, KeepsRetryAfterOfAServerError) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(500, R"({"error":{"message":"oops"}})", {{"retry-after", "2"}});
  EXPECT_EQ(client->status(), 502);
  EXPECT_EQ(client->field("retry-after"), "2");
  EXPECT_TRUE(contains(client->body(), R"("provider_error":{"message":"oops"})"));
  EXPECT_TRUE(world.idle());
}

TEST(Session, OtherClientErrorsPassByteForByte) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  const std::string_view body = R"({ "error": {"message":"bad tool","type":"x","param":"tools"} })";
  world.connector.last().answer(422, body, {{"content-type", "application/json"}, {"x-y", "z"}});
  EXPECT_EQ(client->status(), 422);
  EXPECT_EQ(client->body(), body);
  EXPECT_EQ(client->field("x-y"), "z");
  EXPECT_TRUE(world.idle());
}

TEST(Session, LongClientErrorsPassWhole) {
  World world(config_text());
  auto client = world.chat();
  Attempt& attempt = world.connector.last();
  attempt.sent();
  const std::string body(200'000, 'e');
  attempt.answer_head(404, {{"content-type", "text/plain"}}, http::BodyKind::length, body.size());
  for (std::size_t at = 0; at < body.size(); at += 30'000) {
    attempt.answer_body(std::string_view(body).substr(at, 30'000));
  }
  attempt.answer_end();
  EXPECT_EQ(client->status(), 404);
  EXPECT_EQ(client->body(), body);
  EXPECT_TRUE(world.idle());
}

TEST(Session, T128_OurKeyRefusedIsNotEchoed) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(
      401, R"({"error":{"message":"Incorrect API key provided: sk-provider-canary"}})");
  EXPECT_EQ(client->status(), 502);
  EXPECT_FALSE(contains(client->out, "canary"));
  EXPECT_TRUE(contains(client->body(), "provider_key_refused"));
  auto other = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(500, R"({"error":{"message":"key sk-provider-canary broke"}})");
  EXPECT_EQ(other->status(), 502);
  EXPECT_FALSE(contains(other->out, "canary"));
  EXPECT_FALSE(contains(world.all_lines(), "canary"));
  EXPECT_FALSE(contains(world.all_lines(), "weir-acme"));
  EXPECT_FALSE(contains(world.metrics(), "canary"));
}

TEST(Session, T129_PromptsAreNotLogged) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  auto broken = world.chat(R"({"model":"fast-chat","messages":"prompt-canary","max_tokens":"x"})");
  EXPECT_EQ(broken->status(), 400);
  auto failing = world.chat();
  world.connector.last().fail(ErrorCode::connection_lost, true);
  EXPECT_EQ(failing->status(), 502);
  EXPECT_FALSE(world.lines.empty());
  EXPECT_FALSE(contains(world.all_lines(), "canary"));
  EXPECT_FALSE(contains(world.metrics(), "canary"));
}

TEST(Session, T023_NoReplayAfterContentReachedTheClient) {
  World world(config_text());
  auto client = world.chat(World::kStream);
  begin_stream(world.connector.last());
  for (int i = 0; i < 5; ++i) world.connector.last().answer_body(kEvent);
  world.connector.last().fail(ErrorCode::connection_lost, true);
  EXPECT_EQ(world.connector.attempts.size(), 1U);
  EXPECT_TRUE(client->finished);
  EXPECT_FALSE(client->aborted);
  const std::string body = client->unchunked();
  std::string expected;
  for (int i = 0; i < 5; ++i) expected += kEvent;
  ASSERT_TRUE(body.starts_with(expected));
  EXPECT_TRUE(std::string_view(body).substr(expected.size()).starts_with("data: {\"error\":{"));
  EXPECT_TRUE(body.ends_with("}}\n\n"));
  EXPECT_TRUE(world.idle());
  EXPECT_TRUE(world.metric(R"(weir_truncated_total{deployment="chat-1"} 1)"));
  EXPECT_TRUE(world.metric(
      R"(weir_requests_total{deployment="chat-1",tenant="acme",class="standard",decision="truncated"} 1)"));
}

TEST(Session, T051_TerminalSignalDecidesSuccess) {
  World world(config_text());
  struct Variant {
    std::string last;
    bool whole;
  };
  for (const auto& variant :
       {Variant{"", false}, Variant{std::string(kFinish), true}, Variant{std::string(kDone), true},
        Variant{std::string(kFinish) + std::string(kDone), true}}) {
    auto client = world.chat(World::kStream);
    begin_stream(world.connector.last());
    for (int i = 0; i < 10; ++i) world.connector.last().answer_body(kEvent);
    if (!variant.last.empty()) world.connector.last().answer_body(variant.last);
    world.connector.last().answer_end();
    EXPECT_TRUE(client->finished);
    EXPECT_EQ(contains(client->unchunked(), "\"error\""), !variant.whole) << variant.last;
    EXPECT_EQ(client->kept_alive, variant.whole);
  }
  EXPECT_TRUE(world.metric(R"(weir_truncated_total{deployment="chat-1"} 1)"));
  EXPECT_TRUE(world.idle());
}

TEST(Session, AnEventCutInTheMiddleDoesNotSwallowTheError) {
  World world(config_text());
  const std::string asking =
      R"({"model":"fast-chat","messages":[],"stream":true,"stream_options":{"include_usage":true}})";
  auto client = world.chat(asking);
  begin_stream(world.connector.last());
  world.connector.last().answer_body(kEvent);
  world.connector.last().answer_body("data: {\"choi");
  world.connector.last().answer_end();
  EXPECT_TRUE(contains(client->unchunked(), "\n\ndata: {\"error\":{"));
}

TEST(Session, ABrokenAnswerThatIsNoStreamIsAborted) {
  World world(config_text());
  auto client = world.chat();
  Attempt& attempt = world.connector.last();
  attempt.sent();
  attempt.answer_head(200, {{"content-type", "application/json"}}, http::BodyKind::length, 500);
  attempt.answer_body(R"({"id":"c1","object":"chat.completion","choices":[{"index":0,"mess)");
  attempt.fail(ErrorCode::connection_lost, true);
  EXPECT_TRUE(client->aborted);
  EXPECT_FALSE(client->finished);
  EXPECT_TRUE(world.idle());
}

TEST(Session, T045_ReserveReturnsOnEveryExitPath) {
  // The template closes the brace of the last entry.
  World world(config_text(
      "rpm: 60000}\n    rules: [{unit: total_tokens, amount: 1000000, per: 1m, enforce: sliding, "
      "count: settle}]\n    scope: {region: eu-1"));
  using Act = std::function<void(Attempt&)>;
  const std::vector<std::pair<const char*, Act>> ways = {
      {"connect refused", [](Attempt& at) { at.fail(ErrorCode::connect_failed, false); }},
      {"tls", [](Attempt& at) { at.fail(ErrorCode::tls_failed, false); }},
      {"401",
       [](Attempt& at) {
         at.sent();
         at.answer(401, "{}");
       }},
      {"500",
       [](Attempt& at) {
         at.sent();
         at.answer(500, "{}");
       }},
      {"timeout",
       [](Attempt& at) {
         at.sent();
         at.fail(ErrorCode::timed_out, true);
       }},
      {"not http",
       [](Attempt& at) {
         at.sent();
         at.fail(ErrorCode::bad_response, true);
       }},
      {"empty",
       [](Attempt& at) {
         at.sent();
         at.answer(200, "");
       }},
      {"usage 12",
       [](Attempt& at) {
         at.sent();
         at.answer(200, World::kAnswer);
       }},
  };
  for (const auto& [what, act] : ways) {
    auto client = world.chat();
    act(world.connector.last());
    EXPECT_TRUE(client->finished) << what;
    EXPECT_TRUE(world.idle()) << what;
    if (client->status() != 200) {
      EXPECT_TRUE(contains(client->body(), R"("provider_scope":{"region":"eu-1"})")) << what;
    }
    EXPECT_FALSE(world.connector.last().open) << what;
    const auto now = world.snapshot();
    for (const auto& meter : now.deployments[0].meters) {
      if (meter.rule.unit == Unit::total_tokens) {
        EXPECT_EQ(meter.used, std::string_view(what) == "usage 12" ? 12 : 0) << what;
      }
    }
  }
}

TEST(Session, TimeOutsAre504) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  world.connector.last().fail(ErrorCode::timed_out, true);
  EXPECT_EQ(client->status(), 504);
  auto gateway_timeout = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(504, "{}");
  EXPECT_EQ(gateway_timeout->status(), 504);
}

TEST(Session, T044_ClientLeavesBeforeTheUsageFrame) {
  World world(config_text("total_tpm: 100000"));
  std::int64_t before = 0;
  for (int i = 0; i < 20; ++i) {
    auto client = world.chat(World::kStream);
    begin_stream(world.connector.last());
    for (int n = 0; n < 5; ++n) world.connector.last().answer_body(kEvent);
    client->leave();
    EXPECT_FALSE(world.connector.last().open) << "the provider's connection is closed at once";
    EXPECT_TRUE(world.idle());
    const auto used = world.snapshot().deployments[0].meters[0].used;
    EXPECT_GE(used - before, 5);
    before = used;
  }
}

TEST(Session, T054_EveryPhaseFreesTheSlot) {
  World world(config_text("concurrency: 2"));
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/embeddings"}) {
    const std::string body = std::string(path) == "/v1/chat/completions" ? std::string(World::kChat)
                             : std::string(path) == "/v1/completions"
                                 ? R"({"model":"fast-chat","prompt":"x"})"
                                 : R"({"model":"fast-chat","input":"x"})";
    const Lines fields = {{"Authorization", "Bearer weir-acme"}};
    const auto call = [&] { return world.request("POST", path, fields, body); };
    call()->leave();  // sending
    EXPECT_TRUE(world.idle()) << path;
    auto late = call();
    world.connector.last().sent();
    late->leave();  // waiting for the provider
    EXPECT_TRUE(world.idle()) << path;
    auto broken = call();
    world.connector.last().sent();
    world.connector.last().answer_head(400, {}, http::BodyKind::length, 10);
    broken->leave();  // while an error is collected
    EXPECT_TRUE(world.idle()) << path;
    auto first = call();
    auto second = call();
    auto queued = call();
    EXPECT_EQ(world.snapshot().inflight, 2);
    EXPECT_EQ(world.snapshot().queued, 1);
    queued->leave();
    EXPECT_EQ(world.snapshot().queued, 0);
    first->leave();
    second->leave();
    EXPECT_TRUE(world.idle()) << path;
  }
}

TEST(Session, T055_SlotCoversTheWholeStream) {
  World world(config_text("concurrency: 2"));
  auto first = world.chat(World::kStream);
  auto second = world.chat(World::kStream);
  auto third = world.chat(World::kStream);
  ASSERT_EQ(world.connector.attempts.size(), 2U);
  for (int i = 0; i < 2; ++i) {
    begin_stream(*world.connector.attempts[static_cast<std::size_t>(i)]);
    world.connector.attempts[static_cast<std::size_t>(i)]->answer_body(kEvent);
  }
  world.pass(seconds(10));
  EXPECT_EQ(world.connector.attempts.size(), 2U);
  world.connector.attempts[0]->answer_body(kDone);
  world.connector.attempts[0]->answer_end();
  world.pass(seconds(1));
  ASSERT_EQ(world.connector.attempts.size(), 3U);
  begin_stream(world.connector.last());
  world.connector.last().answer_body(kEvent);
  EXPECT_EQ(third->field("x-weir-decision"), "queued");
  EXPECT_GE(std::stoi(third->field("x-weir-queue-ms")), 9000);
}

TEST(Session, T058_DeadWaitersAreDropped) {
  World world(config_text("concurrency: 1"));
  auto holder = world.chat();
  std::vector<std::shared_ptr<Client>> dead;
  for (int i = 0; i < 40; ++i) dead.push_back(world.chat());
  auto live = world.chat();
  world.pass(seconds(1));
  for (auto& client : dead) client->leave();
  EXPECT_EQ(world.snapshot().queued, 1);
  EXPECT_TRUE(world.metric(R"(weir_queue_depth{class="standard"} 1)"));
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  world.pass(milliseconds(100));
  ASSERT_EQ(world.connector.attempts.size(), 2U) << "no call for the dead";
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  EXPECT_EQ(live->status(), 200);
  EXPECT_TRUE(world.idle());
}

TEST(Session, QueueTimeoutIs429WithAHint) {
  World world(config_text("concurrency: 1"));
  auto holder = world.chat();
  auto waiting = world.chat(World::kChat, {{"x-weir-max-wait", "500ms"}});
  EXPECT_FALSE(waiting->finished);
  world.pass(seconds(1));
  ASSERT_TRUE(waiting->finished);
  EXPECT_EQ(waiting->status(), 429);
  EXPECT_TRUE(contains(waiting->body(), R"("gateway_decision":"queue_timeout")"));
  EXPECT_TRUE(contains(waiting->body(), R"("tenant_id":"acme")"));
  EXPECT_GE(std::stoi(waiting->field("retry-after")), 1);
  EXPECT_EQ(waiting->field("x-weir-decision"), "refused");
  EXPECT_TRUE(waiting->kept_alive);
}

TEST(Session, NeverFitsIs400) {
  World world(config_text("total_tpm: 100"));
  auto client = world.chat(R"({"model":"fast-chat","messages":[{"role":"user","content":")" +
                           std::string(5000, 'x') + R"("}]})");
  EXPECT_EQ(client->status(), 400);
  EXPECT_TRUE(contains(client->body(), R"("gateway_decision":"never_fits")"));
  EXPECT_TRUE(contains(client->body(), R"("limiter":"total_tpm")"));
  EXPECT_TRUE(contains(client->body(), R"("limited_by":"deployment:chat-1")"));
  EXPECT_TRUE(contains(client->body(),
                       "total tokens, and the limit total_tpm of deployment:chat-1 "
                       "lets at most 100 pass at once"))
      << client->body();
  EXPECT_TRUE(world.connector.attempts.empty());
}

TEST(Session, ObserveCountsWhatEnforceWouldHaveDone) {
  World world(config_text("concurrency: 1", "mode: observe\n"));
  auto first = world.chat();
  auto second = world.chat();
  ASSERT_EQ(world.connector.attempts.size(), 2U);
  for (const auto& attempt : world.connector.attempts) {
    attempt->sent();
    attempt->answer(200, World::kAnswer);
  }
  EXPECT_EQ(second->field("x-weir-decision"), "observed");
  EXPECT_TRUE(world.metric(R"(weir_observed_total{deployment="chat-1",would="admitted"} 1)"));
  EXPECT_TRUE(world.metric(R"(weir_observed_total{deployment="chat-1",would="queued"} 1)"));
  EXPECT_TRUE(
      contains(world.all_lines(),
               R"("would":"queued","limiter":"concurrency","limited_by":"deployment:chat-1",)"
               R"("would_wait_ms":1000,)"))
      << world.all_lines();
}

TEST(Session, MaxWaitZeroDoesNotQueue) {
  World world(config_text("concurrency: 1"));
  auto holder = world.chat();
  auto client = world.chat(World::kChat, {{"X-DashScope-Wait-Timeout", "0"}});
  EXPECT_EQ(client->status(), 429);
  EXPECT_TRUE(world.snapshot().queued == 0);
}

TEST(Session, T110_SlowReaderPausesTheProvider) {
  World world(config_text());
  auto client = world.chat(World::kStream);
  begin_stream(world.connector.last());
  client->backlog = 1 << 20;
  world.connector.last().answer_body(kEvent);
  EXPECT_TRUE(world.connector.last().paused);
  EXPECT_NE(client->timer, kNever);
  client->backlog = 0;
  client->session->on_writable();
  EXPECT_FALSE(world.connector.last().paused);
  EXPECT_EQ(client->timer, kNever);
  client->backlog = 1 << 20;
  world.connector.last().answer_body(kEvent);
  client->session->on_timer();
  EXPECT_TRUE(client->aborted) << "who takes nothing for a minute is gone";
  EXPECT_TRUE(world.idle());
}

TEST(Session, DrainRefusesWhatWaitsAndEndsStreams) {
  World world(config_text("concurrency: 1"));
  auto stream = world.chat(World::kStream);
  begin_stream(world.connector.last());
  world.connector.last().answer_body(kEvent);
  auto waiting = world.chat();
  world.gateway->drain();
  world.loop.run();
  EXPECT_EQ(waiting->status(), 503);
  EXPECT_NE(waiting->field("retry-after"), "");
  EXPECT_FALSE(waiting->kept_alive);
  EXPECT_FALSE(stream->finished);
  auto late = world.chat();
  EXPECT_EQ(late->status(), 503);
  EXPECT_TRUE(late->refused_early);
  world.gateway->end_all();
  world.loop.run();
  EXPECT_TRUE(stream->finished);
  EXPECT_TRUE(contains(stream->unchunked(), "data: {\"error\""));
  EXPECT_TRUE(world.idle());
}

TEST(Session, T132_ReloadKeepsWhatRunsAndMovesWhatWaits) {
  World world(config_text("concurrency: 1"));
  auto stream = world.chat(World::kStream);
  begin_stream(world.connector.last());
  world.connector.last().answer_body(kEvent);
  auto waiting = world.chat();
  std::string text = config_text("concurrency: 2");
  // A deployment before the old one: every id moves.
  text.replace(text.find("  chat-1:"), 9, "  a-new: {provider: up, model: other-model}\n  chat-1:");
  world.gateway->reload(World::parse(text));
  world.pass(seconds(1));
  ASSERT_EQ(world.connector.attempts.size(), 2U) << "the new limit holds for the next decision";
  EXPECT_TRUE(contains(world.connector.last().body, "big-model"));
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  EXPECT_EQ(waiting->status(), 200);
  EXPECT_EQ(waiting->field("x-weir-deployment"), "chat-1");
  world.connector.attempts[0]->answer_body(kDone);
  world.connector.attempts[0]->answer_end();
  EXPECT_FALSE(contains(stream->unchunked(), "error"));
  EXPECT_TRUE(world.idle());
  EXPECT_TRUE(world.metric(R"(weir_config_reloads_total{result="applied"} 1)"));
}

/// The configuration with limits on tenant acme.
std::string with_tenant_limits(std::string_view limits) {
  std::string text = config_text("rpm: 600000");
  const std::string_view place = "  acme:\n";
  text.insert(text.find(place) + place.size(), "    limits: {" + std::string(limits) + "}\n");
  return text;
}

TEST(Session, T010_RefusalsSayWhenAndWhy) {
  World world(with_tenant_limits("rpm: 2"));
  for (int i = 0; i < 2; ++i) {
    auto client = world.chat();
    ASSERT_EQ(world.connector.attempts.size(), static_cast<std::size_t>(i + 1));
    world.connector.last().sent();
    world.connector.last().answer(200, World::kAnswer);
    EXPECT_EQ(client->status(), 200);
  }
  auto refused = world.chat(World::kChat, {{"x-weir-max-wait", "0"}});
  ASSERT_EQ(refused->status(), 429);
  EXPECT_TRUE(contains(refused->body(), R"("limiter":"rpm")"));
  EXPECT_TRUE(contains(refused->body(), R"("limited_by":"tenant:acme")"));
  EXPECT_TRUE(contains(refused->body(), R"("gateway_decision":"rejected_locally")"));
  const std::string longer = refused->field("x-weir-retry-after-ms");
  const int seconds_told = std::stoi(refused->field("retry-after"));
  EXPECT_GE(seconds_told, 1);
  EXPECT_LE(seconds_told, 59);
  world.pass(longer.empty() ? Duration(seconds(seconds_told))
                            : Duration(milliseconds(std::stoll(longer))));
  auto again = world.chat(World::kChat, {{"x-weir-max-wait", "0"}});
  EXPECT_FALSE(again->finished) << "retrying exactly then is admitted: " << again->body();
  EXPECT_EQ(world.connector.attempts.size(), 3U);
}

TEST(Session, T053_SlotFreedOnCancel) {
  World world(with_tenant_limits("concurrency: 1"));
  for (int i = 0; i < 100; ++i) {
    auto client = world.chat(World::kStream);
    ASSERT_EQ(world.connector.attempts.size(), static_cast<std::size_t>(i + 1));
    begin_stream(world.connector.last());
    world.connector.last().answer_body(kEvent);
    client->leave();
  }
  auto client = world.chat();
  EXPECT_EQ(world.connector.attempts.size(), 101U) << "admitted at once";
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  EXPECT_TRUE(world.idle());
  EXPECT_TRUE(world.metric(R"(weir_inflight{deployment="chat-1"} 0)"));
}

TEST(Session, T056_ConcurrencyIsNotRefilledByTheClock) {
  World world(with_tenant_limits("concurrency: 1"));
  auto first = world.chat(World::kStream);
  begin_stream(world.connector.last());
  world.connector.last().answer_body(kEvent);
  auto second = world.chat();
  for (int i = 0; i < 25; ++i) {
    world.pass(seconds(1));
    EXPECT_EQ(world.connector.attempts.size(), 1U);
  }
  world.connector.attempts[0]->answer_body(kDone);
  world.connector.attempts[0]->answer_end();
  world.pass(milliseconds(10));
  EXPECT_EQ(world.connector.attempts.size(), 2U);
}

TEST(Session, T057_LimitEditedWhileRequestsRun) {
  World world(with_tenant_limits("concurrency: 2"));
  auto first = world.chat(World::kStream);
  auto second = world.chat(World::kStream);
  begin_stream(*world.connector.attempts[0]);
  begin_stream(*world.connector.attempts[1]);
  world.gateway->reload(World::parse(config_text("rpm: 600000")));
  world.connector.attempts[0]->answer_body(std::string(kEvent) + std::string(kDone));
  world.connector.attempts[0]->answer_end();
  world.gateway->reload(World::parse(with_tenant_limits("concurrency: 1")));
  world.connector.attempts[1]->answer_body(std::string(kEvent) + std::string(kDone));
  world.connector.attempts[1]->answer_end();
  EXPECT_TRUE(world.idle());
  world.gateway->reload(World::parse(with_tenant_limits("concurrency: 2")));
  auto third = world.chat();
  auto fourth = world.chat();
  EXPECT_EQ(world.connector.attempts.size(), 4U);
  third->leave();
  fourth->leave();
  EXPECT_TRUE(world.idle());
}

TEST(Session, AReloadThatDropsTheKeyEndsNothingThatRuns) {
  World world(config_text("concurrency: 1"));
  auto stream = world.chat(World::kStream);
  begin_stream(world.connector.last());
  std::string text = config_text("concurrency: 1");
  text.replace(text.find("prod: {hash: \"sha256:38deb"), 26, "prod: {hash: \"sha256:00000");
  world.gateway->reload(World::parse(text));
  EXPECT_EQ(world.chat()->status(), 401);
  world.connector.last().answer_body(std::string(kEvent) + std::string(kDone));
  world.connector.last().answer_end();
  EXPECT_TRUE(stream->kept_alive);
  EXPECT_TRUE(world.idle());
}

}  // namespace
}  // namespace weir::gateway::fake
