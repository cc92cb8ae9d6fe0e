// SPDX-License-Identifier: Apache-2.0
#include "config/policy_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "config/address.h"

namespace weir::config {

std::uint64_t hash_prefix(const Sha256& hash) {
  std::uint64_t prefix = 0;
  for (std::size_t i = 0; i < 8; ++i) prefix = (prefix << 8U) | hash[i];
  return prefix;
}

Mode mode_of(const Section& section, Mode above) {
  const std::string text = section.text("mode");
  if (text == name(Mode::observe)) return Mode::observe;
  if (text == name(Mode::enforce)) return Mode::enforce;
  return above;
}

namespace {

template <class Named>
std::vector<std::string_view> names_of(const std::vector<Named>& things) {
  std::vector<std::string_view> names;
  for (const Named& thing : things) names.push_back(thing.name);
  return names;
}

template <class Named>
std::optional<std::uint32_t> index_of(const std::vector<Named>& things, std::string_view name) {
  for (std::size_t i = 0; i < things.size(); ++i) {
    if (things[i].name == name) return static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

std::optional<ClassId> class_of(const Section& section, const Policy& policy, Faults& faults) {
  if (!section.has("class")) return std::nullopt;
  const std::string wanted = section.text("class");
  const std::optional<std::uint32_t> index = index_of(policy.classes, wanted);
  if (index) return ClassId(*index);
  faults.add(section.place("class"), section.path("class"),
             fmt::format("there is no class {}", config::quoted(wanted)),
             suggest(wanted, names_of(policy.classes)));
  return std::nullopt;
}

void build_classes(const Section& root, Config& config, Faults& faults) {
  constexpr std::size_t kMost = 32;
  Policy& policy = config.policy;
  for (const auto& [name, section] : root.named("classes")) {
    ClassPolicy one;
    one.name = name;
    one.weight = static_cast<std::int32_t>(*section.count("weight"));
    one.max_wait = *section.duration("max_wait");
    one.depth = *section.count("depth");
    one.limits = node_limits(section.section("limits"));
    policy.classes.push_back(std::move(one));
  }
  if (policy.classes.size() > kMost) {
    faults.add(root.place("classes"), "classes", "more than 32 classes", "remove some");
  }
  if (policy.classes.empty()) {
    using std::chrono::minutes;
    using std::chrono::seconds;
    policy.classes = {
        {"interactive", 8, seconds(30), 10'000, OnTimeout::reject, {}},
        {"standard", 4, seconds(30), 10'000, OnTimeout::reject, {}},
        {"batch", 1, minutes(20), 10'000, OnTimeout::reject, {}},
    };
  }
  const auto last = static_cast<std::uint32_t>(policy.classes.size() - 1);
  config.default_class = ClassId(index_of(policy.classes, "standard").value_or(last));
}

/// Reads the deployments, which a model may name even if their provider is off.
class Deployments {
 public:
  Deployments(const Section& root, Config& config, Origins& origins, Faults& faults)
      : root_(root), config_(config), origins_(origins), faults_(faults) {}

  void build() {
    for (const auto& [name, section] : root_.named("quotas")) quotas_.emplace(name, section);
    for (const auto& [name, section] : root_.named("deployments")) one(name, section);
    for (const Provider& provider : config_.providers) {
      if (!provider.off) continue;
      const std::string& off = off_[provider.name];
      config_.notices.push_back(fmt::format("provider {} is off: its api_key is empty{}{}",
                                            provider.name,
                                            off.empty() ? "" : "; deployments off with it: ", off));
    }
  }

  /// Every name in the file, those that are off too.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  void one(const std::string& name, const Section& section) {
    names_.push_back(name);
    const std::string provider_name = section.text("provider");
    const std::optional<std::uint32_t> provider = index_of(config_.providers, provider_name);
    if (!provider && section.has("provider")) {
      faults_.add(section.place("provider"), section.path("provider"),
                  fmt::format("there is no provider {}", config::quoted(provider_name)),
                  suggest(provider_name, names_of(config_.providers)));
    }
    const std::string kind = provider ? config_.providers[*provider].kind : "openai";
    const KindDefaults defaults = defaults_of(kind);
    std::vector<SourcedRule> rules =
        deployment_rules(section, quota_of(section), defaults, faults_);
    DeploymentPolicy policy;
    policy.name = name;
    policy.provider = provider ? ProviderId(*provider) : ProviderId();
    policy.model = section.text("model");
    for (const SourcedRule& rule : rules) policy.rules.push_back(rule.rule);
    shape(section, defaults, policy);
    if (!provider) return;
    const Provider& account = config_.providers[*provider];
    // A lease outlives every silence the provider is allowed.
    policy.lease =
        std::max(account.first_byte_timeout, account.idle_timeout) + std::chrono::seconds(60);
    // The same for a request on its way out: first the connection, then its bytes.
    policy.send_lease = account.connect_timeout + account.idle_timeout + std::chrono::seconds(60);
    if (account.off) {
      off_[account.name] += (off_[account.name].empty() ? "" : ", ") + name;
      return;
    }
    config_.policy.deployments.push_back(std::move(policy));
    config_.labels.push_back({section.text_map("scope")});
    origins_.push_back(std::move(rules));
  }

  void shape(const Section& section, const KindDefaults& defaults, DeploymentPolicy& policy) {
    const Section counts = section.section("counts");
    policy.rejected_counted =
        counts.has("rejected") ? counts.boolean("rejected") : defaults.rejected_counted;
    policy.cached_input_counted =
        counts.has("cached_input") ? counts.boolean("cached_input") : defaults.cached_input_counted;
    const Section shaping = section.section("shaping");
    const std::string strategy = shaping.text("strategy");
    for (const Strategy each : {Strategy::passthrough, Strategy::retry, Strategy::rate,
                                Strategy::shaping, Strategy::adaptive}) {
      if (weir::name(each) == strategy) policy.strategy = each;
    }
    policy.start_level =
        shaping.text("start") == "full" ? 1.0 : shaping.percent("start").value_or(0.0);
    policy.warmup = *shaping.duration("warmup");
    if (const std::optional<double> burst = shaping.percent("burst")) {
      policy.burst_percent = static_cast<std::int64_t>(*burst * 100 + 0.5);
    }
    policy.margin = shaping.percent("margin");
    policy.guard = shaping.duration("guard");
    const Section retry = section.section("retry");
    policy.retry.attempts = static_cast<std::int32_t>(*retry.count("attempts"));
    policy.retry.base = *retry.duration("base");
    policy.retry.cap = *retry.duration("cap");
    if (policy.retry.base > policy.retry.cap) {
      faults_.add(retry.place("base"), retry.path("base"), "base is longer than cap",
                  "raise retry.cap or lower it");
    }
    const std::vector<std::string> when = retry.texts("when");
    if (retry.has("when") && when.empty()) policy.retry.attempts = 1;
    if (when.size() == 1) {
      faults_.add(retry.place("when"), retry.path("when"),
                  "rate_limited and overloaded are told apart only in a later version",
                  "write both, or [] for no retry");
    }
    policy.mode = mode_of(section, config_.mode);
  }

  Section quota_of(const Section& section) {
    const Section none(nullptr, schema(), "");
    if (!section.has("quota")) return none;
    const std::string wanted = section.text("quota");
    const auto found = quotas_.find(wanted);
    if (found == quotas_.end()) {
      std::vector<std::string_view> names;
      for (const auto& [name, quota] : quotas_) names.push_back(name);
      faults_.add(section.place("quota"), section.path("quota"),
                  fmt::format("there is no quota {}", config::quoted(wanted)),
                  suggest(wanted, names));
      return none;
    }
    const auto [user, first] = quota_users_.emplace(wanted, section.path());
    if (!first) {
      faults_.add(section.place("quota"), section.path("quota"),
                  fmt::format("a quota shared by deployments is not in this version; {} draws on "
                              "it too",
                              user->second),
                  "give each deployment limits of its own that add up to the quota");
    }
    return found->second;
  }

  const Section& root_;
  Config& config_;
  Origins& origins_;
  Faults& faults_;
  std::map<std::string, Section, std::less<>> quotas_;
  std::map<std::string, std::string, std::less<>> quota_users_;
  std::map<std::string, std::string, std::less<>> off_;  ///< deployments off by provider
  std::vector<std::string> names_;
};

/// Reads the models and their candidates.
class Models {
 public:
  Models(const Section& root, const std::vector<std::string>& declared, Config& config,
         Faults& faults)
      : root_(root), config_(config), faults_(faults), declared_(declared) {
    for (const std::string& name : declared) index_.emplace(name, DeploymentId());
    const std::vector<DeploymentPolicy>& on = config.policy.deployments;
    for (std::size_t i = 0; i < on.size(); ++i) {
      index_[on[i].name] = DeploymentId(static_cast<std::uint32_t>(i));
    }
  }

  void build() {
    const auto models = root_.named("models");
    if (models.empty() && root_.has("models")) {
      faults_.add(root_.place("models"), "models", "there is no model",
                  "add one, such as \"*\": {deployments: [{to: NAME}]}");
    }
    for (const auto& [name, section] : models) one(name, section);
    if (!off_.empty()) {
      config_.notices.push_back(fmt::format(
          "models off, as none of their deployments is on: {}; requests for them are answered as "
          "for a name that is not in the file",
          off_));
    }
    for (const std::string& name : declared_) {
      if (used_.contains(name)) continue;
      config_.notices.push_back(fmt::format("deployment {} is in no model", name));
    }
  }

 private:
  void one(const std::string& name, const Section& section) {
    ProfilePolicy profile;
    profile.name = name;
    profile.traffic_class = class_of(section, config_.policy, faults_);
    if (section.section("estimate").text("output") == "max_tokens") {
      profile.output = OutputEstimate::max_tokens;
    }
    const std::vector<Section> candidates = section.sections("deployments");
    constexpr std::size_t kMost = 8;
    if (candidates.size() > kMost) {
      faults_.add(section.place("deployments"), section.path("deployments"),
                  "a model has more than 8 deployments", "keep at most 8");
    }
    if (candidates.empty() && section.has("deployments")) {
      faults_.add(section.place("deployments"), section.path("deployments"),
                  "a model without deployments", "add {to: NAME}");
    }
    std::set<std::string> seen;
    for (const Section& candidate : candidates) add(candidate, seen, profile);
    if (profile.candidates.empty() && !candidates.empty()) {
      off_ += (off_.empty() ? "" : ", ") + name;
      return;
    }
    NodePolicy node;
    node.name = name;
    node.kind = NodeKind::profile;
    node.limits = node_limits(section.section("limits"));
    node.mode = config_.mode;
    profile.node = NodeId(static_cast<std::uint32_t>(config_.policy.nodes.size()));
    config_.policy.nodes.push_back(std::move(node));
    config_.policy.profiles.push_back(std::move(profile));
  }

  void add(const Section& candidate, std::set<std::string>& seen, ProfilePolicy& profile) {
    const std::string to = candidate.text("to");
    if (to.empty()) return;
    const auto found = index_.find(to);
    if (found == index_.end()) {
      faults_.add(candidate.place("to"), candidate.path("to"),
                  fmt::format("there is no deployment {}", config::quoted(to)),
                  suggest(to, {declared_.begin(), declared_.end()}));
      return;
    }
    used_.insert(to);
    if (!seen.insert(to).second) {
      faults_.add(candidate.place("to"), candidate.path("to"),
                  fmt::format("the deployment {} stands twice in this model", config::quoted(to)),
                  "keep one; use weight for a larger share");
      return;
    }
    if (!found->second.valid()) return;  // off with its provider
    profile.candidates.push_back({found->second,
                                  static_cast<std::int32_t>(*candidate.count("priority")),
                                  static_cast<std::int32_t>(*candidate.count("weight"))});
  }

  const Section& root_;
  Config& config_;
  Faults& faults_;
  const std::vector<std::string>& declared_;
  std::map<std::string, DeploymentId, std::less<>> index_;  ///< invalid: off with its provider
  std::set<std::string> used_;
  std::string off_;
};

/// Reads tenants, teams and keys, parents before children.
class Hierarchy {
 public:
  Hierarchy(const Section& root, Config& config, Faults& faults)
      : root_(root), config_(config), faults_(faults) {
    for (auto& [name, section] : root_.named("models")) model_names_.push_back(std::move(name));
    models_.assign(model_names_.begin(), model_names_.end());
  }

  void build() {
    const Section organization = root_.section("organization");
    const NodeId top =
        node(organization.text("name"), NodeKind::organization, {}, organization, config_.mode);
    for (const auto& [name, section] : root_.named("tenants")) tenant(name, section, top);
    if (!config_.auth_required && !config_.default_tenant.valid()) {
      const Section none(nullptr, schema(), "");
      config_.default_tenant = node("default", NodeKind::tenant, top, none, config_.mode);
    }
    index_keys();
  }

 private:
  NodeId node(std::string name, NodeKind kind, NodeId parent, const Section& section, Mode mode) {
    NodePolicy one;
    one.name = std::move(name);
    one.kind = kind;
    one.parent = parent;
    if (section.present()) one.limits = node_limits(section.section("limits"));
    one.mode = mode;
    config_.policy.nodes.push_back(std::move(one));
    return NodeId(static_cast<std::uint32_t>(config_.policy.nodes.size() - 1));
  }

  void tenant(const std::string& name, const Section& section, NodeId top) {
    const Mode mode = mode_of(section, config_.mode);
    const NodeId id = node(name, NodeKind::tenant, top, section, mode);
    if (!config_.auth_required && name == "default") config_.default_tenant = id;
    std::vector<std::string> children;
    for (const auto& [team, inner] : section.named("teams")) {
      children.push_back(team);
      const Mode team_mode = mode_of(inner, mode);
      const NodeId team_id =
          node(fmt::format("{}/{}", name, team), NodeKind::team, id, inner, team_mode);
      for (const auto& [key, what] : inner.named("keys")) {
        this->key(name, fmt::format("{}/{}", team, key), what, team_id, team_mode);
      }
    }
    for (const auto& [key, what] : section.named("keys")) {
      if (std::find(children.begin(), children.end(), key) != children.end()) {
        faults_.add(what.place(), what.path(), "a team of this tenant has the same name",
                    "rename the key or the team");
      }
      this->key(name, key, what, id, mode);
    }
  }

  void key(const std::string& tenant, const std::string& id, const Section& section, NodeId parent,
           Mode above) {
    VirtualKey one;
    one.tenant = tenant;
    one.id = id;
    one.traffic_class = class_of(section, config_.policy, faults_);
    one.models = section.texts("models");
    allowed_models(section, one);
    if (section.has("expires")) {
      const Parsed<WallTime> expires = parse_date(section.text("expires"));
      if (expires) one.expires = *expires;
    }
    one.node = node(fmt::format("{}/{}", tenant, id), NodeKind::key, parent, section,
                    mode_of(section, above));
    if (section.has("hash")) {
      const Parsed<Sha256> hash = parse_key_hash(section.text("hash"));
      if (!hash) return faults_.add(section.place("hash"), section.path("hash"), hash.error());
      one.sha256 = *hash;
      const auto [first, fresh] = hashes_.emplace(*hash, section.path());
      if (!fresh) {
        faults_.add(section.place("hash"), section.path("hash"),
                    fmt::format("{} has the same hash", first->second), "make a key for each");
      }
    }
    config_.keys.push_back(std::move(one));
  }

  void allowed_models(const Section& section, const VirtualKey& key) {
    if (section.has("models") && key.models.empty()) {
      faults_.add(section.place("models"), section.path("models"), "an empty list allows nothing",
                  "name models, or leave it out (all)");
    }
    const bool any = std::find(models_.begin(), models_.end(), "*") != models_.end();
    for (std::size_t i = 0; i < key.models.size(); ++i) {
      const std::string& name = key.models[i];
      if (any || name.find('*') != std::string::npos) continue;
      if (std::find(models_.begin(), models_.end(), name) != models_.end()) continue;
      faults_.add(section.place("models"), join(section.path("models"), i),
                  fmt::format("there is no model {}", config::quoted(name)),
                  suggest(name, models_));
    }
  }

  void index_keys() {
    for (std::size_t i = 0; i < config_.keys.size(); ++i) {
      config_.key_index.emplace_back(hash_prefix(config_.keys[i].sha256),
                                     static_cast<std::uint32_t>(i));
    }
    std::sort(config_.key_index.begin(), config_.key_index.end());
    if (config_.auth_required && config_.keys.empty()) {
      config_.notices.emplace_back(
          "auth is required and there is no key: every request is answered 401");
    }
    if (!config_.auth_required && !config_.keys.empty()) {
      config_.notices.emplace_back("auth is none: the keys of the file are not looked at");
    }
  }

  const Section& root_;
  Config& config_;
  Faults& faults_;
  std::vector<std::string_view> models_;
  std::vector<std::string> model_names_;
  std::map<Sha256, std::string> hashes_;
};

}  // namespace

void build_hierarchy(const Section& root, Config& config, Faults& faults) {
  Hierarchy(root, config, faults).build();
}

void build(const Section& root, Config& config, Origins& origins, Faults& faults) {
  config.mode = mode_of(root, Mode::enforce);
  config.auth_required = root.text("auth") != "none";
  build_planes(root, config, faults);
  build_providers(root, config, faults);
  build_classes(root, config, faults);
  Deployments deployments(root, config, origins, faults);
  deployments.build();
  build_hierarchy(root, config, faults);
  Models(root, deployments.names(), config, faults).build();
  if (!config.auth_required &&
      std::any_of(config.server.listen.begin(), config.server.listen.end(),
                  [](const ListenAddress& address) { return !is_loopback(address); })) {
    config.notices.emplace_back("auth is none and the data plane listens beyond loopback");
  }
}

}  // namespace weir::config
