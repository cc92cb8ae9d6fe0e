// SPDX-License-Identifier: Apache-2.0
#include "config/effective.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "config/address.h"
#include "config/quantity.h"
#include "config/schema.h"
#include "config/sha256.h"

namespace weir::config {

namespace {

/// A double-quoted YAML (and JSON) scalar; a dollar sign is doubled, since reading halves it.
std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += byte;
    } else if (code < 0x20 || code == 0x7f) {
      out += fmt::format("\\x{:02X}", code);
    } else if (byte == '$') {
      out += "$$";
    } else {
      out += byte;
    }
  }
  return out + "\"";
}

/// A name as a key or value: bare where that is safe to read back as text.
std::string word(std::string_view text) {
  const bool letters = std::all_of(text.begin(), text.end(), [](char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '_' || byte == '.';
  });
  static constexpr std::string_view kSpecial[] = {"true", "false", "null", "yes", "no",
                                                  "on",   "off",   "y",    "n"};
  std::string low(text);
  std::transform(low.begin(), low.end(), low.begin(), [](char byte) {
    return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte;
  });
  const bool special =
      std::find(std::begin(kSpecial), std::end(kSpecial), low) != std::end(kSpecial);
  const bool starts = !text.empty() && ((text.front() >= 'a' && text.front() <= 'z') ||
                                        (text.front() >= 'A' && text.front() <= 'Z'));
  return letters && starts && !special ? std::string(text) : quote(text);
}

/// Writes one section after the other.
class Printer {
 public:
  Printer(const Config& config, const Origins& origins) : config_(config), origins_(origins) {}

