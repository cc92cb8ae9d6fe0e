// SPDX-License-Identifier: Apache-2.0
#include "dialects/retry_hint.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::dialects {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Tuesday 2026-12-01T12:00:00Z.
constexpr WallTime kNow{seconds(1'796'126'400)};

std::optional<Duration> after(std::string_view value) { return parse_retry_after(value, kNow); }
std::optional<Duration> reset(std::string_view value) { return parse_reset(value, kNow); }

TEST(RetryHint, T001_RetryAfterForms) {
  EXPECT_EQ(after("7"), seconds(7));
  EXPECT_EQ(after("Tue, 01 Dec 2026 12:00:07 GMT"), seconds(7));
  EXPECT_EQ(after("Tue, 01 Dec 2026 11:00:00 GMT"), seconds(0));
  EXPECT_EQ(after("0"), seconds(0));
  EXPECT_EQ(after("-5"), std::nullopt);
  EXPECT_EQ(after(""), std::nullopt);
  EXPECT_EQ(after("soon"), std::nullopt);
  EXPECT_EQ(after("Tuesday, 01-Dec-26 12:01:00 GMT"), seconds(60));
  EXPECT_EQ(after("Tue Dec  1 12:00:10 2026"), seconds(10));
  EXPECT_EQ(after("Fri, 01 Dec 2026 12:00:45 GMT"), seconds(45));
}

TEST(RetryHint, T002_NumbersAreNeverDates) {
  EXPECT_EQ(after("1.5"), milliseconds(1500));
  EXPECT_EQ(after("120 "), seconds(120));
  for (const char* value : {"+3", "-3", "1e3", "1234567890123456789012345", "0x10", "nan",
                            "Infinity", "1.2.3", ".", ".5", "5s", "2026", "31536001"}) {
    const auto hint = after(value);
    if (std::string_view(value) == "2026") {
      EXPECT_EQ(hint, seconds(2026));
    } else {
      EXPECT_EQ(hint, std::nullopt) << value;
    }
  }
  EXPECT_EQ(after("200000"), kLongestHint);
  // A second, valid hint is still used.
  http::Fields fields;
  fields.add({"Retry-After-Ms", "-250"});
  fields.add({"Retry-After", "2"});
  EXPECT_EQ(read_retry_headers(fields, kNow), seconds(2));
}

TEST(RetryHint, OrderOfHeaders) {
  http::Fields fields;
  fields.add({"retry-after", "1"});
  EXPECT_EQ(read_retry_headers(fields, kNow), seconds(1));
  fields.add({"Retry-After", "3"});
  EXPECT_EQ(read_retry_headers(fields, kNow), seconds(3));
  fields.add({"x-ms-retry-after-ms", "750"});
  EXPECT_EQ(read_retry_headers(fields, kNow), milliseconds(750));
  fields.add({"retry-after-ms", "120.2"});
  EXPECT_EQ(read_retry_headers(fields, kNow), milliseconds(121));
  http::Fields zero;
  zero.add({"retry-after-ms", "0"});
  zero.add({"retry-after", "1"});
  EXPECT_EQ(read_retry_headers(zero, kNow), seconds(1));
}

TEST(RetryHint, MergedFieldsTakeTheLarger) {
  EXPECT_EQ(after("120, 60"), seconds(120));
  EXPECT_EQ(after("60,120"), seconds(120));
  EXPECT_EQ(after("60, soon"), std::nullopt);
}

TEST(RetryHint, BadDatesAreRefused) {
  for (const char* value :
       {"Tue, 32 Dec 2026 12:00:00 GMT", "Tue, 31 Feb 2026 12:00:00 GMT",
        "Tue, 01 Dec 2026 25:00:00 GMT", "Tue, 01 Dec 2026 12:00:00 PST", "Tue, 01 Dec 2026",
        "Tue, 01 Dec 99999 12:00:00 GMT", "Tue, 01 Foo 2026 12:00:00 GMT", ",,,,", "a b c d e f",
        "Tue, 01 Dec 9999 12:00:00 GMT"}) {
    EXPECT_EQ(after(value), std::nullopt) << value;
  }
  EXPECT_EQ(after("Wed, 01 Dec 2027 12:00:00 GMT"), kLongestHint);
}

TEST(RetryHint, T004_ResetForms) {
  EXPECT_EQ(reset("6m0s"), seconds(360));
  EXPECT_EQ(reset("1m42.653s"), milliseconds(102'653));
  EXPECT_EQ(reset("500ms"), milliseconds(500));
  EXPECT_EQ(reset("1h2m"), seconds(3720));
  EXPECT_EQ(reset("17"), seconds(17));
  EXPECT_EQ(reset("1h2m3.004s"), milliseconds(3'723'004));
  EXPECT_EQ(reset("250\xc2\xb5s"), milliseconds(1));
  EXPECT_EQ(reset("250us"), milliseconds(1));
  EXPECT_EQ(reset("0s"), seconds(0));
  EXPECT_EQ(reset("1796126425"), seconds(25));
  EXPECT_EQ(reset("1796126425500"), milliseconds(25'500));
  EXPECT_EQ(reset("1796126000"), seconds(0));
  EXPECT_EQ(reset("2026-12-01T12:00:45Z"), seconds(45));
  EXPECT_EQ(reset("2026-12-01T14:00:45.5+02:00"), milliseconds(45'500));
  for (const char* value :
       {"", "6m0", "abc", "-1s", "1e3", "s", "1x", "m", "2026-12-01", "2026-13-01T12:00:45Z",
        "2026-12-01T12:00:45", "2026-12-01T12:00:45+2:00", "-1", "99999999999999999"}) {
    EXPECT_EQ(reset(value), std::nullopt) << value;
  }
}

TEST(RetryHint, T005_WaitsInText) {
  EXPECT_EQ(find_wait_in_text("please try again in 84ms."), milliseconds(84));
  EXPECT_EQ(find_wait_in_text("please try again in 6m0s. visit"), seconds(360));
  EXPECT_EQ(find_wait_in_text("please try again in 1.2s."), milliseconds(1200));
  EXPECT_EQ(find_wait_in_text("retry in 10h17m5.7s"), milliseconds(37'025'700));
  EXPECT_EQ(find_wait_in_text("please retry after 20 seconds."), seconds(20));
  EXPECT_EQ(find_wait_in_text("try again in 2 minutes and pray"), seconds(120));
  EXPECT_EQ(find_wait_in_text("resets in: 0h 1m 3s"), seconds(63));
  EXPECT_EQ(find_wait_in_text("try again in a moment, or retry after 3s"), seconds(3));
  for (const char* text : {"try again later", "try again in", "try again in 5", "try again in 5 x",
                           "try again in s", "retry after ", ""}) {
    EXPECT_EQ(find_wait_in_text(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace weir::dialects
