// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "weir/memory.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir::stores {

/// When something was written, on every clock there is. A machine's time since its start does not
/// jump, so two moments of the same start are compared by it, and others by the calendar.
struct Moment {
  WallTime wall;
  std::string boot;  ///< which start of the machine; empty: not known
  Duration since_boot{0};
};

/// A memory as it stands in a file.
struct WrittenMemory {
  Memory memory;
  Moment written;
  bool complete = false;  ///< nothing was sent after it was written
};

/// The text of a state file: JSON, one line for each meter, deployment and caller, times in
/// seconds. It holds names, counts and means; never a request, a key or a secret.
std::string memory_to_json(const WrittenMemory& memory);

/// Reads such a text. Errors: malformed, with the place in the file and what is wrong there;
/// unsupported, where it is of another version. Values are taken as they stand: whoever uses them
/// holds them in range. Members it does not know are passed over.
Result<WrittenMemory> memory_from_json(std::string_view text);

}  // namespace weir::stores
