// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "weir/result.h"
#include "weir/rule.h"

namespace weir {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Names, LimitersHaveTheFieldsShortNames) {
  EXPECT_EQ(limiter_name(Unit::requests, seconds(60)), "rpm");
  EXPECT_EQ(limiter_name(Unit::total_tokens, seconds(60)), "total_tpm");
  EXPECT_EQ(limiter_name(Unit::requests, seconds(1)), "rps");
  EXPECT_EQ(limiter_name(Unit::requests, hours(24)), "rpd");
  EXPECT_EQ(limiter_name(Unit::requests, seconds(10)), "requests_per_10s");
  EXPECT_EQ(limiter_name(Unit::output_tokens, milliseconds(250)), "output_tokens_per_250ms");
  EXPECT_EQ(limiter_name(Unit::concurrency, Duration::zero()), "concurrency");
}

TEST(Result, ErrorsTellTheirCauses) {
  Error inner;
  inner.text = "no such file";
  Error outer;
  outer.text = "cannot read config.yaml";
  outer.cause = std::make_shared<const Error>(inner);
  EXPECT_EQ(outer.describe(), "cannot read config.yaml: no such file");
}

}  // namespace
}  // namespace weir