  std::string print() {
    for (const std::string& notice : config_.notices) line(0, "# {}", printable(notice));
    planes();
    line(0, "mode: {}", name(config_.mode));
    line(0, "auth: {}", config_.auth_required ? "required" : "none");
    if (!config_.providers.empty()) line(0, "providers:");
    for (const Provider& provider : config_.providers) print_provider(provider);
    const Policy& policy = config_.policy;
    if (!policy.deployments.empty()) line(0, "deployments:");
    for (std::size_t i = 0; i < policy.deployments.size(); ++i) deployment(i);
    line(0, "models:");
    for (const ProfilePolicy& profile : policy.profiles) model(profile);
    line(0, "classes:");
    for (const ClassPolicy& one : policy.classes) print_class(one);
    hierarchy();
    line(0, "stores: {{state: {}, quota: memory, ledger: none}}",
         config_.state_file.empty() ? "none" : quote(config_.state_file));
    line(0, "telemetry: {{log_bodies: false}}");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(int level, fmt::format_string<Args...> format, Args&&... args) {
    out_.append(static_cast<std::size_t>(2 * level), ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  void listen(const std::vector<ListenAddress>& addresses) {
    std::string list;
    for (const ListenAddress& address : addresses) {
      list += fmt::format("{}{}", list.empty() ? "" : ", ", quote(show(address)));
    }
    line(1, "listen: [{}]", list);
  }

  void planes() {
    const Server& server = config_.server;
    line(0, "server:");
    listen(server.listen);
    line(1, "threads: {}", server.threads == 0 ? "auto" : std::to_string(server.threads));
    line(1, "limits:");
    line(2, "body: {}", show_bytes(server.body_limit));
    line(2, "header: {}", show_bytes(server.header_limit));
    line(2, "header_timeout: {}", show(server.header_timeout));
    line(2, "idle_timeout: {}", show(server.idle_timeout));
    line(2, "connections: {}", server.connections);
    line(2, "buffered: {}", show_bytes(server.buffered));
    line(2, "sync_wait: {}", show(server.sync_wait));
    line(1, "drain: {}", show(server.drain));
    if (config_.admin.listen.empty()) {
      line(0, "# admin: none");
      return;
    }
    line(0, "admin:");
    listen(config_.admin.listen);
    if (config_.admin.token.empty()) {
      line(1, "# token: a random one, made at the start");
    } else {
      line(1, "token: \"{}\"", kMask);
    }
    line(1, "metrics: {{token: {}}}", config_.admin.metrics_token);
  }

  void print_provider(const Provider& provider) {
    line(1, "{}:{}", word(provider.name), provider.off ? "  # off: its api_key is empty" : "");
    line(2, "kind: {}", provider.kind);
    if (!provider.host.empty()) {
      const bool v6 = provider.host.find(':') != std::string::npos;
      line(2, "base_url: {}",
           quote(fmt::format("{}://{}:{}{}", provider.scheme,
                             v6 ? "[" + provider.host + "]" : provider.host, provider.port,
                             provider.path)));
    }
    if (!provider.emulator_config.empty()) line(2, "config: {}", quote(provider.emulator_config));
    if (provider.off) line(2, "api_key: \"\"");
    if (!provider.api_key.empty()) line(2, "api_key: \"{}\"", kMask);
    // A header may well hold a credential; which, nobody can tell.
    if (!provider.headers.empty()) line(2, "headers:");
    for (const auto& [name, value] : provider.headers) line(3, "{}: \"{}\"", word(name), kMask);
    if (!provider.ca_file.empty()) line(2, "ca_file: {}", quote(provider.ca_file));
    line(2, "timeouts: {{connect: {}, first_byte: {}, idle: {}, total: {}}}",
         show(provider.connect_timeout), show(provider.first_byte_timeout),
         show(provider.idle_timeout), show(provider.total_timeout));
  }

  static std::string rule_text(const Rule& rule) {
    std::string out = fmt::format("{{unit: {}, amount: {}", name(rule.unit), rule.amount);
    if (rule.unit != Unit::concurrency) out += fmt::format(", per: {}", show(rule.window));
    out += fmt::format(", enforce: {}, count: {}", name(rule.enforce), name(rule.count));
    if (rule.burst) out += fmt::format(", burst: {}", *rule.burst);
    return out + "}";
  }

  void deployment(std::size_t index) {
    const DeploymentPolicy& policy = config_.policy.deployments[index];
    line(1, "{}:", word(policy.name));
    line(2, "provider: {}", word(config_.providers[policy.provider.value()].name));
    if (policy.model.empty()) {
      line(2, "# model: the client's");
    } else {
      line(2, "model: {}", quote(policy.model));
    }
    if (index < config_.labels.size() && !config_.labels[index].scope.empty()) {
      line(2, "scope:");
      for (const auto& [key, value] : config_.labels[index].scope) {
        line(3, "{}: {}", word(key), quote(value));
      }
    }
    if (policy.rules.empty()) line(2, "# rules: none; only what the provider's headers say");
    if (!policy.rules.empty()) line(2, "rules:");
    for (std::size_t i = 0; i < policy.rules.size(); ++i) {
      line(3, "- {}  # from {}", rule_text(policy.rules[i]), origins_[index][i].origin);
    }
    if (policy.rules.empty() && !policy.growth.empty()) line(2, "rules:");
    for (const GrowthRule& rule : policy.growth) {
      line(3, "- {{unit: growth, of: {}, ratio: {}, per: {}, floor: {}}}", name(rule.of),
           rule.ratio, show(rule.per), rule.floor);
    }
    line(2, "counts: {{cached_input: {}, rejected: {}}}", policy.cached_input_counted,
         policy.rejected_counted);
    line(2, "shaping: {{strategy: {}, start: {}, warmup: {}, burst: {}, margin: {}, guard: {}}}",
         name(policy.strategy), show_percent(policy.start_level), show(policy.warmup),
         policy.burst_percent ? fmt::format("{}%", *policy.burst_percent) : "auto",
         policy.margin ? show_percent(*policy.margin) : "auto",
         policy.guard ? show(*policy.guard) : "auto");
    line(2, "retry: {{attempts: {}, base: {}, cap: {}, jitter: full}}", policy.retry.attempts,
         show(policy.retry.base), show(policy.retry.cap));
    line(2, "mode: {}", name(policy.mode));
  }

  /// Limits of a node in the short form.
  void limits(int level, const std::vector<Rule>& rules) {
    if (rules.empty()) return;
    std::string list;
    for (const Rule& rule : rules) {
      list += fmt::format("{}{}", list.empty() ? "" : ", ", limit_text(rule));
    }
    line(level, "limits: {{{}}}", list);
  }

  static std::string limit_text(const Rule& rule) {
    for (const LimitKey& key : limit_keys()) {
      if (key.unit == rule.unit && key.window == rule.window) {
        return fmt::format("{}: {}", key.key, rule.amount);
      }
    }
    return fractional(rule);
  }

  /// One per a longer window, written as the fraction it came from.
  static std::string fractional(const Rule& rule) {
    for (const LimitKey& key : limit_keys()) {
      if (key.unit != rule.unit || key.window == Duration::zero()) continue;
      const std::string share = fmt::format(
          "{}", static_cast<double>(key.window.count()) / static_cast<double>(rule.window.count()));
      const Parsed<Allowance> again = parse_allowance(share, key.window);
      if (again && again->window == rule.window && again->amount == rule.amount) {
        return fmt::format("{}: {}", key.key, share);
      }
    }
    return fmt::format("{}: {}", limit_name(rule), rule.amount);
  }

  static std::string limit_name(const Rule& rule) { return limiter_name(rule.unit, rule.window); }

  void model(const ProfilePolicy& profile) {
    line(1, "{}:", profile.name == "*" ? "\"*\"" : word(profile.name));
    std::string list;
    for (const Candidate& candidate : profile.candidates) {
      const DeploymentPolicy& to = config_.policy.deployments[candidate.deployment.value()];
      list += fmt::format("{}{{to: {}, priority: {}, weight: {}}}", list.empty() ? "" : ", ",
                          word(to.name), candidate.priority, candidate.weight);
    }
    line(2, "deployments: [{}]", list);
    if (profile.traffic_class) line(2, "class: {}", class_name(*profile.traffic_class));
    limits(2, config_.policy.nodes[profile.node.value()].limits);
    line(2, "estimate: {{output: {}, unknown: {}, propose_max_tokens: {}}}",
         weir::name(profile.output), weir::name(profile.unknown), profile.propose_max_tokens);
  }

  std::string class_name(ClassId id) const { return word(config_.policy.classes[id.value()].name); }

  void print_class(const ClassPolicy& one) {
    const bool usual = config_.policy.classes[config_.default_class.value()].name == one.name;
    line(1, "{}:{}", word(one.name), usual ? "  # the class of what names none" : "");
    line(2, "weight: {}", one.weight);
    line(2, "max_wait: {}", show(one.max_wait));
    line(2, "depth: {}", one.depth);
    line(2, "on_timeout: reject");
    limits(2, one.limits);
  }

  const VirtualKey* key_of(std::size_t node) const {
    for (const VirtualKey& key : config_.keys) {
      if (key.node.value() == node) return &key;
    }
    return nullptr;
  }

  void print_key(int level, std::size_t index) {
    const NodePolicy& node = config_.policy.nodes[index];
    const VirtualKey* key = key_of(index);
    line(level, "{}:", last_part(node.name));
    if (key != nullptr) {
      line(level + 1, "hash: \"sha256:{}\"", to_hex(key->sha256));
      if (key->traffic_class) line(level + 1, "class: {}", class_name(*key->traffic_class));
      std::string list;
      for (const std::string& model : key->models) {
        list += fmt::format("{}{}", list.empty() ? "" : ", ", quote(model));
      }
      if (!list.empty()) line(level + 1, "models: [{}]", list);
      if (key->expires) line(level + 1, "expires: {}", show(*key->expires));
    }
    limits(level + 1, node.limits);
    line(level + 1, "mode: {}", name(node.mode));
  }

  static std::string last_part(std::string_view name) {
    const std::size_t slash = name.rfind('/');
    return word(slash == std::string_view::npos ? name : name.substr(slash + 1));
  }

  std::vector<std::size_t> children(std::size_t parent, NodeKind kind) const {
    std::vector<std::size_t> out;
    const std::vector<NodePolicy>& nodes = config_.policy.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].kind == kind && nodes[i].parent.value() == parent) out.push_back(i);
    }
    return out;
  }

