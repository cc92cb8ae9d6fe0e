// SPDX-License-Identifier: Apache-2.0
// What answers tell a caller of its own limits, and what the metrics tell of use.
#include <gtest/gtest.h>

#include <cstdlib>

#include "gateway/fake_world.h"
#include "gateway/limit_fields.h"

namespace weir::gateway::fake {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr std::string_view kDelta =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";

/// A configuration whose tenant acme has limits of its own.
std::string limited_text(std::string_view tenant_limits, std::string_view deployment = "rpm: 60000",
                         std::string_view more = {}) {
  std::string text = config_text(deployment, more);
  const std::string_view place = "  acme:\n";
  text.insert(text.find(place) + place.size(),
              "    limits: {" + std::string(tenant_limits) + "}\n");
  return text;
}

std::string reset_of(Duration reset) {
  std::string text;
  append_reset(text, reset);
  return text;
}

TEST(LimitFields, ResetsAreDurationsRoundedUp) {
  EXPECT_EQ(reset_of(Duration{-5}), "0s");
  EXPECT_EQ(reset_of(Duration{0}), "0s");
  EXPECT_EQ(reset_of(Duration{1}), "1ms");
  EXPECT_EQ(reset_of(milliseconds(120)), "120ms");
  EXPECT_EQ(reset_of(milliseconds(1200)), "1.2s");
  EXPECT_EQ(reset_of(milliseconds(59'999) + Duration{1}), "1m0s");
  EXPECT_EQ(reset_of(minutes(6)), "6m0s");
  EXPECT_EQ(reset_of(milliseconds(8'005)), "8.005s");
  EXPECT_EQ(reset_of(hours(25) + milliseconds(30)), "25h0m0.03s");
  EXPECT_EQ(reset_of(kForever).back(), 's');
}

TEST(LimitFields, AWindowWithoutWholeSecondsIsLeftOut) {
  governor::CallerLimits limits;
  limits.requests = governor::CallerLimit{10, 3, milliseconds(1500), milliseconds(2500)};
  std::string out;
  append_limit_fields(out, limits);
  EXPECT_NE(out.find("ratelimit-policy: \"requests\";q=10\r\n"), std::string::npos) << out;
  EXPECT_NE(out.find("ratelimit: \"requests\";r=3;t=2\r\n"), std::string::npos) << out;
  EXPECT_EQ(out.find("tokens"), std::string::npos) << out;
}

TEST(LimitFields, T120_TheHintIsNeverEarlierThanTheDraftsTime) {
  governor::CallerLimits limits;
  limits.tokens = governor::CallerLimit{100, 0, minutes(50), hours(1)};
  std::string out;
  append_limit_fields(out, limits, milliseconds(2400));
  EXPECT_NE(out.find("ratelimit: \"tokens\";r=0;t=3\r\n"), std::string::npos) << out;
  out.clear();
  append_limit_fields(out, limits, seconds(60));
  EXPECT_NE(out.find("ratelimit: \"tokens\";r=0\r\n"), std::string::npos) << out;
  EXPECT_NE(out.find("x-ratelimit-reset-tokens: 50m0s\r\n"), std::string::npos) << out;
}

TEST(Session, T120_LimitHeadersOnSuccess) {
  World world(limited_text("rpm: 60, total_tpm: 2000, concurrency: 5"));
  for (const auto body : {World::kChat, World::kStream}) {
    auto client = world.chat(body);
    Attempt& attempt = world.connector.last();
    attempt.sent();
    const bool stream = body == World::kStream;
    // The provider's own are about its account, and replaced.
    const Lines fields = {{"content-type", stream ? "text/event-stream" : "application/json"},
                          {"x-ratelimit-remaining-requests", "77777"},
                          {"ratelimit", "\"burst\";r=77777;t=1"}};
    if (stream) {
      attempt.answer_head(200, fields, http::BodyKind::chunked);
      attempt.answer_body(std::string(kDelta) + "data: [DONE]\n\n");
      attempt.answer_end();
    } else {
      attempt.answer(200, World::kAnswer, fields);
    }
    EXPECT_EQ(client->status(), 200);
    EXPECT_EQ(client->out.find("77777"), std::string::npos);
    EXPECT_EQ(client->field("x-ratelimit-limit-requests"), "60");
    EXPECT_EQ(client->field("x-ratelimit-remaining-requests"), stream ? "58" : "59");
    EXPECT_EQ(client->field("x-ratelimit-reset-requests"), "1m0s");
    EXPECT_EQ(client->field("x-ratelimit-limit-tokens"), "2000");
    const int left = std::atoi(client->field("x-ratelimit-remaining-tokens").c_str());
    EXPECT_GT(left, 0);
    EXPECT_LT(left, 2000);
    EXPECT_NE(client->field("x-ratelimit-reset-tokens"), "");
    EXPECT_EQ(client->field("ratelimit-policy"),
              "\"requests\";q=60;w=60,\"tokens\";q=2000;qu=\"tokens\";w=60");
    EXPECT_EQ(client->field("ratelimit"), "\"requests\";r=" + std::string(stream ? "58" : "59") +
                                              ";t=60,\"tokens\";r=" + std::to_string(left) +
                                              ";t=60");
  }
  EXPECT_TRUE(world.idle());
}

TEST(Session, T120_LimitHeadersOnRefusals) {
  World world(limited_text("rpm: 2"));
  for (int i = 0; i < 2; ++i) {
    auto client = world.chat();
    world.connector.last().sent();
    world.connector.last().answer(200, World::kAnswer);
    EXPECT_EQ(client->field("x-ratelimit-remaining-requests"), std::to_string(1 - i));
    EXPECT_EQ(client->field("x-ratelimit-limit-tokens"), "") << "there is no such limit";
  }
  world.pass(seconds(20));
  auto soon = world.chat(World::kChat, {{"x-weir-max-wait", "0"}});
  EXPECT_EQ(soon->status(), 429);
  EXPECT_EQ(soon->field("retry-after"), "40");
  EXPECT_EQ(soon->field("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(soon->field("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(soon->field("x-ratelimit-reset-requests"), "40s");
  EXPECT_EQ(soon->field("ratelimit"), "\"requests\";r=0;t=40");
  // Refused before it was asked for.
  auto unknown = world.chat(R"({"model":"other","messages":[]})");
  EXPECT_EQ(unknown->status(), 404);
  EXPECT_EQ(unknown->field("x-ratelimit-remaining-requests"), "0");
  auto models = world.request("GET", "/v1/models", {{"Authorization", "Bearer weir-acme"}});
  EXPECT_EQ(models->status(), 200);
  EXPECT_EQ(models->field("x-ratelimit-limit-requests"), "2");
  auto packed = world.chat(World::kChat, {{"Content-Encoding", "gzip"}});
  EXPECT_EQ(packed->status(), 415);
  EXPECT_EQ(packed->field("x-ratelimit-limit-requests"), "2");
  auto nobody = world.request("POST", "/v1/chat/completions", {}, World::kChat);
  EXPECT_EQ(nobody->status(), 401);
  EXPECT_EQ(nobody->field("x-ratelimit-limit-requests"), "");
}

TEST(Session, T120_AWaitBeyondTheHintLeavesTheDraftsTimeOut) {
  World world(limited_text("rpd: 1"));
  auto first = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  EXPECT_EQ(first->field("ratelimit"), "\"requests\";r=0;t=86400");
  auto client = world.chat();
  EXPECT_EQ(client->status(), 429);
  EXPECT_EQ(client->field("retry-after"), "59");
  EXPECT_NE(client->field("x-weir-retry-after-ms"), "");
  EXPECT_EQ(client->field("ratelimit"), "\"requests\";r=0");
  EXPECT_EQ(client->field("ratelimit-policy"), "\"requests\";q=1;w=86400");
  EXPECT_EQ(client->field("x-ratelimit-reset-requests"), "24h0m0s");
}

TEST(Session, T120_ACallThatWaitedTellsTheLimitsOfItsStart) {
  World world(limited_text("rpm: 1"));
  auto first = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  world.pass(seconds(45));
  auto waiting = world.chat();
  EXPECT_FALSE(waiting->finished);
  world.pass(seconds(16));
  ASSERT_EQ(world.connector.attempts.size(), 2U);
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  EXPECT_EQ(waiting->status(), 200);
  EXPECT_EQ(waiting->field("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(waiting->field("x-ratelimit-reset-requests"), "1m0s");
}

TEST(Session, T120_NoLimitsNoFields) {
  World world(config_text());
  auto client = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(200, World::kAnswer);
  EXPECT_EQ(client->out.find("ratelimit"), std::string::npos);
}

TEST(Session, T044_TokensChargedWithoutAReportAreCounted) {
  World world(config_text("total_tpm: 1M"));
  auto client = world.chat(World::kStream);
  Attempt& attempt = world.connector.last();
  attempt.sent();
  attempt.answer_head(200, {{"content-type", "text/event-stream"}}, http::BodyKind::chunked);
  for (int n = 0; n < 400; ++n) attempt.answer_body(kDelta);
  client->leave();
  EXPECT_TRUE(world.metric(
      R"(weir_tokens_total{kind="output",deployment="chat-1",tenant="acme",class="standard"} 400)"))
      << "the larger of what was seen and what was estimated";
  // An error answer costs no tokens.
  auto refused = world.chat();
  world.connector.last().sent();
  world.connector.last().answer(500, "{}");
  EXPECT_TRUE(world.metric(
      R"(weir_tokens_total{kind="output",deployment="chat-1",tenant="acme",class="standard"} 400)"));
  EXPECT_TRUE(world.idle());
}

TEST(Meters, ACallOnItsWayIsCountedOnce) {
  World world(config_text("rpm: 4, concurrency: 10"));
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(world.chat());
  const auto ratio = [&](std::string_view value) {
    return world.metric("weir_quota_used_ratio{deployment=\"chat-1\",unit=\"requests\"} " +
                        std::string(value));
  };
  EXPECT_TRUE(ratio("0.5")) << "granted and not sent\n" << world.metrics();
  for (const auto& attempt : world.connector.attempts) attempt->sent();
  EXPECT_TRUE(ratio("0.5")) << "sent and not settled\n" << world.metrics();
  EXPECT_TRUE(world.metric(R"(weir_quota_used_ratio{deployment="chat-1",unit="concurrency"} 0.2)"));
  for (const auto& attempt : world.connector.attempts) attempt->answer(200, World::kAnswer);
  EXPECT_TRUE(ratio("0.5")) << "settled\n" << world.metrics();
  EXPECT_TRUE(world.metric(R"(weir_quota_used_ratio{deployment="chat-1",unit="concurrency"} 0)"));
}

TEST(CallerLimits, NeverFitsNamesWhatWasAsked) {
  World world(config_text("total_tpm: 1000"));
  auto client =
      world.chat(R"({"model":"fast-chat","messages":[],"max_tokens":500000,"stream":false})");
  EXPECT_EQ(client->status(), 400);
  EXPECT_NE(client->body().find("The call asks for 50000"), std::string::npos) << client->body();
}

}  // namespace
}  // namespace weir::gateway::fake
