// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/config.h"
#include "http/exchange.h"
#include "weir/decision.h"
#include "weir/policy.h"

namespace weir::gateway {

/// One configuration, prepared for serving: look-ups by name and the constant parts of requests
/// towards each provider. Immutable; a reload makes a new one and requests in flight keep theirs.
/// Threads: any.
class Plan {
 public:
  /// The loopback sockets of emulated providers must already stand in `config`.
  explicit Plan(std::shared_ptr<const config::Config> config);

  [[nodiscard]] const config::Config& config() const { return *config_; }
  [[nodiscard]] const Policy& policy() const { return config_->policy; }
  [[nodiscard]] std::shared_ptr<const Policy> shared_policy() const {
    return {config_, &config_->policy};
  }

  /// The profile of exactly this name, else of "*"; none: the model is unknown.
  [[nodiscard]] std::optional<ProfileId> find_profile(std::string_view model) const;
  [[nodiscard]] std::optional<ClassId> find_class(std::string_view name) const;
  [[nodiscard]] std::optional<DeploymentId> find_deployment(std::string_view name) const;

  [[nodiscard]] const DeploymentPolicy& deployment(DeploymentId id) const {
    return policy().deployments[id.value()];
  }
  [[nodiscard]] const ProfilePolicy& profile(ProfileId id) const {
    return policy().profiles[id.value()];
  }
  [[nodiscard]] const config::Provider& provider(ProviderId id) const {
    return config_->providers[id.value()];
  }
  [[nodiscard]] const http::Endpoint& endpoint(ProviderId id) const {
    return endpoints_[id.value()];
  }
  /// Header lines that every request to the provider carries: host, its credential, its
  /// configured headers. Holds a secret; never logged.
  [[nodiscard]] const std::string& provider_lines(ProviderId id) const {
    return provider_lines_[id.value()];
  }
  /// A deployment's model name as a JSON string with its quotes; empty: the client's passes.
  [[nodiscard]] const std::string& model_literal(DeploymentId id) const {
    return model_literals_[id.value()];
  }
  /// The provider's own scope of a deployment's limits as a JSON object; empty: not configured.
  [[nodiscard]] const std::string& provider_scope(DeploymentId id) const {
    return provider_scopes_[id.value()];
  }
  /// The tenant's label in metrics: its name, or "other" beyond the configured
  /// number. The text lives as long as the plan.
  [[nodiscard]] std::string_view tenant_label(std::string_view tenant) const;
  /// The name of the tenant that pays without a key (auth: none).
  [[nodiscard]] std::string_view default_tenant() const { return default_tenant_; }

  /// "tenant:acme", "deployment:chat-1", "class:batch": what a limit belongs to; empty if none.
  [[nodiscard]] std::string limit_owner(const LimitRef& limit) const;

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  template <class Id>
  using Index = std::unordered_map<std::string, Id, TextHash, std::equal_to<>>;

  std::shared_ptr<const config::Config> config_;
  std::vector<http::Endpoint> endpoints_;
  std::vector<std::string> provider_lines_;
  std::vector<std::string> model_literals_;
  std::vector<std::string> provider_scopes_;
  Index<ProfileId> profiles_;
  Index<ClassId> classes_;
  Index<DeploymentId> deployments_;
  Index<bool> labelled_tenants_;
  std::optional<ProfileId> any_profile_;
  std::string default_tenant_ = "default";
};

/// Whether `text` fits `pattern`, in which each `*` stands for any run of characters.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace weir::gateway
