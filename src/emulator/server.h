// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "emulator/provider.h"
#include "emulator/settings.h"
#include "net/runtime.h"
#include "weir/result.h"

namespace weir::emulator {

/// An emulated provider on a socket, with loops of its own. `weir emulate` runs one; a provider of
/// kind `emulated` is one on loopback inside the gateway's process. This is the emulator's shell:
/// the one place here that knows sockets and the calendar.
class Server {
 public:
  /// Reads the file and serves it. `time_scale`: its seconds per real second, 0.001 to 1000.
  /// Errors: io (the file, the address), invalid_config (every fault with its place, one a line).
  static Result<std::unique_ptr<Server>> start(const std::string& file, const net::Address& address,
                                               double time_scale);
  static Result<std::unique_ptr<Server>> start(Settings settings, const net::Address& address,
                                               double time_scale);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Where it listens, with the port it got.
  [[nodiscard]] const net::Address& address() const { return address_; }
  [[nodiscard]] Provider& provider() { return *provider_; }
  /// Takes no more connections and ends those that are idle. Threads: any.
  void drain() { runtime_->drain(); }
  [[nodiscard]] std::size_t active() const { return runtime_->active(); }

 private:
  Server(std::shared_ptr<Provider> provider, std::unique_ptr<net::Runtime> runtime,
         net::Address address);

  std::shared_ptr<Provider> provider_;
  std::unique_ptr<net::Runtime> runtime_;
  net::Address address_;
};

}  // namespace weir::emulator
