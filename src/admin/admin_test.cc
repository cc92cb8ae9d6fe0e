// SPDX-License-Identifier: Apache-2.0
#include "admin/admin.h"

#include <gtest/gtest.h>

#include "gateway/fake_world.h"

namespace weir::admin {
namespace {

using gateway::fake::Client;
using gateway::fake::config_text;
using gateway::fake::Lines;
using gateway::fake::World;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// An admin plane over a scripted gateway.
class Bench {
 public:
  explicit Bench(std::string_view admin = "admin: {listen: 127.0.0.1:8081}\n")
      : world(config_text("rpm: 1000, concurrency: 1", admin)),
        parts{.gateway = *world.gateway,
              .registry = world.registry,
              .token = std::make_shared<Token>(config::Secret("token-canary")),
              .reload = [this]() -> Result<std::string> {
                ++reloads;
                if (bad) return fail(ErrorCode::invalid_config, "x.yaml:3:1: wrong");
                return std::string("x.yaml");
              },
              .version = "1.2.3",
              .commit = "abc"},
        handler(parts) {}

  std::shared_ptr<Client> get(std::string_view target, Lines fields = {},
                              std::string_view method = "GET") {
    if (fields.empty() || fields[0].first != "Host") {
      fields.insert(fields.begin(), {"Host", "127.0.0.1:8081"});
    }
    auto client = std::make_shared<Client>();
    http::Request request;
    request.head.method = method;
    request.head.target = target;
    for (const auto& [name, value] : fields) request.head.fields.add({name, value});
    if (auto refusal = handler.on_head(request.head)) {
      client->out = *refusal;
      return client;
    }
    handler.on_request(request, *client);
    return client;
  }
  std::shared_ptr<Client> with_token(std::string_view target, std::string_view method = "GET") {
    return get(target, {{"Host", "localhost:8081"}, {"Authorization", "Bearer token-canary"}},
               method);
  }

