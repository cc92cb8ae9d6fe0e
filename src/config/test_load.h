// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace weir::config {

/// The environment of the tests.
inline std::optional<std::string> test_environment(std::string_view name) {
  if (name == "KEY") return "canary-from-env";
  if (name == "RPM") return "60";
  if (name == "EMPTY") return "";
  if (name == "WORDS") return "canary words: {not: yaml}";
  return std::nullopt;
}

inline Loaded load_text(std::string_view text) { return load(text, "t.yaml", test_environment); }

/// The faults, one on a line, as `weir check` prints them.
inline std::string faults_of(std::string_view text) {
  std::string out;
  for (const Diagnostic& fault : load_text(text).faults) out += render(fault) + "\n";
  return out;
}

/// A valid file whose deployment "chat" has `inside` as further keys (flow style) and to which
/// `more` is appended.
inline std::string base(const std::string& inside = "", const std::string& more = "") {
  return "auth: none\n"
         "providers: {local: {kind: openai_compatible, base_url: \"http://127.0.0.1:9/v1\"}}\n"
         "deployments: {chat: {provider: local" +
         (inside.empty() ? "" : ", " + inside) +
         "}}\n"
         "models: {\"*\": {deployments: [{to: chat}]}}\n" +
         more;
}

/// A folder that is gone with the test.
class TestFolder {
 public:
  explicit TestFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("weir-config-" + name + "-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string write(const std::string& name, std::string_view text) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace weir::config
