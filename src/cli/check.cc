// SPDX-License-Identifier: Apache-2.0
#include "cli/check.h"

#include <fmt/ostream.h>

#include "cli/main_cli.h"
#include "config/config.h"
#include "stores/file/state_file.h"

namespace weir::cli {

int check(const CheckOptions& options, std::ostream& out, std::ostream& err) {
  if (options.probe) {
    fmt::print(err, "weir check --probe: not in this version\n");
    return kUsage;
  }
  const auto loaded = config::load_file(options.config, config::process_environment);
  if (!loaded) {
    fmt::print(err, "{}\n", loaded.error().describe());
    return kInvalidConfig;
  }
  for (const config::Diagnostic& fault : loaded->faults) {
    fmt::print(err, "{}\n", config::render(fault));
  }
  if (loaded->config == nullptr) {
    fmt::print(err, "{}: invalid, {} fault{}\n", options.config, loaded->faults.size(),
               loaded->faults.size() == 1 ? "" : "s");
    return kInvalidConfig;
  }
  if (const std::string& state = loaded->config->state_file; !state.empty()) {
    if (const auto kept = stores::check_state_path(state); !kept) {
      fmt::print(err, "{}: {}\n", options.config, kept.error().text);
      return kInvalidConfig;
    }
  }
  for (const std::string& notice : loaded->config->notices) {
    fmt::print(err, "{}: note: {}\n", options.config, notice);
  }
  if (options.print) {
    out << loaded->effective;
  } else {
    fmt::print(out, "{}: valid\n", options.config);
  }
  return kDone;
}

}  // namespace weir::cli
