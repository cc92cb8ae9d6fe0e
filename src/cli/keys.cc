// SPDX-License-Identifier: Apache-2.0
#include "cli/keys.h"

#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <istream>

#include "cli/main_cli.h"
#include "config/address.h"
#include "config/config.h"
#include "config/sha256.h"

namespace weir::cli {

bool kernel_random(std::span<unsigned char> into) {
  while (!into.empty()) {
    const ssize_t got = getrandom(into.data(), into.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

std::string make_key(const RandomBytes& random) {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t kLength = 43;      // 43 * log2(62) is 256 bits
  constexpr unsigned char kFair = 4 * 62;  // bytes from here on would favour the first letters
  constexpr int kMostRounds = 64;
  std::string letters;
  for (int round = 0; round < kMostRounds; ++round) {
    std::array<unsigned char, 64> bytes{};
    if (!random(bytes)) return {};
    for (const unsigned char byte : bytes) {
      if (byte < kFair && letters.size() < kLength) letters += kLetters[byte % kLetters.size()];
    }
    if (letters.size() == kLength) return "weir-" + letters;
  }
  return {};
}

int keys_new(const std::string& name, const RandomBytes& random, std::ostream& out,
             std::ostream& err) {
  const std::string key = make_key(random);
  if (key.empty()) {
    fmt::print(err, "weir keys new: the kernel gave no random bytes\n");
    return kFailed;
  }
  fmt::print(err, "The key is shown once. Give it to its user; put the second line under keys:\n");
  fmt::print(out, "{}\n{}: {{hash: \"sha256:{}\"}}\n", key, name.empty() ? "NAME" : name,
             config::to_hex(config::sha256(key)));
  return kDone;
}

int keys_hash(std::istream& in, std::ostream& out, std::ostream& err) {
  std::string key;
  std::getline(in, key);
  if (key.ends_with('\r')) key.pop_back();
  if (key.empty()) {
    fmt::print(err, "weir keys hash: no key on standard input; write it there, on one line\n");
    return kFailed;
  }
  fmt::print(out, "sha256:{}\n", config::to_hex(config::sha256(key)));
  return kDone;
}

int keys_list(const std::string& config_file, std::ostream& out, std::ostream& err) {
  const auto loaded = config::load_file(config_file, config::process_environment);
  if (!loaded) {
    fmt::print(err, "{}\n", loaded.error().describe());
    return kInvalidConfig;
  }
  if (loaded->config == nullptr) {
    for (const config::Diagnostic& fault : loaded->faults) {
      fmt::print(err, "{}\n", config::render(fault));
    }
    return kInvalidConfig;
  }
  const config::Config& config = *loaded->config;
  fmt::print(out, "TENANT\tKEY\tCLASS\tMODELS\tEXPIRES\tHASH\n");
  for (const config::VirtualKey& key : config.keys) {
    fmt::print(out, "{}\t{}\t{}\t{}\t{}\tsha256:{}...\n", key.tenant, key.id,
               key.traffic_class ? config.policy.classes[key.traffic_class->value()].name : "-",
               key.models.empty() ? "*" : fmt::format("{}", fmt::join(key.models, ",")),
               key.expires ? config::show(*key.expires) : "never",
               config::to_hex(key.sha256).substr(0, 12));
  }
  return kDone;
}

int keys_revoke(std::ostream& err) {
  fmt::print(err,
             "weir keys revoke: not in this version; remove the key from the configuration and "
             "reload it\n");
  return kUsage;
}

}  // namespace weir::cli
