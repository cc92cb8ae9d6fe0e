// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/policy.h"
#include "weir/result.h"
#include "weir/time.h"
#include "weir/units.h"

namespace weir::config {

/// A value that must not be shown. It has no stream operator; `reveal` is the one way to it.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  [[nodiscard]] const std::string& reveal() const { return value_; }
  [[nodiscard]] bool empty() const { return value_.empty(); }

 private:
  std::string value_;
};

/// "127.0.0.1:8080", "[::1]:8080" or "unix:/path".
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string unix_path;  ///< not empty: a Unix socket
};

struct Server {
  std::vector<ListenAddress> listen;
  std::int32_t threads = 0;  ///< 0: one per core
  std::int64_t body_limit = std::int64_t{32} << 20U;
  std::int64_t header_limit = 32 << 10;
  Duration header_timeout = std::chrono::seconds(10);
  Duration idle_timeout = std::chrono::seconds(75);
  std::int64_t connections = 20'000;
  std::int64_t buffered = std::int64_t{1} << 30U;
  Duration sync_wait = std::chrono::seconds(290);
  Duration drain = std::chrono::seconds(30);
};

struct Admin {
  std::vector<ListenAddress> listen;  ///< empty: no admin plane
  Secret token;                       ///< empty: one is made (loopback only)
  bool metrics_token = false;
};

struct Provider {
  std::string name;
  std::string kind;                ///< openai, openai_compatible, emulated
  std::string scheme, host, path;  ///< base_url taken apart; path without slash end
  std::uint16_t port = 0;
  Secret api_key;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string ca_file;
  std::string emulator_config;  ///< kind emulated: the file, resolved
  Duration connect_timeout = std::chrono::seconds(5);
  Duration first_byte_timeout = std::chrono::seconds(600);
  Duration idle_timeout = std::chrono::seconds(300);
  Duration total_timeout = std::chrono::seconds(3600);
  bool off = false;  ///< its key expanded to empty
};

/// What a key may do. The key itself is never stored.
struct VirtualKey {
  std::array<std::uint8_t, 32> sha256{};
  NodeId node;
  std::string tenant, id;  ///< "acme", "search/prod"
  std::optional<ClassId> traffic_class;
  std::vector<std::string> models;  ///< patterns with *; empty: all
  std::optional<WallTime> expires;
};

/// What a deployment is to people, beside what it is to the governor.
struct DeploymentLabels {
  std::vector<std::pair<std::string, std::string>> scope;  ///< organization, project, region, …
};

/// The whole configuration, validated and immutable.
struct Config {
  std::string file;
  Server server;
  Admin admin;
  Mode mode = Mode::enforce;
  bool auth_required = true;
  std::vector<Provider> providers;       ///< index = ProviderId
  std::vector<DeploymentLabels> labels;  ///< index = DeploymentId
  std::vector<VirtualKey> keys;
  /// The first eight bytes of each key's hash and its index in `keys`, sorted: see `find_key`.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> key_index;
  NodeId default_tenant;  ///< the leaf used when auth is none
  ClassId default_class;
  std::int32_t max_tenant_labels = 100;  ///< tenants beyond are "other" in metrics
  Policy policy;
  std::string state_file;               ///< keeps what was learned across restarts; empty: none
  std::vector<std::string> off_models;  ///< of the file, none of whose deployments is on
  std::vector<std::string> notices;     ///< "provider openai is off: …"
};

/// One fault of a configuration.
struct Diagnostic {
  std::string file;
  std::int32_t line = 0, column = 0;  ///< from 1
  std::string path;                   ///< "deployments.chat.limits.rpm"
  std::string message;                ///< what is wrong
  std::string fix;                    ///< what to write instead
};

/// The fault on one line: "file:line:column: path: message; fix".
std::string render(const Diagnostic& fault);

/// Looks up an environment variable; tests pass a map.
using Environment = std::optional<std::string> (*)(std::string_view name);

struct Loaded {
  std::shared_ptr<const Config> config;  ///< null if there are diagnostics
  std::vector<Diagnostic> faults;
  std::string effective;  ///< YAML with secrets masked and where each rule came from
};

/// Reads and validates one YAML text. Never throws; every fault it can find is in the result.
Loaded load(std::string_view text, const std::string& file, Environment environment);

/// Reads the file, then `load`. Errors: io.
Result<Loaded> load_file(const std::string& file, Environment environment);

/// The environment of this process.
std::optional<std::string> process_environment(std::string_view name);

/// The key that `presented` is, as an index of `Config::keys`; none if it is none of them. What is
/// compared are SHA-256 hashes, whose bytes nobody can choose, and the last comparison takes the
/// same time wherever they differ: the time says nothing about any key. An expired key is found
/// too; the caller looks at `expires`.
std::optional<std::size_t> find_key(const Config& config, std::string_view presented);

}  // namespace weir::config
