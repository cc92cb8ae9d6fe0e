// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>

namespace weir::cli {

struct CheckOptions {
  std::string config;  ///< the file
  bool print = false;  ///< the effective configuration, secrets masked, on success
  bool probe = false;  ///< try each fallback target; not in this version
};

/// `weir check`: validates a configuration. Faults go to `err`, one on a line with
/// file:line:column, the key's path, what is wrong and the fix; what was asked for goes to `out`.
/// Returns kDone if the file is valid, else kInvalidConfig; kUsage for --probe.
int check(const CheckOptions& options, std::ostream& out, std::ostream& err);

}  // namespace weir::cli
