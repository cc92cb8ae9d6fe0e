// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "weir/ids.h"
#include "weir/time.h"

namespace weir {

/// What a request asks for, as far as it can be known before it is sent. Read from the body by a
/// dialect; the governor turns it into an estimate per deployment.
struct Demand {
  std::int64_t input_bytes = 0;                   ///< bytes of prompt text, JSON escapes resolved
  std::optional<std::int64_t> input_tokens;       ///< exact count where one was made
  std::optional<std::int64_t> max_output_tokens;  ///< the caller's cap, per choice
  std::int64_t choices = 1;                       ///< n or best_of, whichever is larger; >= 1
  bool produces_output = true;                    ///< false: embeddings and the like
  bool streaming = false;
};

/// One call as the governor sees it. `leaf` and `profile` are nodes of the current Policy; the
/// call passes every node from `leaf` to the root, the profile's node, and one deployment.
struct Call {
  NodeId leaf;  ///< the key's node (or the tenant's where there is no key)
  ProfileId profile;
  ClassId traffic_class;
  Instant deadline = kNever;  ///< the caller gives up then; the class's max_wait applies too
  /// How long the caller lets it queue; absent: the class's. It can only shorten. 0: do not queue.
  std::optional<Duration> max_wait;
  Demand demand;
  std::uint64_t cookie = 0;  ///< the shell's own, handed back with every event of this call
};

}  // namespace weir
