// SPDX-License-Identifier: Apache-2.0
#include "http/chunked.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::http {
namespace {

struct Decoded {
  Progress progress = Progress::more;
  std::string body;
  std::string left;
};

Decoded decode(std::string_view text, std::size_t piece) {
  ChunkedDecoder decoder;
  Decoded result;
  while (!text.empty() && result.progress == Progress::more) {
    std::string_view bytes = text.substr(0, piece);
    text.remove_prefix(bytes.size());
    while (!bytes.empty() && result.progress == Progress::more) {
      std::string_view data;
      result.progress = decoder.next(bytes, data);
      result.body += data;
    }
    result.left = bytes;
  }
  result.left += text;
  return result;
}

TEST(ChunkedDecoder, T102_ExtensionsAndTrailersAtEveryCut) {
  constexpr std::string_view kText =
      "5\r\nhello\r\n1;name=\"v\" ;x\r\n,\r\n00A ; y\r\n0123456789\r\n"
      "0;last\r\nX-Trailer: one\r\nY: two\r\n\r\nNEXT";
  for (std::size_t piece = 1; piece <= kText.size(); ++piece) {
    const Decoded decoded = decode(kText, piece);
    EXPECT_EQ(decoded.progress, Progress::done) << piece;
    EXPECT_EQ(decoded.body, "hello,0123456789") << piece;
    EXPECT_EQ(decoded.left, "NEXT") << piece;
  }
}

TEST(ChunkedDecoder, T102_UpperCaseAndManyOneByteChunks) {
  std::string text;
  for (int chunk = 0; chunk < 1000; ++chunk) text += "1\r\nx\r\n";
  text += "1F\r\n" + std::string(31, 'y') + "\r\n0\r\n\r\n";
  const Decoded decoded = decode(text, 7);
  EXPECT_EQ(decoded.progress, Progress::done);
  EXPECT_EQ(decoded.body, std::string(1000, 'x') + std::string(31, 'y'));
}

TEST(ChunkedDecoder, T102_MissingEndStaysOpen) {
  EXPECT_EQ(decode("1\r\nx\r\n0\r\n", 100).progress, Progress::more);
  EXPECT_EQ(decode("1\r\nx\r\n0\r\n\r", 100).progress, Progress::more);
}

TEST(ChunkedDecoder, T102_TrailersAreBounded) {
  const std::string line = "X: " + std::string(1000, 'a') + "\r\n";
  std::string trailer;
  for (int count = 0; count < 16; ++count) trailer += line;
  EXPECT_EQ(decode("0\r\n" + trailer + "\r\n", 100).progress, Progress::done);
  for (int count = 0; count < 20; ++count) trailer += line;
  EXPECT_EQ(decode("0\r\n" + trailer + "\r\n", 100).progress, Progress::refused);
}

TEST(ChunkedDecoder, RefusesOddFraming) {
  for (const std::string_view text :
       {"\r\n", "g\r\n", "-1\r\n", "+1\r\nx\r\n", "0x1\r\nx\r\n", " 1\r\nx\r\n", "1\nx\n",
        "1\r\nxy\r\n", "1\r\nx\n", "1\rx", "ffffffffffffffff1\r\n", "fffffffffffffffff\r\n",
        "1;a\x01\r\nx\r\n", "0\r\nX: a\n\r\n", "0\r\nX: a\rb\r\n", ";a\r\n", "1;\nx\r\n"}) {
    EXPECT_EQ(decode(text, 100).progress, Progress::refused) << text;
    EXPECT_EQ(decode(text, 1).progress, Progress::refused) << text;
  }
}

TEST(ChunkedDecoder, ExtensionsAreBounded) {
  EXPECT_EQ(decode("1;" + std::string(2000, 'a') + "\r\nx\r\n", 100).progress, Progress::refused);
  EXPECT_EQ(decode(std::string(1U << 20U, '0'), 1000).progress, Progress::refused);
  std::string many;
  for (int chunk = 0; chunk < 100; ++chunk) many += "1;" + std::string(500, 'a') + "\r\nx\r\n";
  EXPECT_EQ(decode(many, 1000).progress, Progress::refused);
}

TEST(ChunkLine, IsHexadecimal) {
  std::array<char, 20> into{};
  EXPECT_EQ(chunk_line(0, into), "0\r\n");
  EXPECT_EQ(chunk_line(1220, into), "4c4\r\n");
  EXPECT_EQ(chunk_line(~0ULL, into), "ffffffffffffffff\r\n");
}

}  // namespace
}  // namespace weir::http
