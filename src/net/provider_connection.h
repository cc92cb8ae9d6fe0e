// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/chunked.h"
#include "http/exchange.h"
#include "http/parser.h"
#include "net/connector.h"
#include "net/stream.h"

namespace weir::net {

/// One attempt as its caller holds it. It is bound to a connection until the response has ended.
class ProviderExchange final : public http::Exchange {
 public:
  ProviderExchange(const http::Endpoint& endpoint, std::string_view head,
                   std::span<const std::string_view> body, http::ResponseSink& sink, Instant now);
  ~ProviderExchange() override;
  void pause(bool paused) override;
  [[nodiscard]] std::optional<Duration> round_trip() const override;

  // One is made for each request; freed memory is kept for the next.
  static void* operator new(std::size_t size);
  static void operator delete(void* memory, std::size_t size);

 private:
  friend class ProviderConnection;
  friend class PooledConnector;
  /// Copies the views of what is not yet written into `into`; returns how many.
  std::size_t rest(std::size_t written, std::span<std::string_view> into) const;

  static constexpr std::size_t kPieces = 8;
  http::ResponseSink& sink_;
  ProviderConnection* connection_ = nullptr;
  std::array<std::string_view, kPieces> pieces_;
  std::size_t piece_count_ = 0;
  std::vector<std::string_view> more_pieces_;
  std::size_t size_ = 0;  ///< of the whole request
  Instant started_;
  Duration connect_timeout_;
  Duration first_byte_timeout_;
  Duration idle_timeout_;
  Duration total_timeout_;
  bool to_head_;
  bool paused_ = false;
  bool sent_told_ = false;
  bool replaced_ = false;  ///< the one silent replacement was used
};

/// One connection to a provider, from the look-up of its name to its close.
class ProviderConnection final : public Watcher, public Deferred {
 public:
  ProviderConnection(PooledConnector& connector, Pool& pool, std::uint64_t id);
  ~ProviderConnection() override;

  /// Makes the connection for `exchange`. No callback happens inside.
  void open(ProviderExchange& exchange);
  /// Sends `exchange` over this idle connection at the turn's end. No callback happens inside.
  void reuse(ProviderExchange& exchange);
  /// The caller cancelled, or the loop ends.
  void abandon();
  void set_paused(bool paused);
  [[nodiscard]] std::optional<Duration> round_trip() const;

  void on_ready(std::uint32_t events) override;
  void run_deferred() override;

 private:
  friend class PooledConnector;
  enum class State : std::uint8_t { resolving, connecting, securing, busy, idle, closed };

  void resolved(const Resolver::Answer& answer);
  void connect_next(int last_error);
  void connected();
  void go_on_securing();
  void begin();
  void write_request();
  void tell_sent();
  void read_response();
  void drain_idle();
  void take_in(char* bytes, std::size_t size);
  /// Reads the head at the front; returns false if more is needed or it failed.
  bool take_head(std::string_view& bytes);
  void take_body(char* bytes, std::size_t size);
  void take_chunks(char* bytes, std::size_t size);
  void complete(bool reusable);
  void lost(const Io& io);
  void fail(Error error);
  void fail_later(Error error);
  void on_timer();
  void keep_time();
  /// Gives the address that is tried now its part of the time that is left for connecting.
  void share_time();
  [[nodiscard]] bool out_of_time() const;
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] http::FailureCause cause_of(ErrorCode code) const;
  [[nodiscard]] Error error_of(ErrorCode code, std::string text) const;
  void close();
  void link_idle();
  void unlink_idle();

  PooledConnector& connector_;
  EventLoop& loop_;
  Pool& pool_;
  const std::uint64_t id_;
  std::size_t index_ = 0;  ///< in the connector's list
  ProviderConnection* newer_ = nullptr;
  ProviderConnection* older_ = nullptr;

  State state_ = State::resolving;
  Stream stream_;
  std::shared_ptr<const std::vector<SocketAddress>> addresses_;
  std::size_t next_address_ = 0;
  int connect_error_ = 0;  ///< of the last address, once none is left
  ProviderExchange* exchange_ = nullptr;
  Timer timer_;
  Instant next_try_ = kNever;  ///< when the next address has its turn
  Instant since_;              ///< last progress: connect begun, sent, bytes read, became idle

  bool reused_ = false;
  bool readable_ = false;
  bool peer_closed_ = false;
  bool any_byte_ = false;
  bool head_done_ = false;
  bool write_due_ = false;  ///< the request's first write is still to come in this turn
  bool sent_now_ = false;   ///< on_sent is still to be told
  std::uint8_t informational_ = 0;
  std::size_t written_ = 0;
  std::uint64_t left_ = 0;  ///< of a body with a length
  std::optional<Error> failure_;
  std::string partial_;  ///< a head that came in pieces
  http::ResponseParser parser_;
  http::ResponseHead head_;
  http::ChunkedDecoder decoder_;
};

}  // namespace weir::net
