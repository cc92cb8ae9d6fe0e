// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "config/sha256.h"
#include "config/test_load.h"

namespace weir::config {
namespace {

using namespace std::chrono_literals;

std::string file(const std::string& name) {
  std::ifstream in(std::string(WEIR_SOURCE_DIR "/") + name);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

std::optional<std::string> full_environment(std::string_view name) {
  return "value-of-" + std::string(name);
}

std::optional<std::string> empty_environment(std::string_view) { return std::nullopt; }

const NodePolicy* node_named(const Policy& policy, std::string_view name, NodeKind kind) {
  for (const NodePolicy& node : policy.nodes) {
    if (node.name == name && node.kind == kind) return &node;
  }
  return nullptr;
}

std::string hash_of(const std::string& key) { return "sha256:" + to_hex(sha256(key)); }

/// A hierarchy with everything that this version has.
std::string hierarchy() {
  return fmt::format(
      "organization: {{name: acme-corp, limits: {{rpm: 9000}}, timezone: UTC}}\n"
      "classes:\n"
      "  fast: {{weight: 8, max_wait: 300ms, depth: 1k, on_timeout: reject, min_share: 0%}}\n"
      "  standard: {{weight: 4, limits: {{concurrency: 50}}}}\n"
      "  slow: {{}}\n"
      "tenants:\n"
      "  acme:\n"
      "    mode: observe\n"
      "    limits: {{rpm: 900, tpd: 20M}}\n"
      "    teams:\n"
      "      search:\n"
      "        limits: {{rpm: 200, rps: 20}}\n"
      "        keys:\n"
      "          prod: {{hash: \"{}\", class: fast, models: [any, \"embed-*\"], limits: {{rpm: "
      "60}}, "
      "expires: 2027-01-31, tags: [web], trusted: false, mode: enforce}}\n"
      "    keys: {{direct: {{hash: \"{}\"}}}}\n"
      "  default: {{}}\n",
      hash_of("weir-one"), hash_of("weir-two"));
}

TEST(PolicyOfConfig, TheHierarchyBecomesNodes) {
  const Loaded loaded = load_text(base("", hierarchy()));
  ASSERT_TRUE(loaded.config) << faults_of(base("", hierarchy()));
  const Policy& policy = loaded.config->policy;
  std::string text;
  for (std::size_t i = 0; i < policy.nodes.size(); ++i) {
    const NodePolicy& node = policy.nodes[i];
    text += fmt::format("{}:{}", name(node.kind), node.name);
    if (node.parent.valid()) {
      EXPECT_LT(node.parent.value(), i) << "parents stand before children";
      text += fmt::format("<{}", policy.nodes[node.parent.value()].name);
    }
    text += fmt::format(" {} {}\n", node.limits.size(), name(node.mode));
  }
  EXPECT_EQ(text,
            "organization:acme-corp 1 enforce\n"
            "tenant:acme<acme-corp 2 observe\n"
            "team:acme/search<acme 2 observe\n"
            "key:acme/search/prod<acme/search 1 enforce\n"
            "key:acme/direct<acme 0 observe\n"
            "tenant:default<acme-corp 0 enforce\n"
            "model_profile:* 0 enforce\n");
  const Rule limit = node_named(policy, "acme/search", NodeKind::team)->limits.at(1);
  EXPECT_EQ(limit, (Rule{Unit::requests, 20, 1s, Enforcement::sliding, Counting::reserve, {}}));
  EXPECT_EQ(node_named(policy, "acme", NodeKind::tenant)->limits.at(1).count,
            Counting::reserve_refund);
  const VirtualKey& key = loaded.config->keys.at(0);
  EXPECT_EQ(key.tenant, "acme");
  EXPECT_EQ(key.id, "search/prod");
  EXPECT_EQ(policy.nodes[key.node.value()].name, "acme/search/prod");
  EXPECT_EQ(key.traffic_class, ClassId(0));
  EXPECT_EQ(key.models, (std::vector<std::string>{"any", "embed-*"}));
  EXPECT_EQ(key.expires->time_since_epoch(), 20850 * 24h);  // the midnight that ends the day
  EXPECT_EQ(loaded.config->keys.at(1).id, "direct");
  // auth: none stands on the tenant of that name.
  EXPECT_EQ(policy.nodes[loaded.config->default_tenant.value()].name, "default");
}

TEST(PolicyOfConfig, ClassesKeepTheirOrder) {
  const Loaded loaded = load_text(base("", hierarchy()));
  ASSERT_TRUE(loaded.config);
  const std::vector<ClassPolicy>& classes = loaded.config->policy.classes;
  ASSERT_EQ(classes.size(), 3U);
  EXPECT_EQ(classes[0].name, "fast");
  EXPECT_EQ(classes[0].max_wait, 300ms);
  EXPECT_EQ(classes[0].depth, 1000);
  EXPECT_EQ(classes[1].limits.at(0).unit, Unit::concurrency);
  EXPECT_EQ(classes[2].max_wait, 30s);
  EXPECT_EQ(loaded.config->default_class, ClassId(1));
  const Loaded plain = load_text(base());
  ASSERT_TRUE(plain.config);
  EXPECT_EQ(plain.config->policy.classes.size(), 3U);
  EXPECT_EQ(plain.config->policy.classes[plain.config->default_class.value()].name, "standard");
  const Loaded other = load_text(base("", "classes: {high: {}, low: {}}\n"));
  EXPECT_EQ(other.config->default_class, ClassId(1));
}

TEST(PolicyOfConfig, ADeploymentIsReadWhole) {
  const std::string text = base(
      "model: gpt-4o, scope: {project: prod}, counts: {cached_input: false, rejected: false}, "
      "shaping: {strategy: rate, start: 25%, warmup: 30s, burst: 10%, margin: 2%, guard: 50ms, "
      "autotune: off}, retry: {attempts: 3, base: 2s, cap: 10s, jitter: full, when: "
      "[rate_limited, overloaded]}, reserved: false, mode: observe");
  const Loaded loaded = load_text(text);
  ASSERT_TRUE(loaded.config) << faults_of(text);
  const DeploymentPolicy& one = loaded.config->policy.deployments.at(0);
  EXPECT_EQ(one.model, "gpt-4o");
  EXPECT_FALSE(one.cached_input_counted);
  EXPECT_FALSE(one.rejected_counted);
  EXPECT_EQ(one.strategy, Strategy::rate);
  EXPECT_DOUBLE_EQ(one.start_level, 0.25);
  EXPECT_EQ(one.warmup, 30s);
  EXPECT_EQ(one.burst_percent, 10);
  EXPECT_DOUBLE_EQ(*one.margin, 0.02);
  EXPECT_EQ(one.guard, 50ms);
  EXPECT_EQ(one.retry.attempts, 3);
  EXPECT_EQ(one.retry.base, 2s);
  EXPECT_EQ(one.retry.cap, 10s);
  EXPECT_EQ(one.mode, Mode::observe);
  EXPECT_EQ(one.lease, 660s);
  EXPECT_EQ(one.send_lease, 365s) << "to connect, the longest pause between two writes, a minute";
  EXPECT_EQ(loaded.config->labels.at(0).scope.at(0).second, "prod");
  const DeploymentPolicy plain = load_text(base()).config->policy.deployments.at(0);
  EXPECT_EQ(plain.strategy, Strategy::shaping);
  EXPECT_DOUBLE_EQ(plain.start_level, 0.0);
  EXPECT_FALSE(plain.margin || plain.guard || plain.burst_percent);
  EXPECT_TRUE(plain.rejected_counted && plain.cached_input_counted);
}

TEST(PolicyOfConfig, ModeIsInherited) {
  const Loaded loaded =
      load_text(base("", "mode: observe\ntenants: {a: {mode: enforce, teams: {t: {}}}, b: {}}\n"));
  ASSERT_TRUE(loaded.config);
  const Policy& policy = loaded.config->policy;
  EXPECT_EQ(policy.deployments.at(0).mode, Mode::observe);
  EXPECT_EQ(node_named(policy, "a/t", NodeKind::team)->mode, Mode::enforce);
  EXPECT_EQ(node_named(policy, "b", NodeKind::tenant)->mode, Mode::observe);
}

TEST(PolicyOfConfig, AProviderWithoutItsKeyIsOff) {
  const std::string text =
      "auth: none\n"
      "providers:\n"
      "  real: {kind: openai, api_key: \"${EMPTY}\"}\n"
      "  local: {kind: openai_compatible, base_url: \"http://127.0.0.1:9\"}\n"
      "deployments: {a: {provider: real}, b: {provider: local}}\n"
      "models: {only: {deployments: [{to: a}]}, both: {deployments: [{to: a}, {to: b}]}}\n";
  const Loaded loaded = load_text(text);
  ASSERT_TRUE(loaded.config) << faults_of(text);
  EXPECT_TRUE(loaded.config->providers.at(0).off);
  ASSERT_EQ(loaded.config->policy.deployments.size(), 1U);
  ASSERT_EQ(loaded.config->policy.profiles.size(), 1U);
  EXPECT_EQ(loaded.config->policy.profiles[0].name, "both");
  EXPECT_EQ(loaded.config->policy.profiles[0].candidates.size(), 1U);
  ASSERT_EQ(loaded.config->notices.size(), 2U);
  EXPECT_EQ(loaded.config->notices[0],
            "provider real is off: its api_key is empty; deployments off with it: a");
  EXPECT_EQ(loaded.config->notices[1],
            "models off, as none of their deployments is on: only; requests for them are answered "
            "as for a name that is not in the file");
}

// What is printed loads again, to the same policy.
TEST(PolicyOfConfig, TheEffectiveConfigurationLoadsAgain) {
  for (const std::string& text :
       {base(),
        base("limits: {rpm: 0.5, total_tpm: 0.3, concurrency: 3}, scope: {a: \"$$x\\\"y\"}",
             hierarchy()),
        base("", "tenants: {\"yes\": {limits: {rpm: 0.7, tpd: 0.01}}, \"0\": {mode: observe}}\n"),
        base("rules: [{unit: requests, amount: 9, per: 1500ms, enforce: bucket, burst: 3}]",
             "mode: observe\nserver: {listen: [\"[::1]:0\", \"unix:/run/x\"], threads: 3}\n"
             "admin: {listen: 127.0.0.1:0, token: abc, metrics: {token: true}}\n")}) {
    const Loaded first = load_text(text);
    ASSERT_TRUE(first.config) << faults_of(text);
    const Loaded second = load_text(first.effective);
    ASSERT_TRUE(second.config) << first.effective << faults_of(first.effective);
    const auto without_comments = [](const std::string& all) {
      std::istringstream lines(all);
      std::string line, out;
      while (std::getline(lines, line)) out += line.substr(0, line.find("  # ")) + "\n";
      return out;
    };
    EXPECT_EQ(without_comments(first.effective), without_comments(second.effective));
  }
}

// Every key of the complete example is taken, or named as not in this version; nothing is ignored.
TEST(PolicyOfConfig, TheCompleteExampleIsUnderstood) {
  const std::string name = WEIR_SOURCE_DIR "/src/config/testdata/complete.yaml";
  const Result<Loaded> loaded = load_file(name, full_environment);
  ASSERT_TRUE(loaded);
  std::string paths;
  for (const Diagnostic& fault : loaded->faults) {
    EXPECT_NE(fault.message.find("not in this version"), std::string::npos) << render(fault);
    EXPECT_GT(fault.line, 0);
    paths += fault.path + "\n";
  }
  EXPECT_EQ(paths, file("src/config/testdata/complete.faults"));
}

TEST(PolicyOfConfig, TheShippedFilesAreValid) {
  const std::string folder = WEIR_SOURCE_DIR "/config/";
  const Result<Loaded> quick = load_file(folder + "quickstart.yaml", empty_environment);
  ASSERT_TRUE(quick);
  ASSERT_TRUE(quick->config) << render(quick->faults.at(0));
  EXPECT_FALSE(quick->config->auth_required);
  ASSERT_EQ(quick->config->policy.profiles.size(), 1U) << "a slip in a name must not be served";
  EXPECT_EQ(quick->config->policy.profiles[0].name, "toy-chat");
  EXPECT_EQ(quick->config->off_models.size(), 3U);
  const Result<Loaded> with_key = load_file(folder + "quickstart.yaml", full_environment);
  ASSERT_TRUE(with_key && with_key->config);
  EXPECT_GT(with_key->config->policy.profiles.size(), 2U);
  EXPECT_TRUE(with_key->config->notices.empty());
  const Result<Loaded> example = load_file(folder + "example.yaml", full_environment);
  ASSERT_TRUE(example);
  ASSERT_TRUE(example->config) << render(example->faults.at(0));
  EXPECT_TRUE(example->config->notices.empty()) << example->config->notices.at(0);
}

TEST(FindKey, FindsItsOwnAndNothingElse) {
  const Loaded loaded = load_text(base("", hierarchy()));
  ASSERT_TRUE(loaded.config);
  EXPECT_EQ(find_key(*loaded.config, "weir-one"), 0U);
  EXPECT_EQ(find_key(*loaded.config, "weir-two"), 1U);
  EXPECT_FALSE(find_key(*loaded.config, "weir-three"));
  EXPECT_FALSE(find_key(*loaded.config, ""));
  EXPECT_FALSE(find_key(*loaded.config, std::string(513, 'a')));
  EXPECT_FALSE(find_key(*loaded.config, hash_of("weir-one")));
  EXPECT_FALSE(find_key(Config{}, "weir-one"));
}

TEST(PolicyOfConfig, EstimatesAreTheModels) {
  const auto estimate = [](std::string_view members) {
    std::string text = base();
    const std::string_view model = "{deployments: [{to: chat}]";
    const auto at = text.find(model);
    EXPECT_NE(at, std::string::npos);
    return text.insert(at + model.size(), ", estimate: {" + std::string(members) + "}");
  };
  const Loaded loaded =
      load_text(estimate("output: p95, unknown: max_tokens, propose_max_tokens: true"));
  ASSERT_TRUE(loaded.config);
  const ProfilePolicy& profile = loaded.config->policy.profiles.front();
  EXPECT_EQ(profile.output, OutputEstimate::p95);
  EXPECT_EQ(profile.unknown, OutputEstimate::max_tokens);
  EXPECT_TRUE(profile.propose_max_tokens);
  EXPECT_NE(loaded.effective.find(
                "estimate: {output: p95, unknown: max_tokens, propose_max_tokens: true}"),
            std::string::npos);
  const Loaded plain = load_text(estimate("output: mean"));
  ASSERT_TRUE(plain.config);
  EXPECT_EQ(plain.config->policy.profiles.front().unknown, OutputEstimate::mean);
  EXPECT_FALSE(plain.config->policy.profiles.front().propose_max_tokens);
  EXPECT_NE(faults_of(estimate("output: p99")).find("estimate.output"), std::string::npos);
}

}  // namespace
}  // namespace weir::config
