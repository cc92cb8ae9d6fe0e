// SPDX-License-Identifier: Apache-2.0
#include "governor/size_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weir/rng.h"

namespace weir::governor {
namespace {

double seconds(double input, double output) { return 0.5 + input * 0.0005 + output * 0.02; }

TEST(SizeFit, FindsWhatLengthsCost) {
  SizeFit fit;
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    const double input = rng.log_normal(1000, 0.8);
    const double output = rng.log_normal(200, 0.8);
    fit.add(seconds(input, output) * rng.log_normal(1, 0.1), input, output);
  }
  EXPECT_NEAR(fit.expect(200, 20), seconds(200, 20), 0.15 * seconds(200, 20));
  EXPECT_NEAR(fit.expect(8000, 50), seconds(8000, 50), 0.15 * seconds(8000, 50));
  EXPECT_NEAR(fit.expect(500, 2000), seconds(500, 2000), 0.15 * seconds(500, 2000));
}

TEST(SizeFit, ALastingSlownessIsNotExplainedAway) {
  SizeFit fit;
  Rng rng(3);
  double late = 0;
  for (int i = 0; i < 3000; ++i) {
    const double input = rng.log_normal(1000, 0.8);
    const double slow = i < 1000 ? 1 : 2;
    const double z = fit.add(seconds(input, 0) * slow, input, 0);
    if (i >= 2000) late += z / 1000;
  }
  EXPECT_NEAR(late, std::log(2.0), 0.2);
}

TEST(SizeFit, LengthsThatNeverVaryDoNoHarm) {
  SizeFit fit;
  for (int i = 0; i < 100'000; ++i) fit.add(i % 2 == 0 ? 1.0 : 1.2, 700, 5);
  EXPECT_NEAR(fit.expect(700, 5), 1.1, 0.15);
  EXPECT_TRUE(std::isfinite(fit.add(1, 70'000, 5)));
}

}  // namespace
}  // namespace weir::governor
