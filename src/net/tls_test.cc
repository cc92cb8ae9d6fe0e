// SPDX-License-Identifier: Apache-2.0
#include "net/tls.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <memory>
#include <string>

#include "net/loopback_test.h"

namespace weir::net {
namespace {

using loopback::on_loop;
using loopback::Peer;
using loopback::ScriptedProvider;
using loopback::Signal;

/// A self-made certificate for `names` ("DNS:a,IP:127.0.0.1"), its own authority.
struct Identity {
  explicit Identity(const std::string& names, long valid_seconds = 3600) {
    key.reset(EVP_EC_gen("P-256"));
    certificate.reset(X509_new());
    X509* const raw = certificate.get();
    X509_set_version(raw, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(raw), 1);
    X509_gmtime_adj(X509_getm_notBefore(raw), -7200);
    X509_gmtime_adj(X509_getm_notAfter(raw), valid_seconds);
    X509_set_pubkey(raw, key.get());
    const unsigned char name[] = "weir test";
    X509_NAME_add_entry_by_txt(X509_get_subject_name(raw), "CN", MBSTRING_ASC, name, -1, -1, 0);
    X509_set_issuer_name(raw, X509_get_subject_name(raw));
    X509_EXTENSION* const extension =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
    X509_add_ext(raw, extension, -1);
    X509_EXTENSION_free(extension);
    X509_sign(raw, key.get(), EVP_sha256());
    file = ::testing::TempDir() + "weir_tls_" + std::to_string(::getpid()) + ".pem";
    write();
  }
  /// Makes this one the authority that the file names; all of a process share it.
  void write() const {
    std::FILE* const out = std::fopen(file.c_str(), "w");
    PEM_write_X509(out, certificate.get());
    std::fclose(out);
  }
  ~Identity() { std::remove(file.c_str()); }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;

  struct Free {
    void operator()(EVP_PKEY* what) const { EVP_PKEY_free(what); }
    void operator()(X509* what) const { X509_free(what); }
  };
  std::unique_ptr<EVP_PKEY, Free> key;
  std::unique_ptr<X509, Free> certificate;
  std::string file;
};

/// A provider behind TLS that answers every request and notes what it was asked for.
struct SecureProvider {
  explicit SecureProvider(const Identity& identity)
      : settings(SSL_CTX_new(TLS_server_method()), SSL_CTX_free),
        context(settings.get()),
        provider([this](Peer& peer, int) { serve(peer); }) {
    SSL_CTX_use_certificate(context, identity.certificate.get());
    SSL_CTX_use_PrivateKey(context, identity.key.get());
    const unsigned char id[] = "weir";
    SSL_CTX_set_session_id_context(context, id, sizeof id);
  }

