// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>

namespace weir::cli {

struct DemoOptions {
  bool json = false;
  std::string report = "demo-report.html";  ///< where the page is written
};

/// `weir demo`: about a minute. Starts `weir emulate` with tight limits and `weir serve` in front
/// of it, each a process of its own; sends the same calls with the same seed straight, with the
/// usual client retry, and through weir; prints the emulator's own counts of both and writes a
/// page. Returns 0 if weir's row reaches the goals, 1 if it does not or something failed.
int demo(const DemoOptions& options, std::ostream& out, std::ostream& err);

}  // namespace weir::cli
