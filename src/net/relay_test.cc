// SPDX-License-Identifier: Apache-2.0
// Both sides together: a client, a handler that passes bytes on, and a provider.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "http/chunked.h"
#include "http/writer.h"
#include "net/loopback_test.h"
#include "net/runtime.h"

namespace weir::net {
namespace {

using loopback::Peer;
using loopback::ScriptedProvider;
using loopback::Signal;

class RelaySession final : public http::Session, public http::ResponseSink {
 public:
  RelaySession(http::Responder& responder, http::Connector& connector,
               const http::Endpoint& endpoint)
      : responder_(responder) {
    exchange_ = connector.send(endpoint, "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n", {}, *this);
  }
  void on_peer_gone() override {}
  void on_writable() override { exchange_->pause(false); }
  void on_sent() override {}
  void on_head(const http::ResponseHead&, std::string_view raw) override {
    responder_.write(std::array{raw});
  }
  void on_body(std::string_view bytes) override {
    std::array<char, 20> line;
    responder_.write(std::array{http::chunk_line(bytes.size(), line), bytes, http::kChunkEnd});
    if (responder_.buffered() > (std::size_t{64} << 10U)) exchange_->pause(true);
  }
  void on_end() override {
    responder_.write(std::array{http::kLastChunk});
    responder_.finish(true);
  }
  void on_failure(const http::Failure& failure) override {
    if (failure.response_started) {
      responder_.abort();
      return;
    }
    const std::string answer = http::refusal_response(502, failure.error);
    responder_.write(std::array{std::string_view(answer)});
    responder_.finish(false);
  }

 private:
  http::Responder& responder_;
  std::unique_ptr<http::Exchange> exchange_;
};

class RelayHandler final : public http::Handler {
 public:
  RelayHandler(http::Connector& connector, http::Endpoint endpoint)
      : connector_(connector), endpoint_(std::move(endpoint)) {}
  std::optional<std::string> on_head(const http::RequestHead&) override { return std::nullopt; }
  std::unique_ptr<http::Session> on_request(const http::Request&,
                                            http::Responder& responder) override {
    return std::make_unique<RelaySession>(responder, connector_, endpoint_);
  }

