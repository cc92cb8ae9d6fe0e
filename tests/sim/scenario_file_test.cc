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

constexpr const char* kAccount =
    "scenario: account\n"
    "horizon: 4m\n"
    "arrivals: {per_second: 2}\n"
    "day_phase: 2h\n"
    "rules:\n"
    "  - {unit: requests, amount: 300, window: 60s, enforce: counter}\n"
    "  - {unit: requests, amount: 6, window: 1s, enforce: leaky, burst: 3}\n"
    "growth: [{of: requests, ratio: 3, per: 5s, floor: 15, look_back: 2m, wander: 5%}]\n"
    "steps:\n"
    "  - at: 2m\n"
    "    rules:\n"
    "      - {unit: requests, amount: 150, window: 60s, enforce: counter}\n"
    "      - {unit: requests, amount: 3, window: 1s, enforce: leaky, burst: 3}\n"
    "other: {per_second: 0.5, swings_to: 2, period: 1m, input_tokens: {mean: 10, sigma: 0.1},\n"
    "        output_tokens: {mean: 20}, names_maximum: true, retries: true, retry_after: 2s,\n"
    "        attempts: 3, from: 10s, until: 3m}\n"
    "wait: {longest: 20s, for: any, depth: 7}\n"
    "headers: {style: anthropic, share: 50%, remaining: zero, cached: 5s, raised_at: 1m,\n"
    "          raised_by: 3}\n";

TEST_F(ScenarioFile, EveryKeyOfTheAccountIsRead) {
  const auto set = load_scenarios(write(kAccount));
  ASSERT_TRUE(set.has_value()) << set.error().text;
  const Scenario& world = set->scenarios.front();
  EXPECT_EQ(world.provider.rules[0].enforce, Enforcement::counter);
  EXPECT_EQ(world.provider.rules[1].enforce, Enforcement::leaky);
  EXPECT_EQ(world.provider.day_phase, std::chrono::hours(2));
  ASSERT_EQ(world.provider.growth.size(), 1U);
  EXPECT_EQ(world.provider.growth[0].ratio, 3);
  EXPECT_EQ(world.provider.growth[0].floor, 15);
  EXPECT_EQ(world.provider.growth[0].wander, 0.05);
  ASSERT_EQ(world.steps.size(), 1U);
  EXPECT_EQ(world.steps[0].at, std::chrono::minutes(2));
  EXPECT_EQ(world.steps[0].rules[0].amount, 150);
  EXPECT_EQ(world.other.swings_to, 2);
  EXPECT_EQ(world.other.output_mean, 20);
  EXPECT_TRUE(world.other.names_maximum && world.other.retries);
  EXPECT_EQ(world.other.attempts, 3);
  EXPECT_EQ(world.other.until, std::chrono::minutes(3));
  EXPECT_EQ(world.wait.longest, std::chrono::seconds(20));
  EXPECT_EQ(world.wait.what, emulator::model::WaitsFor::any);
  EXPECT_EQ(world.wait.depth, 7);
  EXPECT_TRUE(world.headers);
  EXPECT_EQ(world.header_quirks.style, HeaderStyle::anthropic);
  EXPECT_EQ(world.header_quirks.remaining, RemainingSays::zero);
  EXPECT_EQ(world.header_quirks.raised_by, 3);
}

