// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "http/writer.h"
#include "net/loopback_test.h"
#include "net/runtime.h"

namespace weir::net {
namespace {

using loopback::on_loop;
using loopback::Peer;
using loopback::Signal;

std::string reply_of(std::string_view body) {
  std::string reply;
  http::append_status_line(reply, 200);
  http::append_field(reply, "content-length", body.size());
  http::end_head(reply);
  reply += body;
  return reply;
}

/// What the handler of these tests saw, for the test's thread.
struct Seen {
  Signal signal;
  int heads = 0;
  int requests = 0;
  int gone = 0;
  int destroyed = 0;
  int timers = 0;
  bool padded = true;
  std::size_t most_buffered = 0;
  std::size_t written = 0;
  std::string body;
  std::vector<std::uint16_t> refusals;
  std::chrono::steady_clock::time_point gone_at;
  http::Responder* waiting = nullptr;  ///< of the last /begin, used on the loop's thread
};

constexpr std::size_t kBig = std::size_t{32} << 20U;

/// Serves by path: /echo, /pieces (an echo in many writes), /late (on a timer), /hang (never),
/// /big (as the client reads), /abort, /begin (until another's /poke makes it write).
class TestSession final : public http::Session {
 public:
  TestSession(Seen& seen, http::Responder& responder, http::Loop& loop, std::string_view path,
              bool keep_alive)
      : seen_(seen), responder_(responder), path_(path), keep_alive_(keep_alive) {
    if (path_ == "/begin" || path_ == "/poke") {
      if (path_ == "/begin") seen_.waiting = &responder_;
      if (path_ == "/poke") {
        seen_.waiting->write(std::array{std::string_view("HTTP/1.1 200 OK\r\n\r\nfirst")});
      }
    }
    if (path_ == "/late") responder_.set_timer(loop.now() + std::chrono::milliseconds(10));
    if (path_ == "/big") {
      responder_.write(std::array{std::string_view("HTTP/1.1 200 OK\r\n"),
                                  std::string_view("content-length: 33554432\r\n\r\n")});
      pump();
    }
  }
  ~TestSession() override {
    seen_.signal.change([this] { ++seen_.destroyed; });
  }
  void on_peer_gone() override {
    seen_.signal.change([this] {
      ++seen_.gone;
      seen_.gone_at = std::chrono::steady_clock::now();
    });
  }
  void on_timer() override {
    seen_.signal.change([this] { ++seen_.timers; });
    const std::string reply = reply_of("late");
    responder_.write(std::array{std::string_view(reply)});
    responder_.finish(keep_alive_);
  }
  void on_writable() override {
    if (path_ == "/big") pump();
  }

 private:
  void pump() {
    static const std::string piece(std::size_t{64} << 10U, 'x');
    while (sent_ < kBig && responder_.buffered() <= (std::size_t{64} << 10U)) {
      responder_.write(std::array{std::string_view(piece)});
      sent_ += piece.size();
    }
    seen_.signal.change([this] {
      seen_.written = sent_;
      seen_.most_buffered = std::max(seen_.most_buffered, responder_.buffered());
    });
    if (sent_ == kBig) responder_.finish(keep_alive_);
  }

