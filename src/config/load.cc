// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "config/address.h"
#include "config/effective.h"
#include "config/policy_builder.h"
#include "config/section.h"
#include "config/sha256.h"

namespace weir::config {

std::string render(const Diagnostic& fault) {
  std::string place = printable(fault.file);
  if (fault.line > 0) place += fmt::format(":{}:{}", fault.line, fault.column);
  const std::string path = fault.path.empty() ? "" : fault.path + ": ";
  const std::string fix = fault.fix.empty() ? "" : "; " + fault.fix;
  return fmt::format("{}: {}{}{}", place, path, fault.message, fix);
}

std::optional<std::string> process_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::optional<std::size_t> find_key(const Config& config, std::string_view presented) {
  constexpr std::size_t kLongest = 512;
  if (presented.empty() || presented.size() > kLongest) return std::nullopt;
  const Sha256 hash = sha256(presented);
  const std::uint64_t prefix = hash_prefix(hash);
  std::optional<std::size_t> found;
  auto at = std::lower_bound(config.key_index.begin(), config.key_index.end(),
                             std::pair<std::uint64_t, std::uint32_t>(prefix, 0));
  for (; at != config.key_index.end() && at->first == prefix; ++at) {
    if (equal_in_constant_time(config.keys[at->second].sha256, hash)) found = at->second;
  }
  return found;
}

Loaded load(std::string_view text, const std::string& file, Environment environment) {
  Loaded loaded;
  Faults faults(file);
  const std::shared_ptr<Node> root = parse_yaml(text, faults);
  if (root == nullptr || !faults.empty()) {
    loaded.faults = faults.take();
    return loaded;
  }
  prepare(*root, "", environment, faults);
  check(*root, schema(), "", faults);
  auto config = std::make_shared<Config>();
  config->file = file;
  Origins origins;
  const Node* map = root->kind == Node::Kind::map ? root.get() : nullptr;
  build(Section(map, schema(), ""), *config, origins, faults);
  if (!faults.empty()) {
    loaded.faults = faults.take();
    return loaded;
  }
  loaded.effective = effective_yaml(*config, origins);
  loaded.config = std::move(config);
  return loaded;
}

Result<Loaded> load_file(const std::string& file, Environment environment) {
  const Result<std::string> text = read_whole(file, kMaxFileBytes + 1);
  if (!text) return std::unexpected(text.error());
  return load(*text, file, environment);
}

}  // namespace weir::config
