// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "http/exchange.h"
#include "net/fd.h"
#include "net/runtime.h"

/// What the tests of this folder share: plain blocking sockets on loopback, every wait with a
/// deadline.
namespace weir::net::loopback {

inline constexpr std::chrono::seconds kDeadline{20};

/// A blocking socket that gives up after the deadline.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {
    const timeval limit{kDeadline.count(), 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  static Peer connect(std::uint16_t port, int receive_buffer = 0) {
    Peer peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_buffer > 0) {
      ::setsockopt(peer.fd(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(peer.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      peer.close();
    }
    return peer;
  }

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool open() const { return fd_.valid(); }
  void close() { fd_.close(); }
  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
  void end_sending() { ::shutdown(fd(), SHUT_WR); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// Reads until `enough(in)` holds; returns false if the peer ended or the deadline passed first.
  bool read_until(const std::function<bool(const std::string&)>& enough) {
    while (!enough(in)) {
      std::array<char, 16384> buffer;
      const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        ended = got == 0 || errno == ECONNRESET;
        was_reset = got < 0 && errno == ECONNRESET;
        return false;
      }
      in.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return true;
  }
  /// Reads one message with a content-length and takes it off `in`; empty if none came.
  std::string message() {
    std::size_t size = 0;
    const bool came = read_until([&size](const std::string& text) {
      const std::size_t end = text.find("\r\n\r\n");
      if (end == std::string::npos) return false;
      const std::size_t field = text.find("ontent-length: ");
      const std::size_t length =
          field < end ? std::strtoul(text.c_str() + field + 15, nullptr, 10) : 0;
      size = end + 4 + length;
      return text.size() >= size;
    });
    if (!came) return {};
    std::string message = in.substr(0, size);
    in.erase(0, size);
    return message;
  }
  /// Reads to the peer's end; true if it came.
  bool read_to_end() {
    read_until([](const std::string&) { return false; });
    return ended;
  }

  std::string in;
  bool ended = false;
  bool was_reset = false;

 private:
  Fd fd_;
};

/// A provider made of a script: `serve(peer, number)` runs for each accepted connection on a
/// thread of its own.
class ScriptedProvider {
 public:
  using Serve = std::function<void(Peer& peer, int number)>;
  explicit ScriptedProvider(Serve serve) : serve_(std::move(serve)) {
    listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::listen(listener_.get(), 128);
    socklen_t size = sizeof address;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept_all(); });
  }
  ~ScriptedProvider() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  ScriptedProvider(const ScriptedProvider&) = delete;
  ScriptedProvider& operator=(const ScriptedProvider&) = delete;

  [[nodiscard]] http::Endpoint endpoint() const {
    http::Endpoint endpoint;
    endpoint.name = "scripted";
    endpoint.host = "127.0.0.1";
    endpoint.port = port_;
    return endpoint;
  }
  [[nodiscard]] int accepted() const { return accepted_; }

 private:
  void accept_all() {
    while (true) {
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const int number = ++accepted_;
      threads_.emplace_back([this, fd, number] {
        Peer peer(fd);
        serve_(peer, number);
      });
    }
  }

  Serve serve_;
  Fd listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> accepted_ = 0;
  std::vector<std::thread> threads_;
  std::thread thread_;
};

/// Waits for a condition that another thread makes true. The condition is looked at whenever
/// `changed` was called.
class Signal {
 public:
  void changed() {
    const std::lock_guard lock(mutex_);
    condition_.notify_all();
  }
  template <class Change>
  void change(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    condition_.notify_all();
  }
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return condition_.wait_for(lock, kDeadline, condition);
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
};

/// Runs `task` on the loop and waits for its end.
inline void on_loop(http::Loop& loop, const std::function<void()>& task) {
  Signal signal;
  bool done = false;
  loop.post([&] {
    task();
    signal.change([&] { done = true; });
  });
  signal.wait([&] { return done; });
}

/// Waits until `condition`, asked on the loop's thread turn after turn, holds.
inline bool turns_until(http::Loop& loop, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  bool holds = false;
  while (!holds && std::chrono::steady_clock::now() < deadline) {
    on_loop(loop, [&] { holds = condition(); });
  }
  return holds;
}

}  // namespace weir::net::loopback
