// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gateway/fake_world.h"

namespace weir::gateway::fake {
namespace {

constexpr std::string_view kSlowDown =
    R"({"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}})";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// A call that the provider refused once, and that may not go again before its time is over,
/// because another refusal has closed the deployment for longer.
struct Refused {
  explicit Refused(World& world) {
    client = world.chat(World::kChat, {{"x-weir-max-wait", "5s"}});
    other = world.chat(World::kChat, {{"x-weir-max-wait", "1s"}});
    EXPECT_EQ(world.connector.attempts.size(), 2U);
    for (const auto& attempt : world.connector.attempts) attempt->sent();
    world.connector.attempts.front()->answer(429, kSlowDown, {{"retry-after", "3"}});
    EXPECT_FALSE(client->finished);
    world.connector.attempts.back()->answer(429, kSlowDown, {{"retry-after", "30"}});
    EXPECT_TRUE(other->finished);
  }
  std::shared_ptr<Client> client, other;
};

TEST(ProviderFaults, ARefusedCallThatRunsOutOfTimeGetsTheProvidersStatusAndWords) {
  World world(config_text("concurrency: 2"));
  const Refused refused(world);
  world.pass(seconds(6));
  ASSERT_TRUE(refused.client->finished);
  EXPECT_EQ(refused.client->status(), 429);
  const std::string body = refused.client->body();
  EXPECT_TRUE(contains(body, R"("gateway_decision":"admitted_then_provider_rejected")")) << body;
  EXPECT_TRUE(contains(body, R"("provider_error":)")) << body;
  EXPECT_TRUE(contains(body, "slow down"));
}

TEST(ProviderFaults, AReloadMeanwhileDoesNotMoveTheRefusalToAnotherDeployment) {
  World world(config_text("concurrency: 2"));
  const Refused refused(world);
  std::string text = config_text("concurrency: 2");
  const std::string mark = "deployments:\n";
  text.insert(text.find(mark) + mark.size(),
              "  before: {provider: up, model: other, limits: {concurrency: 1}}\n");
  world.gateway->reload(World::parse(text));
  world.pass(seconds(6));
  ASSERT_TRUE(refused.client->finished);
  EXPECT_EQ(refused.client->status(), 429);
  EXPECT_TRUE(contains(refused.client->body(), "deployment:chat-1")) << refused.client->body();
  EXPECT_FALSE(contains(refused.client->body(), "before"));
}

std::int64_t used_tokens(World& world) {
  std::int64_t used = 0;
  const governor::Snapshot snapshot = world.snapshot();
  for (const auto& meter : snapshot.deployments.at(0).meters) {
    if (meter.rule.unit == Unit::total_tokens) used = meter.used;
  }
  return used;
}

TEST(ProviderFaults, WhatMayHaveBeenBilledStaysCharged) {
  for (const bool billed : {true, false}) {
    World world(config_text("total_tpm: 100k"));
    auto client = world.chat();
    world.connector.last().sent();
    world.connector.last().fail(ErrorCode::connection_lost, true, billed);
    EXPECT_EQ(client->status(), 502);
    EXPECT_EQ(used_tokens(world) > 0, billed);
    EXPECT_TRUE(world.idle());
  }
}

TEST(ProviderFaults, AnAttemptThatGotNoAnswerIsCounted) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  client->leave();
  EXPECT_TRUE(world.metric(R"(weir_attempts_total{deployment="chat-1",status="none"} 1)"));
  auto unsent = world.chat();
  unsent->leave();
  EXPECT_TRUE(world.metric(R"(weir_attempts_total{deployment="chat-1",status="none"} 1)"));
}

TEST(ProviderFaults, LeavingWhileAnErrorIsReadChargesNothing) {
  for (const std::uint16_t status : {std::uint16_t{429}, std::uint16_t{500}}) {
    World world(config_text("total_tpm: 100k"));
    auto client = world.chat();
    world.connector.last().sent();
    world.connector.last().answer_head(status, {{"content-type", "application/json"}},
                                       http::BodyKind::length, 100);
    client->leave();
    EXPECT_TRUE(world.idle());
    EXPECT_FALSE(contains(world.metrics(), "weir_tokens_total{")) << status;
    EXPECT_EQ(contains(world.metrics(), R"(weir_provider_rejections_total{deployment="chat-1")"),
              status == 429);
  }
}

