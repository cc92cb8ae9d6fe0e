// SPDX-License-Identifier: Apache-2.0
#include "net/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/server_connection.h"
#include "net/socket.h"

namespace weir::net {
namespace {

constexpr int kAcceptAtOnce = 64;
constexpr Duration kRest = std::chrono::milliseconds(100);

}  // namespace

Server::Server(EventLoop& loop, Fd listener, bool shared_socket, const ServerLimits& limits,
               ListenerCounts& counts, std::atomic<std::size_t>& active)
    : loop_(loop),
      listener_(std::move(listener)),
      shared_socket_(shared_socket),
      limits_(limits),
      counts_(counts),
      active_(active),
      rest_timer_(loop, [](void* self) { static_cast<Server*>(self)->start(); }, this) {}

Server::~Server() { end(); }

bool Server::start() {
  return !listener_.valid() || loop_.watch_listener(listener_.get(), *this, shared_socket_);
}

void Server::rest() {
  // Without a free descriptor a listener stays ready for ever; it is looked at again a little
  // later.
  loop_.unwatch(listener_.get());
  rest_timer_.set(loop_.now() + kRest);
}

void Server::on_ready(std::uint32_t /*events*/) {
  if (listener_.valid()) accept_some(kAcceptAtOnce);
}

void Server::accept_some(int most) {
  for (int count = 0; count < most; ++count) {
    SocketAddress peer;
    peer.size = sizeof peer.storage;
    Fd fd(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size,
                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      handler_->on_accept_failure(std::strerror(errno));
      rest();
      return;
    }
    if (peer.storage.ss_family != AF_UNIX) send_at_once(fd.get());
    const bool refused = counts_.connections.fetch_add(1) >= limits_.connections;
    if (refused) counts_.connections.fetch_sub(1);
    // Of those refused only as many as may be open are answered; beyond that a close must do.
    if (refused && connections_.size() >= 2 * limits_.connections) continue;
    connections_.push_back(
        std::make_unique<ServerConnection>(*this, Stream(std::move(fd)), peer.host()));
    ServerConnection& connection = *connections_.back();
    connection.index_ = connections_.size() - 1;
    connection.start(refused);
  }
}

void Server::drain() {
  if (draining_) return;
  draining_ = true;
  if (listener_.valid()) {
    // What stands in the kernel's queue would be reset by the close; it is served instead.
    accept_some(1 << 16);
    loop_.unwatch(listener_.get());
    rest_timer_.set(kNever);
    listener_.close();
  }
  for (std::size_t at = connections_.size(); at > 0; --at) connections_[at - 1]->drain();
}

void Server::end() {
  rest_timer_.set(kNever);
  if (listener_.valid()) loop_.unwatch(listener_.get());
  listener_.close();
  while (!connections_.empty()) connections_.back()->end();
}

std::unique_ptr<ReadBlock> Server::take_block() {
  if (!spare_blocks_.empty()) {
    std::unique_ptr<ReadBlock> block = std::move(spare_blocks_.back());
    spare_blocks_.pop_back();
    return block;
  }
  auto block = std::make_unique<ReadBlock>();
  block->bytes = std::make_unique_for_overwrite<char[]>(kBlockSize);
  block->capacity = kBlockSize;
  return block;
}

void Server::give_block(std::unique_ptr<ReadBlock> block) {
  if (block == nullptr) return;
  counts_.buffered.fetch_sub(block->capacity - kBlockSize);
  if (block->capacity != kBlockSize || spare_blocks_.size() >= kSpareBlocks) return;
  block->filled = 0;
  block->parser.reset();
  spare_blocks_.push_back(std::move(block));
}

std::string Server::take_text() {
  std::string text;
  if (spare_texts_.empty()) {
    text.reserve(kBlockSize / 4);
  } else {
    text = std::move(spare_texts_.back());
    spare_texts_.pop_back();
  }
  return text;
}

void Server::give_text(std::string&& text) {
  std::string taken = std::exchange(text, std::string());
  if (taken.capacity() > kBlockSize || spare_texts_.size() >= kSpareTexts) return;
  taken.clear();
  spare_texts_.push_back(std::move(taken));
}

bool Server::grow(ReadBlock& block, std::size_t capacity) {
  if (capacity <= block.capacity) return true;
  const std::size_t more = capacity - block.capacity;
  if (counts_.buffered.fetch_add(more) + more > limits_.buffered) {
    counts_.buffered.fetch_sub(more);
    return false;
  }
  auto bytes = std::make_unique_for_overwrite<char[]>(capacity);
  std::memcpy(bytes.get(), block.bytes.get(), block.filled);
  block.bytes = std::move(bytes);
  block.capacity = capacity;
  return true;
}

void Server::drop(ServerConnection& connection) {
  if (!connection.refused_) counts_.connections.fetch_sub(1);
  const std::size_t index = connection.index_;
  std::unique_ptr<ServerConnection> gone = std::move(connections_[index]);
  if (index + 1 < connections_.size()) {
    connections_[index] = std::move(connections_.back());
    connections_[index]->index_ = index;
  }
  connections_.pop_back();
  loop_.bury(std::move(gone));
}

}  // namespace weir::net
