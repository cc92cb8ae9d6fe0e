// SPDX-License-Identifier: Apache-2.0
#include "cli/main_cli.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/completion.h"

namespace weir::cli {
namespace {

struct Ran {
  int code = 0;
  std::string out, err;
};

Ran weir(std::vector<std::string> args) {
  std::ostringstream out, err;
  Ran ran;
  ran.code = run(args, out, err);
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

std::string file(const std::string& name) {
  std::ifstream in(std::string(WEIR_SOURCE_DIR "/") + name);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

TEST(MainCli, HelpIsWhatTheGoldenFileSays) {
  const Ran ran = weir({"--help"});
  EXPECT_EQ(ran.code, kDone);
  EXPECT_EQ(ran.out, file("src/cli/golden/help.txt"));
}

TEST(MainCli, EveryGeneratedFileIsUpToDate) {
  const Ran list = weir({"docs", "list"});
  std::istringstream lines(list.out);
  int pages = 0;
  for (std::string name, path; lines >> name >> path; ++pages) {
    EXPECT_EQ(weir({"docs", name}).out, file(path))
        << "write it again: weir docs " << name << " > " << path;
  }
  EXPECT_GE(pages, 6);
}

TEST(MainCli, WrongUsageIsTwoAndSaysWhatIsWrong) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{}, {"nonsense"}, {"serve"}, {"--log-format", "xml", "version"}}) {
    const Ran ran = weir(args);
    EXPECT_EQ(ran.code, kUsage);
    EXPECT_NE(ran.err.find("see 'weir "), std::string::npos) << ran.err;
    EXPECT_TRUE(ran.out.empty());
  }
  EXPECT_NE(weir({"nonsense"}).err.find("'nonsense' is no subcommand"), std::string::npos);
}

TEST(MainCli, AWrongOptionIsNamed) {
  const auto says = [](std::vector<std::string> args) { return weir(std::move(args)).err; };
  EXPECT_EQ(says({"serve", "--confg", "x"}),
            "weir: there is no option --confg of 'weir serve'; did you mean --config?\n"
            "weir: see 'weir serve --help'\n");
  EXPECT_TRUE(says({"--wrong"}).starts_with("weir: there is no option --wrong\n"));
  EXPECT_TRUE(says({"check", "--config=x", "--prnt"}).find("did you mean --print?") !=
              std::string::npos);
  EXPECT_TRUE(says({"serv"}).find("did you mean serve?") != std::string::npos);
  EXPECT_TRUE(says({"keys", "list", "--conf", "x"}).find("no option --conf") != std::string::npos);
}

TEST(MainCli, WhatIsNotBuiltSaysSoByName) {
  const Ran ran = weir({"top", "--admin", "http://127.0.0.1:8081"});
  EXPECT_EQ(ran.code, kUsage);
  EXPECT_EQ(ran.err, "weir top: not in this version\n");
}

TEST(MainCli, WhatTheSimulatorDoesNotKnowItSaysByName) {
  const Ran luckless = weir({"sim", "--scenario", "x.yaml", "--ablate", "no-luck"});
  EXPECT_EQ(luckless.code, kUsage);
  EXPECT_NE(luckless.err.find("no-luck is not one of no-pacing, no-mirror,"), std::string::npos);
  EXPECT_EQ(weir({"sim", "claims", "--style", "openai"}).code, kUsage);
  EXPECT_EQ(weir({"sim", "clams"}).err, "weir sim: there is no 'clams'; see 'weir sim --help'\n");
  EXPECT_NE(weir({"sim", "--scenario", "x.yaml", "--strategy", "hope"}).err.find("is not one of"),
            std::string::npos);
  EXPECT_EQ(weir({"sim"}).code, kUsage);
  EXPECT_NE(weir({"sim", "--scenario", WEIR_SOURCE_DIR}).err.find("no regular file"),
            std::string::npos);
}

TEST(MainCli, ADirectoryIsNoWorkload) {
  const Ran ran = weir({"load", "--url", "http://127.0.0.1:1/v1", "--workload", WEIR_SOURCE_DIR});
  EXPECT_NE(ran.code, kDone);
  EXPECT_NE(ran.err.find("no regular file"), std::string::npos) << ran.err;
}

TEST(MainCli, VersionNamesVersionBuildAndCommit) {
  const Ran ran = weir({"version"});
  EXPECT_EQ(ran.code, kDone);
  EXPECT_TRUE(ran.out.starts_with("weir 0.1.0 (build ")) << ran.out;
  EXPECT_NE(ran.out.find("commit "), std::string::npos);
  for (const char* option : {"--version", "-v"}) {
    EXPECT_EQ(weir({option}).out, ran.out);
    EXPECT_EQ(weir({option}).code, kDone);
  }
}

TEST(MainCli, GlobalOptionsStandBeforeOrAfterTheCommand) {
  EXPECT_EQ(weir({"--log-level", "warn", "version"}).code, kDone);
  EXPECT_EQ(weir({"version", "--log-level", "warn"}).code, kDone);
}

TEST(Completion, EveryShellKnowsTheCommandsAndTheirOptions) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Ran ran = weir({"completion", shell});
    EXPECT_EQ(ran.code, kDone);
    EXPECT_NE(ran.out.find("serve"), std::string::npos);
    EXPECT_NE(ran.out.find("config"), std::string::npos);
    EXPECT_EQ(ran.out.find("docs"), std::string::npos);
  }
}

TEST(Completion, AnotherShellIsRefusedByName) {
  const Ran ran = weir({"completion", "tcsh"});
  EXPECT_EQ(ran.code, kUsage);
  EXPECT_NE(ran.err.find("'tcsh'"), std::string::npos);
}

}  // namespace
}  // namespace weir::cli
