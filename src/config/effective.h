// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/limits.h"

namespace weir::config {

/// What stands behind a secret in whatever is shown.
inline constexpr std::string_view kMask = "********";

/// Where the rules of each deployment came from; index = DeploymentId.
using Origins = std::vector<std::vector<SourcedRule>>;

/// The configuration in force as YAML that loads again to the same policy: every default written
/// out, secrets masked, the origin of each rule behind it.
std::string effective_yaml(const Config& config, const Origins& origins);

}  // namespace weir::config
