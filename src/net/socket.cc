// SPDX-License-Identifier: Apache-2.0
#include "net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace weir::net {
namespace {

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

std::unexpected<Error> listen_failure(const Address& address, int error) {
  std::string text = "cannot listen on " + address.text() + ": " + std::strerror(error);
  if (error == EADDRINUSE) text += "; stop what listens there or choose another port";
  if (error == EACCES) text += "; ports below 1024 need a privilege, choose a higher one";
  if (error == EADDRNOTAVAIL) text += "; no interface of this machine has that address";
  return fail(ErrorCode::io, std::move(text));
}

/// Binds and listens, or returns an invalid Fd with errno set.
Fd listening(const SocketAddress& at, bool shared) {
  Fd fd(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fd;
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (shared) set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  if (at.storage.ss_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (::bind(fd.get(), at.get(), at.size) != 0 || ::listen(fd.get(), 4096) != 0) {
    const int error = errno;
    fd.close();
    errno = error;
  }
  return fd;
}

Result<std::vector<Fd>> listen_tcp(const Address& address, std::size_t loops, Address& bound) {
  const std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
  std::optional<SocketAddress> at = literal_address(host, address.port);
  if (!at) {
    return fail(ErrorCode::invalid_config,
                "cannot listen on " + address.text() +
                    ": give an IP address of this machine, such as 127.0.0.1 or [::]");
  }
  // Two processes may share a port that both bind with SO_REUSEPORT, which would hide that another
  // weir is running. The first socket is therefore bound alone once.
  if (loops > 1 && address.port != 0) {
    if (!listening(*at, false).valid()) return listen_failure(address, errno);
  }
  std::vector<Fd> sockets;
  for (std::size_t loop = 0; loop < loops; ++loop) {
    Fd fd = listening(*at, loops > 1);
    if (!fd.valid()) return listen_failure(address, errno);
    if (loop == 0) {
      at->size = sizeof at->storage;
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at->storage), &at->size);
      bound.port = at->port();
    }
    sockets.push_back(std::move(fd));
  }
  return sockets;
}

Result<std::vector<Fd>> listen_unix(const Address& address, std::size_t loops) {
  SocketAddress at;
  auto* const name = reinterpret_cast<sockaddr_un*>(&at.storage);
  if (address.unix_path.size() >= sizeof name->sun_path) {
    return fail(ErrorCode::invalid_config,
                "cannot listen on " + address.text() + ": the path is longer than 107 bytes");
  }
  name->sun_family = AF_UNIX;
  std::memcpy(name->sun_path, address.unix_path.data(), address.unix_path.size());
  at.size = sizeof *name;
  // A socket file left by a process that has gone is taken away; a live one is left alone.
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  struct stat found{};
  if (::stat(address.unix_path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) {
    if (::connect(probe.get(), at.get(), at.size) == 0) return listen_failure(address, EADDRINUSE);
    ::unlink(address.unix_path.c_str());
  }
  std::vector<Fd> sockets;
  sockets.push_back(listening(at, false));
  if (!sockets.front().valid()) return listen_failure(address, errno);
  for (std::size_t loop = 1; loop < loops; ++loop) {
    sockets.emplace_back(::fcntl(sockets.front().get(), F_DUPFD_CLOEXEC, 0));
    if (!sockets.back().valid()) return listen_failure(address, errno);
  }
  return sockets;
}

}  // namespace

std::string Address::text() const {
  if (!unix_path.empty()) return "unix:" + unix_path;
  const bool brackets = host.find(':') != std::string::npos && !host.starts_with('[');
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

void SocketAddress::set_port(std::uint16_t port) {
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  }
}

std::uint16_t SocketAddress::port() const {
  return storage.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text.data(),
                text.size());
  } else if (storage.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, text.data(),
                text.size());
  } else {
    return "unix";
  }
  return text.data();
}

std::optional<SocketAddress> literal_address(const std::string& text, std::uint16_t port) {
  SocketAddress address;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    address.size = sizeof *v4;
    address.set_port(port);
    return address;
  }
  const bool brackets = text.size() > 2 && text.front() == '[' && text.back() == ']';
  const std::string inner = brackets ? text.substr(1, text.size() - 2) : text;
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET6, inner.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    address.size = sizeof *v6;
    address.set_port(port);
    return address;
  }
  return std::nullopt;
}

Result<std::vector<Fd>> listen_sockets(const Address& address, std::size_t loops, Address& bound) {
  bound = address;
  return address.unix_path.empty() ? listen_tcp(address, loops, bound)
                                   : listen_unix(address, loops);
}

void send_at_once(int fd) { set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1); }

Fd provider_socket(const SocketAddress& address) {
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fd;
  send_at_once(fd.get());
  // Middle boxes forget idle connections silently: a probe keeps them alive or finds them dead,
  // and bytes that nobody acknowledges for 20 s end the connection.
  set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
  return fd;
}

std::optional<Duration> round_trip_of(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_rtt == 0) {
    return std::nullopt;
  }
  return std::chrono::microseconds(info.tcpi_rtt);
}

int pending_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

}  // namespace weir::net
