// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "config/faults.h"
#include "config/test_load.h"
#include "config/yaml_tree.h"

namespace weir::config {
namespace {

TEST(Faults, EveryKindHasItsPlacePathAndFix) {
  EXPECT_EQ(faults_of("server:\n"
                      "  listn: 127.0.0.1:8080\n"
                      "  listen: 127.0.0.1\n"
                      "  drain: 30\n"
                      "  limits: {body: 32MB, header: 1KiB, header: 2KiB, connections: 0}\n"
                      "mode: enforced\n"
                      "auth: maybe\n"
                      "providers:\n"
                      "  local: {kind: openai_compatible}\n"
                      "  other: {kind: anthropic, api_key: x}\n"
                      "deployments:\n"
                      "  chat: {provider: locl, limits: {tpm: 5}}\n"
                      "models:\n"
                      "  \"*\": {deployments: [{to: chatt}], class: urgent}\n"
                      "tenants: [acme]\n"),
            "t.yaml:2:3: server.listn: unknown key \"listn\"; did you mean \"listen\"?\n"
            "t.yaml:3:11: server.listen: \"127.0.0.1\" has no port; write 127.0.0.1:8080, "
            "\"[::1]:8080\" or unix:/path\n"
            "t.yaml:4:10: server.drain: \"30\" has no unit of time; add ms, s, m, h or d, such as "
            "1.5s\n"
            "t.yaml:5:18: server.limits.body: \"32MB\" has no known unit behind the number; use a "
            "plain number or KiB, MiB, GiB, k, M, G\n"
            "t.yaml:5:38: server.limits.header: the key stands twice; the first is at line 5; "
            "remove one of them\n"
            "t.yaml:5:65: server.limits.connections: \"0\" is too small; write at least 1\n"
            "t.yaml:6:7: mode: \"enforced\" is not one of the choices; did you mean \"enforce\"?\n"
            "t.yaml:7:7: auth: \"maybe\" is not one of the choices; use one of: required, none\n"
            "t.yaml:9:10: providers.local.base_url: this key is missing; add the URL up to the "
            "version, such as http://127.0.0.1:8000/v1\n"
            "t.yaml:10:17: providers.other.kind: kind \"anthropic\" is not in this version; use "
            "one of: openai, openai_compatible, emulated\n"
            "t.yaml:12:20: deployments.chat.provider: there is no provider \"locl\"; did you mean "
            "\"local\"?\n"
            "t.yaml:12:35: deployments.chat.limits.tpm: unknown key \"tpm\"; did you mean "
            "\"total_tpm\"?\n"
            "t.yaml:14:28: models.\"*\".deployments[0].to: there is no deployment \"chatt\"; did "
            "you mean \"chat\"?\n"
            "t.yaml:14:44: models.\"*\".class: there is no class \"urgent\"; use one of: "
            "interactive, standard, batch\n"
            "t.yaml:15:10: tenants: a list stands where a map belongs; write a map\n");
}

TEST(Faults, OfYamlItself) {
  EXPECT_EQ(faults_of("a: [1, 2\nb: 3\n").substr(0, 24), "t.yaml:2:2: not YAML: en");
  EXPECT_EQ(faults_of("server:\n\tlisten: x\n"),
            "t.yaml:2:1: not YAML: a tab indents this line; indent with spaces\n");
  EXPECT_EQ(faults_of("mode: enforce\n---\nmode: observe\n"),
            "t.yaml:2:1: a second document begins here; keep one document; remove the line "
            "\"---\"\n");
  EXPECT_NE(faults_of("base: &b {mode: enforce}\nserver: {<<: *b}\n")
                .find("t.yaml:2:10: server: merge keys (<<) are not supported"),
            std::string::npos);
  EXPECT_EQ(faults_of("mode: !!str enforce\n"),
            "t.yaml:1:7: the tag \"tag:yaml.org,2002:str\" is not understood; write the plain "
            "value\n");
  EXPECT_EQ(faults_of("? {a: b}\n: c\n"),
            "t.yaml:1:3: a key is not a plain word; write the key as text\n");
  EXPECT_EQ(faults_of("- a\n"), "t.yaml:1:1: a list stands where a map belongs; write a map\n");
  EXPECT_NE(faults_of("").find("t.yaml:1:1: models: this key is missing"), std::string::npos);
  EXPECT_NE(faults_of(std::string(kMaxFileBytes + 1, ' ')).find("larger than 4 MiB"),
            std::string::npos);
}

TEST(Faults, OfTheStateFile) {
  const auto fault = [](std::string_view value) {
    return faults_of(base("", fmt::format("stores: {{state: {}}}\n", value)));
  };
  EXPECT_NE(fault("ledger").find("stores.state: state in the ledger is not in this version; write "
                                 "a file's path, or none"),
            std::string::npos)
      << fault("ledger");
  EXPECT_NE(fault("/var/lib/").find("stores.state: \"/var/lib/\" is a folder"), std::string::npos);
  EXPECT_NE(fault("{sqlite: x}").find("stores.state: a map stands where a single value belongs"),
            std::string::npos);
  EXPECT_NE(fault("\"a\\nb\"").find("stores.state: the path holds a line break"),
            std::string::npos);
  EXPECT_EQ(load_text(base("", "stores: {state: none}\n")).config->state_file, "");
  EXPECT_EQ(load_text(base("", "stores: {state: /a/state}\n")).config->state_file, "/a/state");
  EXPECT_EQ(load("stores: {state: state}\n" + base("", ""), "folder/weir.yaml", process_environment)
                .config->state_file,
            "folder/state");
}

TEST(Faults, NestingAndAliasesAreBounded) {
  std::string deep = "a: ";
  for (int i = 0; i < 400; ++i) deep += "[";
  for (int i = 0; i < 400; ++i) deep += "]";
  EXPECT_NE(faults_of(deep).find("nested deeper than 32 levels"), std::string::npos);
  const std::string hopeless = "a:\n  " + std::string(1'000'000, '[');
  EXPECT_NE(faults_of(hopeless).find(":2:1: the document is nested deeper than 32 levels"),
            std::string::npos);
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    bomb +=
        fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  EXPECT_NE(faults_of(bomb).find("more than 200000 values, aliases counted each time"),
            std::string::npos);
  EXPECT_NE(faults_of("a: &a [*a]\n").find("refers to something that is not complete"),
            std::string::npos);
  std::string levels = "a0: &a0 [x]\n";
  for (int i = 1; i < 60; ++i) levels += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  EXPECT_NE(faults_of(levels).find("nested deeper than 32 levels"), std::string::npos);
}

TEST(Faults, AnAliasStandsForItsValue) {
  const Loaded loaded = load_text(base(
      "limits: &l {rpm: 7}", "tenants: {acme: {limits: {rpm: 7}}, other: {limits: {rpm: 7}}}\n"));
  ASSERT_TRUE(loaded.config);
  const std::string aliased =
      "auth: none\n"
      "providers: {p: {kind: openai_compatible, base_url: \"http://127.0.0.1:9/v1\"}}\n"
      "deployments: {a: {provider: p, limits: &l {rpm: \"${RPM}\"}}, b: {provider: p, limits: "
      "*l}}\n"
      "models: {\"*\": {deployments: [{to: a}, {to: b}]}}\n";
  const Loaded both = load_text(aliased);
  ASSERT_TRUE(both.config) << faults_of(aliased);
  EXPECT_EQ(both.config->policy.deployments[0].rules, both.config->policy.deployments[1].rules);
  EXPECT_EQ(both.config->policy.deployments[1].rules.at(0).amount, 60);
}

TEST(Faults, ManyAreCountedNotKept) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += fmt::format("unknown{}: 1\n", i);
  const Loaded loaded = load_text(text);
  EXPECT_EQ(loaded.faults.size(), 201U);
  EXPECT_EQ(loaded.faults.back().message, "801 more faults are not shown");
}

TEST(Faults, ControlCharactersAreShownNotSent) {
  const std::string faults = faults_of("\"a\\x1b[31m\\nb\": 1\nmodels: {\"x\\ty\": {}}\n");
  EXPECT_EQ(faults.find('\x1b'), std::string::npos);
  EXPECT_NE(faults.find("unknown key \"a\\x1b[31m\\x0ab\""), std::string::npos) << faults;
}

TEST(Faults, JsonIsYaml) {
  const std::string json =
      "{\"auth\": \"none\", \"server\": {\"drain\": \"30s\", \"limits\": {\"body\": \"1MiB\"}},\n"
      "\t\"providers\": {\"p\": {\"kind\": \"openai_compatible\", \"base_url\": "
      "\"http://h/v1\"}},\n"
      "\t\"deployments\": {\"d\": {\"provider\": \"p\", \"limits\": {\"rpm\": 60, \"tpd\": "
      "\"1M\"}}},\n"
      "\t\"models\": {\"*\": {\"deployments\": [{\"to\": \"d\", \"priority\": 0}]}}}\n";
  const Loaded loaded = load_text(json);
  ASSERT_TRUE(loaded.config) << faults_of(json);
  EXPECT_EQ(loaded.config->policy.deployments.at(0).rules.size(), 2U);
}

TEST(Faults, VariablesExpandAfterParsing) {
  EXPECT_NE(faults_of(base("model: \"${MISSING}\""))
                .find("deployments.chat.model: the environment "
                      "variable MISSING is not set; set it, or "
                      "write ${MISSING:-default}"),
            std::string::npos);
  const auto model = [](const std::string& text) {
    const Loaded loaded = load_text(base("model: " + text));
    return loaded.config ? loaded.config->policy.deployments.at(0).model : faults_of(base(text));
  };
  EXPECT_EQ(model("\"${MISSING:-gpt}-${RPM}\""), "gpt-60");
  EXPECT_EQ(model("\"${EMPTY:-gpt}\""), "gpt");
  EXPECT_EQ(model("\"a$$b$c\""), "a$b$c");
  EXPECT_EQ(model("\"$${RPM}\""), "${RPM}");
  EXPECT_EQ(model("\"${WORDS}\""), "canary words: {not: yaml}");
  EXPECT_NE(faults_of(base("model: \"${RPM\"")).find("a variable is not closed"),
            std::string::npos);
  EXPECT_NE(faults_of(base("model: \"${1X}\"")).find("\"1X\" is not a variable's name"),
            std::string::npos);
}

TEST(Faults, ReferencesAndDoubles) {
  const auto has = [](const std::string& text, const std::string& fault) {
    EXPECT_NE(faults_of(text).find(fault), std::string::npos) << faults_of(text);
  };
  const std::string hash(64, 'a');
  has(base("", "tenants: {t: {keys: {a: {hash: \"sha256:" + hash +
                   "\"}, b: {hash: \"sha256:" + hash + "\"}}}}\n"),
      "tenants.t.keys.b.hash: tenants.t.keys.a has the same hash; make a key for each");
  has(base("", "tenants: {t: {teams: {x: {}}, keys: {x: {hash: \"sha256:" + hash + "\"}}}}\n"),
      "tenants.t.keys.x: a team of this tenant has the same name");
  has(base("", "tenants: {t: {keys: {a: {hash: \"sha256:" + hash + "\", class: standart}}}}\n"),
      "class: there is no class \"standart\"; did you mean \"standard\"?");
  has(base("", "tenants: {\"a/b\": {}}\n"), "tenants.\"a/b\": this is not a name");
  has(base("quota: q"), "deployments.chat.quota: there is no quota \"q\"; there is none yet");
  has(base("", "admin: {listen: \"0.0.0.0:8081\"}\n"),
      "admin.token: the admin plane listens beyond loopback without a token");
  has(base("", "server: {listen: \"127.0.0.1:8081\"}\nadmin: {}\n"),
      "admin.listen: \"127.0.0.1:8081\" is listened on twice");
  has("providers: {o: {kind: openai}}\n", "providers.o.api_key: this key is missing");
  has("providers: {e: {kind: emulated, config: nowhere.yaml}}\n",
      "providers.e.config: there is no file \"nowhere.yaml\"");
  has("models: {m: {deployments: []}}\n", "models.m.deployments: a model without deployments");
  has("models: {\"gpt-*\": {deployments: []}}\n",
      "models.\"gpt-*\": a pattern among the models is not in this version");
  has("quotas: {q: {}}\nproviders: {p: {kind: openai_compatible, base_url: \"http://h\"}}\n"
      "deployments: {a: {provider: p, quota: q}, b: {provider: p, quota: q}}\n",
      "deployments.b.quota: a quota shared by deployments is not in this version; deployments.a "
      "draws on it too");
  has("providers: {p: {kind: openai_compatible, base_url: \"http://h\", headers: {Host: x, "
      "\"a b\": c, X: \"a\\r\\nb\"}}}\n",
      "providers.p.headers.X: the value holds a line break or control byte");
}

// T018, what this version has of it: there is no fallback yet, so no graph of them can have a
// cycle.
TEST(T018_CyclicFallbackGraph, TheCheckRefusesAnyFallback) {
  const std::string faults = faults_of(
      "models: {a: {deployments: [{to: x}], fallback: [{to: b}]}, b: {deployments: [{to: x}], "
      "fallback: [{to: a}]}}\n");
  EXPECT_NE(faults.find("models.a.fallback: fallback is not in this version"), std::string::npos);
  EXPECT_NE(faults.find("models.b.fallback: fallback is not in this version"), std::string::npos);
}

TEST(Faults, TheEditDistanceFindsSlipsOnly) {
  EXPECT_EQ(nearest("listn", {"listen", "limits"}), "listen");
  EXPECT_EQ(nearest("lsiten", {"listen", "limits"}), "listen");
  EXPECT_EQ(nearest("completely", {"listen", "limits"}), "");
  EXPECT_EQ(nearest("tpm", {"rpm", "total_tpm"}), "total_tpm");
  EXPECT_EQ(nearest(std::string(1000, 'x'), {"listen"}), "");
}

}  // namespace
}  // namespace weir::config