 private:
  http::Connector& connector_;
  http::Endpoint endpoint_;
};

struct Relay {
  explicit Relay(const http::Endpoint& endpoint) : runtime(std::move(*Runtime::create(1))) {
    const auto bound = runtime->listen({"127.0.0.1", 0, {}}, {},
                                       [&endpoint](http::Loop&, http::Connector& connector) {
                                         return std::make_unique<RelayHandler>(connector, endpoint);
                                       });
    port = bound->port;
    EXPECT_TRUE(runtime->start());
  }
  std::unique_ptr<Runtime> runtime;
  std::uint16_t port = 0;
};

constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view kStream =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

TEST(Relay, T107_EventsPassOneByOneAndByteForByte) {
  // The provider sends the next event only when the client has seen the last one.
  Signal signal;
  int seen = 0;
  std::vector<std::string> events;
  for (int event = 0; event < 30; ++event) {
    events.push_back("data: {\"delta\":\"\xE6\xBC\xA2\xF0\x9F\x98\x80" + std::to_string(event) +
                     "\"}\n\n");
  }
  ScriptedProvider provider([&](Peer& peer, int) {
    peer.message();
    peer.send(kStream);
    for (int event = 0; event < 30; ++event) {
      std::array<char, 20> line;
      const std::string& text = events[static_cast<std::size_t>(event)];
      const std::string chunk =
          std::string(http::chunk_line(text.size(), line)) + text + std::string(http::kChunkEnd);
      if (event % 2 == 0) {
        peer.send(chunk);
      } else {
        for (const char byte : chunk) peer.send({&byte, 1});
      }
      if (!signal.wait([&] { return seen == event + 1; })) return;
    }
    peer.send(http::kLastChunk);
    peer.read_to_end();
  });
  Relay relay(provider.endpoint());
  Peer client = Peer::connect(relay.port);
  client.send(kRequest);
  std::string body;
  ASSERT_TRUE(
      client.read_until([](const std::string& in) { return in.find("\r\n\r\n") != in.npos; }));
  std::string rest = client.in.substr(client.in.find("\r\n\r\n") + 4);
  client.in = rest;
  http::ChunkedDecoder decoder;
  http::Progress progress = http::Progress::more;
  std::string expected;
  for (const std::string& event : events) {
    expected += event;
    while (body.size() < expected.size()) {
      ASSERT_TRUE(client.read_until([](const std::string& in) { return !in.empty(); }));
      std::string_view bytes = client.in;
      while (!bytes.empty()) {
        std::string_view data;
        progress = decoder.next(bytes, data);
        ASSERT_EQ(progress, http::Progress::more);
        body += data;
      }
      client.in.clear();
    }
    ASSERT_EQ(body, expected);
    signal.change([&] { ++seen; });
  }
  relay.runtime->stop();
}

TEST(Relay, T052_AClientThatLeavesEndsTheProvidersRequest) {
  for (const bool by_reset : {false, true}) {
    Signal signal;
    bool closed = false;
    std::chrono::steady_clock::time_point closed_at;
    ScriptedProvider provider([&](Peer& peer, int) {
      peer.message();
      peer.send(std::string(kStream) + "3\r\nabc\r\n");
      peer.read_to_end();
      signal.change([&] {
        closed = true;
        closed_at = std::chrono::steady_clock::now();
      });
    });
    Relay relay(provider.endpoint());
    Peer client = Peer::connect(relay.port);
    client.send(kRequest);
    ASSERT_TRUE(client.read_until([](const std::string& in) { return in.ends_with("abc\r\n"); }));
    const auto left = std::chrono::steady_clock::now();
    if (by_reset) {
      client.reset();
    } else {
      client.close();
    }
    ASSERT_TRUE(signal.wait([&] { return closed; }));
    EXPECT_LT(closed_at - left, std::chrono::milliseconds(100));
    EXPECT_TRUE(loopback::turns_until(relay.runtime->loop(0),
                                      [&] { return relay.runtime->active() == 0; }));
    relay.runtime->stop();
  }
}

TEST(Relay, T110_ASlowClientHoldsBackTheProvider) {
  constexpr int kPieces = 200;
  const std::string piece(std::size_t{256} << 10U, 'x');
  std::atomic<int> taken = 0;
  ScriptedProvider provider([&](Peer& peer, int) {
    peer.message();
    peer.send(kStream);
    std::array<char, 20> line;
    const std::string chunk = std::string(http::chunk_line(piece.size(), line)) + piece + "\r\n";
    for (int count = 0; count < kPieces; ++count) {
      if (!peer.send(chunk)) return;
      ++taken;
    }
    peer.send(http::kLastChunk);
    peer.read_to_end();
  });
  Relay relay(provider.endpoint());
  Peer client = Peer::connect(relay.port, 8192);
  client.send(kRequest);
  ASSERT_TRUE(client.read_until([](const std::string& in) { return !in.empty(); }));
  for (int turn = 0; turn < 100; ++turn) loopback::on_loop(relay.runtime->loop(0), [] {});
  EXPECT_LT(taken.load(), kPieces) << "the provider waits for the client";
  ASSERT_TRUE(
      client.read_until([](const std::string& in) { return in.ends_with("\r\n0\r\n\r\n"); }));
  EXPECT_GT(client.in.size(), piece.size() * kPieces);
  relay.runtime->stop();
}

TEST(Relay, ABrokenProviderIsNoCleanEnd) {
  ScriptedProvider provider([](Peer& peer, int number) {
    if (number == 1) return;
    peer.message();
    peer.send(std::string(kStream) + "3\r\nabc\r\n");
  });
  Relay relay(provider.endpoint());
  Peer first = Peer::connect(relay.port);
  first.send(kRequest);
  EXPECT_TRUE(first.read_to_end());
  EXPECT_TRUE(first.in.starts_with("HTTP/1.1 502 ")) << first.in;
  EXPECT_NE(first.in.find("connection_lost"), std::string::npos);
  Peer second = Peer::connect(relay.port);
  second.send(kRequest);
  EXPECT_TRUE(second.read_to_end());
  EXPECT_TRUE(second.in.ends_with("abc\r\n")) << second.in;
  EXPECT_TRUE(second.was_reset);
  relay.runtime->stop();
}

}  // namespace
}  // namespace weir::net
