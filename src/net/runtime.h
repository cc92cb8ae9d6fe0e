// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "http/exchange.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir::net {

/// Where to listen: an IPv4 or IPv6 address (or "localhost") with a port, or a Unix socket.
struct Address {
  std::string host;
  std::uint16_t port = 0;  ///< 0: any free one
  std::string unix_path;   ///< not empty: a Unix socket, and host and port mean nothing
  /// "127.0.0.1:8080", "[::1]:8080" or "unix:/path".
  [[nodiscard]] std::string text() const;
};

/// Bounds of one listener, all its loops together.
struct ServerLimits {
  std::size_t body = std::size_t{32} << 20U;    ///< bytes of one request's body
  std::size_t header = std::size_t{32} << 10U;  ///< bytes of one request's head
  Duration header_timeout = std::chrono::seconds(10);
  Duration idle_timeout = std::chrono::seconds(75);  ///< of a kept connection; of a stuck reader
  std::size_t connections = 20'000;
  std::size_t buffered = std::size_t{1} << 30U;  ///< bytes of bodies held at one time
};

/// Makes what serves one listener's connections on one loop. Called once per loop and listener,
/// before the loops run.
using HandlerFactory =
    std::function<std::unique_ptr<http::Handler>(http::Loop& loop, http::Connector& connector)>;

/// The time as every loop's `now()` tells it: CLOCK_MONOTONIC. For code that lives on no loop.
/// Threads: any.
Instant monotonic_now();

/// The loops, one thread each, with their listeners and provider connections.
///
/// Life: create → listen* → start → (drain) → stop. Threads: one owner, except where said.
class Runtime {
 public:
  /// `loops` 0: one per core. Errors: io.
  static Result<std::unique_ptr<Runtime>> create(std::size_t loops);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Binds and listens at once; connections are taken from `start` on. Returns the address with
  /// the port it got. Errors: io (address in use, no such address), invalid_config.
  Result<Address> listen(const Address& address, const ServerLimits& limits,
                         HandlerFactory factory);

  /// Makes the handlers and starts the threads. Errors: io.
  Result<void> start();

  /// Stops accepting and closes idle connections; what runs goes on, and its responses say
  /// `connection: close`. Threads: any.
  void drain();

  /// Exchanges under way (from the first byte of a request to the last of its response).
  /// Threads: any.
  [[nodiscard]] std::size_t active() const;
  /// Client connections open. Threads: any.
  [[nodiscard]] std::size_t connections() const;

  /// Ends everything and joins the threads. Sessions are destroyed on their loops. Idempotent.
  void stop();

  [[nodiscard]] std::size_t loops() const;
  /// Threads: `post` of the loop any; the connector only on the loop's own thread.
  http::Loop& loop(std::size_t index);
  http::Connector& connector(std::size_t index);

 private:
  class Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::net
