// SPDX-License-Identifier: Apache-2.0
#include "sim/workload.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

TEST(Workload, PoissonComesNearItsRateAndMeans) {
  Workload workload;
  workload.arrivals.rates = {{Duration{0}, 10}};
  const auto arrivals = make_arrivals(workload, minutes(100), 1);
  EXPECT_NEAR(static_cast<double>(arrivals.size()), 60'000, 1000);
  double input = 0;
  double output = 0;
  Instant before{};
  for (const Arrival& arrival : arrivals) {
    EXPECT_GE(arrival.at, before);
    before = arrival.at;
    input += static_cast<double>(arrival.input_tokens);
    output += static_cast<double>(arrival.output_tokens);
  }
  EXPECT_NEAR(input / static_cast<double>(arrivals.size()), 350, 5);
  EXPECT_NEAR(output / static_cast<double>(arrivals.size()), 350, 5);
}

TEST(Workload, StepsAndPausesHold) {
  Workload workload;
  workload.arrivals.rates = {{Duration{0}, 0}, {seconds(60), 50}};
  workload.arrivals.on = seconds(10);
  workload.arrivals.off = seconds(10);
  const auto arrivals = make_arrivals(workload, seconds(120), 1);
  EXPECT_NEAR(static_cast<double>(arrivals.size()), 1500, 150);
  for (const Arrival& arrival : arrivals) {
    EXPECT_GE(arrival.at, Instant(seconds(60)));
    EXPECT_LT(arrival.at.time_since_epoch() % seconds(20), seconds(10));
  }
}

TEST(Workload, TheSeedDecidesAndOtherSettingsDoNotShiftIt) {
  Workload workload;
  workload.arrivals.rates = {{Duration{0}, 10}};
  const auto first = make_arrivals(workload, minutes(1), 7);
  workload.max_tokens = MaxTokens::rounded_up;
  workload.abort_share = 0.5;
  workload.abort_after = seconds(1);
  const auto second = make_arrivals(workload, minutes(1), 7);
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t index = 0; index < first.size(); ++index) {
    EXPECT_EQ(first[index].at, second[index].at);
    EXPECT_EQ(first[index].output_tokens, second[index].output_tokens);
    EXPECT_EQ(*second[index].max_output_tokens % 64, 0);
    EXPECT_GE(*second[index].max_output_tokens, second[index].output_tokens);
  }
  EXPECT_NE(make_arrivals(workload, minutes(1), 8)[0].at, first[0].at);
}

TEST(Workload, NoRateMeansNoArrivals) {
  EXPECT_TRUE(make_arrivals(Workload{}, minutes(10), 1).empty());
}

TEST(Trace, IsReadAndFaultsNameTheirLine) {
  const auto rows = parse_trace("seconds,input,output\r\n0.5,100,20\n1,,\n1.25,7,\n");
  ASSERT_TRUE(rows.has_value());
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ((*rows)[0].at, std::chrono::milliseconds(500));
  EXPECT_EQ((*rows)[0].output_tokens, 20);
  EXPECT_FALSE((*rows)[1].input_tokens.has_value());
  Workload workload;
  workload.arrivals.trace = std::make_shared<const std::vector<TraceRow>>(*rows);
  EXPECT_EQ(make_arrivals(workload, minutes(1), 1)[0].input_tokens, 100);
  for (const char* bad : {"h\n2,1,1\n1,1,1\n", "h\nx,1,1\n", "h\n1,-1,1\n", "h\n1,1x,1\n"}) {
    const auto failed = parse_trace(bad);
    ASSERT_FALSE(failed.has_value()) << bad;
    EXPECT_NE(failed.error().text.find("Line "), std::string::npos);
  }
}

TEST(Trace, ATenantColumnNamesWhoseRequestItIs) {
  const auto rows =
      parse_trace("arrival_s,input,output,tenant\n0,1,1,b\n1,1,1,a\n2,1,1,b\n3,1,1,\n");
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ((*rows)[0].tenant, 0U);
  EXPECT_EQ((*rows)[1].tenant, 1U);
  EXPECT_EQ((*rows)[2].tenant, 0U);
  EXPECT_FALSE((*rows)[3].tenant.has_value());
  EXPECT_FALSE((*parse_trace("s,i,o,duration_ms\n0,1,1,7\n"))[0].tenant.has_value());
}

TEST(Workload, LengthsOfATraceComeAgainInTheirOrderOrShuffled) {
  Workload workload;
  workload.arrivals.rates = {{Duration{0}, 10}};
  auto rows = std::make_shared<std::vector<TraceRow>>();
  for (std::int64_t i = 1; i <= 50; ++i) rows->push_back({Duration{0}, i, 2 * i, {}});
  workload.lengths = rows;
  workload.order = LengthOrder::kept;
  const auto kept = make_arrivals(workload, minutes(1), 1);
  ASSERT_GT(kept.size(), 100U);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].input_tokens, static_cast<std::int64_t>(i % 50) + 1);
    EXPECT_EQ(kept[i].output_tokens, 2 * kept[i].input_tokens);
  }
  workload.order = LengthOrder::shuffled;
  const auto shuffled = make_arrivals(workload, minutes(1), 1);
  std::int64_t sum = 0;
  bool moved = false;
  for (std::size_t i = 0; i < 50; ++i) {
    sum += shuffled[i].input_tokens;
    moved = moved || shuffled[i].input_tokens != kept[i].input_tokens;
  }
  EXPECT_EQ(sum, 50 * 51 / 2) << "each once";
  EXPECT_TRUE(moved);
}

TEST(Workload, ATraceOfArrivalsRunsAtItsSpeedAndBeginsAnew) {
  Workload workload;
  workload.arrivals.trace = std::make_shared<const std::vector<TraceRow>>(
      std::vector<TraceRow>{{seconds(0), 1, 1, {}}, {seconds(9), 2, 2, {}}});
  workload.arrivals.speed = 2;
  EXPECT_EQ(make_arrivals(workload, minutes(1), 1).size(), 2U);
  workload.arrivals.repeat = true;
  const auto arrivals = make_arrivals(workload, seconds(11), 1);
  ASSERT_EQ(arrivals.size(), 5U);
  EXPECT_EQ(arrivals[1].at, Instant(std::chrono::milliseconds(4500)));
  EXPECT_EQ(arrivals[2].at, Instant(seconds(5)));
}

TEST(Workload, AShareOfTheQuotaIsARateByTheMeanCost) {
  Workload workload;
  workload.lengths = std::make_shared<const std::vector<TraceRow>>(
      std::vector<TraceRow>{{Duration{0}, 100, 100, {}}, {Duration{0}, 300, 100, {}}});
  workload.arrivals.of_quota = 1.5;
  Rule tokens;
  tokens.unit = Unit::total_tokens;
  tokens.amount = 18'000;
  tokens.window = minutes(1);
  Rule requests;
  requests.unit = Unit::requests;
  requests.amount = 600;
  requests.window = minutes(1);
  resolve_quota(workload, {requests, tokens});
  ASSERT_EQ(workload.arrivals.rates.size(), 1U);
  EXPECT_NEAR(workload.arrivals.rates[0].per_second, 1.5, 0.01)
      << "300 a second of 300 each, x 1.5";
}

}  // namespace
}  // namespace weir::sim
