// SPDX-License-Identifier: Apache-2.0
#include "cli/check.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/main_cli.h"

namespace weir::cli {
namespace {

struct Checked {
  int code = 0;
  std::string out, err;
};

Checked check_file(const std::string& file, bool print = false) {
  std::ostringstream out, err;
  Checked checked;
  checked.code = check({.config = file, .print = print}, out, err);
  checked.out = out.str();
  checked.err = err.str();
  return checked;
}

class Check : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  std::string write(const std::string& text) const {
    std::ofstream(file_) << text;
    return file_;
  }
  const std::string file_ =
      (std::filesystem::temp_directory_path() / ("weir-check-" + std::to_string(::getpid())))
          .string();
};

constexpr const char* kValid =
    "providers: {p: {kind: openai_compatible, base_url: \"http://127.0.0.1:9\", api_key: canary}}\n"
    "deployments: {d: {provider: p, limits: {rpm: 60}}}\n"
    "models: {\"*\": {deployments: [{to: d}]}}\n";

TEST_F(Check, AValidFileIsZero) {
  const std::string file = write(kValid);
  const Checked checked = check_file(file);
  EXPECT_EQ(checked.code, kDone);
  EXPECT_EQ(checked.out, file + ": valid\n");
  EXPECT_EQ(checked.err,
            file + ": note: auth is required and there is no key: every request is answered 401\n");
}

TEST_F(Check, AStateFileThatCannotBeIsNamed) {
  const std::string folder = file_ + "-none";
  const std::string file = write(std::string(kValid) + "stores: {state: " + folder + "/state}\n");
  const Checked checked = check_file(file);
  EXPECT_EQ(checked.code, kInvalidConfig);
  EXPECT_NE(checked.err.find(file + ": stores.state: cannot use the folder " + folder),
            std::string::npos)
      << checked.err;
  // Beside the configuration there is a folder.
  EXPECT_EQ(check_file(write(std::string(kValid) + "stores: {state: state}\n")).code, kDone);
}

TEST_F(Check, PrintShowsOriginsAndMasksSecrets) {
  const Checked checked = check_file(write(kValid), true);
  EXPECT_EQ(checked.code, kDone);
  EXPECT_NE(checked.out.find("- {unit: requests, amount: 60, per: 1m, enforce: unknown, count: "
                             "reserve}  # from limits.rpm; enforce by the kind's default"),
            std::string::npos)
      << checked.out;
  EXPECT_EQ((checked.out + checked.err).find("canary"), std::string::npos);
}

TEST_F(Check, AnInvalidFileIsThreeWithEveryFault) {
  const std::string file = write("mode: no\nauht: none\n");
  const Checked checked = check_file(file, true);
  EXPECT_EQ(checked.code, kInvalidConfig);
  EXPECT_EQ(checked.out, "");
  EXPECT_EQ(checked.err, file + ":1:1: models: this key is missing; add it: What clients name in " +
                             "\"model\"; \"*\": every other name\n" + file +
                             ":1:7: mode: \"no\" is not one of the choices; use one of: enforce, "
                             "observe\n" +
                             file + ":2:1: auht: unknown key \"auht\"; did you mean \"auth\"?\n" +
                             file + ": invalid, 3 faults\n");
}

TEST_F(Check, AMissingFileIsThree) {
  const Checked checked = check_file(file_ + "-none");
  EXPECT_EQ(checked.code, kInvalidConfig);
  EXPECT_NE(checked.err.find("cannot read"), std::string::npos);
}

TEST_F(Check, ProbingIsNotInThisVersion) {
  std::ostringstream out, err;
  EXPECT_EQ(check({.config = file_, .print = false, .probe = true}, out, err), kUsage);
  EXPECT_NE(err.str().find("not in this version"), std::string::npos);
}

}  // namespace
}  // namespace weir::cli