  Seen& seen_;
  http::Responder& responder_;
  const std::string path_;
  const bool keep_alive_;
  std::size_t sent_ = 0;
};

class TestHandler final : public http::Handler {
 public:
  TestHandler(Seen& seen, http::Loop& loop) : seen_(seen), loop_(loop) {}
  std::optional<std::string> on_head(const http::RequestHead& head) override {
    seen_.signal.change([this] { ++seen_.heads; });
    if (head.path() != "/refuse") return std::nullopt;
    Error error;
    error.code = ErrorCode::unauthorized;
    error.text = "no such key";
    return http::refusal_response(401, error);
  }
  std::string on_refusal(std::uint16_t status, const Error& error) override {
    seen_.signal.change([&] { seen_.refusals.push_back(status); });
    return http::Handler::on_refusal(status, error);
  }
  std::unique_ptr<http::Session> on_request(const http::Request& request,
                                            http::Responder& responder) override {
    bool padded = true;
    for (std::size_t at = 0; at < http::kBodyPadding; ++at) {
      padded =
          padded && (request.body.empty() || request.body.data()[request.body.size() + at] == 0);
    }
    seen_.signal.change([&] {
      ++seen_.requests;
      seen_.body = request.body;
      seen_.padded = seen_.padded && padded;
    });
    const std::string_view path = request.head.path();
    if (path == "/echo") {
      const std::string reply = reply_of(request.body);
      responder.write(std::array{std::string_view(reply)});
      responder.finish(request.head.keep_alive);
      return nullptr;
    }
    if (path == "/pieces") {
      const std::string reply = reply_of(request.body);
      std::string_view rest = reply;
      for (std::size_t size = 1; !rest.empty(); size = size * 7 % 23'000) {
        responder.write(std::array{rest.substr(0, size)});
        rest.remove_prefix(std::min(size, rest.size()));
      }
      responder.finish(request.head.keep_alive);
      return nullptr;
    }
    if (path == "/nothing") return nullptr;
    auto session =
        std::make_unique<TestSession>(seen_, responder, loop_, path, request.head.keep_alive);
    if (path == "/abort") {
      responder.write(std::array{std::string_view("HTTP/1.1 200 OK\r\n\r\npart")});
      responder.abort();
    }
    return session;
  }

