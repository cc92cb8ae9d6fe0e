// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "config/test_load.h"

namespace weir::config {
namespace {

TEST(Secrets, ComeFromTheFileTheEnvironmentOrAFileOfTheirOwn) {
  const TestFolder folder("secrets");
  folder.write("key", "canary-from-file\n");
  const std::string config = folder.write("weir.yaml",
                                          "auth: none\n"
                                          "admin: {token_file: " +
                                              folder.write("token", "canary-token\r\n") +
                                              "}\n"
                                              "providers:\n"
                                              "  a: {kind: openai, api_key_file: key}\n"
                                              "  b: {kind: openai, api_key: \"${KEY}\"}\n"
                                              "  c: {kind: openai, api_key: canary-inline}\n"
                                              "deployments: {a: {provider: a}}\n"
                                              "models: {\"*\": {deployments: [{to: a}]}}\n");
  const Result<Loaded> loaded = load_file(config, test_environment);
  ASSERT_TRUE(loaded);
  ASSERT_TRUE(loaded->config) << render(loaded->faults.at(0));
  EXPECT_EQ(loaded->config->providers[0].api_key.reveal(), "canary-from-file");
  EXPECT_EQ(loaded->config->providers[1].api_key.reveal(), "canary-from-env");
  EXPECT_EQ(loaded->config->providers[2].api_key.reveal(), "canary-inline");
  EXPECT_EQ(loaded->config->admin.token.reveal(), "canary-token");
  EXPECT_EQ(loaded->effective.find("canary"), std::string::npos) << loaded->effective;
  // Read again on each load, so that a reload takes a new key.
  folder.write("key", "another");
  EXPECT_EQ(load_file(config, test_environment)->config->providers[0].api_key.reveal(), "another");
}

// T128, what the configuration has of it: a secret is in no fault, notice or print, whatever is
// wrong with it or wherever it was put by mistake.
TEST(T128_SecretsNeverLeave, NotInFaultsNoticesOrPrints) {
  const TestFolder folder("canary");
  const std::string key_file = folder.write("key", "canary\x01key\nmore\n");
  const auto provider = [](const std::string& inside) {
    return "providers: {p: {" + inside + "}}\nmodels: {\"*\": {deployments: [{to: x}]}}\n";
  };
  const std::string hash(64, 'a');
  for (const std::string& text : {
           provider("kind: openai, api_kye: canary-a"),
           provider("kind: openai, api_key: [canary-b]"),
           provider("kind: openai, api_key: {canary-c: canary-c2}"),
           provider("kind: openai, api_key: \"canary\\r\\nHost: x\""),
           provider("kind: openai, api_key: canary-d, api_key_file: canary-missing"),
           provider("kind: openai, api_key_file: " + key_file),
           provider("kind: openai, api_key: x, base_url: \"https://user:canary-e@host/v1\""),
           provider("kind: openai, api_key: x, base_url: \"${KEY}\""),
           provider("kind: openai, api_key: x, headers: {Authorization: \"a\\ncanary-f\"}"),
           provider("kind: \"${KEY}\""),
           provider("kind: openai, api_key: x, timeouts: {connect: \"${KEY}\", idle: \"1${KEY}\"}"),
           base("limits: {rpm: \"${KEY}\"}"),
           base("limits: {rpm: \"-1${KEY}\"}"),
           base("shaping: {start: \"${KEY}\", guard: \"9${KEY}\", burst: \"${WORDS}\"}"),
           base("counts: {rejected: \"${KEY}\"}"),
           base("", "tenants: {t: {keys: {k: {hash: weir-canary-g}}}}\n"),
           base("", "tenants: {t: {keys: {k: {hash: \"${KEY}\"}}}}\n"),
           base("", "tenants: {t: {keys: {k: {hash: \"sha256:" + hash +
                        "\", expires: \"${KEY}\"}}}}\n"),
           base("", "admin: {token: [canary-h]}\n"),
           base("", "server: {listen: \"${KEY}\"}\n"),
           base("", "admin: {token: \"canary-i\n"),
       }) {
    const Loaded loaded = load_text(text);
    ASSERT_FALSE(loaded.faults.empty()) << text;
    for (const Diagnostic& fault : loaded.faults) {
      const std::string shown = render(fault);
      // The path of a missing file is shown: it is a path, not a secret.
      if (shown.find("canary-missing") != std::string::npos) continue;
      if (shown.find("api_key.canary-c") != std::string::npos) continue;
      EXPECT_EQ(shown.find("canary"), std::string::npos) << shown;
    }
    EXPECT_TRUE(loaded.effective.empty());
  }
}

TEST(T128_SecretsNeverLeave, NotInTheEffectiveConfiguration) {
  const std::string text =
      "auth: none\n"
      "admin: {listen: \"0.0.0.0:1\", token: canary-token}\n"
      "providers: {p: {kind: openai_compatible, base_url: \"http://h.example/v1\", api_key: "
      "canary-key, headers: {x-key: canary-header}}}\n"
      "deployments: {d: {provider: p}}\n"
      "models: {\"*\": {deployments: [{to: d}]}}\n";
  const Loaded loaded = load_text(text);
  ASSERT_TRUE(loaded.config) << faults_of(text);
  EXPECT_EQ(loaded.effective.find("canary"), std::string::npos) << loaded.effective;
  EXPECT_NE(loaded.effective.find("token: \"********\""), std::string::npos);
  EXPECT_NE(loaded.effective.find("x-key: \"********\""), std::string::npos);
  for (const std::string& notice : loaded.config->notices) {
    EXPECT_EQ(notice.find("canary"), std::string::npos) << notice;
  }
}

// T132, what the configuration has of it: a load is all or nothing, and a half-written file is
// nothing.
TEST(T132_ReloadTakesEffectAndIsAtomic, AnInvalidOrHalfWrittenFileGivesNothing) {
  const std::string whole = base("limits: {rpm: 60}", "tenants: {acme: {limits: {rpm: 5}}}\n");
  ASSERT_TRUE(load_text(whole).config);
  int refused = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Loaded loaded = load_text(whole.substr(0, length));
    EXPECT_NE(loaded.config == nullptr, loaded.faults.empty());
    if (loaded.config == nullptr) ++refused;
  }
  // Only cuts between whole sections, or inside the last one, leave a valid file.
  EXPECT_GT(refused, static_cast<int>(whole.find("models")));
}

TEST(Files, WhatCannotBeReadSaysWhy) {
  const TestFolder folder("files");
  EXPECT_NE(load_file(folder.path("none.yaml"), test_environment).error().text.find("cannot read"),
            std::string::npos);
  EXPECT_NE(load_file(folder.path(""), test_environment).error().text.find("is a directory"),
            std::string::npos);
  const std::string text =
      base("", fmt::format("admin: {{token_file: {}}}\n", folder.path("none")));
  EXPECT_NE(faults_of(text).find("admin.token_file: cannot read"), std::string::npos);
}

}  // namespace
}  // namespace weir::config
