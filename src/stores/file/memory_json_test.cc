// SPDX-License-Identifier: Apache-2.0
#include "stores/file/memory_json.h"

#include <gtest/gtest.h>

#include <limits>

namespace weir::stores {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

WrittenMemory sample() {
  WrittenMemory written;
  written.written = {WallTime(seconds(1'800'000'000)), "boot-1", seconds(12)};
  written.complete = true;
  RememberedMeter meter;
  meter.name = "deployment|chat \"1\"|requests|60s";
  meter.window = minutes(1);
  meter.amount = 2000;
  meter.limit =
      RememberedLimit{1200, 1210, 3, seconds(90), minutes(20), minutes(2), seconds(7), false};
  meter.belief = RememberedBelief{false, -1.5, 0.25, kForever, minutes(30)};
  meter.margin = RememberedMargin{17, 2.5, 300, 1e9};
  meter.growth = RememberedGrowth{0.5, 0.75, seconds(3)};
  meter.counted = true;
  meter.charges = {{seconds(50), 7}, {milliseconds(1500), INT64_MAX}};
  meter.level = 12.25;
  written.memory.meters.push_back(meter);
  meter = {};
  meter.name = "node|tenant|acme|total_tokens|86400s";
  meter.unit = Unit::total_tokens;
  meter.counted = true;
  written.memory.meters.push_back(meter);
  RememberedDeployment deployment;
  deployment.name = "chat";
  deployment.model = "gpt";
  deployment.calls.mean = 321.5;
  deployment.calls.answers = 99;
  deployment.calls.buckets = {{1, 2}, {694, 65'535}};
  deployment.calls.believed_tokens_per_byte = 0.25;
  deployment.most_round_trip = milliseconds(12);
  written.memory.deployments.push_back(deployment);
  written.memory.callers.push_back({0xfedcba9876543210ULL, deployment.calls});
  return written;
}

TEST(MemoryJson, WhatIsWrittenIsRead) {
  const std::string text = memory_to_json(sample());
  const auto read = memory_from_json(text);
  ASSERT_TRUE(read) << read.error().text;
  // What comes out makes the same text again, so nothing was lost.
  EXPECT_EQ(memory_to_json(*read), text);
  const RememberedMeter& meter = read->memory.meters[0];
  EXPECT_EQ(meter.limit->refused_ago, seconds(90));
  EXPECT_EQ(meter.belief->refused_ago, kForever);
  EXPECT_EQ(meter.charges[1].age, milliseconds(1500));
  EXPECT_EQ(meter.charges[1].amount, INT64_MAX);
  EXPECT_TRUE(read->memory.meters[1].counted);
  EXPECT_EQ(read->memory.meters[1].unit, Unit::total_tokens);
  EXPECT_EQ(read->memory.callers[0].key, 0xfedcba9876543210ULL);
  EXPECT_EQ(read->written.boot, "boot-1");
  EXPECT_TRUE(read->complete);
  EXPECT_NE(text.find("\"written\":\"2027-01-15T08:00:00Z\""), std::string::npos) << text;
}

TEST(MemoryJson, NoFiniteNumberIsNoneAtAll) {
  WrittenMemory written = sample();
  written.memory.deployments[0].calls.mean = std::numeric_limits<double>::quiet_NaN();
  const auto read = memory_from_json(memory_to_json(written));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->memory.deployments[0].calls.mean, 0);
}

TEST(MemoryJson, EveryCutOfTheTextIsRefused) {
  const std::string text = memory_to_json(sample());
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_FALSE(memory_from_json(text.substr(0, length))) << length;
  }
}

TEST(MemoryJson, FaultsNameTheirPlace) {
  const auto fault = [](std::string_view what, std::string_view instead) {
    std::string text = memory_to_json(sample());
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), instead);
    const auto read = memory_from_json(text);
    return read ? std::string("read") : read.error().text;
  };
  EXPECT_EQ(fault("\"kept\":1200", "\"kept\":\"x\""), "meters[0].limit.kept is not a whole number");
  EXPECT_EQ(fault("\"kept\":1200", "\"kept\":1.5"), "meters[0].limit.kept is not a whole number");
  EXPECT_EQ(fault("[50,7]", "[50]"), "meters[0].charges[0] is not [seconds ago, amount]");
  EXPECT_EQ(fault("\"total_tokens\"", "\"apples\""), "meters[1].unit is not a unit");
  EXPECT_EQ(fault("\"fedcba", "\"zzz"), "callers[0].key is not a hexadecimal number");
  EXPECT_EQ(fault("[694,65535]", "[694,65536]"),
            "deployments[0].calls.buckets[1] is not [bucket, count]");
  EXPECT_EQ(fault("\"weir state\"", "\"other\""), "its \"format\" is not \"weir state\"");
  EXPECT_EQ(fault("\"version\":1", "\"version\":2"),
            "its \"version\" is not 1, which this program writes");
  EXPECT_EQ(fault("\"complete\":true", "\"complete\":1"), "complete is not true or false");
  EXPECT_EQ(fault("\"amount\":2000", "\"from_later\":[1],\"amount\":2000"), "read");
}

}  // namespace
}  // namespace weir::stores