 private:
  Seen& seen_;
  http::Loop& loop_;
};

class ServerTest : public ::testing::Test {
 protected:
  void begin(const ServerLimits& limits = {}, std::size_t loops = 1) {
    auto made = Runtime::create(loops);
    ASSERT_TRUE(made);
    runtime_ = std::move(*made);
    const auto bound =
        runtime_->listen({"127.0.0.1", 0, {}}, limits, [this](http::Loop& loop, http::Connector&) {
          return std::make_unique<TestHandler>(seen_, loop);
        });
    ASSERT_TRUE(bound) << bound.error().text;
    port_ = bound->port;
    ASSERT_NE(port_, 0);
    ASSERT_TRUE(runtime_->start());
  }
  static std::string get(std::string_view path, std::string_view fields = {}) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
  }
  static std::string post(std::string_view path, std::string_view body,
                          std::string_view fields = {}) {
    return "POST " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" + std::string(fields) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
  bool connections_become(std::size_t count) {
    return loopback::turns_until(runtime_->loop(0),
                                 [&] { return runtime_->connections() == count; });
  }

  Seen seen_;
  std::unique_ptr<Runtime> runtime_;
  std::uint16_t port_ = 0;
};

TEST_F(ServerTest, ServesRequestsOneAfterTheOther) {
  begin();
  Peer peer = Peer::connect(port_);
  for (int request = 0; request < 50; ++request) {
    const std::string body = "body " + std::to_string(request);
    ASSERT_TRUE(peer.send(post("/echo", body)));
    EXPECT_EQ(peer.message(), reply_of(body));
  }
  EXPECT_TRUE(seen_.padded);
  EXPECT_TRUE(loopback::turns_until(runtime_->loop(0), [&] { return runtime_->active() == 0; }));
  EXPECT_EQ(runtime_->connections(), 1U);
}

TEST_F(ServerTest, RequestsMayComeInPiecesOrAllAtOnce) {
  begin();
  Peer peer = Peer::connect(port_);
  for (const char byte : post("/echo", "slow")) ASSERT_TRUE(peer.send({&byte, 1}));
  EXPECT_EQ(peer.message(), reply_of("slow"));
  ASSERT_TRUE(peer.send(post("/echo", "one") + post("/late", "two") + post("/echo", "three") +
                        get("/echo")));
  EXPECT_EQ(peer.message(), reply_of("one"));
  EXPECT_EQ(peer.message(), reply_of("late"));
  EXPECT_EQ(peer.message(), reply_of("three"));
  EXPECT_EQ(peer.message(), reply_of(""));
  EXPECT_TRUE(seen_.padded);
}

TEST_F(ServerTest, BodiesOfEverySizeComeWhole) {
  begin();
  Peer peer = Peer::connect(port_);
  for (const std::size_t size : {0UL, 1UL, 2048UL, 16200UL, 16383UL, 16384UL, 65536UL, 262000UL,
                                 262144UL, 262200UL, 3000000UL}) {
    std::string body(size, 'b');
    for (std::size_t at = 0; at < size; at += 97) body[at] = static_cast<char>('a' + at % 26);
    ASSERT_TRUE(peer.send(post("/echo", body)));
    EXPECT_EQ(peer.message(), reply_of(body)) << size;
    std::string chunked = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (std::size_t at = 0; at < size; at += 40'000) {
      std::array<char, 32> line{};
      const std::string_view piece = std::string_view(body).substr(at, 40'000);
      std::snprintf(line.data(), line.size(), "%zX;e=1\r\n", piece.size());
      chunked += line.data() + std::string(piece) + "\r\n";
    }
    ASSERT_TRUE(peer.send(chunked + "0\r\nT: x\r\n\r\n"));
    EXPECT_EQ(peer.message(), reply_of(body)) << size;
  }
  EXPECT_TRUE(seen_.padded);
}

TEST_F(ServerTest, WritesOfOneTurnKeepTheirOrder) {
  begin();
  Peer peer = Peer::connect(port_);
  for (const std::size_t size : {100UL, 16'000UL, 17'000UL, 100'000UL, 8'000'000UL}) {
    std::string body(size, 'b');
    for (std::size_t at = 0; at < size; at += 97) body[at] = static_cast<char>('a' + at % 26);
    ASSERT_TRUE(peer.send(post("/pieces", body)));
    EXPECT_EQ(peer.message(), reply_of(body)) << size;
  }
}

TEST_F(ServerTest, T099_AmbiguousFramingIsRefusedAndTheConnectionClosed) {
  begin();
  for (const std::string_view fields :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 5, 6\r\n",
        "Transfer-Encoding: xchunked\r\n", "X : y\r\n", "X: a\r\n b\r\n"}) {
    Peer peer = Peer::connect(port_);
    peer.send(get("/echo", fields) + "0\r\n\r\n" + get("/echo"));
    EXPECT_TRUE(peer.read_to_end());
    EXPECT_TRUE(peer.in.starts_with("HTTP/1.1 400 ")) << peer.in;
    EXPECT_EQ(peer.in.find("HTTP/1.1", 1), std::string::npos) << "no second answer";
  }
  EXPECT_EQ(seen_.requests, 0);
}

TEST_F(ServerTest, T100_ExpectContinue) {
  begin();
  Peer peer = Peer::connect(port_);
  const std::string body(5000, 'e');
  peer.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n");
  EXPECT_EQ(peer.message(), "HTTP/1.1 100 Continue\r\n\r\n");
  peer.send(body);
  EXPECT_EQ(peer.message(), reply_of(body));
  peer.send(post("/echo", "early", "Expect: 100-continue\r\n"));
  EXPECT_EQ(peer.message(), reply_of("early"));
  peer.send(get("/echo", "Expect: foo\r\n"));
  EXPECT_TRUE(peer.read_to_end());
  EXPECT_TRUE(peer.in.starts_with("HTTP/1.1 417 ")) << peer.in;
}

TEST_F(ServerTest, T101_EarlyRefusalOfALargeUpload) {
  begin();
  Peer polite = Peer::connect(port_);
  polite.send(
      "POST /refuse HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: "
      "20971520\r\n\r\n");
  EXPECT_TRUE(polite.read_to_end());
  EXPECT_TRUE(polite.in.starts_with("HTTP/1.1 401 ")) << "the final status instead of a 100";

  Peer peer = Peer::connect(port_);
  EXPECT_TRUE(peer.send(post("/refuse", std::string(20 << 20, 'u')))) << "not reset while sending";
  EXPECT_TRUE(peer.read_to_end());
  EXPECT_FALSE(peer.was_reset);
  EXPECT_TRUE(peer.in.starts_with("HTTP/1.1 401 ")) << peer.in;
  EXPECT_NE(peer.in.find("no such key"), std::string::npos);
  EXPECT_EQ(seen_.requests, 0);
}

TEST_F(ServerTest, T111_BodySizeCap) {
  begin({.body = 100'000});
  Peer fits = Peer::connect(port_);
  const std::string body(100'000, 'f');
  fits.send(post("/echo", body));
  EXPECT_EQ(fits.message(), reply_of(body));

  Peer told = Peer::connect(port_);
  told.send(post("/echo", body + "g"));
  EXPECT_TRUE(told.read_to_end());
  EXPECT_TRUE(told.in.starts_with("HTTP/1.1 413 ")) << told.in;
  EXPECT_NE(told.in.find("100000"), std::string::npos) << "names the cap";

  Peer chunked = Peer::connect(port_);
  chunked.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n186A1\r\n" +
               body + "g\r\n0\r\n\r\n");
  EXPECT_TRUE(chunked.read_to_end());
  EXPECT_TRUE(chunked.in.starts_with("HTTP/1.1 413 ")) << chunked.in;
}

TEST_F(ServerTest, T111_BuffersAreBoundedTogether) {
  begin({.buffered = 1'000'000});
  Peer first = Peer::connect(port_);
  Peer second = Peer::connect(port_);
  const std::string most(800'000, 'm');
  const std::string whole = post("/hang", most);
  first.send(whole);
  ASSERT_TRUE(seen_.signal.wait([&] { return seen_.requests == 1; }));
  second.send(whole);
  EXPECT_TRUE(second.read_to_end());
  EXPECT_TRUE(second.in.starts_with("HTTP/1.1 503 ")) << second.in;
  second.close();
  first.close();
  ASSERT_TRUE(seen_.signal.wait([&] { return seen_.destroyed == 1; }));
  Peer third = Peer::connect(port_);
  third.send(post("/echo", most));
  EXPECT_EQ(third.message(), reply_of(most));
}

TEST_F(ServerTest, T119_HeaderSizes) {
  begin();
  Peer peer = Peer::connect(port_);
  peer.send(get("/echo", "X: " + std::string(20'000, 'x') + "\r\n"));
  EXPECT_EQ(peer.message(), reply_of(""));
  peer.send(get("/echo", "X: " + std::string(40'000, 'x') + "\r\n"));
  EXPECT_TRUE(peer.read_to_end());
  EXPECT_TRUE(peer.in.starts_with("HTTP/1.1 431 ")) << peer.in;
}

TEST_F(ServerTest, ARefusedHeadRequestGetsNoBody) {
  begin();
  Peer peer = Peer::connect(port_);
  peer.send("HEAD /refuse HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(peer.read_to_end());
  EXPECT_TRUE(peer.in.starts_with("HTTP/1.1 401 ")) << peer.in;
  EXPECT_TRUE(peer.in.ends_with("\r\n\r\n")) << peer.in;
}

TEST_F(ServerTest, TheHandlerWordsWhatTheServerRefuses) {
  begin();
  Peer peer = Peer::connect(port_);
  peer.send("GET /echo HTTP/3.0\r\nHost: a\r\n\r\n");
  peer.read_to_end();
  EXPECT_TRUE(peer.in.starts_with("HTTP/1.1 505 ")) << peer.in;
  EXPECT_TRUE(
      seen_.signal.wait([this] { return seen_.refusals == std::vector<std::uint16_t>{505}; }));
}

TEST_F(ServerTest, T052_APeerThatGoesIsNoticedAtOnce) {
  begin();
  for (const bool by_reset : {false, true}) {
    const int before_gone = seen_.gone;
    Peer peer = Peer::connect(port_);
    peer.send(post("/hang", "x"));
    ASSERT_TRUE(seen_.signal.wait([&] { return seen_.requests == before_gone + 1; }));
    EXPECT_EQ(runtime_->active(), 1U);
    const auto left = std::chrono::steady_clock::now();
    if (by_reset) {
      peer.reset();
    } else {
      peer.close();
    }
    ASSERT_TRUE(seen_.signal.wait(
        [&] { return seen_.gone == before_gone + 1 && seen_.destroyed == before_gone + 1; }));
    EXPECT_LT(seen_.gone_at - left, std::chrono::milliseconds(100));
    EXPECT_TRUE(connections_become(0));
    EXPECT_EQ(runtime_->active(), 0U);
  }
}

TEST_F(ServerTest, AClientThatOnlyEndsItsSendingSideGetsItsAnswer) {
  begin();
  for (const bool at_once : {true, false}) {
    const int before = seen_.requests;
    Peer peer = Peer::connect(port_);
    peer.send(post("/late", "x", "Connection: close\r\n"));
    if (!at_once) {
      ASSERT_TRUE(seen_.signal.wait([&] { return seen_.requests == before + 1; }));
    }
    peer.end_sending();
    EXPECT_TRUE(peer.read_to_end());
    EXPECT_NE(peer.in.find("HTTP/1.1 200 OK\r\n"), std::string::npos) << peer.in;
    EXPECT_TRUE(peer.in.ends_with("\r\n\r\nlate")) << peer.in;
    EXPECT_FALSE(peer.was_reset);
  }
  EXPECT_EQ(seen_.gone, 0);
  EXPECT_TRUE(connections_become(0));
}

TEST_F(ServerTest, RequestsSentAheadOfAHalfCloseAreAllAnswered) {
  begin();
  Peer peer = Peer::connect(port_);
  peer.send(post("/late", "x") + post("/echo", "second") + post("/echo", "third"));
  peer.end_sending();
  EXPECT_TRUE(peer.read_to_end());
  const std::size_t second = peer.in.find("second");
  EXPECT_LT(peer.in.find("late"), second) << peer.in;
  EXPECT_LT(second, peer.in.find("third")) << peer.in;
  EXPECT_TRUE(peer.in.ends_with("third"));
}

TEST_F(ServerTest, BytesOfTheTurnInWhichAClientEndsItsSideAreWritten) {
  begin();
  Peer first = Peer::connect(port_);
  Peer second = Peer::connect(port_);
  second.send(get("/echo"));
  ASSERT_FALSE(second.message().empty());
  first.send(get("/begin"));
  ASSERT_TRUE(seen_.signal.wait([&] { return seen_.requests == 2; }));
  // The loop stands still until both are there, so that one turn sees the write and then the end.
  Signal gate;
  bool stands = false;
  bool open = false;
  runtime_->loop(0).post([&] {
    gate.change([&] { stands = true; });
    gate.wait([&] { return open; });
  });
  ASSERT_TRUE(gate.wait([&] { return stands; }));
  second.send(get("/poke"));
  first.end_sending();
  gate.change([&] { open = true; });
  EXPECT_TRUE(first.read_to_end());
  EXPECT_TRUE(first.in.ends_with("first")) << first.in;
}

TEST_F(ServerTest, T110_SlowReadersHoldBackTheSession) {
  begin();
  Peer peer = Peer::connect(port_, 8192);
  peer.send(get("/big"));
  ASSERT_TRUE(seen_.signal.wait([&] { return seen_.written > 0; }));
  for (int turn = 0; turn < 50; ++turn) on_loop(runtime_->loop(0), [] {});
  on_loop(runtime_->loop(0),
          [&] { EXPECT_LT(seen_.written, kBig / 2) << "the client has read nothing"; });
  const std::string all = peer.message();
  EXPECT_EQ(all.size() - (all.find("\r\n\r\n") + 4), kBig);
  on_loop(runtime_->loop(0), [&] { EXPECT_LE(seen_.most_buffered, std::size_t{128} << 10U); });
  peer.send(get("/echo"));
  EXPECT_EQ(peer.message(), reply_of(""));
}

TEST_F(ServerTest, T110_StuckReadersAreClosed) {
  begin({.idle_timeout = std::chrono::milliseconds(50)});
  Peer peer = Peer::connect(port_, 8192);
  peer.send(get("/big"));
  EXPECT_TRUE(seen_.signal.wait([&] { return seen_.gone == 1 && seen_.destroyed == 1; }));
  EXPECT_TRUE(connections_become(0));
}

TEST_F(ServerTest, SlowHeadsAndIdleConnectionsAreEnded) {
  begin({.header_timeout = std::chrono::milliseconds(50),
         .idle_timeout = std::chrono::milliseconds(50)});
  Peer slow = Peer::connect(port_);
  slow.send("GET / HT");
  EXPECT_TRUE(slow.read_to_end());
  EXPECT_TRUE(slow.in.starts_with("HTTP/1.1 408 ")) << slow.in;
  Peer body = Peer::connect(port_);
  body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx");
  EXPECT_TRUE(body.read_to_end());
  EXPECT_TRUE(body.in.starts_with("HTTP/1.1 408 ")) << body.in;
  Peer idle = Peer::connect(port_);
  idle.send(get("/echo"));
  EXPECT_EQ(idle.message(), reply_of(""));
  EXPECT_TRUE(idle.read_to_end());
  EXPECT_EQ(idle.in, "");
}

TEST_F(ServerTest, ConnectionsAreLimited) {
  begin({.connections = 2});
  Peer first = Peer::connect(port_);
  Peer second = Peer::connect(port_);
  ASSERT_TRUE(connections_become(2));
  Peer third = Peer::connect(port_);
  third.send(get("/echo"));
  EXPECT_TRUE(third.read_to_end());
  EXPECT_FALSE(third.was_reset);
  EXPECT_TRUE(third.in.starts_with("HTTP/1.1 503 ")) << third.in;
  EXPECT_NE(third.in.find("retry-after"), std::string::npos);
  first.close();
  ASSERT_TRUE(connections_become(1));
  Peer fourth = Peer::connect(port_);
  fourth.send(get("/echo"));
  EXPECT_EQ(fourth.message(), reply_of(""));
}

TEST_F(ServerTest, AbortIsNoCleanEnd) {
  begin();
  Peer peer = Peer::connect(port_);
  peer.send(get("/abort"));
  EXPECT_TRUE(peer.read_to_end());
  EXPECT_TRUE(peer.was_reset);
  EXPECT_TRUE(peer.in.ends_with("part")) << peer.in;
  EXPECT_TRUE(seen_.signal.wait([&] { return seen_.destroyed == 1; }));
}

TEST_F(ServerTest, AHandlerThatDoesNotAnswerIsOurFault) {
  begin();
  Peer peer = Peer::connect(port_);
  peer.send(get("/nothing"));
  EXPECT_TRUE(peer.read_to_end());
  EXPECT_TRUE(peer.in.starts_with("HTTP/1.1 500 ")) << peer.in;
}

TEST_F(ServerTest, ClosesWhenAskedTo) {
  begin();
  Peer peer = Peer::connect(port_);
  peer.send(get("/echo", "Connection: close\r\n"));
  EXPECT_TRUE(peer.read_to_end());
  EXPECT_FALSE(peer.was_reset);
  EXPECT_EQ(peer.in, reply_of(""));
}

TEST_F(ServerTest, DrainEndsWhatIsIdleAndLetsTheRestFinish) {
  begin();
  Peer idle = Peer::connect(port_);
  idle.send(get("/echo"));
  EXPECT_EQ(idle.message(), reply_of(""));
  Peer busy = Peer::connect(port_, 8192);
  busy.send(get("/big"));
  Peer sending = Peer::connect(port_);
  sending.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n12");
  ASSERT_TRUE(seen_.signal.wait([&] { return seen_.written > 0 && seen_.heads == 3; }));
  runtime_->drain();
  EXPECT_TRUE(idle.read_to_end());
  EXPECT_FALSE(Peer::connect(port_).open()) << "nobody listens any more";
  sending.send("34");
  EXPECT_TRUE(sending.read_to_end());
  EXPECT_TRUE(sending.in.starts_with("HTTP/1.1 200 OK\r\nconnection: close\r\n")) << sending.in;
  EXPECT_TRUE(sending.in.ends_with("\r\n\r\n1234")) << sending.in;
  EXPECT_EQ(runtime_->active(), 1U);
  EXPECT_TRUE(busy.read_to_end());
  EXPECT_FALSE(busy.was_reset);
  EXPECT_GT(busy.in.size(), kBig);
  EXPECT_TRUE(loopback::turns_until(runtime_->loop(0), [&] { return runtime_->active() == 0; }));
}

TEST_F(ServerTest, StopEndsRunningSessions) {
  begin();
  Peer peer = Peer::connect(port_);
  peer.send(get("/hang"));
  ASSERT_TRUE(seen_.signal.wait([&] { return seen_.requests == 1; }));
  runtime_->stop();
  EXPECT_EQ(seen_.gone, 1);
  EXPECT_EQ(seen_.destroyed, 1);
  EXPECT_TRUE(peer.read_to_end());
}

TEST_F(ServerTest, ManyConnectionsOverTwoLoops) {
  begin({}, 2);
  std::vector<Peer> peers;
  for (int count = 0; count < 300; ++count) peers.push_back(Peer::connect(port_));
  for (int round = 0; round < 3; ++round) {
    for (Peer& peer : peers) ASSERT_TRUE(peer.send(post("/echo", "hello")));
    for (Peer& peer : peers) ASSERT_EQ(peer.message(), reply_of("hello"));
  }
  EXPECT_EQ(runtime_->connections(), 300U);
  peers.clear();
  EXPECT_TRUE(connections_become(0));
}

TEST_F(ServerTest, TwoCannotListenOnOnePort) {
  begin({}, 2);
  auto other = Runtime::create(2);
  ASSERT_TRUE(other);
  const auto bound = (*other)->listen(
      {"127.0.0.1", port_, {}}, {},
      [](http::Loop&, http::Connector&) { return std::unique_ptr<http::Handler>(); });
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, ErrorCode::io);
  EXPECT_NE(bound.error().text.find(std::to_string(port_)), std::string::npos);
  const auto nowhere = (*other)->listen({"example.org", 0, {}}, {}, nullptr);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::invalid_config);
}

TEST_F(ServerTest, UnixSocketsAreServedByAllLoops) {
  auto made = Runtime::create(2);
  ASSERT_TRUE(made);
  runtime_ = std::move(*made);
  const std::string path = ::testing::TempDir() + "weir_net_" + std::to_string(::getpid());
  const auto bound =
      runtime_->listen({{}, 0, path}, {}, [this](http::Loop& loop, http::Connector&) {
        return std::make_unique<TestHandler>(seen_, loop);
      });
  ASSERT_TRUE(bound) << bound.error().text;
  ASSERT_TRUE(runtime_->start());
  for (int count = 0; count < 10; ++count) {
    Peer peer(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::connect(peer.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    peer.send(post("/echo", "unix"));
    EXPECT_EQ(peer.message(), reply_of("unix"));
  }
  runtime_->stop();
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the socket file is taken away";
}

TEST_F(ServerTest, PostsRunOnTheLoop) {
  begin();
  std::thread::id loop_thread;
  on_loop(runtime_->loop(0), [&] { loop_thread = std::this_thread::get_id(); });
  EXPECT_NE(loop_thread, std::this_thread::get_id());
  int sum = 0;
  for (int count = 0; count < 1000; ++count) runtime_->loop(0).post([&sum] { ++sum; });
  on_loop(runtime_->loop(0), [&] { EXPECT_EQ(sum, 1000); });
}

}  // namespace
}  // namespace weir::net
