// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "net/stream.h"
#include "weir/result.h"

struct ssl_st;
struct ssl_ctx_st;
struct ssl_session_st;

namespace weir::net {

/// The last session ticket of one provider, so that the next handshake is short.
class TlsTicket {
 public:
  TlsTicket() = default;
  ~TlsTicket();
  TlsTicket(const TlsTicket&) = delete;
  TlsTicket& operator=(const TlsTicket&) = delete;
  void keep(ssl_session_st* session);
  [[nodiscard]] ssl_session_st* get() const { return session_; }

 private:
  ssl_session_st* session_ = nullptr;
};

/// What all connections with one trust store share. Threads: one owner (one loop).
class TlsContext {
 public:
  /// `ca_file` empty: the system's store. Errors: tls_failed (no such file, no certificate in it).
  static Result<std::unique_ptr<TlsContext>> create(const std::string& ca_file);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  [[nodiscard]] ssl_ctx_st* get() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

/// TLS on one connected, non-blocking socket, as a client. The peer's certificate must be valid
/// for `host`; there is no way to turn that off.
class TlsStream {
 public:
  enum class Step : std::uint8_t { done, again, failed };

  static Result<std::unique_ptr<TlsStream>> create(TlsContext& context, int fd,
                                                   const std::string& host, TlsTicket& ticket);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Goes on with the handshake. `why` is set on failure.
  Step handshake(std::string& why);
  Io read(char* into, std::size_t size);
  Io write(std::span<const std::string_view> pieces);

 private:
  explicit TlsStream(ssl_st* ssl) : ssl_(ssl) {}
  Io outcome(int result);
  ssl_st* ssl_;
  std::unique_ptr<char[]> gathered_;  ///< small pieces go out as one record
};

}  // namespace weir::net
