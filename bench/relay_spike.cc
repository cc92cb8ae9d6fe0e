// SPDX-License-Identifier: Apache-2.0
// A relay without a governor: what moving the bytes alone costs. It passes each request to one
// upstream and the answer back, with the credential swapped and the framing checked, and is the
// floor that the whole gateway is measured against.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <signal.h>

#include "http/chunked.h"
#include "http/text.h"
#include "http/writer.h"
#include "net/runtime.h"

namespace {

using namespace weir;

class RelaySession final : public http::Session, public http::ResponseSink {
 public:
  RelaySession(const http::Request& request, http::Responder& responder, http::Connector& connector,
               const http::Endpoint& endpoint)
      : responder_(responder), keep_alive_(request.head.keep_alive) {
    http::append_request_line(head_, request.head.method, request.head.target);
    for (const http::Field& field : request.head.fields.all()) {
      if (http::same_word(field.name, "host") || http::same_word(field.name, "authorization") ||
          http::same_word(field.name, "connection") ||
          http::same_word(field.name, "transfer-encoding") ||
          http::same_word(field.name, "content-length")) {
        continue;
      }
      http::append_field(head_, field.name, field.value);
    }
    http::append_field(head_, "host", endpoint.host);
    http::append_field(head_, "authorization", "Bearer upstream-key");
    http::append_field(head_, "content-length", request.body.size());
    http::end_head(head_);
    const std::string_view body = request.body;
    exchange_ = connector.send(endpoint, head_, {&body, 1}, *this);
  }

  void on_peer_gone() override { exchange_.reset(); }
  void on_writable() override { exchange_->pause(false); }
  void on_sent() override {}
  void on_head(const http::ResponseHead& head, std::string_view raw) override {
    chunked_ = head.body == http::BodyKind::chunked || head.body == http::BodyKind::until_close;
    answer_.assign(raw);
    if (head.body == http::BodyKind::until_close) {
      answer_.resize(answer_.size() - 2);
      answer_ += "transfer-encoding: chunked\r\n\r\n";
    }
  }
  void on_body(std::string_view bytes) override {
    std::array<char, 20> line;
    if (chunked_) {
      responder_.write(std::array{std::string_view(answer_), http::chunk_line(bytes.size(), line),
                                  bytes, http::kChunkEnd});
    } else {
      responder_.write(std::array{std::string_view(answer_), bytes});
    }
    answer_.clear();
    if (responder_.buffered() > (64U << 10U)) exchange_->pause(true);
  }
  void on_end() override {
    if (chunked_) answer_ += http::kLastChunk;
    if (!answer_.empty()) responder_.write(std::array{std::string_view(answer_)});
    responder_.finish(keep_alive_);
  }
  void on_failure(const http::Failure& failure) override {
    if (failure.response_started) {
      responder_.abort();
      return;
    }
    responder_.write(std::array{std::string_view(http::refusal_response(502, failure.error))});
    responder_.finish(false);
  }

 private:
  http::Responder& responder_;
  const bool keep_alive_;
  bool chunked_ = false;
  std::string head_;
  std::string answer_;
  std::unique_ptr<http::Exchange> exchange_;
};

class RelayHandler final : public http::Handler {
 public:
  RelayHandler(http::Connector& connector, http::Endpoint endpoint)
      : connector_(connector), endpoint_(std::move(endpoint)) {}
  std::optional<std::string> on_head(const http::RequestHead& /*head*/) override { return {}; }
  std::unique_ptr<http::Session> on_request(const http::Request& request,
                                            http::Responder& responder) override {
    return std::make_unique<RelaySession>(request, responder, connector_, endpoint_);
  }

 private:
  http::Connector& connector_;
  http::Endpoint endpoint_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: relay_spike LISTEN_PORT UPSTREAM_PORT\n");
    return 2;
  }
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  http::Endpoint endpoint;
  endpoint.name = "upstream";
  endpoint.host = "127.0.0.1";
  endpoint.port = static_cast<std::uint16_t>(std::atoi(argv[2]));
  auto runtime = net::Runtime::create(1);
  if (!runtime) return 1;
  const auto bound =
      (*runtime)->listen({"127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[1])), {}}, {},
                         [&](http::Loop&, http::Connector& connector) {
                           return std::make_unique<RelayHandler>(connector, endpoint);
                         });
  if (!bound || !(*runtime)->start()) {
    std::fprintf(stderr, "%s\n", bound ? "cannot start" : bound.error().text.c_str());
    return 1;
  }
  std::printf("listening %d\n", bound->port);
  std::fflush(stdout);
  int signal = 0;
  ::sigwait(&ends, &signal);
  (*runtime)->stop();
  return 0;
}