  void keys(int level, std::size_t parent) {
    const std::vector<std::size_t> held = children(parent, NodeKind::key);
    if (!held.empty()) line(level, "keys:");
    for (const std::size_t key : held) print_key(level + 1, key);
  }

  void hierarchy() {
    const std::vector<NodePolicy>& nodes = config_.policy.nodes;
    std::size_t root = 0;
    while (root < nodes.size() && nodes[root].kind != NodeKind::organization) ++root;
    if (root == nodes.size()) return;
    line(0, "organization:");
    line(1, "name: {}", quote(nodes[root].name));
    limits(1, nodes[root].limits);
    line(1, "timezone: UTC");
    const std::vector<std::size_t> tenants = children(root, NodeKind::tenant);
    if (!tenants.empty()) line(0, "tenants:");
    for (const std::size_t tenant : tenants) {
      line(1, "{}:", word(nodes[tenant].name));
      limits(2, nodes[tenant].limits);
      line(2, "mode: {}", name(nodes[tenant].mode));
      const std::vector<std::size_t> teams = children(tenant, NodeKind::team);
      if (!teams.empty()) line(2, "teams:");
      for (const std::size_t team : teams) {
        line(3, "{}:", last_part(nodes[team].name));
        limits(4, nodes[team].limits);
        line(4, "mode: {}", name(nodes[team].mode));
        keys(4, team);
      }
      keys(2, tenant);
    }
  }

  const Config& config_;
  const Origins& origins_;
  std::string out_;
};

}  // namespace

std::string effective_yaml(const Config& config, const Origins& origins) {
  return Printer(config, origins).print();
}

}  // namespace weir::config
