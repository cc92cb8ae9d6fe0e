// SPDX-License-Identifier: Apache-2.0
#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "net/socket.h"

namespace weir::net {
namespace {

constexpr std::size_t kRecord = 16U << 10U;  // the largest TLS record

std::string last_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown fault" : reason;
}

/// Keeps each new session with the provider's ticket; returns 1 because the reference is taken.
int keep_session(SSL* ssl, SSL_SESSION* session) {
  auto* const ticket = static_cast<TlsTicket*>(SSL_get_app_data(ssl));
  if (ticket == nullptr) return 0;
  ticket->keep(session);
  return 1;
}

/// The macro of OpenSSL's own for this casts in a way our warnings forbid.
bool indicate_name(SSL* ssl, std::string host) {
  return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host.data()) == 1;
}

}  // namespace

TlsTicket::~TlsTicket() { SSL_SESSION_free(session_); }

void TlsTicket::keep(ssl_session_st* session) {
  SSL_SESSION_free(session_);
  session_ = session;
}

Result<std::unique_ptr<TlsContext>> TlsContext::create(const std::string& ca_file) {
  std::unique_ptr<TlsContext> context(new TlsContext(SSL_CTX_new(TLS_client_method())));
  SSL_CTX* const raw = context->get();
  if (raw == nullptr) return fail(ErrorCode::tls_failed, "TLS cannot be set up: " + last_reason());
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(raw, keep_session);
  constexpr std::array<unsigned char, 9> kHttp11 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  SSL_CTX_set_alpn_protos(raw, kHttp11.data(), kHttp11.size());
  const int loaded = ca_file.empty() ? SSL_CTX_set_default_verify_paths(raw)
                                     : SSL_CTX_load_verify_locations(raw, ca_file.c_str(), nullptr);
  if (loaded != 1) {
    std::string text = "no certificate authority can be read from " +
                       (ca_file.empty() ? std::string("the system's store") : ca_file) + ": " +
                       last_reason();
    ERR_clear_error();
    return fail(ErrorCode::tls_failed, std::move(text));
  }
  return context;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

Result<std::unique_ptr<TlsStream>> TlsStream::create(TlsContext& context, int fd,
                                                     const std::string& host, TlsTicket& ticket) {
  std::unique_ptr<TlsStream> stream(new TlsStream(SSL_new(context.get())));
  SSL* const ssl = stream->ssl_;
  bool good = ssl != nullptr && SSL_set_fd(ssl, fd) == 1;
  if (good && literal_address(host, 0)) {
    // An address is no name: there is nothing to indicate, and the certificate must hold it as one.
    const bool brackets = host.front() == '[';
    const std::string bare = brackets ? host.substr(1, host.size() - 2) : host;
    good = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), bare.c_str()) == 1;
  } else if (good) {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    good = SSL_set1_host(ssl, host.c_str()) == 1 && indicate_name(ssl, host);
  }
  if (!good) {
    std::string text = "TLS cannot be set up for " + host + ": " + last_reason();
    ERR_clear_error();
    return fail(ErrorCode::tls_failed, std::move(text));
  }
  SSL_set_app_data(ssl, &ticket);
  if (ticket.get() != nullptr) SSL_set_session(ssl, ticket.get());
  SSL_set_connect_state(ssl);
  return stream;
}

TlsStream::~TlsStream() {
  if (ssl_ == nullptr) return;
  // Without this a session that ended without close_notify would be dropped from resumption.
  SSL_set_shutdown(ssl_, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  SSL_free(ssl_);
}

TlsStream::Step TlsStream::handshake(std::string& why) {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) return Step::done;
  const int error = SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return Step::again;
  const long verdict = SSL_get_verify_result(ssl_);
  if (verdict != X509_V_OK) {
    why = std::string("its certificate was refused: ") + X509_verify_cert_error_string(verdict);
  } else if (error == SSL_ERROR_SYSCALL) {
    why = errno == 0 ? "the connection was closed during the handshake" : std::strerror(errno);
  } else {
    why = "the handshake failed: " + last_reason();
  }
  ERR_clear_error();
  return Step::failed;
}

Io TlsStream::outcome(int result) {
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return {Io::State::would_block, 0, 0};
    case SSL_ERROR_ZERO_RETURN: return {Io::State::end, 0, 0};
    case SSL_ERROR_SYSCALL: return {Io::State::failed, 0, errno};
    default: return {Io::State::failed, 0, 0};
  }
}

Io TlsStream::read(char* into, std::size_t size) {
  ERR_clear_error();
  std::size_t got = 0;
  const int result = SSL_read_ex(ssl_, into, size, &got);
  if (result == 1) return {Io::State::ok, got, 0};
  return outcome(result);
}

Io TlsStream::write(std::span<const std::string_view> pieces) {
  if (gathered_ == nullptr) gathered_ = std::make_unique<char[]>(kRecord);
  std::size_t total = 0;
  std::size_t index = 0;
  std::size_t offset = 0;
  while (true) {
    std::size_t filled = 0;
    while (index < pieces.size() && filled < kRecord) {
      const std::string_view rest = pieces[index].substr(offset);
      const std::size_t taken = std::min(rest.size(), kRecord - filled);
      std::memcpy(gathered_.get() + filled, rest.data(), taken);
      filled += taken;
      offset += taken;
      if (offset == pieces[index].size()) {
        ++index;
        offset = 0;
      }
    }
    if (filled == 0) return {Io::State::ok, total, 0};
    ERR_clear_error();
    std::size_t sent = 0;
    const int result = SSL_write_ex(ssl_, gathered_.get(), filled, &sent);
    if (result != 1) {
      Io io = outcome(result);
      if (io.state == Io::State::would_block && total > 0) io.state = Io::State::ok;
      if (io.state == Io::State::end) io.state = Io::State::failed;
      io.bytes = total;
      return io;
    }
    total += sent;
    if (sent < filled) return {Io::State::ok, total, 0};
  }
}

}  // namespace weir::net
