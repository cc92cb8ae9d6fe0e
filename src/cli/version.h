// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir::cli {

/// One line: version, build type, compiler, commit.
std::string version_line();

/// The version alone, "0.1.0".
std::string version();
/// The commit it was built from; "unknown" outside a checkout.
std::string commit();

}  // namespace weir::cli
