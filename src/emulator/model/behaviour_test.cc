// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/behaviour.h"

#include <gtest/gtest.h>

namespace weir::emulator::model {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LatencyModel, FollowsItsFormulaWithoutNoise) {
  LatencySettings settings;
  settings.noise = 0;
  settings.knee = 10;
  LatencyModel model(settings, 1);
  const Timing timing = model.plan(1000, 10);
  EXPECT_EQ(timing.first_token, milliseconds(350));
  EXPECT_EQ(timing.per_token, milliseconds(25));
  EXPECT_EQ(timing.until(1), milliseconds(350));
  EXPECT_EQ(timing.until(5), milliseconds(450));
  EXPECT_EQ(model.plan(0, 20).per_token, milliseconds(50)) << "twice the knee, slope 1";
}

TEST(LatencyModel, NoiseKeepsTheMeanAndTheSeedDecides) {
  LatencyModel model(LatencySettings{}, 3);
  LatencyModel again(LatencySettings{}, 3);
  double sum = 0;
  for (int draw = 0; draw < 20'000; ++draw) {
    const Timing timing = model.plan(0, 1);
    EXPECT_EQ(timing.first_token, again.plan(0, 1).first_token);
    sum += to_seconds(timing.first_token);
  }
  EXPECT_NEAR(sum / 20'000, 0.3, 0.003);
}

TEST(LatencyModel, AbsurdSettingsStayWithinADay) {
  LatencySettings settings;
  settings.base_first_token = Duration::max();
  settings.per_output_token = Duration::max();
  settings.slope = 1e300;
  settings.knee = 1;
  LatencyModel model(settings, 1);
  const Timing timing = model.plan(INT64_MAX, INT64_MAX);
  EXPECT_LE(timing.until(INT64_MAX), std::chrono::hours(24));
  settings.base_first_token = Duration::min();
  EXPECT_EQ(LatencyModel(settings, 1).plan(1, 1).first_token, Duration{0});
}

TEST(OutputModel, DrawsWithinItsBounds) {
  OutputSettings settings;
  settings.cap = 1000;
  OutputModel model(settings, 5);
  double sum = 0;
  for (int draw = 0; draw < 20'000; ++draw) {
    const std::int64_t tokens = model.draw(std::nullopt, std::nullopt);
    EXPECT_GE(tokens, 1);
    EXPECT_LE(tokens, 1000);
    sum += static_cast<double>(tokens);
  }
  EXPECT_NEAR(sum / 20'000, 290, 12) << "300 less what the cap takes";
  EXPECT_EQ(model.draw(42, std::nullopt), 42);
  EXPECT_EQ(model.draw(42, 10), 10);
  EXPECT_EQ(model.draw(std::nullopt, 0), 0);
}

TEST(FaultModel, ComesNearItsShares) {
  FaultSettings settings;
  settings.server_error = 0.1;
  settings.slow = 0.2;
  FaultModel model(settings, 9);
  int errors = 0;
  int slow = 0;
  int none = 0;
  for (int draw = 0; draw < 20'000; ++draw) {
    const Fault fault = model.draw();
    errors += fault.kind == FaultKind::server_error ? 1 : 0;
    none += fault.kind == FaultKind::none ? 1 : 0;
    if (fault.kind == FaultKind::slow) {
      ++slow;
      EXPECT_EQ(fault.factor, 10);
    }
  }
  EXPECT_NEAR(errors, 2000, 200);
  EXPECT_NEAR(slow, 4000, 300);
  EXPECT_EQ(errors + slow + none, 20'000);
  EXPECT_EQ(FaultModel(FaultSettings{}, 1).draw().kind, FaultKind::none);
}

TEST(Latency, BeyondTheKneeThroughputStaysAndFirstTokensCanWaitToo) {
  LatencySettings settings;
  settings.noise = 0;
  settings.knee = 10;
  settings.first_token_slope = 0.5;
  LatencyModel model(settings, 1);
  const Timing calm = model.plan(0, 10);
  const Timing twice = model.plan(0, 20);
  EXPECT_EQ(twice.per_token, 2 * calm.per_token);
  EXPECT_EQ(twice.first_token, calm.first_token + calm.first_token / 2);
}

TEST(Latency, BeyondItsDepthItIsFull) {
  LatencySettings settings;
  EXPECT_FALSE(LatencyModel(settings, 1).full(1'000'000));
  settings.depth = 3;
  EXPECT_FALSE(LatencyModel(settings, 1).full(2));
  EXPECT_TRUE(LatencyModel(settings, 1).full(3));
}

TEST(Latency, AShareOfTheBackEndsIsSlower) {
  LatencySettings settings;
  settings.noise = 0;
  settings.slow_share = 0.3;
  settings.slow_factor = 6;
  LatencyModel model(settings, 1);
  int slow = 0;
  for (int i = 0; i < 10'000; ++i) {
    const Timing timing = model.plan(0, 1);
    if (timing.per_token == settings.per_output_token) continue;
    EXPECT_EQ(timing.per_token, 6 * settings.per_output_token);
    ++slow;
  }
  EXPECT_NEAR(slow, 3000, 200);
}

}  // namespace
}  // namespace weir::emulator::model
