// SPDX-License-Identifier: Apache-2.0
#include "governor/quantile_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "governor/estimate_table.h"
#include "weir/rng.h"

namespace weir::governor {
namespace {

void add(QuantileSketch& sketch, double amount) { sketch.add(QuantileSketch::bucket_of(amount)); }

double exact(std::vector<double> amounts, double share) {
  std::sort(amounts.begin(), amounts.end());
  const double rank = std::ceil(share * static_cast<double>(amounts.size()) - 1e-9);
  return amounts[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

TEST(QuantileSketch, OfOneToAHundred) {
  QuantileSketch sketch;
  EXPECT_EQ(sketch.value(), 0);
  for (int i = 1; i <= 100; ++i) add(sketch, i);
  EXPECT_NEAR(sketch.value(), 95, 0.96);
  EXPECT_NEAR(sketch.quantile(0.5), 50, 0.51);
  EXPECT_NEAR(sketch.quantile(0), 1, 0.011);
  EXPECT_NEAR(sketch.quantile(1), 100, 1.01);
  EXPECT_EQ(sketch.count(), 100U);
}

TEST(QuantileSketch, IsWithinOnePercentOfTheExactQuantile) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    QuantileSketch sketch;
    std::vector<double> amounts;
    const double sigma = 0.2 + 0.15 * static_cast<double>(seed);
    while (amounts.size() < QuantileSketch::kHalveAt - 1) {
      // Two humps in every second run, as the outputs of reasoning models have.
      const double mean = seed % 2 == 0 && rng.uniform() < 0.3 ? 8000 : 150;
      const double amount = std::clamp(std::ceil(rng.log_normal(mean, sigma)), 1.0, 1e6);
      amounts.push_back(amount);
      add(sketch, amount);
      if (amounts.size() % 97 != 0) continue;
      const double want = exact(amounts, 0.95);
      ASSERT_NEAR(sketch.value(), want, want * 0.0101) << seed << " after " << amounts.size();
      for (const double share : {0.1, 0.5, 0.9, 0.99}) {
        const double of = exact(amounts, share);
        ASSERT_NEAR(sketch.quantile(share), of, of * 0.0101) << seed << " " << share;
      }
    }
  }
}

TEST(QuantileSketch, TheTrackedQuantileIsTheOneThatAWalkFinds) {
  Rng rng(7);
  QuantileSketch sketch;
  for (int i = 0; i < 20'000; ++i) {
    const double mean = i < 10'000 ? 40 : 4000;
    add(sketch, rng.log_normal(mean, 1.2));
    ASSERT_EQ(sketch.value(), sketch.quantile(0.95)) << i;
    ASSERT_LT(sketch.count(), QuantileSketch::kHalveAt);
  }
}

TEST(QuantileSketch, FollowsWhatCameLastAndKeepsItsTail) {
  QuantileSketch sketch;
  const auto fill = [&](int times, double most, double few) {
    for (int i = 0; i < times; ++i) add(sketch, i % 100 < 97 ? most : few * (1 + i % 3));
  };
  fill(8000, 100, 20'000);
  EXPECT_NEAR(sketch.value(), 100, 1.01);
  EXPECT_GT(sketch.quantile(0.985), 19'000) << "halving forgets no tail";
  fill(4000, 1000, 20'000);
  EXPECT_NEAR(sketch.value(), 1000, 10.1);
}

TEST(QuantileSketch, TakesWhateverItIsGiven) {
  QuantileSketch sketch;
  for (const double odd : {-5.0, 0.0, 0.5, std::nan("")}) {
    EXPECT_EQ(QuantileSketch::bucket_of(odd), 0U);
  }
  EXPECT_EQ(QuantileSketch::bucket_of(1e300), QuantileSketch::kBuckets - 1);
  EXPECT_EQ(QuantileSketch::bucket_of(INFINITY), QuantileSketch::kBuckets - 1);
  EXPECT_LT(QuantileSketch::bucket_of(1 << 20), QuantileSketch::kBuckets);
  sketch.add(1'000'000);
  EXPECT_GT(sketch.value(), 1'000'000);
}

TEST(ConformalFactor, NineteenHitsPayForOneMiss) {
  ConformalFactor factor;
  for (int i = 0; i < 19; ++i) factor.learn(false);
  factor.learn(true);
  EXPECT_NEAR(factor.value(), 1, 1e-12);
}

TEST(ConformalFactor, CoverageIsWithinItsBoundWhateverTheDistribution) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    ConformalFactor factor;
    constexpr int kCalls = 5000;
    int misses = 0;
    for (int i = 0; i < kCalls; ++i) {
      // The prediction is wrong by up to four times either way, and the truth jumps.
      const double scale = i < kCalls / 2 ? 1 : 2.5;
      const double predicted = 300 * std::exp(std::sin(static_cast<double>(seed) * 1.7));
      const bool missed = scale * rng.exponential(100) > predicted * factor.value();
      misses += missed ? 1 : 0;
      factor.learn(missed);
    }
    const double bound =
        std::fabs(std::log(factor.value())) / (ConformalFactor::kStep * kCalls) + 1e-9;
    EXPECT_NEAR(static_cast<double>(misses) / kCalls, ConformalFactor::kMisses, bound) << seed;
    EXPECT_LT(bound, 0.02);
  }
}

TEST(EstimateTable, IsBoundedAndKeepsWhatIsUsed) {
  EstimateTable table(100);
  Learned one;
  one.has_output = true;
  one.output = 10;
  Rng rng(3);
  constexpr std::uint64_t kHot = 0xabcdef0123456789ULL;
  for (int i = 0; i < 5000; ++i) {
    table.take(kHot).learn(one, 5, false);
    table.take(rng.next() | 1U).learn(one, 5, false);
    ASSERT_LE(table.size(), 100U);
    ASSERT_NE(table.find(kHot), nullptr) << i;
  }
  EXPECT_EQ(table.find(kHot)->answers(), 5000) << "never made anew";
}

TEST(EstimateTable, EveryEntryIsFoundHoweverKeysCollide) {
  EstimateTable table(16);
  Rng rng(11);
  // Few low bits, so that many keys want the same place.
  const auto key_of = [](std::uint64_t low, std::uint64_t high) {
    return 1 + (low << 3U) + (high << 20U);
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t key = key_of(rng.below(20), rng.below(20));
    table.take(key);
    ASSERT_NE(table.find(key), nullptr);
    if (i % 20 != 0) continue;
    std::size_t found = 0;
    for (std::uint64_t low = 0; low < 20; ++low) {
      for (std::uint64_t high = 0; high < 20; ++high) {
        found += table.find(key_of(low, high)) != nullptr ? 1 : 0;
      }
    }
    ASSERT_EQ(found, table.size()) << i;
  }
}

}  // namespace
}  // namespace weir::governor
