// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "http/chunked.h"
#include "http/exchange.h"
#include "net/server.h"
#include "net/stream.h"

namespace weir::net {

/// One client's connection: reads requests one after the other, hands each to the handler, and
/// writes what the session answers. While a request is being served nothing is read, so a client
/// that sends ahead is held back by the kernel's buffers.
class ServerConnection final : public Watcher, public Deferred, public http::Responder {
 public:
  ServerConnection(Server& server, Stream stream, std::string peer);
  ~ServerConnection() override;

  /// Begins to read; `refused`: over the limit of connections, answer so and close.
  void start(bool refused);
  /// Closes if no request is under way; else the exchange under way is the last.
  void drain();
  /// Closes now; a session is told and destroyed.
  void end();

  void on_ready(std::uint32_t events) override;
  void run_deferred() override;

  void write(std::span<const std::string_view> pieces) override;
  void finish(bool keep_alive) override;
  void abort() override;
  [[nodiscard]] std::size_t buffered() const override { return out_.size() - out_start_; }
  void set_timer(Instant at) override { session_timer_.set(at); }

 private:
  friend class Server;
  enum class State : std::uint8_t { head, body, serving, lingering, closed };

  void go_on();
  bool read_head();
  bool read_body();
  bool take_head();
  void prepare_body();
  void take_chunks(std::string_view bytes);
  /// Grows the block and keeps the head's views right; answers 503 and returns false if it cannot.
  bool make_room(std::size_t capacity);
  void refuse_large_body();
  /// One read of at most `size` bytes; returns how many, 0 if there are none now or it closed.
  std::size_t read_some(char* into, std::size_t size);
  void serve();
  void exchange_over();
  void next_request();
  void refuse(std::uint16_t status, ErrorCode code, std::string text);
  void send_last(std::string_view answer);
  void linger();
  void write_now(std::span<const std::string_view> pieces);
  /// Adds the pieces, but for their first `skip` bytes, to what waits to be written.
  void keep(std::span<const std::string_view> pieces, std::size_t skip);
  /// Writes what was left for the end of the turn.
  void write_late();
  /// Writes of what waits as much as the kernel takes; whether it took any.
  bool write_kept();
  /// The kernel has room again.
  void flush();
  void broken();
  /// Finds out whether a client that closed its sending side still reads.
  void ask_who_is_there();
  void on_idle_timer();
  void end_active();
  void close();

  Server& server_;
  EventLoop& loop_;
  std::size_t index_ = 0;  ///< in the server's list
  Stream stream_;
  const std::string peer_;
  State state_ = State::head;
  std::unique_ptr<ReadBlock> block_;
  std::unique_ptr<http::Session> session_;
  Timer idle_timer_;
  Timer session_timer_;
  Instant body_since_;
  Instant linger_until_;

  bool readable_ = false;
  bool peer_closed_ = false;
  bool half_closed_ = false;  ///< and still counted as there: it may wait for its answer
  bool broken_ = false;
  bool keep_alive_ = true;  ///< after the exchange under way
  bool finished_ = false;   ///< the session said so
  bool aborted_ = false;
  bool active_ = false;     ///< counted as an exchange under way
  bool above_low_ = false;  ///< on_writable is owed
  bool late_ = false;       ///< what is buffered goes out at the end of this turn
  bool head_written_ = false;
  bool refused_ = false;  ///< not counted among the connections

  std::size_t body_size_ = 0;
  std::size_t drained_ = 0;  ///< bytes thrown away while lingering
  http::ChunkedDecoder decoder_;
  std::string ahead_;  ///< bytes of the next request that came with this one
  std::string out_;    ///< written but not taken by the kernel; lent by the server
  std::size_t out_start_ = 0;
};

}  // namespace weir::net
