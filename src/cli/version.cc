// SPDX-License-Identifier: Apache-2.0
#include "cli/version.h"

#include <fmt/format.h>

#include "commit.h"  // made by the build from the checkout: kCommit

namespace weir::cli {

std::string version_line() {
#if defined(__clang__)
  constexpr const char* kCompiler = "clang " __clang_version__;
#else
  constexpr const char* kCompiler = "g++ " __VERSION__;
#endif
  return fmt::format("weir {} (build {}, {}, commit {})", WEIR_VERSION, WEIR_BUILD_TYPE, kCompiler,
                     kCommit);
}

std::string version() { return WEIR_VERSION; }

std::string commit() { return kCommit; }

}  // namespace weir::cli
