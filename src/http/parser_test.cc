// SPDX-License-Identifier: Apache-2.0
#include "http/parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::http {
namespace {

constexpr std::string_view kPost =
    "POST /v1/chat/completions?x=1 HTTP/1.1\r\n"
    "Host: weir.example\r\n"
    "Content-Type:application/json\r\n"
    "AUTHORIZATION: \t Bearer k \t\r\n"
    "Content-Length: 12\r\n"
    "\r\n";

std::uint16_t status_of(std::string_view text) {
  RequestParser parser;
  RequestHead head;
  const Progress progress = parser.parse(text, head, HeadLimits());
  if (progress == Progress::refused) return parser.fault().status;
  return progress == Progress::done ? 200 : 0;
}

std::string with(std::string_view fields) {
  return "POST / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}

TEST(RequestParser, ReadsAHead) {
  RequestParser parser;
  RequestHead head;
  ASSERT_EQ(parser.parse(kPost, head, HeadLimits()), Progress::done);
  EXPECT_EQ(parser.length(), kPost.size());
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path(), "/v1/chat/completions");
  EXPECT_EQ(head.fields.find("authorization"), "Bearer k");
  EXPECT_EQ(head.fields.find("content-type"), "application/json");
  EXPECT_TRUE(head.fields.has("HOST"));
  EXPECT_FALSE(head.fields.has("cookie"));
  EXPECT_EQ(head.body, BodyKind::length);
  EXPECT_EQ(head.content_length, 12U);
  EXPECT_TRUE(head.keep_alive);
}

TEST(RequestParser, ComesToTheSameEndByteByByte) {
  RequestParser parser;
  RequestHead head;
  for (std::size_t size = 0; size < kPost.size(); ++size) {
    ASSERT_EQ(parser.parse(kPost.substr(0, size), head, HeadLimits()), Progress::more) << size;
  }
  EXPECT_EQ(parser.parse(kPost, head, HeadLimits()), Progress::done);
  EXPECT_EQ(head.fields.all().size(), 4U);
}

TEST(RequestParser, LeavesWhatFollowsTheHead) {
  RequestParser parser;
  RequestHead head;
  const std::string two = std::string(kPost) + "GET / HTTP/1.1\r\n\r\n";
  ASSERT_EQ(parser.parse(two, head, HeadLimits()), Progress::done);
  EXPECT_EQ(parser.length(), kPost.size());
}

TEST(RequestParser, KeepAliveFollowsVersionAndConnection) {
  const auto keep = [](std::string_view text) {
    RequestParser parser;
    RequestHead head;
    EXPECT_EQ(parser.parse(text, head, HeadLimits()), Progress::done) << text;
    return head.keep_alive;
  };
  EXPECT_TRUE(keep("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_FALSE(keep("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"));
  EXPECT_FALSE(keep("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keep("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
}

TEST(RequestParser, AbsoluteTargetsAreCutToThePath) {
  RequestParser parser;
  RequestHead head;
  ASSERT_EQ(parser.parse("GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n", head, HeadLimits()),
            Progress::done);
  EXPECT_EQ(head.target, "/b?c");
}

TEST(RequestParser, OneEmptyLineBeforeTheRequestIsPassedOver) {
  RequestParser parser;
  RequestHead head;
  const std::string text = "\r\n" + std::string(kPost);
  EXPECT_EQ(parser.parse("\r", head, HeadLimits()), Progress::more);
  ASSERT_EQ(parser.parse(text, head, HeadLimits()), Progress::done);
  EXPECT_EQ(parser.length(), text.size());
  EXPECT_EQ(status_of("\r\n\r\n" + std::string(kPost)), 400);
}

TEST(RequestParser, T099_AmbiguousFraming) {
  const std::vector<std::string_view> fields = {
      "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
      "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
      "Content-Length: 5\r\nContent-Length: 5\r\n",
      "Content-Length: 5\r\nContent-Length: 6\r\n",
      "Content-Length: 5, 6\r\n",
      "Content-Length: +5\r\n",
      "Content-Length: -5\r\n",
      "Content-Length: 0x5\r\n",
      "Content-Length:\r\n",
      "Content-Length: 5 5\r\n",
      "Content-Length: 1234567890123456789\r\n",
      "Transfer-Encoding: chunked, gzip\r\n",
      "Transfer-Encoding: gzip, chunked\r\n",
      "Transfer-Encoding: xchunked\r\n",
      "Transfer-Encoding:\r\n",
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
      "X: a\r\n b\r\n",
      "X: a\r\n\tb\r\n",
      "Content-Length : 5\r\n",
      "Content-Length\t: 5\r\n",
      " Content-Length: 5\r\n",
      "X: a\nY: b\r\n",
      "X: a\rY: b\r\n",
      "X: a\x01\r\n",
      ": a\r\n",
      "X\r\n",
      "X(: a\r\n",
      "Host: b\r\n",
  };
  for (const std::string_view field : fields) EXPECT_EQ(status_of(with(field)), 400) << field;
  EXPECT_EQ(status_of(with(std::string_view("X: a\0b\r\n", 8))), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(status_of(with("Transfer-Encoding: Chunked\r\n")), 200);
}

TEST(RequestParser, RefusesWhatIsNotARequestLine) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\nHost: a\n\n"), 400);
  EXPECT_EQ(status_of("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET a HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("G(T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);  // no host
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET / HTTQ/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("\x16\x03\x01"), 400);
  EXPECT_EQ(status_of(std::string(40, 'A') + " / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

TEST(RequestParser, T119_HeaderSizes) {
  EXPECT_EQ(status_of(with("X: " + std::string(20'000, 'a') + "\r\n")), 200);
  EXPECT_EQ(status_of(with("X: " + std::string(40'000, 'a') + "\r\n")), 431);
  EXPECT_EQ(status_of("GET /" + std::string(64 << 10, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"), 414);
  EXPECT_EQ(status_of(std::string(40'000, 'A')), 414);
  std::string many;
  for (int field = 0; field < 255; ++field) many += "X: a\r\n";
  EXPECT_EQ(status_of(with(many)), 200);
  EXPECT_EQ(status_of(with(many + "X: a\r\n")), 431);
}

TEST(RequestParser, T100_Expectations) {
  RequestParser parser;
  RequestHead head;
  ASSERT_EQ(parser.parse(with("Expect: 100-Continue\r\nContent-Length: 5\r\n"), head, HeadLimits()),
            Progress::done);
  EXPECT_TRUE(head.expect_continue);
  EXPECT_EQ(status_of(with("Expect: foo\r\n")), 417);
  parser.reset();
  ASSERT_EQ(parser.parse("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", head, HeadLimits()),
            Progress::done);
  EXPECT_FALSE(head.expect_continue);
}

struct Answer {
  Progress progress;
  ResponseHead head;
};

Answer answer_of(std::string_view text, bool to_head = false) {
  ResponseParser parser;
  Answer answer;
  answer.progress = parser.parse(text, answer.head, {.bytes = std::size_t{64} << 10U}, to_head);
  return answer;
}

TEST(ResponseParser, FramesByTheRules) {
  EXPECT_EQ(answer_of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n").head.body, BodyKind::length);
  EXPECT_EQ(answer_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").head.body,
            BodyKind::chunked);
  const Answer closing = answer_of("HTTP/1.1 200\r\n\r\n");
  EXPECT_EQ(closing.head.body, BodyKind::until_close);
  EXPECT_FALSE(closing.head.keep_alive);
  EXPECT_EQ(answer_of("HTTP/1.1 204 No Content\r\n\r\n").head.body, BodyKind::none);
  EXPECT_EQ(answer_of("HTTP/1.1 304 \r\nContent-Length: 3\r\n\r\n").head.body, BodyKind::none);
  EXPECT_EQ(answer_of("HTTP/1.1 100 Continue\r\n\r\n").head.body, BodyKind::none);
  EXPECT_EQ(answer_of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true).head.body,
            BodyKind::none);
  EXPECT_FALSE(answer_of("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n").head.keep_alive);
}

TEST(ResponseParser, RefusesWhatIsNotAnAnswer) {
  for (const std::string_view text : {
           "SSH-2.0-OpenSSH\r\n",
           "HTTP/2 200\r\n\r\n",
           "HTTP/1.1 20\r\n\r\n",
           "HTTP/1.1 2000 OK\r\n\r\n",
           "HTTP/1.1 2x0 OK\r\n\r\n",
           "HTTP/1.1 099 OK\r\n\r\n",
           "HTTP/1.1 200 OK\nA: b\n\n",
           "HTTP/1.1  200 OK\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
       }) {
    EXPECT_EQ(answer_of(text).progress, Progress::refused) << text;
  }
}

TEST(ResponseParser, T119_LargeHeadsOfProvidersPass) {
  std::string text = "HTTP/1.1 200 OK\r\nSet-Cookie: " + std::string(20'000, 'c') + "\r\n";
  for (int field = 0; field < 200; ++field) text += "X-H: a\r\n";
  EXPECT_EQ(answer_of(text + "\r\n").progress, Progress::done);
  EXPECT_EQ(answer_of("HTTP/1.1 200 OK\r\nX: " + std::string(70'000, 'c')).progress,
            Progress::refused);
}

}  // namespace
}  // namespace weir::http
