// SPDX-License-Identifier: Apache-2.0
#include "net/connector.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "net/loopback_test.h"

namespace weir::net {
namespace {

using loopback::on_loop;
using loopback::Peer;
using loopback::ScriptedProvider;
using loopback::Signal;

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// One request and all that was told about it.
class Attempt final : public http::ResponseSink {
 public:
  Attempt(Runtime& runtime, http::Endpoint endpoint, std::string request = "{}")
      : runtime_(runtime), endpoint_(std::move(endpoint)), body_(std::move(request)) {
    head_ = "POST /v1 HTTP/1.1\r\nhost: a\r\ncontent-length: " + std::to_string(body_.size()) +
            "\r\n\r\n";
  }
  ~Attempt() override {
    // An attempt that has ended touches its loop no more, which may be gone by now.
    if (exchange_ != nullptr && ends + failures == 0) cancel();
  }

  void send() {
    on_loop(runtime_.loop(0), [this] {
      const std::string_view piece = body_;
      exchange_ = runtime_.connector(0).send(endpoint_, head_, {&piece, 1}, *this);
      EXPECT_EQ(sent + heads + ends, 0) << "no call inside send";
    });
  }
  void cancel() {
    on_loop(runtime_.loop(0), [this] { exchange_.reset(); });
  }
  void pause(bool paused) {
    on_loop(runtime_.loop(0), [this, paused] { exchange_->pause(paused); });
  }
  bool wait() {
    return signal.wait([this] { return ends + failures > 0; });
  }
  bool go() {
    send();
    return wait();
  }

  void on_sent() override {
    signal.change([this] { ++sent; });
  }
  void on_head(const http::ResponseHead& head, std::string_view raw) override {
    signal.change([&] {
      ++heads;
      status = head.status;
      raw_head = raw;
      round_trip = exchange_->round_trip();
    });
  }
  void on_body(std::string_view bytes) override {
    signal.change([&] { body += bytes; });
    if (cancel_in_body) exchange_.reset();
  }
  void on_end() override {
    signal.change([this] { ++ends; });
  }
  void on_failure(const http::Failure& what) override {
    signal.change([&] {
      failure = what;
      ++failures;
    });
  }

  Signal signal;
  int sent = 0, heads = 0, ends = 0, failures = 0;
  std::uint16_t status = 0;
  std::string raw_head, body;
  std::optional<Duration> round_trip;
  std::optional<http::Failure> failure;
  bool cancel_in_body = false;

