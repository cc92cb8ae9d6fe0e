// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "load/report.h"
#include "load/workload.h"
#include "weir/result.h"

namespace weir::cli {

struct LoadOptions {
  std::string url;       ///< base URL as an SDK takes it, "http://127.0.0.1:8080/v1"
  std::string workload;  ///< the file
  bool json = false;
};

/// `weir load`: sends a workload and prints what came of it. Returns 0 if every call that was not
/// left on purpose was answered or refused, 1 if one failed or was not sent, 3 if the file is
/// invalid.
int load(const LoadOptions& options, std::ostream& out, std::ostream& err);

/// What a person should know of a run whose clients had no keys, or the wrong ones; empty: nothing.
std::string load_hint(const load::Workload& workload, const load::Report& report);

/// Reads a workload file. Errors: io, invalid_config (every fault, one a line).
Result<load::Workload> load_workload(const std::string& file);

/// Sends a workload to a base URL, on a loop of its own, and waits for its end. `watch` is called
/// about every `watch_every` from this thread meanwhile.
/// Errors: invalid_config (the URL), io.
Result<load::Report> send_workload(const load::Workload& workload, const std::string& url,
                                   Duration watch_every, const std::function<void()>& watch);

}  // namespace weir::cli
