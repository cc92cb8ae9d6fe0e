// SPDX-License-Identifier: Apache-2.0
#include "weir/rng.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(Rng, SameSeedSameNumbersOnEveryMachine) {
  Rng first(1);
  Rng second(1);
  Rng other(2);
  EXPECT_EQ(first.next(), second.next());
  EXPECT_NE(first.next(), other.next());
}

TEST(Rng, DistributionsHaveTheirMeans) {
  Rng rng(7);
  double exponential = 0;
  double log_normal = 0;
  double uniform = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    exponential += rng.exponential(3.0);
    log_normal += rng.log_normal(200.0, 0.8);
    uniform += rng.uniform();
    EXPECT_LT(rng.below(10), 10U);
  }
  EXPECT_NEAR(exponential / kDraws, 3.0, 0.05);
  EXPECT_NEAR(log_normal / kDraws, 200.0, 3.0);
  EXPECT_NEAR(uniform / kDraws, 0.5, 0.01);
  EXPECT_EQ(rng.below(0), 0U);
}

}  // namespace
}  // namespace weir