 private:
  Runtime& runtime_;
  http::Endpoint endpoint_;
  std::string head_, body_;
  std::unique_ptr<http::Exchange> exchange_;
};

class ConnectorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = Runtime::create(1);
    ASSERT_TRUE(made);
    runtime_ = std::move(*made);
    ASSERT_TRUE(runtime_->start());
  }
  std::size_t open_connections() {
    std::size_t count = 0;
    on_loop(runtime_->loop(0),
            [&] { count = static_cast<PooledConnector&>(runtime_->connector(0)).connections(); });
    return count;
  }
  bool connections_become(std::size_t count) {
    return loopback::turns_until(runtime_->loop(0), [&] {
      return static_cast<PooledConnector&>(runtime_->connector(0)).connections() == count;
    });
  }
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(ConnectorTest, KeepsConnectionsAlive) {
  ScriptedProvider provider([](Peer& peer, int) {
    while (!peer.message().empty()) peer.send(kOk);
  });
  for (int request = 0; request < 20; ++request) {
    Attempt attempt(*runtime_, provider.endpoint());
    ASSERT_TRUE(attempt.go());
    EXPECT_EQ(attempt.sent, 1);
    EXPECT_EQ(attempt.heads, 1);
    EXPECT_EQ(attempt.ends, 1);
    EXPECT_EQ(attempt.status, 200);
    EXPECT_EQ(attempt.body, "ok");
    EXPECT_EQ(attempt.raw_head, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
    EXPECT_TRUE(attempt.round_trip.has_value());
  }
  EXPECT_EQ(provider.accepted(), 1);
  runtime_->stop();
}

TEST_F(ConnectorTest, NamesAreLookedUpOffTheLoop) {
  ScriptedProvider provider([](Peer& peer, int) {
    while (!peer.message().empty()) peer.send(kOk);
  });
  http::Endpoint endpoint = provider.endpoint();
  endpoint.host = "localhost";
  Attempt attempt(*runtime_, endpoint);
  ASSERT_TRUE(attempt.go());
  EXPECT_EQ(attempt.body, "ok");
  endpoint.host = "no-such-host.invalid";
  Attempt unknown(*runtime_, endpoint);
  ASSERT_TRUE(unknown.go());
  ASSERT_TRUE(unknown.failure);
  EXPECT_EQ(unknown.failure->error.code, ErrorCode::connect_failed);
  EXPECT_EQ(unknown.failure->cause, http::FailureCause::name);
  EXPECT_FALSE(unknown.failure->request_sent);
  runtime_->stop();
}

TEST_F(ConnectorTest, T102_ChunkedBodiesComeWithoutTheirFraming) {
  ScriptedProvider provider([](Peer& peer, int) {
    while (!peer.message().empty()) {
      peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\n-\r\n");
      peer.send("A\r\n0123456789\r\n0\r\nX-Trailer: t\r\n\r\n");
    }
  });
  for (int request = 0; request < 3; ++request) {
    Attempt attempt(*runtime_, provider.endpoint());
    ASSERT_TRUE(attempt.go());
    EXPECT_EQ(attempt.ends, 1);
    EXPECT_EQ(attempt.body, "abc-0123456789");
  }
  EXPECT_EQ(provider.accepted(), 1);
  runtime_->stop();
}

TEST_F(ConnectorTest, T102_MalformedChunksAreAnError) {
  ScriptedProvider provider([](Peer& peer, int) {
    peer.message();
    peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcX");
    peer.read_to_end();
  });
  Attempt attempt(*runtime_, provider.endpoint());
  ASSERT_TRUE(attempt.go());
  ASSERT_TRUE(attempt.failure);
  EXPECT_EQ(attempt.failure->error.code, ErrorCode::bad_response);
  EXPECT_TRUE(attempt.failure->response_started);
  EXPECT_EQ(attempt.body, "abc");
  runtime_->stop();
}

TEST_F(ConnectorTest, HeadsComeByteByByteAndInformationalOnesAreSwallowed) {
  ScriptedProvider provider([](Peer& peer, int) {
    peer.message();
    const std::string text =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n" + std::string(kOk);
    for (const char byte : text) peer.send({&byte, 1});
    peer.read_to_end();
  });
  Attempt attempt(*runtime_, provider.endpoint());
  ASSERT_TRUE(attempt.go());
  EXPECT_EQ(attempt.heads, 1);
  EXPECT_EQ(attempt.status, 200);
  EXPECT_EQ(attempt.body, "ok");
  runtime_->stop();
}

TEST_F(ConnectorTest, BodiesMayEndWithTheConnection) {
  ScriptedProvider provider([](Peer& peer, int) {
    peer.message();
    peer.send("HTTP/1.1 200 OK\r\n\r\nall of it");
  });
  Attempt attempt(*runtime_, provider.endpoint());
  ASSERT_TRUE(attempt.go());
  EXPECT_EQ(attempt.ends, 1);
  EXPECT_EQ(attempt.body, "all of it");
  EXPECT_TRUE(connections_become(0));
  runtime_->stop();
}

TEST_F(ConnectorTest, ABrokenBodyIsAFailure) {
  ScriptedProvider provider([](Peer& peer, int) {
    peer.message();
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart");
  });
  Attempt attempt(*runtime_, provider.endpoint());
  ASSERT_TRUE(attempt.go());
  ASSERT_TRUE(attempt.failure);
  EXPECT_EQ(attempt.failure->error.code, ErrorCode::connection_lost);
  EXPECT_TRUE(attempt.failure->request_sent);
  EXPECT_TRUE(attempt.failure->error.may_have_been_billed);
  EXPECT_EQ(attempt.body, "part");
  runtime_->stop();
}

TEST_F(ConnectorTest, T024_DeadPooledConnectionsAreReplacedSilently) {
  // Each connection answers one request and then goes: by FIN, by RST, or at the next request.
  std::atomic<int> served = 0;
  ScriptedProvider provider([&served](Peer& peer, int number) {
    if (peer.message().empty()) return;
    ++served;
    peer.send(kOk);
    if (number % 3 == 1) {
      // Read first, so that it goes with the request in its hands and no byte of an answer.
      peer.read_until([](const std::string& in) { return !in.empty(); });
      peer.reset();
    } else if (number % 3 == 2) {
      peer.reset();
    }
  });
  for (int request = 0; request < 30; ++request) {
    Attempt attempt(*runtime_, provider.endpoint());
    ASSERT_TRUE(attempt.go());
    EXPECT_EQ(attempt.failures, 0);
    EXPECT_EQ(attempt.body, "ok");
    EXPECT_EQ(attempt.sent, 1);
  }
  EXPECT_EQ(served, 30);
  EXPECT_LE(provider.accepted(), 30);
  runtime_->stop();
}

TEST_F(ConnectorTest, AFreshConnectionIsNotReplaced) {
  ScriptedProvider provider([](Peer& peer, int) { peer.message(); });
  Attempt attempt(*runtime_, provider.endpoint());
  ASSERT_TRUE(attempt.go());
  ASSERT_TRUE(attempt.failure);
  EXPECT_EQ(attempt.failure->error.code, ErrorCode::connection_lost);
  EXPECT_EQ(provider.accepted(), 1);
  runtime_->stop();
}

TEST_F(ConnectorTest, T114_OldIdleConnectionsAreNotReused) {
  ScriptedProvider provider([](Peer& peer, int) {
    while (!peer.message().empty()) peer.send(kOk);
  });
  http::Endpoint endpoint = provider.endpoint();
  endpoint.pool_idle = std::chrono::milliseconds(20);
  Attempt first(*runtime_, endpoint);
  ASSERT_TRUE(first.go());
  EXPECT_TRUE(connections_become(0));
  Attempt second(*runtime_, endpoint);
  ASSERT_TRUE(second.go());
  EXPECT_EQ(second.body, "ok");
  EXPECT_EQ(provider.accepted(), 2);
  runtime_->stop();
}

TEST_F(ConnectorTest, T052_CancellingClosesTheProvidersConnectionAtOnce) {
  Signal signal;
  std::chrono::steady_clock::time_point closed_at;
  bool closed = false;
  ScriptedProvider provider([&](Peer& peer, int) {
    peer.message();
    peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n");
    peer.read_to_end();
    signal.change([&] {
      closed = true;
      closed_at = std::chrono::steady_clock::now();
    });
  });
  Attempt attempt(*runtime_, provider.endpoint());
  attempt.send();
  ASSERT_TRUE(attempt.signal.wait([&] { return attempt.body == "abc"; }));
  const auto before = std::chrono::steady_clock::now();
  attempt.cancel();
  ASSERT_TRUE(signal.wait([&] { return closed; }));
  EXPECT_LT(closed_at - before, std::chrono::milliseconds(100));
  EXPECT_EQ(attempt.ends + attempt.failures, 0);
  EXPECT_TRUE(connections_become(0));
  runtime_->stop();
}

TEST_F(ConnectorTest, CancellingInsideACallbackIsSafe) {
  ScriptedProvider provider([](Peer& peer, int) {
    peer.message();
    peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    peer.read_to_end();
  });
  Attempt attempt(*runtime_, provider.endpoint());
  attempt.cancel_in_body = true;
  attempt.send();
  ASSERT_TRUE(attempt.signal.wait([&] { return !attempt.body.empty(); }));
  EXPECT_TRUE(connections_become(0));
  EXPECT_EQ(attempt.ends + attempt.failures, 0);
  runtime_->stop();
}

TEST_F(ConnectorTest, PausingStopsReading) {
  constexpr std::size_t kSize = std::size_t{64} << 20U;
  std::atomic<std::size_t> written = 0;
  ScriptedProvider provider([&written](Peer& peer, int) {
    peer.message();
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(kSize) + "\r\n\r\n");
    const std::string piece(std::size_t{1} << 20U, 'x');
    for (std::size_t sent = 0; sent < kSize; sent += piece.size()) {
      if (!peer.send(piece)) return;
      written += piece.size();
    }
    peer.read_to_end();
  });
  Attempt attempt(*runtime_, provider.endpoint());
  attempt.send();
  ASSERT_TRUE(attempt.signal.wait([&] { return !attempt.body.empty(); }));
  attempt.pause(true);
  std::size_t at_pause = 0;
  on_loop(runtime_->loop(0), [&] { at_pause = attempt.body.size(); });
  // What more could come would come in these turns.
  for (int turn = 0; turn < 50; ++turn) on_loop(runtime_->loop(0), [] {});
  on_loop(runtime_->loop(0), [&] { EXPECT_EQ(attempt.body.size(), at_pause); });
  attempt.pause(false);
  ASSERT_TRUE(attempt.wait());
  EXPECT_EQ(attempt.body.size(), kSize);
  runtime_->stop();
}

TEST_F(ConnectorTest, TimesOut) {
  ScriptedProvider provider([](Peer& peer, int) {
    peer.message();
    peer.read_to_end();
  });
  http::Endpoint endpoint = provider.endpoint();
  endpoint.first_byte_timeout = std::chrono::milliseconds(30);
  Attempt late(*runtime_, endpoint);
  ASSERT_TRUE(late.go());
  ASSERT_TRUE(late.failure);
  EXPECT_EQ(late.failure->error.code, ErrorCode::timed_out);
  EXPECT_EQ(late.failure->cause, http::FailureCause::slow);
  EXPECT_TRUE(late.failure->request_sent);
  endpoint.first_byte_timeout = std::chrono::seconds(60);
  endpoint.total_timeout = std::chrono::milliseconds(30);
  Attempt whole(*runtime_, endpoint);
  ASSERT_TRUE(whole.go());
  ASSERT_TRUE(whole.failure);
  EXPECT_NE(whole.failure->error.text.find("whole exchange"), std::string::npos);
  runtime_->stop();
}

TEST_F(ConnectorTest, AStallAfterAFullTurnOfReadingTimesOutToo) {
  // As much as one turn of the loop reads, to the byte, and then nothing more.
  constexpr std::size_t kTurn = std::size_t{64} * (std::size_t{64} << 10U);
  std::string answer = "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n";
  answer.resize(kTurn, 'x');
  std::atomic<bool> begun = false;
  ScriptedProvider provider([&](Peer& peer, int) {
    peer.message();
    peer.send(std::string_view(answer).substr(0, 1));
    begun = true;
    peer.send(std::string_view(answer).substr(1));
    peer.read_to_end();
  });
  http::Endpoint endpoint = provider.endpoint();
  endpoint.idle_timeout = std::chrono::milliseconds(200);
  Attempt attempt(*runtime_, endpoint);
  attempt.send();
  attempt.pause(true);
  ASSERT_TRUE(loopback::turns_until(runtime_->loop(0), [&] { return begun.load(); }));
  for (int turn = 0; turn < 1000; ++turn) on_loop(runtime_->loop(0), [] {});
  attempt.pause(false);
  ASSERT_TRUE(attempt.wait());
  ASSERT_TRUE(attempt.failure);
  EXPECT_EQ(attempt.failure->error.code, ErrorCode::timed_out);
  runtime_->stop();
}

TEST_F(ConnectorTest, RefusedConnectionsAreConnectFailures) {
  http::Endpoint endpoint;
  {
    ScriptedProvider gone([](Peer&, int) {});
    endpoint = gone.endpoint();
  }
  Attempt attempt(*runtime_, endpoint);
  ASSERT_TRUE(attempt.go());
  ASSERT_TRUE(attempt.failure);
  EXPECT_EQ(attempt.failure->error.code, ErrorCode::connect_failed);
  EXPECT_FALSE(attempt.failure->request_sent);
  EXPECT_EQ(attempt.failure->error.origin, Origin::provider);
  EXPECT_EQ(attempt.failure->cause, http::FailureCause::refused);
  runtime_->stop();
}

TEST_F(ConnectorTest, ThePoolIsBounded) {
  ScriptedProvider provider([](Peer& peer, int) {
    peer.message();
    peer.read_to_end();
  });
  http::Endpoint endpoint = provider.endpoint();
  endpoint.pool_size = 1;
  Attempt holds(*runtime_, endpoint);
  holds.send();
  ASSERT_TRUE(holds.signal.wait([&] { return holds.sent == 1; }));
  Attempt over(*runtime_, endpoint);
  ASSERT_TRUE(over.go());
  ASSERT_TRUE(over.failure);
  EXPECT_EQ(over.failure->error.code, ErrorCode::overloaded);
  holds.cancel();
  runtime_->stop();
}

TEST_F(ConnectorTest, NonsenseIsABadResponse) {
  ScriptedProvider provider([](Peer& peer, int) {
    peer.message();
    peer.send("SSH-2.0-OpenSSH_9\r\n");
    peer.read_to_end();
  });
  Attempt attempt(*runtime_, provider.endpoint());
  ASSERT_TRUE(attempt.go());
  ASSERT_TRUE(attempt.failure);
  EXPECT_EQ(attempt.failure->error.code, ErrorCode::bad_response);
  EXPECT_FALSE(attempt.failure->response_started);
  runtime_->stop();
}

TEST_F(ConnectorTest, LargeRequestsAreWrittenWhole) {
  constexpr std::size_t kSize = std::size_t{8} << 20U;
  ScriptedProvider provider([](Peer& peer, int) {
    const std::string request = peer.message();
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n" +
              std::to_string(request.size() % 10'000'000));
    peer.read_to_end();
  });
  Attempt attempt(*runtime_, provider.endpoint(), std::string(kSize, 'b'));
  ASSERT_TRUE(attempt.go());
  EXPECT_EQ(attempt.sent, 1);
  EXPECT_EQ(attempt.body.size(), 7U);
  EXPECT_EQ(attempt.body.substr(0, 4), std::to_string(kSize).substr(0, 4));
  runtime_->stop();
}

}  // namespace
}  // namespace weir::net
