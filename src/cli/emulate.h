// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>

namespace weir::cli {

/// What `weir emulate` is told on its command line.
struct EmulateOptions {
  std::string config;  ///< the emulator's file; empty: no limits, everything by default
  std::string listen = "127.0.0.1:9090";
  double time_scale = 1;
  std::string log_format = "json";
  std::string log_level = "info";
};

/// Runs the provider emulator until SIGTERM or SIGINT. Logs `listening` with the address it got.
/// Returns 0 after a signal, 1 if it cannot listen, 3 if its file is invalid.
int emulate(const EmulateOptions& options, std::ostream& err);

}  // namespace weir::cli
