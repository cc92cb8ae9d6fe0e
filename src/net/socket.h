// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "net/fd.h"
#include "net/runtime.h"
#include "weir/result.h"

namespace weir::net {

/// An address as the kernel takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);  // the sockets API's own convention
  }
  void set_port(std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const;
  /// "192.0.2.1" or "2001:db8::1"; "unix" for a Unix socket.
  [[nodiscard]] std::string host() const;
};

/// The address that `text` is a literal of, IPv4 or IPv6 with or without brackets.
std::optional<SocketAddress> literal_address(const std::string& text, std::uint16_t port);

/// One listening socket per loop (all the same for a Unix socket); `bound` is the address with the
/// port it got. Errors: io, invalid_config.
Result<std::vector<Fd>> listen_sockets(const Address& address, std::size_t loops, Address& bound);

/// A non-blocking TCP socket of the address's family, tuned for providers. Invalid on failure.
Fd provider_socket(const SocketAddress& address);

/// No delay for small writes.
void send_at_once(int fd);

/// The kernel's smoothed round trip of a TCP connection.
std::optional<Duration> round_trip_of(int fd);

/// The pending error of a socket, 0 if none.
int pending_error(int fd);

}  // namespace weir::net
