// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir::cli {

/// One line: version, build type, compiler, commit.
std::string version_line();

}  // namespace weir::cli
