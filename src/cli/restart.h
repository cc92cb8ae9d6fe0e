// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/config.h"

namespace weir::cli {

/// Puts what only a restart can change back to what is in force, so that the configuration keeps
/// saying what is. Returns the keys that differed, "server.listen,
/// server.threads"; empty: none.
std::string keep_until_restart(const config::Config& in_force, config::Config& wanted);

}  // namespace weir::cli
