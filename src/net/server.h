// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "http/exchange.h"
#include "http/parser.h"
#include "net/event_loop.h"
#include "net/fd.h"
#include "net/runtime.h"

namespace weir::net {

class ServerConnection;

/// A buffer for one request, head and body one after the other, with what was read from them.
/// A connection holds one only while a request is being read or served.
struct ReadBlock {
  std::unique_ptr<char[]> bytes;
  std::size_t capacity = 0;
  std::size_t filled = 0;
  http::RequestHead head;
  http::RequestParser parser;
};

/// What all loops of one listener count together. Threads: any.
struct ListenerCounts {
  std::atomic<std::size_t> connections = 0;
  std::atomic<std::size_t> buffered = 0;  ///< bytes of read blocks beyond their first size
};

/// One listener on one loop, with its connections. Threads: the loop's, except the counts.
class Server final : public Watcher {
 public:
  Server(EventLoop& loop, Fd listener, bool shared_socket, const ServerLimits& limits,
         ListenerCounts& counts, std::atomic<std::size_t>& active);
  ~Server() override;

  void serve_with(std::unique_ptr<http::Handler> handler) { handler_ = std::move(handler); }
  bool start();
  /// Closes the listening socket and the idle connections.
  void drain();
  /// Closes every connection; their sessions are destroyed.
  void end();
  void on_ready(std::uint32_t events) override;

 private:
  friend class ServerConnection;
  static constexpr std::size_t kBlockSize = std::size_t{16} << 10U;
  static constexpr std::size_t kSpareBlocks = 1024;
  static constexpr std::size_t kSpareTexts = 256;

  void accept_some(int most);
  void rest();
  std::unique_ptr<ReadBlock> take_block();
  void give_block(std::unique_ptr<ReadBlock> block);
  /// Makes room for `capacity` bytes, keeping those filled. False if the budget is spent.
  bool grow(ReadBlock& block, std::size_t capacity);
  /// Room for what is written and cannot go out at once, lent to connections.
  std::string take_text();
  void give_text(std::string&& text);
  void drop(ServerConnection& connection);

  EventLoop& loop_;
  Fd listener_;
  const bool shared_socket_;
  const ServerLimits limits_;
  ListenerCounts& counts_;
  std::atomic<std::size_t>& active_;
  std::unique_ptr<http::Handler> handler_;
  std::vector<std::unique_ptr<ServerConnection>> connections_;
  std::vector<std::unique_ptr<ReadBlock>> spare_blocks_;
  std::vector<std::string> spare_texts_;
  Timer rest_timer_;  ///< accepting rests while the process has no descriptor free
  bool draining_ = false;
};

}  // namespace weir::net