  void serve(Peer& peer) {
    SSL* const ssl = SSL_new(context);
    SSL_set_fd(ssl, peer.fd());
    if (SSL_accept(ssl) == 1) {
      signal.change([&] {
        ++handshakes;
        resumed += SSL_session_reused(ssl);
        const char* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        indicated = name == nullptr ? "" : name;
      });
      std::string in;
      std::array<char, 65536> buffer;
      int got = 0;
      while ((got = SSL_read(ssl, buffer.data(), static_cast<int>(buffer.size()))) > 0) {
        in.append(buffer.data(), static_cast<std::size_t>(got));
        if (!in.ends_with("END")) continue;
        const std::string body = std::to_string(in.size()) + std::string(100'000, 'r');
        const std::string answer =
            "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(body.size()) + "\r\n" +
            (close_after ? "connection: close\r\n\r\n" : "\r\n") + body;
        SSL_write(ssl, answer.data(), static_cast<int>(answer.size()));
        in.clear();
        if (close_after) {
          SSL_shutdown(ssl);
          break;
        }
      }
    }
    SSL_free(ssl);
  }

  /// Outlives `provider`, whose threads make connections from it.
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> settings;
  SSL_CTX* context;
  Signal signal;
  std::atomic<bool> close_after = false;
  int handshakes = 0;
  int resumed = 0;
  std::string indicated;
  ScriptedProvider provider;
};

struct Outcome final : http::ResponseSink {
  void on_sent() override {}
  void on_head(const http::ResponseHead& head, std::string_view) override { status = head.status; }
  void on_body(std::string_view bytes) override { body += bytes; }
  void on_end() override {
    signal.change([this] { over = true; });
  }
  void on_failure(const http::Failure& what) override {
    signal.change([&] {
      failure = what;
      over = true;
    });
  }
  Signal signal;
  bool over = false;
  int status = 0;
  std::string body;
  std::optional<http::Failure> failure;
};

class TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = Runtime::create(1);
    ASSERT_TRUE(made);
    runtime_ = std::move(*made);
    ASSERT_TRUE(runtime_->start());
  }
  void ask(const http::Endpoint& endpoint, Outcome& outcome, std::size_t size = 2000) {
    const std::string body = std::string(size, 'q') + "END";
    const std::string head =
        "POST / HTTP/1.1\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n";
    const std::string_view view = body;
    std::unique_ptr<http::Exchange> exchange;
    on_loop(runtime_->loop(0),
            [&] { exchange = runtime_->connector(0).send(endpoint, head, {&view, 1}, outcome); });
    EXPECT_TRUE(outcome.signal.wait([&] { return outcome.over; }));
    on_loop(runtime_->loop(0), [&] { exchange.reset(); });
  }
  static http::Endpoint endpoint_of(const SecureProvider& provider, const Identity& identity,
                                    const std::string& host) {
    http::Endpoint endpoint = provider.provider.endpoint();
    endpoint.tls = true;
    endpoint.host = host;
    endpoint.ca_file = identity.file;
    return endpoint;
  }
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(TlsTest, T118_NamesAreIndicatedAndVerified) {
  const Identity identity("DNS:localhost");
  SecureProvider provider(identity);
  for (int request = 0; request < 3; ++request) {
    Outcome outcome;
    ask(endpoint_of(provider, identity, "localhost"), outcome, 200'000);
    ASSERT_FALSE(outcome.failure) << outcome.failure->error.text;
    EXPECT_EQ(outcome.status, 200);
    EXPECT_EQ(outcome.body.size(), 100'006U);
  }
  EXPECT_EQ(provider.indicated, "localhost");
  EXPECT_EQ(provider.handshakes, 1) << "the connection is kept";
  runtime_->stop();
}

TEST_F(TlsTest, T118_AddressesAreVerifiedWithoutIndication) {
  const Identity identity("IP:127.0.0.1");
  SecureProvider provider(identity);
  Outcome outcome;
  ask(endpoint_of(provider, identity, "127.0.0.1"), outcome);
  EXPECT_FALSE(outcome.failure);
  EXPECT_EQ(provider.indicated, "");
  runtime_->stop();
}

TEST_F(TlsTest, T118_AWrongNameIsRefusedAndNothingSent) {
  const Identity identity("DNS:other.example");
  SecureProvider provider(identity);
  for (const char* const host : {"localhost", "127.0.0.1"}) {
    Outcome outcome;
    ask(endpoint_of(provider, identity, host), outcome);
    ASSERT_TRUE(outcome.failure);
    EXPECT_EQ(outcome.failure->error.code, ErrorCode::tls_failed);
    EXPECT_FALSE(outcome.failure->request_sent);
    EXPECT_NE(outcome.failure->error.text.find("mismatch"), std::string::npos)
        << outcome.failure->error.text;
  }
  runtime_->stop();
}

TEST_F(TlsTest, T118_ExpiredAndUnknownCertificatesAreRefused) {
  const Identity expired("DNS:localhost", -3600);
  SecureProvider provider(expired);
  Outcome late;
  ask(endpoint_of(provider, expired, "localhost"), late);
  ASSERT_TRUE(late.failure);
  EXPECT_NE(late.failure->error.text.find("expired"), std::string::npos)
      << late.failure->error.text;
  Outcome unknown;
  http::Endpoint endpoint = endpoint_of(provider, expired, "localhost");
  endpoint.ca_file.clear();
  ask(endpoint, unknown);
  ASSERT_TRUE(unknown.failure);
  EXPECT_EQ(unknown.failure->error.code, ErrorCode::tls_failed);
  EXPECT_EQ(unknown.failure->cause, http::FailureCause::tls);
  endpoint.ca_file = "no/such/file.pem";
  Outcome missing;
  ask(endpoint, missing);
  ASSERT_TRUE(missing.failure);
  EXPECT_NE(missing.failure->error.text.find("no/such/file.pem"), std::string::npos);
  runtime_->stop();
}

TEST_F(TlsTest, AReplacedAuthorityIsReadAnew) {
  const Identity fresh("DNS:localhost");
  SecureProvider provider(fresh);
  const Identity former("DNS:localhost");
  Outcome before;
  ask(endpoint_of(provider, former, "localhost"), before);
  ASSERT_TRUE(before.failure);
  EXPECT_EQ(before.failure->error.code, ErrorCode::tls_failed);
  fresh.write();
  Outcome after;
  ask(endpoint_of(provider, former, "localhost"), after);
  EXPECT_FALSE(after.failure) << after.failure->error.text;
  runtime_->stop();
}

TEST_F(TlsTest, SessionsAreResumed) {
  const Identity identity("DNS:localhost");
  SecureProvider provider(identity);
  provider.close_after = true;
  for (int request = 0; request < 3; ++request) {
    Outcome outcome;
    ask(endpoint_of(provider, identity, "localhost"), outcome);
    ASSERT_FALSE(outcome.failure) << outcome.failure->error.text;
  }
  EXPECT_EQ(provider.handshakes, 3);
  EXPECT_EQ(provider.resumed, 2);
  runtime_->stop();
}

TEST_F(TlsTest, PlainHttpIsNoTls) {
  ScriptedProvider plain([](Peer& peer, int) {
    peer.read_until([](const std::string& in) { return !in.empty(); });
    peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  http::Endpoint endpoint = plain.endpoint();
  endpoint.tls = true;
  Outcome outcome;
  ask(endpoint, outcome);
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->error.code, ErrorCode::tls_failed);
  runtime_->stop();
}

}  // namespace
}  // namespace weir::net
