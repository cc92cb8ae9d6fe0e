// SPDX-License-Identifier: Apache-2.0
#include "config/quantity.h"

#include <gtest/gtest.h>

#include <clocale>

namespace weir::config {
namespace {

using namespace std::chrono_literals;

TEST(Quantity, CountsAreExact) {
  EXPECT_EQ(*parse_count("0"), 0);
  EXPECT_EQ(*parse_count("1200"), 1200);
  EXPECT_EQ(*parse_count("800k"), 800'000);
  EXPECT_EQ(*parse_count("1.5M"), 1'500'000);
  EXPECT_EQ(*parse_count("0.001k"), 1);
  EXPECT_EQ(*parse_count("1e18"), 1'000'000'000'000'000'000);
  EXPECT_EQ(*parse_count("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(*parse_count("+5"), 5);
  EXPECT_EQ(*parse_count("-0"), 0);
  EXPECT_EQ(*parse_count("1.000"), 1);
}

TEST(Quantity, CountsRefuseWithAReason) {
  EXPECT_EQ(parse_count("9223372036854775808").error().message, "is beyond 2^63-1");
  EXPECT_EQ(parse_count("1e400").error().message, "is beyond 2^63-1");
  EXPECT_EQ(parse_count("-5").error().message, "is negative");
  EXPECT_EQ(parse_count("1.5").error().message, "is not a whole number");
  EXPECT_EQ(parse_count(".nan").error().message, "is not a number");
  EXPECT_EQ(parse_count(".inf").error().message, "is not a number");
  EXPECT_EQ(parse_count("").error().message, "is empty");
  EXPECT_EQ(parse_count("12K").error().message, "has no known unit behind the number");
  EXPECT_EQ(parse_count("1 000").error().message, "has no known unit behind the number");
  EXPECT_EQ(parse_count("0x10").error().message, "has no known unit behind the number");
  EXPECT_EQ(parse_count("99999999999999999999999").error().message, "has too many digits");
}

TEST(Quantity, BytesKnowBothPowers) {
  EXPECT_EQ(*parse_bytes("32MiB"), 32 * 1024 * 1024);
  EXPECT_EQ(*parse_bytes("32M"), 32'000'000);
  EXPECT_EQ(*parse_bytes("0.5KiB"), 512);
  EXPECT_EQ(*parse_bytes("1GiB"), 1 << 30);
  EXPECT_FALSE(parse_bytes("1MB"));
}

TEST(Quantity, DurationsAreExactAndNeedAUnit) {
  EXPECT_EQ(*parse_duration("300ms"), 300ms);
  EXPECT_EQ(*parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(*parse_duration("12.000s"), 12s);
  EXPECT_EQ(*parse_duration("20m"), 20min);
  EXPECT_EQ(*parse_duration("0.5h"), 30min);
  EXPECT_EQ(*parse_duration("2d"), 48h);
  EXPECT_EQ(*parse_duration("0"), 0ns);
  EXPECT_EQ(parse_duration("30").error().message, "has no unit of time");
  EXPECT_EQ(parse_duration("30").error().fix, "add ms, s, m, h or d, such as 1.5s");
  EXPECT_EQ(parse_duration("-1s").error().message, "is negative");
  EXPECT_EQ(parse_duration("0.0000001ms").error().message, "is finer than a nanosecond");
  EXPECT_EQ(parse_duration("300000d").error().message, "is longer than 292 years");
  EXPECT_EQ(parse_duration("soon").error().message, "is not a number");
}

TEST(Quantity, PercentagesRatesAndMoney) {
  EXPECT_DOUBLE_EQ(*parse_percent("25%"), 0.25);
  EXPECT_DOUBLE_EQ(*parse_percent("0.5%"), 0.005);
  EXPECT_FALSE(parse_percent("0.25"));
  EXPECT_DOUBLE_EQ(*parse_rate("2.0/m"), 2.0 / 60);
  EXPECT_DOUBLE_EQ(*parse_rate("10%/m"), 0.1 / 60);
  EXPECT_FALSE(parse_rate("2.0"));
  EXPECT_EQ(parse_money("2.50")->value, 2'500'000);
  EXPECT_EQ(parse_money("0.000001")->value, 1);
  EXPECT_EQ(parse_money("20k")->value, 20'000'000'000);
  EXPECT_EQ(parse_money("0.0000001").error().message, "is finer than a millionth of a dollar");
}

TEST(Quantity, AnAmountBelowOneIsOneInALongerWindow) {
  const auto half = parse_allowance("0.5", 1min);
  EXPECT_EQ(half->amount, 1);
  EXPECT_EQ(half->window, 2min);
  const auto third = parse_allowance("0.3", 1min);
  EXPECT_EQ(third->amount, 1);
  EXPECT_EQ(third->window, 200s);
  const auto seventh = parse_allowance("0.7", 1min);
  EXPECT_EQ(seventh->window, Duration(85'714'285'715));  // rounded up: never more than was said
  EXPECT_EQ(parse_allowance("0.0005k", 1s)->window, 2s);
  EXPECT_EQ(parse_allowance("1.5", 1min).error().message, "is not a whole number");
  EXPECT_EQ(parse_allowance("0.5", 0s).error().message, "is not a whole number");
  EXPECT_EQ(parse_allowance("0.0000001", 1min).error().message, "means less than one in a year");
  EXPECT_EQ(parse_allowance("0.000000000000000001", 1s).error().message,
            "means less than one in a year");
}

TEST(Quantity, WhatIsShownReadsBack) {
  for (const Duration each : {Duration(0), Duration(1), Duration(300ms), Duration(1500ms),
                              Duration(12s), Duration(20min), Duration(36h), Duration(72h)}) {
    EXPECT_EQ(*parse_duration(show(each)), each) << show(each);
  }
  EXPECT_EQ(show(Duration(1500ms)), "1500ms");
  EXPECT_EQ(show(Duration(1)), "0.000000001s");
  for (const std::int64_t each : {0L, 7L, 1500L, 2'000'000L, 1L << 30}) {
    EXPECT_EQ(*parse_count(show_count(each)), each);
    EXPECT_EQ(*parse_bytes(show_bytes(each)), each);
  }
  EXPECT_EQ(show_bytes(32 << 20), "32MiB");
  EXPECT_EQ(show_percent(0.25), "25%");
}

TEST(Quantity, TheLocaleDoesNotMatter) {
  // A locale with a decimal comma, where the machine has one; the parser never asks for it.
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  EXPECT_EQ(*parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_money("2.50")->value, 2'500'000);
  EXPECT_FALSE(parse_duration("1,5s"));
  std::setlocale(LC_ALL, "C");
}

}  // namespace
}  // namespace weir::config
