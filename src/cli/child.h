// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "weir/result.h"
#include "weir/time.h"

namespace weir::cli {

/// Another process of this program, whose log is read for the addresses it listens on. Ended by
/// SIGTERM, and by SIGKILL if it stays, when this object goes; also when this process dies.
/// Threads: one owner.
class Child {
 public:
  /// Runs this very program with `args`. Errors: io.
  static Result<std::unique_ptr<Child>> start(std::vector<std::string> args);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The address of its `listening` event with this `plane`, read within `deadline`.
  /// Errors: io, with the last lines of its log; timed_out.
  Result<std::string> listening(const std::string& plane, Duration deadline);

 private:
  Child(pid_t pid, int log) : pid_(pid), log_(log) {}
  pid_t pid_;
  int log_;
  std::string read_;
};

}  // namespace weir::cli