TEST(ProviderFaults, EndingWhileAnErrorIsReadAnswers503) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  world.connector.last().answer_head(500, {}, http::BodyKind::length, 100);
  world.gateway->end_all();
  world.loop.run();
  EXPECT_EQ(client->status(), 503);
  EXPECT_TRUE(contains(client->body(), R"("gateway_decision":"draining")"));
  EXPECT_TRUE(world.idle());
}

TEST(ProviderFaults, ALocalRefusalNamesTheProviderWhoseLimitItIs) {
  World world(config_text("total_tpm: 100"));
  auto client = world.chat(R"({"model":"fast-chat","messages":[{"role":"user","content":")" +
                           std::string(5000, 'x') + R"("}]})");
  EXPECT_EQ(client->status(), 400);
  EXPECT_TRUE(contains(client->body(), R"("provider":"up")")) << client->body();
  EXPECT_TRUE(contains(client->body(), R"("provider_model":"big-model")")) << client->body();
}

TEST(ProviderFaults, ASlowReaderThatReadsIsKept) {
  World world(config_text());
  auto client = world.chat(World::kStream);
  Attempt& attempt = world.connector.last();
  attempt.sent();
  attempt.answer_head(200, {{"content-type", "text/event-stream"}}, http::BodyKind::chunked);
  client->backlog = 1 << 20;
  attempt.answer_body(
      "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n");
  ASSERT_TRUE(attempt.paused);
  for (int minute = 0; minute < 3; ++minute) {
    client->backlog -= 1000;
    ASSERT_NE(client->timer, kNever);
    world.pass(seconds(60));
    client->session->on_timer();
    ASSERT_FALSE(client->aborted) << minute;
  }
  world.pass(seconds(60));
  client->session->on_timer();
  EXPECT_TRUE(client->aborted) << "it has taken nothing in a minute";
}

TEST(ProviderFaults, WhatFailedIsNamedAndWhereItIsIsNot) {
  World world(config_text());
  const std::pair<http::FailureCause, std::string_view> causes[] = {
      {http::FailureCause::refused, "it refused the connection"},
      {http::FailureCause::name, "its name was not found (DNS)"},
      {http::FailureCause::tls, "the TLS handshake failed"},
      {http::FailureCause::unreachable, "it could not be reached"},
  };
  for (const auto& [cause, said] : causes) {
    auto client = world.chat();
    world.connector.last().fail(ErrorCode::connect_failed, false, false, cause);
    EXPECT_EQ(client->status(), 502);
    EXPECT_NE(client->body().find(said), std::string::npos) << client->body();
    EXPECT_EQ(client->body().find("10.1.2.3"), std::string::npos) << client->body();
    EXPECT_NE(client->body().find("admitted_then_provider_failed"), std::string::npos);
    EXPECT_EQ(client->field("x-weir-decision"), "admitted") << "as the body says";
  }
  EXPECT_NE(world.all_lines().find("10.1.2.3"), std::string::npos) << "the log is for operators";
}

TEST(ProviderFaults, AKeyIsForgottenWithItsConfiguration) {
  World world(config_text());
  EXPECT_EQ(world.request("GET", "/v1/models", {{"x-api-key", "weir-acme"}})->status(), 200);
  world.gateway->reload(World::parse(config_text("rpm: 60000", "auth: none\n")));
  EXPECT_EQ(world.request("GET", "/v1/models", {})->status(), 200);
  std::string text = config_text();
  const std::size_t at = text.find("sha256:38deb5");
  text.replace(at + 7, 6, "000000");
  world.gateway->reload(World::parse(text));
  EXPECT_EQ(world.request("GET", "/v1/models", {{"x-api-key", "weir-acme"}})->status(), 401);
}

}  // namespace
}  // namespace weir::gateway::fake
