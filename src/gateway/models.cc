// SPDX-License-Identifier: Apache-2.0
#include "gateway/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "config/faults.h"
#include "telemetry/json_writer.h"

namespace weir::gateway {
namespace {

void append_model(telemetry::JsonWriter& json, std::string_view name) {
  json.begin_object().member("id", name).member("object", "model");
  json.member("created", std::int64_t{0}).member("owned_by", "weir").end_object();
}

constexpr std::size_t kMaxTellableName = 128;
constexpr std::size_t kMaxCompared = 1000;  // names looked at for one that is near
constexpr std::size_t kMaxListed = 8;

/// What could have been meant by a name, in a sentence; names are compared as they are written.
std::string meant(std::string_view model, const std::vector<std::string_view>& names) {
  if (names.empty()) return "Nothing is served here for this key.";
  if (const std::string_view near = config::nearest(model, names); !near.empty()) {
    return fmt::format("Did you mean \"{}\"?", near);
  }
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < kMaxListed; ++i) {
    fmt::format_to(std::back_inserter(list), "{}{}", i == 0 ? "" : ", ",
                   names[i].substr(0, kMaxTellableName));
  }
  if (names.size() > kMaxListed) list += ", ...";
  return fmt::format("Served here: {}.", list);
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

std::string unknown_model_text(const Plan& plan, const Identity& identity, std::string_view model) {
  const std::string_view shown = model.substr(0, kMaxTellableName);
  std::vector<std::string_view> names;
  for (const auto& profile : plan.policy().profiles) {
    if (names.size() >= kMaxCompared) break;
    if (profile.name != "*" && may_use(identity, profile.name)) names.push_back(profile.name);
  }
  const auto& off = plan.config().off_models;
  if (may_use(identity, model) && std::find(off.begin(), off.end(), model) != off.end()) {
    return fmt::format(
        "The model \"{}\" is off: its provider has no key in the gateway's configuration. {} "
        "GET /v1/models lists what is served.",
        shown, meant({}, names));
  }
  return fmt::format(
      "The model \"{}\" does not exist here. {} GET /v1/models lists what is served.", shown,
      meant(model, names));
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
