// SPDX-License-Identifier: Apache-2.0
#include "sim/claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::sim {
namespace {

/// Measured once for all that follows; each process of a test runner would measure anew.
class Measured {
 public:
  explicit Measured(std::uint64_t seed) : claims_(measure_claims(seed, {})) {}
  [[nodiscard]] const Claim& claim(std::string_view id) const {
    static const Claim kNone;
    const auto found = std::find_if(claims_.begin(), claims_.end(),
                                    [&](const Claim& one) { return one.id == id; });
    EXPECT_NE(found, claims_.end()) << id;
    return found == claims_.end() ? kNone : *found;
  }
  [[nodiscard]] const std::vector<Claim>& all() const { return claims_; }

 private:
  std::vector<Claim> claims_;
};

/// Shaping takes failures from a third to next to none where peaks are followed by pauses, and
/// gives four times the tokens only where refused attempts count.
void check_shaping(const Measured& measured) {
  const Claim& failures = measured.claim("shaping-failures");
  EXPECT_EQ(failures.verdict, ClaimVerdict::reproduced);
  EXPECT_NEAR(failures.figure("none_failures"), 0.35, 0.05);
  EXPECT_LT(failures.figure("shaper_failures"), 0.02);
  EXPECT_LE(failures.figure("weir_failures"), failures.figure("shaper_failures"));
  EXPECT_EQ(failures.figure("weir_429s"), 0);
  const Claim& tokens = measured.claim("shaping-tokens");
  EXPECT_EQ(tokens.verdict, ClaimVerdict::corrected);
  EXPECT_LT(tokens.figure("free_gain"), 1.2);
  EXPECT_GT(tokens.figure("counted_gain"), 3.5);
  EXPECT_GE(tokens.figure("weir_counted_gain"), tokens.figure("counted_gain"));
}

/// A bucket is refused at high use and a mirror is not.
void check_whole_system(const Measured& measured) {
  const Claim& one = measured.claim("whole-system");
  EXPECT_EQ(one.verdict, ClaimVerdict::corrected);
  EXPECT_GT(one.figure("requests_429s"), 0.001);
  EXPECT_GT(one.figure("tokens_429s"), 0.001);
  for (const std::string world : {"weir_requests", "weir_tokens"}) {
    EXPECT_LT(one.figure(world + "_429s"), 0.0001);
    EXPECT_GT(one.figure(world + "_use"), 0.9);
  }
}

/// Jitter helps retries that are in step, against a limit of a second, and no others.
void check_jitter(const Measured& measured) {
  const Claim& one = measured.claim("jitter");
  EXPECT_EQ(one.verdict, ClaimVerdict::corrected);
  EXPECT_GT(one.figure("second_gain"), 3);
  EXPECT_LT(one.figure("minute_gain"), 1);
  EXPECT_NEAR(one.figure("spread_gain"), 1, 0.2);
  EXPECT_EQ(one.figure("weir_second_success"), 1);
  EXPECT_EQ(one.figure("weir_minute_success"), 1);
}

/// Probing beats one guess on errors and another on throughput.
void check_probing(const Measured& measured) {
  const Claim& one = measured.claim("ebp");
  EXPECT_EQ(one.verdict, ClaimVerdict::corrected);
  EXPECT_GT(one.figure("errors_cut"), 0.6);
  EXPECT_LT(one.figure("throughput_over_high"), 0.05);
  EXPECT_GT(one.figure("throughput_over_low"), 0.3);
  EXPECT_EQ(one.figure("weir_told_429s"), 0);
  EXPECT_GT(one.figure("weir_told_use"), one.figure("ebp_use"));
}

/// A queue absorbs a peak that retries do not.
void check_peak(const Measured& measured) {
  const Claim& one = measured.claim("peak-queue");
  EXPECT_EQ(one.verdict, ClaimVerdict::reproduced);
  EXPECT_GT(one.figure("retry_failures"), 0.1);
  EXPECT_LT(one.figure("queue_failures"), 0.005);
  EXPECT_EQ(one.figure("weir_failures"), 0);
  EXPECT_LT(one.figure("weir_p99_s"), 300);
}

/// A queue at the provider saves what its rule lets in within the wait; nobody who knows the rule
/// needs it.
void check_server_queue(const Measured& measured) {
  const Claim& one = measured.claim("server-queue");
  EXPECT_EQ(one.verdict, ClaimVerdict::reproduced);
  EXPECT_LT(one.figure("without"), 0.5);
  EXPECT_LT(one.figure("wait_15s"), 0.5) << "a short wait is no use";
  EXPECT_GT(one.figure("wait_60s"), 0.9);
  EXPECT_EQ(one.figure("weir_success"), 1);
  EXPECT_EQ(one.figure("weir_429s"), 0);
}

/// What cannot be measured says so and shows no figure.
void check_unmeasured(const Measured& measured) {
  const Claim& one = measured.claim("provisioned");
  EXPECT_EQ(one.verdict, ClaimVerdict::not_reproducible_here);
  EXPECT_TRUE(one.baseline.empty());
  EXPECT_TRUE(one.weir.empty());
  EXPECT_TRUE(one.figures.empty());
}

TEST(Claims, TheFiguresBearOutTheVerdictsWhateverTheSeed) {
  for (const std::uint64_t seed : {1U, 7U}) {
    SCOPED_TRACE(seed);
    const Measured measured(seed);
    EXPECT_EQ(measured.all().size(), 8U);
    check_shaping(measured);
    check_whole_system(measured);
    check_jitter(measured);
    check_probing(measured);
    check_peak(measured);
    check_server_queue(measured);
    check_unmeasured(measured);
  }
}

TEST(Claims, EveryClaimIsInBothOutputsAndEqualSeedsAreEqual) {
  std::size_t told = 0;
  std::size_t of = 0;
  const std::vector<Claim> claims = measure_claims(1, [&](std::size_t done, std::size_t all) {
    EXPECT_EQ(done, ++told) << "one step for each world";
    of = all;
  });
  EXPECT_EQ(told, of) << "the progress bar ends when the work does";
  const std::string table = claims_table(claims);
  const std::string json = claims_json(claims);
  for (const Claim& one : claims) {
    EXPECT_NE(table.find(one.id + ": "), std::string::npos);
    EXPECT_NE(json.find("\"id\":\"" + one.id + "\""), std::string::npos);
    EXPECT_FALSE(one.reason.empty());
    EXPECT_EQ(one.reason.find('\n'), std::string::npos);
  }
  EXPECT_EQ(json, claims_json(measure_claims(1, {})));
}

}  // namespace
}  // namespace weir::sim
