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

}  // namespace
}  // namespace weir::sim
