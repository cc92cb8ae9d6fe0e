// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "telemetry/json_writer.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace weir::telemetry {
namespace {

TEST(JsonWriter, PlacesCommasAndEscapes) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("a", std::int64_t{1}).key("b").begin_array();
  json.text("x\"\\\n\x01").null().boolean(true).begin_object().end_object().end_array();
  json.member("c", 0.5).member_or_null("d", "").end_object();
  EXPECT_EQ(out, R"({"a":1,"b":["x\"\\\n\u0001",null,true,{}],"c":0.5,"d":null})");
}

TEST(JsonWriter, ReplacesWhatIsNotUtf8) {
  std::string out;
  append_json_escaped(out, "\xc3\xa9\xff\xed\xa0\x80z");
  EXPECT_EQ(out, "\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffdz");
}

TEST(JsonWriter, NotFiniteIsNull) {
  std::string out;
  JsonWriter(out).real(1.0 / 0.0);
  EXPECT_EQ(out, "null");
}

TEST(Metrics, RendersPrometheusText) {
  Registry registry;
  auto& requests = registry.counter("weir_requests_total", "Requests.", {"deployment", "class"});
  requests.with({"a\"b\\c\nd", "batch"}).add(3);
  registry.gauge("weir_depth", "Depth.", {}).with({}).set(2.5);
  static constexpr double kBounds[] = {0.1, 1.0};
  auto& histogram = registry.histogram("weir_wait_seconds", "Wait.", {"class"}, kBounds);
  histogram.with({"x"}).observe(0.1);
  histogram.with({"x"}).observe(0.5);
  histogram.with({"x"}).observe(5.0);
  std::string text;
  registry.render(text);
  EXPECT_EQ(text,
            "# HELP weir_requests_total Requests.\n# TYPE weir_requests_total counter\n"
            "weir_requests_total{deployment=\"a\\\"b\\\\c\\nd\",class=\"batch\"} 3\n"
            "# HELP weir_depth Depth.\n# TYPE weir_depth gauge\nweir_depth 2.5\n"
            "# HELP weir_wait_seconds Wait.\n# TYPE weir_wait_seconds histogram\n"
            "weir_wait_seconds_bucket{class=\"x\",le=\"0.1\"} 1\n"
            "weir_wait_seconds_bucket{class=\"x\",le=\"1\"} 2\n"
            "weir_wait_seconds_bucket{class=\"x\",le=\"+Inf\"} 3\n"
            "weir_wait_seconds_sum{class=\"x\"} 5.6\nweir_wait_seconds_count{class=\"x\"} 3\n");
}

TEST(Metrics, T127_SeriesAreBounded) {
  Family<Counter> family("weir_x_total", "X.", {"tenant"}, {}, 10);
  for (int i = 0; i < 1000; ++i) family.with({std::to_string(i)}).add();
  EXPECT_EQ(family.size(), 11U);
  EXPECT_EQ(family.with({"999"}).value(), 990);
}

TEST(Log, WritesOneJsonObjectPerLine) {
  std::vector<std::string> lines;
  const auto log =
      Log::to([&](std::string_view line) { lines.emplace_back(line); }, LogLevel::info);
  log->write(LogLevel::debug, "hidden");
  log->write(LogLevel::warn, "config_reload_failed",
             {{"file", "a\nb"}, {"faults", std::int64_t{2}}, {"kept", true}});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(
      lines[0],
      R"({"level":"warn","event":"config_reload_failed","file":"a\nb","faults":2,"kept":true})");
}

TEST(Log, CutsLongValues) {
  std::string line;
  const auto log = Log::to([&](std::string_view text) { line = text; }, LogLevel::info);
  const std::string long_value(100'000, 'x');
  log->write(LogLevel::info, "e", {{"v", std::string_view(long_value)}});
  EXPECT_LT(line.size(), 2000U);
}

TEST(Log, LevelsHaveNames) {
  EXPECT_EQ(parse_log_level("warn"), LogLevel::warn);
  EXPECT_FALSE(parse_log_level("loud").has_value());
}

TEST(LogBudget, BoundsLinesPerSecond) {
  LogBudget budget(2);
  const Instant start{std::chrono::seconds(5)};
  EXPECT_TRUE(budget.take(start));
  EXPECT_TRUE(budget.take(start));
  EXPECT_FALSE(budget.take(start + std::chrono::milliseconds(999)));
  EXPECT_TRUE(budget.take(start + std::chrono::seconds(1)));
  EXPECT_EQ(budget.take_suppressed(), 1);
  EXPECT_EQ(budget.take_suppressed(), 0);
}

}  // namespace
}  // namespace weir::telemetry