TEST_F(ScenarioFile, EveryKeyOfClientsClockAndWayIsRead) {
  const auto set = load_scenarios(
      write("scenario: x\n"
            "workload: {tenants: 2, bytes_per_token: 3}\n"
            "network: {delay: 10ms, jitter: 20ms}\n"
            "flows:\n"
            "  one: {arrivals: {per_second: 2}}\n"
            "  two: {first_tenant: 0, workload: {tenants: 5}, arrivals: {per_second: 1}}\n"
            "network_steps: [{at: 5s, jitter: 500ms}, {at: 9s, delay: 1ms}]\n"
            "clock_steps: [{at: 1s, ahead: 5s}, {at: 2s, behind: 3s}]\n"
            "refusals: {delay: 10s, jitter: 20s, stray: 2%}\n"
            "rules: [{unit: requests, amount: 60, window: 60s, enforce: sliding}]\n"
            "goals: {min_share: 80%, jain: 99%, served: 50%, refusals: 12, p99_wait: 3s}\n"));
  ASSERT_TRUE(set.has_value()) << set.error().text;
  const Scenario& world = set->scenarios.front();
  ASSERT_EQ(world.flows.size(), 2U);
  EXPECT_EQ(world.flows[0].workload.bytes_per_token, 3);
  EXPECT_EQ(tenants_of(world), 5U);
  EXPECT_EQ(world.network_steps[1].network.jitter, std::chrono::milliseconds(500));
  EXPECT_EQ(world.network_steps[1].network.delay, std::chrono::milliseconds(1));
  EXPECT_EQ(world.clock_steps[0].by, std::chrono::seconds(5));
  EXPECT_EQ(world.clock_steps[1].by, std::chrono::seconds(-3));
  EXPECT_EQ(world.refusals.jitter, std::chrono::seconds(20));
  EXPECT_DOUBLE_EQ(world.refusals.stray, 0.02);
  EXPECT_DOUBLE_EQ(*world.goals.min_share, 0.8);
  EXPECT_EQ(world.goals.max_429s, 12);
  EXPECT_EQ(world.goals.max_p99, std::chrono::seconds(3));
  const Report report = run(world, 1);
  EXPECT_EQ(report.digest, run(world, 1).digest);
  EXPECT_EQ(report.fairness.tenants, 5U);
  const auto wrong = load_scenarios(write("scenario: x\nflows: {one: {first_tenant: 1}}\n"));
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().text.find("flows.one has no arrivals"), std::string::npos)
      << wrong.error().text;
}

TEST_F(ScenarioFile, AWorldWithEverythingOfTheAccountRunsToItsEnd) {
  const auto set = load_scenarios(write(kAccount));
  ASSERT_TRUE(set.has_value()) << set.error().text;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Report report = run(set->scenarios.front(), seed);
    EXPECT_EQ(report.violations.count(), 0) << report.violations.first().front();
    EXPECT_EQ(report.digest, run(set->scenarios.front(), seed).digest);
    EXPECT_GT(report.books.served, 100);
  }
}

TEST_F(ScenarioFile, FaultsOfTheAccountNameTheirPlaceAndFix) {
  const auto set =
      load_scenarios(write("scenario: x\n"
                           "rules: [{unit: requests, amount: 5, window: 60s}]\n"
                           "growth:\n"
                           "  - {of: requests, ratio: 0.5, per: 0s, wander: 95%}\n"
                           "  - {of: concurrency}\n"
                           "steps:\n"
                           "  - {at: 5m, rules: [{unit: requests, amount: 5, window: 10s}]}\n"
                           "  - {at: 4m}\n"
                           "other: {per_second: 1, swings_to: 3, rate: 2}\n"
                           "wait: {longest: 3s, for: all}\n"
                           "headers: {style: azure}\n"
                           "goals: {of_window: 99%, p99_over_fifo: 1s}\n"));
  ASSERT_FALSE(set.has_value());
  const std::string& text = set.error().text;
  for (const char* part :
       {":4:5: growth[1].ratio is below 1; write ratio: 2",
        ":4:5: growth[1].per is not above 0; write per: 10s",
        ":4:5: growth[1].wander is above 90%; write wander: 10%",
        ":5:10: growth[2].of is not known",
        ":8:5: steps[2].rules is missing; write all rules as they are from then on",
        ":8:5: steps[2] begins before the step ahead of it; sort the steps by `at`",
        "steps does not keep the units, windows, enforcement and counting of the rules; repeat "
        "every rule in its order and change amounts only",
        "other.rate is not a known key", ":9:35: other.swings_to has no period; write period: 20m",
        ":10:26: wait.for is not known", ":11:18: headers.style is not known",
        "goals compares with a packer that knows neither steps nor another consumer; leave "
        "use_of_fifo and p99_over_fifo out",
        "goals asks for a share of windows that another consumer fills too; leave of_window out"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
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
