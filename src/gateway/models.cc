// SPDX-License-Identifier: Apache-2.0
#include "gateway/models.h"

#include <algorithm>

#include "telemetry/json_writer.h"

namespace weir::gateway {
namespace {

void append_model(telemetry::JsonWriter& json, std::string_view name) {
  json.begin_object().member("id", name).member("object", "model");
  json.member("created", std::int64_t{0}).member("owned_by", "weir").end_object();
}

}  // namespace

bool may_use(const Identity& identity, std::string_view model) {
  if (identity.key == nullptr || identity.key->models.empty()) return true;
  return std::any_of(identity.key->models.begin(), identity.key->models.end(),
                     [&](const std::string& pattern) { return matches_pattern(pattern, model); });
}

std::string models_body(const Plan& plan, const Identity& identity) {
  std::string body;
  telemetry::JsonWriter json(body);
  json.begin_object().member("object", "list").key("data").begin_array();
  for (const auto& profile : plan.policy().profiles) {
    if (profile.name != "*" && may_use(identity, profile.name)) append_model(json, profile.name);
  }
  json.end_array().end_object();
  return body;
}

std::string model_body(const Plan& plan, const Identity& identity, std::string_view model) {
  for (const auto& profile : plan.policy().profiles) {
    if (profile.name != model || model == "*" || !may_use(identity, model)) continue;
    std::string body;
    telemetry::JsonWriter json(body);
    append_model(json, model);
    return body;
  }
  return {};
}

}  // namespace weir::gateway
