// SPDX-License-Identifier: Apache-2.0
// What callers and operators see of the estimates: proposed caps, and tenants in debt.
#include <string>

#include "gateway/fake_world.h"

namespace weir::gateway::fake {
namespace {

std::string with(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string reserving(std::string_view estimate) {
  std::string text = with(
      config_text(), "limits: {rpm: 60000}",
      "rules: [{unit: total_tokens, amount: 100M, per: 60s, enforce: sliding, count: reserve}]");
  return with(text, "{deployments: [{to: chat-1}]}",
              "{deployments: [{to: chat-1}], estimate: {" + std::string(estimate) + "}}");
}

std::string answer(int output) {
  return R"({"id":"c1","object":"chat.completion","choices":[{"index":0,"message":)"
         R"({"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":)"
         R"({"prompt_tokens":5,"completion_tokens":)" +
         std::to_string(output) + R"(,"total_tokens":12}})";
}

constexpr std::string_view kNoCap = R"({"model":"fast-chat","messages":[{"role":"user"}]})";

/// One call from its request to its end; the body that the provider got comes first.
std::pair<std::string, std::shared_ptr<Client>> call(World& world, std::string_view body,
                                                     int output) {
  auto client = world.chat(body);
  Attempt& attempt = world.connector.last();
  const std::string sent = attempt.body;
  attempt.sent();
  attempt.answer(200, answer(output), {{"Content-Type", "application/json"}});
  EXPECT_EQ(client->status(), 200);
  world.pass(seconds(1));
  return {sent, client};
}

TEST(ProposedCap, GoesIntoTheBodyAndIsTold) {
  World world(reserving("propose_max_tokens: true"));
  for (int i = 0; i < 200; ++i) {
    const auto [sent, client] = call(world, kNoCap, 400);
    ASSERT_EQ(sent.find("max_tokens"), std::string::npos) << "too little is known at call " << i;
    ASSERT_EQ(client->field("x-weir-max-tokens"), "");
  }
  const auto [sent, client] = call(world, kNoCap, 400);
  const std::string cap = client->field("x-weir-max-tokens");
  ASSERT_FALSE(cap.empty());
  EXPECT_GT(std::stoi(cap), 400);
  EXPECT_LT(std::stoi(cap), 700);
  EXPECT_EQ(sent,
            R"({"max_tokens":)" + cap + R"(,"model":"big-model","messages":[{"role":"user"}]})");
  EXPECT_NE(world.all_lines().find("\"proposed_max_tokens\":" + cap), std::string::npos);
  // In place of a null, and beside what the usage of a stream is asked with.
  const auto [null_sent, ignored] =
      call(world, R"({"model":"fast-chat","max_tokens":null,"stream":true,"messages":[]})", 400);
  EXPECT_EQ(null_sent, R"({"stream_options":{"include_usage":true},"model":"big-model",)"
                       R"("max_tokens":)" +
                           cap + R"(,"stream":true,"messages":[]})");
  const auto [stream_sent, again] =
      call(world, R"({"model":"fast-chat","stream":true,"messages":[]})", 400);
  EXPECT_EQ(stream_sent, R"({"stream_options":{"include_usage":true},"max_tokens":)" + cap +
                             R"(,"model":"big-model","stream":true,"messages":[]})");
}

TEST(ProposedCap, OnlyIfTheModelAsksForItAndTheCallerGaveNone) {
  // T042: no cap given, and nothing asks for one.
  World silent(reserving("output: p95"));
  World world(reserving("propose_max_tokens: true"));
  for (int i = 0; i < 201; ++i) {
    const auto [sent, client] = call(silent, kNoCap, 400);
    ASSERT_EQ(sent, R"({"model":"big-model","messages":[{"role":"user"}]})");
    call(world, kNoCap, 400);
  }
  const auto [sent, client] = call(world, World::kChat, 20);
  EXPECT_NE(sent.find(R"("max_tokens":20})"), std::string::npos);
  EXPECT_EQ(client->field("x-weir-max-tokens"), "");
}

TEST(EstimateDebt, IsLoggedAndCountedOnce) {
  World world(config_text());
  // A short prompt that the provider counts ten times of.
  const std::string body =
      R"({"model":"fast-chat","max_tokens":200,"messages":[{"role":"user","content":"x"}]})";
  for (int i = 0; i < 100; ++i) call(world, body, 200);
  EXPECT_EQ(world.all_lines().find("estimate_debt"), std::string::npos);
  // More than any estimate that learns from it: the answers double every tenth call.
  int output = 200;
  for (int i = 0; i < 60; ++i) {
    if (i % 10 == 9) output *= 2;
    call(world, body, output);
  }
  const std::string lines = world.all_lines();
  const auto at = lines.find("estimate_debt");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(lines.find("estimate_debt", at + 1), std::string::npos);
  EXPECT_NE(lines.find(R"("tenant":"acme")", at), std::string::npos);
  EXPECT_NE(lines.find(R"("metric":"output_tokens")", at), std::string::npos);
  EXPECT_TRUE(world.metric(
      R"(weir_estimate_debt_alarms_total{deployment="chat-1",tenant="acme",unit="output_tokens"} 1)"));
  EXPECT_NE(world.metrics().find("weir_estimate_p95_coverage_ratio{deployment=\"chat-1\"} 0."),
            std::string::npos);
  EXPECT_NE(world.metrics().find("weir_estimate_output_bias_ratio{deployment=\"chat-1\"} -0."),
            std::string::npos);
}

}  // namespace
}  // namespace weir::gateway::fake