  int reloads = 0;
  bool bad = false;
  World world;
  AdminParts parts;
  Handler handler;
};

TEST(Admin, HealthNeedsNoToken) {
  Bench bench;
  EXPECT_EQ(bench.get("/healthz")->status(), 200);
  EXPECT_EQ(bench.get("/livez")->status(), 200);
  EXPECT_EQ(bench.get("/readyz")->status(), 200);
  bench.world.gateway->drain();
  EXPECT_EQ(bench.get("/readyz")->status(), 503);
  EXPECT_EQ(bench.get("/healthz")->status(), 200);
}

TEST(Admin, TheApiNeedsTheToken) {
  Bench bench;
  for (const char* path :
       {"/admin/v1/overview", "/admin/v1/deployments", "/admin/v1/classes", "/admin/v1/queues"}) {
    EXPECT_EQ(bench.get(path)->status(), 401) << path;
    EXPECT_EQ(bench.get(path, {{"Host", "localhost"}, {"Authorization", "Bearer token-canarx"}})
                  ->status(),
              401);
    EXPECT_EQ(bench.with_token(path)->status(), 200) << path;
  }
  EXPECT_EQ(bench.get("/admin/v1/config/reload", {}, "POST")->status(), 401);
  EXPECT_EQ(bench.reloads, 0);
}

TEST(Admin, MetricsAreOpenOnLoopbackOnly) {
  Bench bench;
  EXPECT_EQ(bench.get("/metrics")->status(), 200);
  EXPECT_TRUE(contains(bench.get("/metrics")->body(), "# TYPE weir_requests_total counter"));
  Bench guarded("admin: {listen: 127.0.0.1:8081, metrics: {token: true}}\n");
  EXPECT_EQ(guarded.get("/metrics")->status(), 401);
  EXPECT_EQ(guarded.with_token("/metrics")->status(), 200);
}

TEST(Admin, T134_ForeignHostsAndOriginsGetNothing) {
  Bench bench;
  for (const char* host : {"evil.example", "evil.example:8081", "127.evil.example", ""}) {
    EXPECT_EQ(bench.get("/metrics", {{"Host", host}})->status(), 403) << host;
  }
  for (const char* host : {"localhost", "127.0.0.1", "[::1]:8081"}) {
    EXPECT_EQ(bench.get("/metrics", {{"Host", host}})->status(), 200) << host;
  }
  auto page = bench.get("/");
  EXPECT_EQ(page->status(), 200);
  EXPECT_TRUE(contains(page->field("content-security-policy"), "default-src 'none'"));
  EXPECT_EQ(page->field("access-control-allow-origin"), "");
  EXPECT_EQ(page->field("x-content-type-options"), "nosniff");
  EXPECT_TRUE(contains(page->body(), "<title>weir</title>"));
  EXPECT_EQ(bench.get("/dashboard.js")->status(), 200);
  EXPECT_EQ(bench.get("/dashboard.css")->status(), 200);
  EXPECT_FALSE(contains(bench.get("/dashboard.js")->body(), "innerHTML"));
}

TEST(Admin, OverviewShowsTheNumbersOfMetrics) {
  Bench bench;
  auto first = bench.world.chat();
  bench.world.connector.last().sent();
  bench.world.connector.last().answer(200, World::kAnswer);
  auto second = bench.world.chat();
  auto third = bench.world.chat();
  const std::string body = bench.with_token("/admin/v1/overview")->body();
  EXPECT_TRUE(contains(body, R"("version":"1.2.3")"));
  EXPECT_TRUE(contains(body, R"("inflight":1,"queued":1)"));
  EXPECT_TRUE(contains(body, R"("totals":{"requests":1,"answered":1,"refused":0,"attempts":1)"));
  EXPECT_TRUE(contains(body, R"("limiter":"rpm")"));
  EXPECT_TRUE(contains(body, R"("limiter":"concurrency")"));
  EXPECT_FALSE(contains(body, "canary"));
  const std::string metrics = bench.get("/metrics")->body();
  EXPECT_TRUE(contains(metrics, R"(weir_inflight{deployment="chat-1"} 1)"));
  EXPECT_TRUE(contains(metrics, R"(weir_queue_depth{class="standard"} 1)"));
  EXPECT_TRUE(contains(metrics, R"(weir_build_info{version="1.2.3",commit="abc"} 1)"));
  EXPECT_TRUE(contains(metrics, R"(weir_attempts_total{deployment="chat-1",status="200"} 1)"));
  EXPECT_TRUE(contains(bench.with_token("/admin/v1/queues")->body(), R"("queued":1)"));
  EXPECT_TRUE(contains(bench.with_token("/admin/v1/classes")->body(), R"("name":"standard")"));
}

TEST(Admin, ReloadTellsWhatIsWrong) {
  Bench bench;
  EXPECT_EQ(bench.with_token("/admin/v1/config/reload")->status(), 405);
  EXPECT_EQ(bench.with_token("/admin/v1/config/reload", "POST")->status(), 200);
  bench.bad = true;
  auto refused = bench.with_token("/admin/v1/config/reload", "POST");
  EXPECT_EQ(refused->status(), 422);
  EXPECT_TRUE(contains(refused->body(), "x.yaml:3:1: wrong"));
  EXPECT_EQ(bench.reloads, 2);
}

TEST(Admin, UnknownPathsAre404) {
  Bench bench;
  EXPECT_EQ(bench.with_token("/admin/v1/nothing")->status(), 404);
  EXPECT_EQ(bench.with_token("/v1/chat/completions", "POST")->status(), 404);
}

TEST(Admin, SecretsCompareByContent) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "ab"));
}

TEST(Admin, AReplacedTokenIsTheOnlyOne) {
  Bench bench;
  EXPECT_EQ(bench.with_token("/admin/v1/overview")->status(), 200);
  bench.parts.token->replace(config::Secret("another"));
  EXPECT_EQ(bench.with_token("/admin/v1/overview")->status(), 401);
  EXPECT_EQ(
      bench.get("/admin/v1/overview", {{"Host", "localhost"}, {"Authorization", "Bearer another"}})
          ->status(),
      200);
  bench.parts.token->replace(config::Secret());
  EXPECT_EQ(bench.get("/admin/v1/overview", {{"Host", "localhost"}, {"Authorization", "Bearer "}})
                ->status(),
            401);
}

}  // namespace
}  // namespace weir::admin
