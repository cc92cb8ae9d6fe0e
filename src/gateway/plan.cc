// SPDX-License-Identifier: Apache-2.0
#include "gateway/plan.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "telemetry/json_writer.h"

namespace weir::gateway {
namespace {

http::Endpoint endpoint_of(const config::Provider& provider) {
  http::Endpoint endpoint;
  endpoint.name = provider.name;
  endpoint.tls = provider.scheme == "https";
  endpoint.host = provider.host;
  endpoint.port = provider.port;
  endpoint.ca_file = provider.ca_file;
  endpoint.connect_timeout = provider.connect_timeout;
  endpoint.first_byte_timeout = provider.first_byte_timeout;
  endpoint.idle_timeout = provider.idle_timeout;
  endpoint.total_timeout = provider.total_timeout;
  return endpoint;
}

std::string lines_of(const config::Provider& provider) {
  std::string lines = "host: ";
  const bool literal_v6 = provider.host.find(':') != std::string::npos;
  if (literal_v6) lines += '[';
  lines += provider.host;
  if (literal_v6) lines += ']';
  const std::uint16_t usual = provider.scheme == "https" ? 443 : 80;
  if (provider.port != usual) fmt::format_to(std::back_inserter(lines), ":{}", provider.port);
  lines += "\r\n";
  if (!provider.api_key.empty()) {
    lines += "authorization: Bearer ";
    lines += provider.api_key.reveal();
    lines += "\r\n";
  }
  for (const auto& [name, value] : provider.headers) {
    lines += name;
    lines += ": ";
    lines += value;
    lines += "\r\n";
  }
  lines += "accept-encoding: identity\r\n";
  return lines;
}

std::string scope_of(const config::DeploymentLabels& labels) {
  std::string text;
  if (labels.scope.empty()) return text;
  telemetry::JsonWriter json(text);
  json.begin_object();
  for (const auto& [name, value] : labels.scope) json.member(name, value);
  json.end_object();
  return text;
}

template <class Id>
Id id_of(std::size_t index) {
  return Id(static_cast<std::uint32_t>(index));
}

}  // namespace

Plan::Plan(std::shared_ptr<const config::Config> config) : config_(std::move(config)) {
  for (const auto& provider : config_->providers) {
    endpoints_.push_back(endpoint_of(provider));
    provider_lines_.push_back(lines_of(provider));
  }
  const Policy& policy = config_->policy;
  for (std::size_t i = 0; i < policy.deployments.size(); ++i) {
    deployments_.emplace(policy.deployments[i].name, id_of<DeploymentId>(i));
    std::string literal;
    if (const auto& model = policy.deployments[i].model; !model.empty()) {
      telemetry::JsonWriter(literal).text(model);
    }
    model_literals_.push_back(std::move(literal));
    provider_scopes_.push_back(i < config_->labels.size() ? scope_of(config_->labels[i])
                                                          : std::string());
  }
  for (std::size_t i = 0; i < policy.profiles.size(); ++i) {
    if (policy.profiles[i].name == "*") {
      any_profile_ = id_of<ProfileId>(i);
    } else {
      profiles_.emplace(policy.profiles[i].name, id_of<ProfileId>(i));
    }
  }
  for (std::size_t i = 0; i < policy.classes.size(); ++i) {
    classes_.emplace(policy.classes[i].name, id_of<ClassId>(i));
  }
  for (const auto& node : policy.nodes) {
    if (node.kind != NodeKind::tenant) continue;
    if (std::ssize(labelled_tenants_) >= config_->max_tenant_labels) break;
    labelled_tenants_.emplace(node.name, true);
  }
  if (config_->default_tenant.valid()) {
    default_tenant_ = policy.nodes[config_->default_tenant.value()].name;
  }
}

std::optional<ProfileId> Plan::find_profile(std::string_view model) const {
  const auto found = profiles_.find(model);
  if (found != profiles_.end()) return found->second;
  return any_profile_;
}

std::optional<ClassId> Plan::find_class(std::string_view name) const {
  const auto found = classes_.find(name);
  if (found == classes_.end()) return std::nullopt;
  return found->second;
}

std::optional<DeploymentId> Plan::find_deployment(std::string_view name) const {
  const auto found = deployments_.find(name);
  if (found == deployments_.end()) return std::nullopt;
  return found->second;
}

std::string_view Plan::tenant_label(std::string_view tenant) const {
  const auto found = labelled_tenants_.find(tenant);
  return found == labelled_tenants_.end() ? std::string_view("other") : found->first;
}

std::string Plan::limit_owner(const LimitRef& limit) const {
  if (limit.node.valid() && limit.node.value() < policy().nodes.size()) {
    const auto& node = policy().nodes[limit.node.value()];
    return fmt::format("{}:{}", name(node.kind), node.name);
  }
  if (limit.deployment.valid() && limit.deployment.value() < policy().deployments.size()) {
    return fmt::format("deployment:{}", deployment(limit.deployment).name);
  }
  if (limit.traffic_class.valid() && limit.traffic_class.value() < policy().classes.size()) {
    return fmt::format("class:{}", policy().classes[limit.traffic_class.value()].name);
  }
  return {};
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  // Greedy with one step back to the latest star: linear in practice, never exponential.
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace weir::gateway
