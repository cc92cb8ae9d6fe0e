// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>

namespace weir::cli {

/// What `weir serve` is told on its command line.
struct ServeOptions {
  std::string config;               ///< the file
  std::string log_format = "json";  ///< json | text
  std::string log_level = "info";   ///< debug | info | warn | error
};

/// Runs the gateway until SIGTERM or SIGINT has drained it. Returns the exit code: 0 after a
/// drain, 1 if it could not run (a port in use), 3 if the configuration is invalid.
int serve(const ServeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace weir::cli
