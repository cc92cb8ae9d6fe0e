// SPDX-License-Identifier: Apache-2.0
#include "cli/keys.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/main_cli.h"
#include "config/config.h"
#include "config/sha256.h"

namespace weir::cli {
namespace {

bool counting(std::span<unsigned char> into) {
  unsigned char next = 0;
  for (unsigned char& byte : into) byte = next++;
  return true;
}

TEST(Keys, AKeyIsFortyThreeLettersOfKernelRandomness) {
  const std::string one = make_key(kernel_random);
  const std::string two = make_key(kernel_random);
  EXPECT_NE(one, two);
  ASSERT_EQ(one.size(), 5U + 43U);
  EXPECT_TRUE(one.starts_with("weir-"));
  EXPECT_TRUE(std::all_of(one.begin() + 5, one.end(), [](char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= 'a' && byte <= 'z');
  }));
  EXPECT_EQ(make_key(counting), "weir-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg");
}

TEST(Keys, NoRandomnessIsNoKey) {
  const auto broken = [](std::span<unsigned char>) { return false; };
  // A source that only gives bytes which are thrown away must not hold the program for ever.
  const auto stuck = [](std::span<unsigned char> into) {
    std::fill(into.begin(), into.end(), static_cast<unsigned char>(255));
    return true;
  };
  EXPECT_EQ(make_key(broken), "");
  EXPECT_EQ(make_key(stuck), "");
  std::ostringstream out, err;
  EXPECT_EQ(keys_new("", broken, out, err), kFailed);
  EXPECT_EQ(out.str(), "");
}

TEST(Keys, ANewKeyComesWithTheLineToPasteAndIsFound) {
  std::ostringstream out, err;
  ASSERT_EQ(keys_new("prod", kernel_random, out, err), kDone);
  const std::string text = out.str();
  const std::string key = text.substr(0, text.find('\n'));
  const std::string line = text.substr(text.find('\n') + 1);
  const auto none = [](std::string_view) -> std::optional<std::string> { return std::nullopt; };
  const config::Loaded loaded = config::load(
      "providers: {p: {kind: openai_compatible, base_url: \"http://h\"}}\n"
      "deployments: {d: {provider: p}}\nmodels: {\"*\": {deployments: [{to: d}]}}\n"
      "tenants:\n  acme:\n    keys:\n      " +
          line,
      "t.yaml", none);
  ASSERT_TRUE(loaded.config) << line;
  EXPECT_EQ(config::find_key(*loaded.config, key), 0U);
  EXPECT_EQ(loaded.config->keys[0].id, "prod");
}

TEST(Keys, HashReadsOneLineAndDoesNotEchoIt) {
  std::istringstream in("weir-secret\r\n");
  std::ostringstream out, err;
  EXPECT_EQ(keys_hash(in, out, err), kDone);
  EXPECT_EQ(out.str(), "sha256:" + config::to_hex(config::sha256("weir-secret")) + "\n");
  EXPECT_EQ(err.str(), "");
  std::istringstream empty("\n");
  EXPECT_EQ(keys_hash(empty, out, err), kFailed);
}

TEST(Keys, ListShowsWhomTheyBelongTo) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("weir-keys-" + std::to_string(::getpid())))
          .string();
  std::ofstream(file) << "providers: {p: {kind: openai_compatible, base_url: \"http://h\"}}\n"
                         "deployments: {d: {provider: p}}\n"
                         "models: {m: {deployments: [{to: d}]}}\n"
                         "tenants: {acme: {teams: {web: {keys: {prod: {hash: \"sha256:"
                      << std::string(64, 'b')
                      << "\", class: batch, models: [m, \"x*\"], expires: 2027-01-31}}}}}}\n";
  std::ostringstream out, err;
  EXPECT_EQ(keys_list(file, out, err), kDone) << err.str();
  EXPECT_EQ(out.str(),
            "TENANT\tKEY\tCLASS\tMODELS\tEXPIRES\tHASH\n"
            "acme\tweb/prod\tbatch\tm,x*\t2027-02-01T00:00:00Z\tsha256:bbbbbbbbbbbb...\n");
  std::filesystem::remove(file);
  EXPECT_EQ(keys_list(file, out, err), kInvalidConfig);
}

TEST(Keys, RevokeSaysWhatToDoInstead) {
  std::ostringstream err;
  EXPECT_EQ(keys_revoke(err), kUsage);
  EXPECT_NE(err.str().find("not in this version"), std::string::npos);
}

}  // namespace
}  // namespace weir::cli
