// SPDX-License-Identifier: Apache-2.0
#include "cli/serve.h"

#include <ostream>

#include "cli/main_cli.h"

namespace weir::cli {

int serve(const ServeOptions& options, std::ostream& out, std::ostream& err) {
  (void)options;
  (void)out;
  err << "weir serve: not in this version\n";
  return kUsage;
}

}  // namespace weir::cli
