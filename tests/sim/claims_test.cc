// SPDX-License-Identifier: Apache-2.0
#include "sim/claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace weir::sim {
namespace {

class Claims : public testing::Test {
 protected:
  static void SetUpTestSuite() { claims_ = measure_claims(1, {}); }
  static const Claim& claim(std::string_view id) {
    static const Claim kNone;
    const auto found = std::find_if(claims_.begin(), claims_.end(),
                                    [&](const Claim& one) { return one.id == id; });
    EXPECT_NE(found, claims_.end()) << id;
    return found == claims_.end() ? kNone : *found;
  }
  static inline std::vector<Claim> claims_;
};

TEST_F(Claims, ShapingTakesFailuresFromAThirdToNextToNoneOnPeaks) {
  const Claim& one = claim("shaping-failures");
  EXPECT_EQ(one.verdict, ClaimVerdict::reproduced);
  EXPECT_NEAR(one.figure("none_failures"), 0.35, 0.05);
  EXPECT_LT(one.figure("shaper_failures"), 0.02);
  EXPECT_LE(one.figure("weir_failures"), one.figure("shaper_failures"));
  EXPECT_EQ(one.figure("weir_429s"), 0);
}

TEST_F(Claims, FourTimesTheTokensOnlyWhereRefusalsCount) {
  const Claim& one = claim("shaping-tokens");
  EXPECT_EQ(one.verdict, ClaimVerdict::corrected);
  EXPECT_LT(one.figure("free_gain"), 1.2);
  EXPECT_GT(one.figure("counted_gain"), 3.5);
  EXPECT_GE(one.figure("weir_counted_gain"), one.figure("counted_gain"));
}

TEST_F(Claims, ABucketIsRefusedAtHighUseAndAMirrorIsNot) {
  const Claim& one = claim("whole-system");
  EXPECT_EQ(one.verdict, ClaimVerdict::corrected);
  EXPECT_GT(one.figure("requests_429s"), 0.001);
  EXPECT_GT(one.figure("tokens_429s"), 0.001);
  for (const char* world : {"weir_requests", "weir_tokens"}) {
    EXPECT_LT(one.figure(std::string(world) + "_429s"), 0.0001);
    EXPECT_GT(one.figure(std::string(world) + "_use"), 0.9);
  }
}

TEST_F(Claims, JitterHelpsRetriesInStepAgainstASecondOnly) {
  const Claim& one = claim("jitter");
  EXPECT_EQ(one.verdict, ClaimVerdict::corrected);
  EXPECT_GT(one.figure("second_gain"), 3);
  EXPECT_LT(one.figure("minute_gain"), 1);
  EXPECT_NEAR(one.figure("spread_gain"), 1, 0.2);
  EXPECT_EQ(one.figure("weir_second_success"), 1);
  EXPECT_EQ(one.figure("weir_minute_success"), 1);
}

TEST_F(Claims, ProbingBeatsOneGuessOnErrorsAndAnotherOnThroughput) {
  const Claim& one = claim("ebp");
  EXPECT_EQ(one.verdict, ClaimVerdict::corrected);
  EXPECT_GT(one.figure("errors_cut"), 0.6);
  EXPECT_LT(one.figure("throughput_over_high"), 0.05);
  EXPECT_GT(one.figure("throughput_over_low"), 0.3);
  EXPECT_EQ(one.figure("weir_told_429s"), 0);
  EXPECT_GT(one.figure("weir_told_use"), one.figure("ebp_use"));
}

TEST_F(Claims, AQueueAbsorbsAPeakThatRetriesDoNot) {
  const Claim& one = claim("peak-queue");
  EXPECT_EQ(one.verdict, ClaimVerdict::reproduced);
  EXPECT_GT(one.figure("retry_failures"), 0.1);
  EXPECT_LT(one.figure("queue_failures"), 0.005);
  EXPECT_EQ(one.figure("weir_failures"), 0);
  EXPECT_LT(one.figure("weir_p99_s"), 300);
}

TEST_F(Claims, WhatIsNotMeasuredSaysSoAndShowsNoFigure) {
  EXPECT_EQ(claim("server-queue").verdict, ClaimVerdict::not_yet_measured);
  EXPECT_EQ(claim("provisioned").verdict, ClaimVerdict::not_reproducible_here);
  for (const char* id : {"server-queue", "provisioned"}) {
    EXPECT_TRUE(claim(id).baseline.empty());
    EXPECT_TRUE(claim(id).weir.empty());
    EXPECT_TRUE(claim(id).figures.empty());
  }
}

TEST_F(Claims, EveryClaimIsInBothOutputsAndEqualSeedsAreEqual) {
  const std::string table = claims_table(claims_);
  const std::string json = claims_json(claims_);
  EXPECT_EQ(claims_.size(), 8U);
  for (const Claim& one : claims_) {
    EXPECT_NE(table.find(one.id + ": "), std::string::npos);
    EXPECT_NE(json.find("\"id\":\"" + one.id + "\""), std::string::npos);
    EXPECT_FALSE(one.reason.empty());
    EXPECT_EQ(one.reason.find('\n'), std::string::npos);
  }
  EXPECT_EQ(json, claims_json(measure_claims(1, {})));
}

}  // namespace
}  // namespace weir::sim
