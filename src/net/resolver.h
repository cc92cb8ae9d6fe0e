// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/event_loop.h"
#include "net/socket.h"

namespace weir::net {

/// Looks names up on threads of its own, so that no loop waits for a name server. Answers are kept
/// for 30 s; when a name server fails, the last good answer serves on for ten minutes.
/// Threads: any.
class Resolver {
 public:
  /// The addresses, or why there are none. Ports are not set.
  using Answer = Result<std::shared_ptr<const std::vector<SocketAddress>>>;
  using Done = std::function<void(const Answer& answer)>;

  Resolver();
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// Calls `done` on the loop's thread, never inside this call. `loop` outlives the resolver.
  void resolve(EventLoop& loop, const std::string& host, Done done);

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;  ///< shared with the threads: a look-up under way may end late
};

}  // namespace weir::net
