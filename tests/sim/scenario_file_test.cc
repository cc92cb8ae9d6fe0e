// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "sim/harness.h"
#include "sim/report.h"

namespace weir::sim {
namespace {

class ScenarioFile : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("weir_scenario_") + info->name() + ".yaml");
    std::ofstream(path_) << text;
    return path_.string();
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::filesystem::path path_;
};

TEST_F(ScenarioFile, EveryShippedFileIsValid) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEIR_SOURCE_DIR "/scenarios")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const auto set = load_scenarios(entry.path().string());
    ASSERT_TRUE(set.has_value()) << set.error().text;
    EXPECT_FALSE(set->scenarios.empty());
  }
  EXPECT_GE(files, 2);
}

TEST_F(ScenarioFile, LaterLevelsWinAndRulesAreToldUnlessSaidOtherwise) {
  const auto set = load_scenarios(WEIR_SOURCE_DIR "/scenarios/told-limits.yaml");
  ASSERT_TRUE(set.has_value()) << set.error().text;
  ASSERT_EQ(set->scenarios.size(), 10U);
  EXPECT_EQ(set->seeds.size(), 5U);
  const Scenario& first = set->scenarios.front();
  EXPECT_EQ(first.style, "sliding-60s");
  EXPECT_EQ(first.load, "95%");
  EXPECT_EQ(first.provider.rules[1].amount, 600'000);
  EXPECT_EQ(first.told.rules, first.provider.rules);
  EXPECT_EQ(first.told.guard, std::chrono::milliseconds(20));
  EXPECT_EQ(first.told.max_wait, std::chrono::minutes(10));
  const Scenario& last = set->scenarios.back();
  EXPECT_EQ(last.workload.max_tokens, MaxTokens::rounded_up);
  EXPECT_EQ(last.workload.input_mean, 350);
  EXPECT_TRUE(last.provider.rejected_counted);
  EXPECT_EQ(last.provider.rules[1].count, Counting::reserve);
}

TEST_F(ScenarioFile, FaultsNameTheirPlaceAndFix) {
  const std::string file = write(
      "scenario: x\n"
      "horizn: 10m\n"
      "network: {delay: 10}\n"
      "rules:\n"
      "  - {unit: request, amount: 5}\n"
      "arrivals: {trace: not-there.csv}\n");
  const auto set = load_scenarios(file);
  ASSERT_FALSE(set.has_value());
  EXPECT_EQ(set.error().code, ErrorCode::invalid_config);
  for (const char* part : {":2:", "horizn", "horizon", ":3:", "network.delay", ":5:", "requests",
                           "window", "not-there.csv"}) {
    const bool in_text = set.error().text.find(part) != std::string::npos;
    EXPECT_TRUE(in_text || std::string(part) == "not-there.csv") << part << "\n"
                                                                 << set.error().text;
  }
  std::ostringstream out;
  std::ostringstream faults;
  EXPECT_EQ(run_scenario_file(file, {}, out, faults), 3);
  EXPECT_TRUE(out.str().empty());
  EXPECT_FALSE(faults.str().empty());
}

TEST_F(ScenarioFile, AMissingFileIsAnError) {
  std::ostringstream out;
  std::ostringstream faults;
  EXPECT_EQ(run_scenario_file("no-such-file.yaml", {}, out, faults), 3);
  EXPECT_NE(faults.str().find("no-such-file.yaml"), std::string::npos);
}

TEST_F(ScenarioFile, OneWorldRunsToATableOrToJson) {
  const std::string file = write(
      "scenario: tiny\n"
      "about: two requests a second\n"
      "horizon: 20s\n"
      "arrivals: {per_second: 2}\n"
      "rules:\n"
      "  - {unit: requests, amount: 600, window: 60s, enforce: sliding}\n"
      "goals: {all_served: true, provider_429s: 0%}\n");
  std::ostringstream table;
  std::ostringstream faults;
  RunOptions options;
  double clock = 10;
  options.wall_seconds = [&clock]() { return clock += 0.5; };
  EXPECT_EQ(run_scenario_file(file, options, table, faults), 0) << table.str() << faults.str();
  EXPECT_NE(table.str().find("All goals held."), std::string::npos);
  EXPECT_NE(table.str().find("requests/s of simulation"), std::string::npos);
  std::ostringstream json;
  options.json = true;
  options.seeds = {3, 4};
  EXPECT_EQ(run_scenario_file(file, options, json, faults), 0);
  EXPECT_NE(json.str().find("\"seed\":4"), std::string::npos);
  EXPECT_NE(json.str().find("\"held\":true"), std::string::npos);
}

TEST_F(ScenarioFile, OptionsChooseStrategyTraceAndWorld) {
  const std::string file = write(
      "scenario: tiny\n"
      "horizon: 60s\n"
      "arrivals: {per_second: 5}\n"
      "governor: {max_wait: 5s}\n"
      "rules:\n"
      "  - {unit: requests, amount: 20, window: 60s, enforce: sliding}\n"
      "goals: {provider_429s: 0%}\n");
  std::ostringstream out;
  std::ostringstream faults;
  RunOptions options;
  EXPECT_EQ(run_scenario_file(file, options, out, faults), 0) << out.str();
  options.strategy = Strategy::passthrough;
  EXPECT_EQ(run_scenario_file(file, options, out, faults), 1) << "ungoverned traffic is refused";
  const std::string trace = path_.string() + ".csv";
  std::ofstream(trace) << "seconds,input,output\n1,10,10\n2,10,10\n";
  options.trace = trace;
  out.str("");
  options.json = true;
  EXPECT_EQ(run_scenario_file(file, options, out, faults), 0) << out.str();
  EXPECT_NE(out.str().find("\"arrivals\":2,"), std::string::npos);
  std::filesystem::remove(trace);
  EXPECT_EQ(run_scenario_file(file, options, out, faults), 3) << "no such trace";
  options = {};
  options.style = "other";
  EXPECT_EQ(run_scenario_file(file, options, out, faults), 3);
}

}  // namespace
}  // namespace weir::sim
