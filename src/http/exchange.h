// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/head.h"
#include "weir/result.h"
#include "weir/time.h"

/// The two small interfaces between those that move bytes and those that say what they mean:
/// Handler (we are asked) and Connector (we ask). All calls of one exchange happen on one loop's
/// thread; no call blocks. Views passed to a call are valid only during that call.
namespace weir::http {

/// The request as read: head and whole body. The head's views point into `head_bytes`.
struct Request {
  RequestHead head;
  /// The body, whole, followed by at least `kBodyPadding` readable bytes (simdjson needs them).
  /// Owned by the connection until the exchange ends; a handler may keep the view that long.
  std::string_view body;
  std::string_view peer;  ///< the peer's address, for logs only
};
inline constexpr std::size_t kBodyPadding = 64;

/// Where an exchange's answer goes. Implemented by `net`; lives until the Session is destroyed.
class Responder {
 public:
  virtual ~Responder() = default;
  /// Writes bytes of the response (head first, then body) as they are. They go to the kernel at
  /// once; what it does not take is kept. Several pieces are written with one call.
  virtual void write(std::span<const std::string_view> pieces) = 0;
  /// The response is complete. `keep_alive` false closes after the last byte.
  virtual void finish(bool keep_alive) = 0;
  /// Ends the connection now; the peer sees a broken response, never a clean end.
  virtual void abort() = 0;
  /// Bytes kept because the peer reads slowly. Above `high_water` the session pauses its source.
  [[nodiscard]] virtual std::size_t buffered() const = 0;
  /// Milliseconds-exact timer of this exchange: `Session::on_timer` once at `at`; kNever disarms.
  virtual void set_timer(Instant at) = 0;
};

/// One exchange as the handler sees it. Destroyed by the connection after `finish`/`abort`, or
/// when the peer has gone; destruction must release all it holds.
class Session {
 public:
  virtual ~Session() = default;
  /// The peer closed or reset its side: it has gone. The session is destroyed right after.
  virtual void on_peer_gone() = 0;
  /// The responder's buffer fell below its low-water mark.
  virtual void on_writable() {}
  virtual void on_timer() {}
};

/// What serves requests: the gateway, the admin pages, the emulator.
class Handler {
 public:
  virtual ~Handler() = default;
  /// Called with the head alone, before a body is read. An answer here refuses early (bad key,
  /// unknown path, body too large): the bytes are sent, the connection closed after a bounded
  /// drain.
  virtual std::optional<std::string> on_head(const RequestHead& head) = 0;
  /// Called with the whole request. The session may answer within the call or later.
  virtual std::unique_ptr<Session> on_request(const Request& request, Responder& responder) = 0;
  /// The whole answer to what the server refuses by itself, before or while a request is read
  /// (bad framing, time-outs, sizes, no room). The connection is closed after it.
  virtual std::string on_refusal(std::uint16_t status, const Error& error);
  /// The listener could not take a connection and looks again a little later; `why` is what the
  /// operating system says, "Too many open files".
  virtual void on_accept_failure(std::string_view /*why*/) {}
};

/// Where a request goes. One pool per Endpoint and loop.
struct Endpoint {
  std::string name;  ///< the provider's name, for logs and metrics
  bool tls = false;
  std::string host;  ///< also SNI and the certificate's name
  std::uint16_t port = 80;
  std::string ca_file;  ///< empty: the system's
  Duration connect_timeout = std::chrono::seconds(5);
  Duration first_byte_timeout = std::chrono::seconds(600);
  Duration idle_timeout = std::chrono::seconds(300);  ///< between bytes of a response
  Duration total_timeout = std::chrono::seconds(3600);
  Duration pool_idle = std::chrono::seconds(30);  ///< idle connections older are not reused
  std::size_t pool_size = 10'000;                 ///< connections per loop
};

/// What kind of thing went wrong on the way to a peer.
enum class FailureCause : std::uint8_t {
  name,         ///< its name has no address
  refused,      ///< nothing listens at its address
  unreachable,  ///< no way to its address
  connect,      ///< no connection, or no TLS, in time
  tls,          ///< the handshake failed or its certificate was not accepted
  slow,         ///< it took too long with the request or the answer
  lost,         ///< the connection ended before the answer was whole
  answer,       ///< it answered something that is no HTTP
  full,         ///< a bound of ours
};
/// The cause in words that name no address, "its connection was refused": fit for a caller.
std::string_view words(FailureCause cause);

/// How an attempt towards a peer failed.
struct Failure {
  Error error;  ///< its text names the peer's address, for logs
  FailureCause cause = FailureCause::lost;
  bool request_sent = false;  ///< any byte of the request left us
  bool response_started = false;
};

/// Receives one response. Exactly one of on_end, on_failure closes the sequence
/// (on_sent) (on_head (on_body)*)? ; none comes after `Exchange::cancel`.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  /// The request's last byte was handed to the kernel.
  virtual void on_sent() = 0;
  /// The final head (1xx are swallowed). `raw` is the head as it stood on the wire.
  virtual void on_head(const ResponseHead& head, std::string_view raw) = 0;
  /// Decoded body bytes (chunk framing taken off), in order, as they arrive.
  virtual void on_body(std::string_view bytes) = 0;
  virtual void on_end() = 0;
  virtual void on_failure(const Failure& failure) = 0;
};

/// An attempt under way. Destroying it cancels: the connection is closed at once.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Stop or go on reading from the peer (back-pressure).
  virtual void pause(bool paused) = 0;
  /// The socket's own estimate of the network round trip, if it has one.
  [[nodiscard]] virtual std::optional<Duration> round_trip() const = 0;
};

/// Sends requests to providers over pooled keep-alive connections. Lives on one loop.
class Connector {
 public:
  virtual ~Connector() = default;
  /// Sends `head` and `body`. The caller keeps what the views point at alive until on_head or the
  /// end, because a pooled connection that turns out dead before any byte of a response is
  /// replaced once, silently (on_sent is not repeated). No call to `sink` happens inside `send`.
  virtual std::unique_ptr<Exchange> send(const Endpoint& endpoint, std::string_view head,
                                         std::span<const std::string_view> body,
                                         ResponseSink& sink) = 0;
};

/// The loop an exchange lives on, as far as a session may know it.
class Loop {
 public:
  virtual ~Loop() = default;
  /// The loop's cached time, refreshed each turn; cheap.
  [[nodiscard]] virtual Instant now() const = 0;
  /// Runs `task` on the loop's thread. Threads: any.
  virtual void post(std::function<void()> task) = 0;
};

}  // namespace weir::http
