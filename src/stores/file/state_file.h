// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "stores/file/memory_json.h"
#include "weir/memory.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir::stores {

/// How old what was written then is now. Within one start of the machine that is known exactly.
/// Across starts the calendar says it; if by it the text is from the future, by more than what
/// clocks are put right by, what was charged counts as charged just now, and what was learned as
/// a day old.
MemoryAge age_between(const Moment& written, const Moment& now, bool complete);

/// What was found at the start.
struct FoundMemory {
  std::optional<Memory> memory;
  MemoryAge age;
  std::string trouble;  ///< why the file was put aside, or what is odd about it; empty: nothing
  bool put_aside = false;
};

/// Whether a state file could be kept at `path`, without touching it. Errors: io, naming the path
/// and the fix.
Result<void> check_state_path(const std::string& path);

/// The one file that a process keeps its memory in. While it is open nobody else can open it: a
/// lock lies on `PATH.lock` beside it, for the file itself is replaced with each write.
/// Threads: one at a time.
class StateFile {
 public:
  /// Errors: io, where the path cannot be written or another process keeps its memory there.
  static Result<std::unique_ptr<StateFile>> open(const std::string& path);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  /// Reads what a predecessor left. No file: nothing. One that cannot be understood is renamed to
  /// `PATH.bad`, and `trouble` says what is wrong where. Errors: io, where it cannot be read.
  Result<FoundMemory> read(const Moment& now);

  /// Replaces the file, readable by its owner only: after a crash at any moment the old or the new
  /// text stands there, whole. Errors: io.
  Result<void> write(const WrittenMemory& memory);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  StateFile(std::string path, int lock);
  std::string path_;
  int lock_;
};

}  // namespace weir::stores
