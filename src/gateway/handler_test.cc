// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "gateway/fake_world.h"

namespace weir::gateway::fake {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

const Lines kAcme = {{"Authorization", "Bearer weir-acme"}};

TEST(Handler, T130_RefusesUnknownKeysAlike) {
  World world(config_text());
  std::string first;
  for (const Lines& fields : {Lines{}, Lines{{"Authorization", "Bearer nobody-canary"}},
                              Lines{{"Authorization", "Basic x"}}, Lines{{"x-api-key", "weir-old"}},
                              Lines{{"Authorization", "Bearer "}}}) {
    auto client = world.request("POST", "/v1/chat/completions", fields, World::kChat);
    EXPECT_TRUE(client->refused_early);
    EXPECT_EQ(client->status(), 401);
    EXPECT_EQ(client->field("www-authenticate"), "Bearer");
    EXPECT_FALSE(contains(client->out, "canary"));
    std::string body = client->body();
    body.resize(body.find("\"trace_id\""));
    if (first.empty()) first = body;
    EXPECT_EQ(body, first);
  }
  EXPECT_TRUE(world.connector.attempts.empty());
  EXPECT_FALSE(contains(world.all_lines(), "canary"));
}

TEST(Handler, TakesTheKeyFromEveryUsualPlace) {
  World world(config_text());
  for (const Lines& fields :
       {kAcme, Lines{{"authorization", "bearer weir-acme"}}, Lines{{"x-api-key", "weir-acme"}},
        Lines{{"api-key", "weir-acme"}}, Lines{{"x-goog-api-key", "weir-acme"}}}) {
    EXPECT_EQ(world.request("GET", "/v1/models", fields)->status(), 200);
  }
  EXPECT_EQ(world.request("GET", "/v1/models?key=weir-acme", {})->status(), 200);
}

TEST(Handler, T084_OtherSpellingsOfAPathAreUnknown) {
  World world(config_text());
  for (const char* path :
       {"/v1/chat/completions/", "//v1/chat/completions", "/v1//chat/completions",
        "/V1/chat/completions", "/v1/chat%2fcompletions", "/v1/%2e/chat/completions", "/v1/filesx",
        "/", "/chat/completions", "/admin/v1/overview"}) {
    auto client = world.request("POST", path, kAcme, World::kChat);
    EXPECT_EQ(client->status(), 404) << path;
    EXPECT_TRUE(contains(client->body(), "unknown_path")) << path;
  }
  EXPECT_TRUE(world.connector.attempts.empty());
}

TEST(Handler, T084_KnownPathsThatAreNotBuiltSaySoByName) {
  World world(config_text());
  for (const char* path :
       {"/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/v1/files", "/v1/batches",
        "/v1/images/generations", "/v1beta/models/m:generateContent", "/api/chat", "/v1/usage"}) {
    auto client = world.request("POST", path, kAcme, World::kChat);
    EXPECT_EQ(client->status(), 501) << path;
    EXPECT_TRUE(contains(client->body(), R"("code":"not_built")")) << path;
    EXPECT_TRUE(contains(client->body(), "not in this version")) << path;
    EXPECT_EQ(client->field("x-should-retry"), "false");
  }
  EXPECT_TRUE(world.connector.attempts.empty());
}

TEST(Handler, WishesThatAreNotBuiltAreRefusedByName) {
  World world(config_text());
  for (const auto& [field, value] : Lines{{"x-weir-route", "a"},
                                          {"X-Weir-Callback", "https://a.example/"},
                                          {"Prefer", "wait=5, Respond-Async; x=1"}}) {
    auto client = world.chat(World::kChat, {{field, value}});
    EXPECT_EQ(client->status(), 501) << field;
    EXPECT_TRUE(contains(client->body(), "is not in this version; leave it out")) << field;
  }
  EXPECT_TRUE(world.connector.attempts.empty());
  auto client = world.chat(World::kChat, {{"Prefer", "wait=5"}, {"Idempotency-Key", "a"}});
  EXPECT_EQ(world.connector.attempts.size(), 1U);
}

TEST(Handler, WhatTheServerRefusesIsTheSameObjectAndCounted) {
  World world(config_text());
  const std::pair<std::uint16_t, const char*> kCases[] = {
      {400, "malformed"},       {408, "request_timed_out"},  {413, "too_large"},
      {414, "target_too_long"}, {417, "expectation_failed"}, {431, "head_too_large"},
      {500, "internal"},        {503, "backpressure"},       {505, "version_unsupported"}};
  for (const auto& [status, code] : kCases) {
    Error error;
    error.text = "what is wrong";
    Client client;
    client.out = world.handler->on_refusal(status, error);
    EXPECT_EQ(client.status(), status);
    EXPECT_EQ(client.field("x-weir-trace-id").size(), 32U) << status;
    EXPECT_EQ(client.field("connection"), "close");
    EXPECT_TRUE(contains(client.body(), "what is wrong"));
    EXPECT_TRUE(contains(client.body(), "\"code\":\"" + std::string(code) + "\"")) << status;
    EXPECT_TRUE(contains(client.body(), R"("gateway_decision":)"));
    EXPECT_TRUE(world.metric("weir_early_refusals_total{code=\"" + std::string(code) + "\"} 1"));
  }
  Client client;
  client.out = world.handler->on_refusal(503, Error());
  EXPECT_GE(std::stoi(client.field("retry-after-ms")), 500);
}

TEST(Handler, RetryHintsOfAFullGatewayDiffer) {
  World world(config_text());
  std::set<std::string> told;
  for (int i = 0; i < 8; ++i) {
    Client client;
    client.out = world.handler->on_refusal(503, Error());
    told.insert(client.field("retry-after-ms"));
  }
  EXPECT_GT(told.size(), 4U);
}

TEST(Handler, ABodyThatEndsWhileDrainingIsRefusedAtOnce) {
  World world(config_text());
  http::Request request;
  request.head.method = "POST";
  request.head.target = "/v1/chat/completions";
  for (const auto& [name, value] : kAcme) request.head.fields.add({name, value});
  EXPECT_FALSE(world.handler->on_head(request.head));
  world.gateway->drain();
  Client client;
  client.body_storage = World::kChat;
  client.body_storage.append(http::kBodyPadding, '\0');
  request.body = std::string_view(client.body_storage).substr(0, World::kChat.size());
  world.handler->on_request(request, client);
  EXPECT_EQ(client.status(), 503);
  EXPECT_TRUE(contains(client.body(), R"("gateway_decision":"draining")"));
  EXPECT_FALSE(client.kept_alive);
  EXPECT_TRUE(world.connector.attempts.empty());
}

TEST(Handler, WrongMethodsAre405) {
  World world(config_text());
  auto client = world.request("GET", "/v1/chat/completions", kAcme);
  EXPECT_EQ(client->status(), 405);
  EXPECT_EQ(client->field("allow"), "POST");
  EXPECT_EQ(world.request("POST", "/v1/models", kAcme)->field("allow"), "GET");
}

TEST(Handler, T085_UpgradesAreRefused) {
  World world(config_text());
  for (const char* protocol : {"websocket", "h2c"}) {
    Lines fields = kAcme;
    fields.push_back({"Upgrade", protocol});
    EXPECT_EQ(world.request("GET", "/v1/chat/completions", fields)->status(), 501);
  }
}

TEST(Handler, CodedBodiesAre415) {
  World world(config_text());
  Lines fields = kAcme;
  fields.push_back({"Content-Encoding", "gzip"});
  EXPECT_EQ(world.request("POST", "/v1/chat/completions", fields, "x")->status(), 415);
}

TEST(Handler, T087_WhatIsCheckedIsWhatIsSent) {
  World world(config_text("rpm: 1000", R"(
auth: required
)"));
  const Lines mini = {{"Authorization", "Bearer weir-mini"}};
  auto forbidden = world.request("POST", "/v1/chat/completions", mini, World::kChat);
  EXPECT_EQ(forbidden->status(), 403);
  EXPECT_TRUE(contains(forbidden->body(), R"("gateway_decision":"not_allowed")"));
  for (const char* body : {R"({"model":"mini-1","model":"fast-chat","messages":[]})",
                           R"({"model":"mini-1","\u006dodel":"fast-chat","messages":[]})"}) {
    EXPECT_EQ(world.request("POST", "/v1/chat/completions", mini, body)->status(), 400) << body;
  }
  EXPECT_TRUE(world.connector.attempts.empty());
}

TEST(Handler, UnknownModelsAre404) {
  World world(config_text());
  auto client = world.chat(R"({"model":"<b>nope</b>","messages":[]})");
  EXPECT_EQ(client->status(), 404);
  EXPECT_TRUE(contains(client->body(), "model_not_found"));
  EXPECT_TRUE(contains(client->body(), R"("param":"model")"));
}

TEST(Handler, AnUnknownModelIsToldWhatItMayHaveMeant) {
  World world(config_text("rpm: 1000"));
  auto slip = world.chat(R"({"model":"fats-chat","messages":[]})");
  EXPECT_TRUE(contains(slip->body(), R"(\"fats-chat\" does not exist here. Did you mean )"
                                     R"(\"fast-chat\"?)"))
      << slip->body();
  auto other = world.chat(R"({"model":"claude","messages":[]})");
  EXPECT_TRUE(contains(other->body(), "Served here: fast-chat.")) << other->body();
  const Lines mini = {{"Authorization", "Bearer weir-mini"}};
  auto hidden = world.request("GET", "/v1/models/fats-chat", mini);
  EXPECT_EQ(hidden->status(), 404);
  EXPECT_FALSE(contains(hidden->body(), "fast-chat")) << "a key is told of its own models only";
}

TEST(Handler, AModelOfAProviderThatIsOffSaysSo) {
  World world(R"(
auth: none
providers:
  real: {kind: openai, api_key: ""}
  local: {kind: openai_compatible, base_url: "http://127.0.0.1:9001"}
deployments: {a: {provider: real}, b: {provider: local}}
models: {gpt: {deployments: [{to: a}]}, toy: {deployments: [{to: b}]}}
)");
  auto client = world.chat(R"({"model":"gpt","messages":[]})");
  EXPECT_EQ(client->status(), 404);
  EXPECT_TRUE(contains(client->body(), "is off: its provider has no key")) << client->body();
  EXPECT_TRUE(contains(client->body(), "Served here: toy.")) << client->body();
}

TEST(Handler, AListenerThatCannotAcceptIsLoggedAndCounted) {
  World world(config_text());
  for (int i = 0; i < 30; ++i) world.handler->on_accept_failure("Too many open files");
  EXPECT_TRUE(world.metric("weir_accept_failures_total 30")) << world.metrics();
  const auto lines = std::count_if(world.lines.begin(), world.lines.end(), [](const auto& line) {
    return contains(line, R"("event":"accept_failed","reason":"Too many open files")");
  });
  EXPECT_EQ(lines, 1) << "one a second, however often it happens";
}

TEST(Handler, MalformedBodiesNameTheParameter) {
  World world(config_text());
  auto client = world.chat(R"({"model":"fast-chat","messages":[],"max_tokens":"many"})");
  EXPECT_EQ(client->status(), 400);
  EXPECT_TRUE(contains(client->body(), R"("param":"max_tokens")"));
  EXPECT_TRUE(client->kept_alive);
  EXPECT_TRUE(world.connector.attempts.empty());
}

TEST(Handler, UnknownClassIs400AndTheLowestClassHolds) {
  World world(config_text());
  EXPECT_EQ(world.chat(World::kChat, {{"x-weir-class", "urgent"}})->status(), 400);
  EXPECT_EQ(world.chat(World::kChat, {{"x-weir-max-wait", "soon"}})->status(), 400);
  auto client = world.chat(World::kChat, {{"x-weir-class", "batch"}});
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  EXPECT_TRUE(world.metric(
      R"(weir_requests_total{deployment="chat-1",tenant="acme",class="batch",decision="admitted"} 1)"));
}

TEST(Handler, T081_BodyFieldsCannotChooseThePayer) {
  World world(config_text());
  auto client = world.chat(
      R"({"model":"fast-chat","messages":[],"user":"blue","metadata":{"user_id":"blue"}})",
      {{"x-tenant", "blue"}, {"x-priority", "interactive"}, {"x-team", "blue"}});
  world.connector.last().sent();
  EXPECT_TRUE(contains(world.connector.last().body, R"("user":"blue")"));
  world.connector.last().answer(200, World::kAnswer);
  EXPECT_TRUE(world.metric(
      R"(weir_requests_total{deployment="chat-1",tenant="acme",class="standard",decision="admitted"} 1)"));
}

TEST(Handler, T088_InternalFieldsStayInternal) {
  World world(config_text("concurrency: 1"));
  auto holder = world.chat();
  const std::string body =
      R"({"model":"fast-chat","messages":[],"_weir_reserve":0,"x-weir-skip-limits":true})";
  auto client = world.chat(body, {{"x-weir-skip-limits", "1"}, {"x-weir-reserve", "0"}});
  EXPECT_FALSE(client->finished);
  EXPECT_EQ(world.connector.attempts.size(), 1U) << "it waits like any other";
  EXPECT_FALSE(contains(world.connector.last().head, "x-weir"));
}

TEST(Handler, ListsTheModelsAKeyMayUse) {
  World world(config_text("rpm: 10"));
  auto all = world.request("GET", "/v1/models", kAcme);
  EXPECT_EQ(
      all->body(),
      R"({"object":"list","data":[{"id":"fast-chat","object":"model","created":0,"owned_by":"weir"}]})");
  auto none = world.request("GET", "/v1/models", {{"Authorization", "Bearer weir-mini"}});
  EXPECT_EQ(none->body(), R"({"object":"list","data":[]})");
  EXPECT_EQ(world.request("GET", "/v1/models/fast-chat", kAcme)->status(), 200);
  EXPECT_EQ(world.request("GET", "/v1/models/other", kAcme)->status(), 404);
  EXPECT_EQ(world.request("GET", "/v1/models/fast-chat", {{"Authorization", "Bearer weir-mini"}})
                ->status(),
            404);
}

TEST(Handler, T027_DeterministicFailuresReachNoProvider) {
  World world(config_text());
  for (const char* body : {"", "null", "[]", "1", "{", R"({"messages":[]})"}) {
    auto client = world.chat(body);
    EXPECT_EQ(client->status(), 400) << body;
  }
  EXPECT_TRUE(world.connector.attempts.empty());
  EXPECT_TRUE(world.idle());
}

TEST(Handler, T127_ModelNamesAndUsersAreNoLabels) {
  World world(config_text("rpm: 600000") + "");
  const std::string before = world.metrics();
  for (int i = 0; i < 200; ++i) {
    world.chat(R"({"model":"m)" + std::to_string(i) + R"(","messages":[],"user":"u)" +
               std::to_string(i) + R"("})");
    world.request("POST", "/v1/x" + std::to_string(i), kAcme, "x");
  }
  const std::string after = world.metrics();
  EXPECT_LT(after.size(), before.size() + 600);
}

}  // namespace
}  // namespace weir::gateway::fake
