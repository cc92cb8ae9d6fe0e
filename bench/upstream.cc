// SPDX-License-Identifier: Apache-2.0
// A provider that costs almost nothing: one epoll thread that answers each request on a kept
// connection with the same JSON of 1,220 bytes. It reads just enough of HTTP to find the requests'
// ends, and is for benchmarks on loopback only.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

namespace {

constexpr std::size_t kBodySize = 1220;

std::string answer() {
  std::string body =
      R"({"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,)"
      R"("model":"bench-model","choices":[{"index":0,"message":{"role":"assistant","content":")";
  const std::string tail =
      R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":200,)"
      R"("total_tokens":600}})";
  constexpr std::string_view kWords = "lorem ipsum dolor sit amet ";
  while (body.size() + tail.size() < kBodySize) {
    body += kWords[body.size() % kWords.size()];
  }
  body += tail;
  return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT"
         "\r\nX-Request-Id: req_0123456789\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

struct Connection {
  int fd;
  std::string in;
};

/// The size of the request at the front of `in`, 0 if it is not complete.
std::size_t request_size(const std::string& in) {
  const std::size_t end = in.find("\r\n\r\n");
  if (end == std::string::npos) return 0;
  std::size_t length = 0;
  for (std::size_t at = in.find("\r\n"); at < end; at = in.find("\r\n", at + 2)) {
    if (::strncasecmp(in.c_str() + at + 2, "content-length:", 15) == 0) {
      length = std::strtoul(in.c_str() + at + 17, nullptr, 10);
    }
  }
  const std::size_t whole = end + 4 + length;
  return in.size() >= whole ? whole : 0;
}

/// Reads and answers; false if the connection is over.
bool serve(Connection& connection, const std::string& reply) {
  std::array<char, 16384> buffer;
  while (true) {
    const ssize_t got = ::recv(connection.fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
    if (got < 0) return true;
    connection.in.append(buffer.data(), static_cast<std::size_t>(got));
    while (const std::size_t size = request_size(connection.in)) {
      connection.in.erase(0, size);
      if (::send(connection.fd, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) return false;
    }
    if (static_cast<std::size_t>(got) < buffer.size()) return true;
  }
}

int listen_on(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(fd, generic, sizeof address) != 0 || ::listen(fd, 1024) != 0) return -1;
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  std::printf("listening %d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  const int listener = listen_on(argc > 1 ? static_cast<std::uint16_t>(std::atoi(argv[1])) : 0);
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (listener < 0 || epoll < 0) {
    std::perror("upstream");
    return 1;
  }
  const std::string reply = answer();
  epoll_event event{};
  event.events = EPOLLIN;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  while (true) {
    std::array<epoll_event, 128> events;
    const int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    for (int at = 0; at < count; ++at) {
      auto* const connection =
          static_cast<Connection*>(events[static_cast<std::size_t>(at)].data.ptr);
      if (connection == nullptr) {
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) continue;
        const int one = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        event.events = EPOLLIN | EPOLLET | EPOLLRDHUP;
        event.data.ptr = new Connection{fd, {}};
        ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
      } else if (!serve(*connection, reply)) {
        ::close(connection->fd);
        delete connection;
      }
    }
  }
}
