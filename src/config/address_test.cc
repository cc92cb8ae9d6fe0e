// SPDX-License-Identifier: Apache-2.0
#include "config/address.h"

#include <gtest/gtest.h>

namespace weir::config {
namespace {

TEST(Address, ReadsWhatCanBeListenedOn) {
  EXPECT_EQ(parse_listen("127.0.0.1:8080")->host, "127.0.0.1");
  EXPECT_EQ(parse_listen("127.0.0.1:8080")->port, 8080);
  EXPECT_EQ(parse_listen("[::]:8080")->host, "::");
  EXPECT_EQ(parse_listen("localhost:0")->port, 0);
  EXPECT_EQ(parse_listen("unix:/run/weir.sock")->unix_path, "/run/weir.sock");
  for (const char* text : {"127.0.0.1:8080", "[::1]:65535", "unix:/run/weir.sock"}) {
    EXPECT_EQ(show(*parse_listen(text)), text);
  }
}

TEST(Address, RefusesTheRest) {
  for (const char* text : {"", "8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                           "127.0.0.1:-1", "127.0.0.1:80x", "::1:80", "[::1]80", "[::1",
                           "unix:", "unix:relative", "a b:80", "http://127.0.0.1:80"}) {
    EXPECT_FALSE(parse_listen(text)) << text;
  }
}

TEST(Address, APortAloneIsToldWhatItLacks) {
  const auto bare = parse_listen("8080");
  ASSERT_FALSE(bare);
  EXPECT_EQ(bare.error().message, "is a port without an address");
  EXPECT_NE(bare.error().fix.find("127.0.0.1:8080"), std::string::npos);
}

TEST(Address, KnowsLoopback) {
  EXPECT_TRUE(is_loopback(*parse_listen("127.3.4.5:1")));
  EXPECT_TRUE(is_loopback(*parse_listen("[::1]:1")));
  EXPECT_TRUE(is_loopback(*parse_listen("unix:/a")));
  EXPECT_FALSE(is_loopback(*parse_listen("0.0.0.0:1")));
  EXPECT_FALSE(is_loopback(*parse_listen("127.evil.example:1")));
}

TEST(Address, TakesABaseUrlApart) {
  const auto url = parse_base_url("https://api.openai.com/v1/");
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->host, "api.openai.com");
  EXPECT_EQ(url->port, 443);
  EXPECT_EQ(url->path, "/v1");
  EXPECT_EQ(parse_base_url("HTTP://[::1]:8000")->host, "::1");
  EXPECT_EQ(parse_base_url("http://[::1]:8000")->port, 8000);
  EXPECT_EQ(parse_base_url("http://h")->path, "");
  for (const char* text :
       {"", "api.openai.com", "ftp://h", "http://", "http://h:0", "http://h:99999", "http://h/?q",
        "http://h/#f", "http://h/a b", "http://u:canary@h/"}) {
    ASSERT_FALSE(parse_base_url(text)) << text;
    EXPECT_EQ(parse_base_url(text).error().message.find("canary"), std::string::npos);
  }
}

TEST(Address, ADateHoldsThroughItsDay) {
  EXPECT_EQ(show(*parse_date("2027-01-31")), "2027-02-01T00:00:00Z");
  EXPECT_EQ(show(*parse_date("2028-02-29")), "2028-03-01T00:00:00Z");
  EXPECT_EQ(show(*parse_date("2027-01-31T12:30:05Z")), "2027-01-31T12:30:05Z");
  for (const char* text : {"", "2027-02-29", "2027-13-01", "2027-1-1", "27-01-01", "2027-01-31T12",
                           "2027-01-31T24:00:00Z", "tomorrow", "2027/01/31", "9999-01-01"}) {
    EXPECT_FALSE(parse_date(text)) << text;
  }
}

TEST(Address, AHashIsNeverRepeated) {
  EXPECT_TRUE(parse_key_hash("sha256:" + std::string(64, 'a')));
  EXPECT_TRUE(parse_key_hash("sha256:" + std::string(64, 'F')));
  for (const std::string& text :
       {std::string("weir-canary"), "sha256:canary" + std::string(58, 'a'),
        std::string("sha256:canary"), std::string("canary")}) {
    const auto hash = parse_key_hash(text);
    ASSERT_FALSE(hash);
    EXPECT_EQ((hash.error().message + hash.error().fix).find("canary"), std::string::npos);
  }
}

}  // namespace
}  // namespace weir::config
