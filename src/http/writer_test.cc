// SPDX-License-Identifier: Apache-2.0
#include "http/writer.h"

#include <gtest/gtest.h>

#include "http/text.h"

namespace weir::http {
namespace {

TEST(Writer, WritesHeads) {
  std::string head;
  append_request_line(head, "POST", "/v1/x");
  append_field(head, "host", "a:1");
  append_field(head, "content-length", std::uint64_t{12});
  end_head(head);
  EXPECT_EQ(head, "POST /v1/x HTTP/1.1\r\nhost: a:1\r\ncontent-length: 12\r\n\r\n");
}

TEST(Writer, NoValueCanAddAField) {
  std::string head;
  append_field(head, "x", std::string_view("a\r\nset-cookie: b\0c", 18));
  EXPECT_EQ(head, "x: a  set-cookie: b c\r\n");
}

TEST(Writer, RefusalsAreOneJsonObjectWithItsLength) {
  Error error;
  error.code = ErrorCode::too_large;
  error.text = "a \"quoted\"\n word";
  const std::string answer = refusal_response(413, error);
  ResponseParser parser;
  ResponseHead head;
  ASSERT_EQ(parser.parse(answer, head, HeadLimits()), Progress::done);
  EXPECT_EQ(head.status, 413);
  EXPECT_FALSE(head.keep_alive);
  EXPECT_EQ(answer.size(), parser.length() + head.content_length);
  EXPECT_EQ(answer.substr(parser.length()),
            R"({"error":{"message":"a \"quoted\"\u000a word","type":"too_large",)"
            R"("code":"too_large","param":null}})");
}

TEST(Text, FindsControlCharactersAtEveryPlace) {
  for (std::size_t size = 0; size < 40; ++size) {
    std::string text(size, 'a');
    EXPECT_EQ(find_control(text), size);
    for (std::size_t at = 0; at < size; ++at) {
      for (const char bad : {'\0', '\x1f', '\x7f', '\r', '\n'}) {
        text[at] = bad;
        EXPECT_EQ(find_control(text), at);
      }
      for (const char good : {'\t', ' ', '\x80', '\xff', '~'}) {
        text[at] = good;
        EXPECT_EQ(find_control(text), size);
      }
    }
  }
}

TEST(Text, ListsAreTakenApart) {
  std::string joined;
  for_each_word(" a ,,b\t, c", [&](std::string_view word) { joined += std::string(word) + "|"; });
  EXPECT_EQ(joined, "a|b|c|");
}

}  // namespace
}  // namespace weir::http
