// SPDX-License-Identifier: Apache-2.0
#include "sim/compare.h"
#include "sim/ablations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sim/harness.h"
#include "sim/html_report.h"

namespace weir::sim {
namespace {

const std::string kFile = WEIR_SOURCE_DIR "/scenarios/strategies.yaml";

/// One comparison of a short world, shared by the tests that only read it.
const Comparison& short_comparison() {
  static const Comparison compared = [] {
    auto set = load_scenarios(kFile);
    EXPECT_TRUE(set.has_value());
    std::vector<Scenario> worlds;
    for (const Scenario& scenario : set->scenarios) {
      if (scenario.style != "sliding-60s" && scenario.style != "openai") continue;
      worlds.push_back(scenario);
      worlds.back().horizon = std::chrono::minutes(4);
      worlds.back().measure_from = std::chrono::minutes(1);
    }
    CompareOptions options;
    options.seeds = {1};
    return *compare("short", "a \"quoted\" <about>", worlds, options);
  }();
  return compared;
}

using Figures = std::map<std::string, double>;

/// What stands between `before` and `after`, moving `at` behind it; npos in `at`: no more.
std::string between(const std::string& text, const std::string& before, const std::string& after,
                    std::size_t& at) {
  const std::size_t from = text.find(before, at);
  const std::size_t until =
      from == std::string::npos ? from : text.find(after, from + before.size());
  at = until == std::string::npos ? until : until + after.size();
  if (until == std::string::npos) return {};
  return text.substr(from + before.size(), until - from - before.size());
}

/// Cells of the JSON: members with a number.
std::map<std::string, Figures> figures_in_json(const std::string& json) {
  std::map<std::string, Figures> cells;
  for (std::size_t at = 0;;) {
    const std::string cell = between(json, R"({"style":)", "}", at);
    if (at == std::string::npos) return cells;
    std::size_t inside = 0;
    std::string where = between(cell, "\"", "\"", inside);
    where += "|" + between(cell, R"("load":")", "\"", inside);
    where += "|" + between(cell, R"("strategy":")", "\"", inside);
    while (true) {
      const std::string key = between(cell, R"(,")", R"(":)", inside);
      if (inside == std::string::npos) break;
      char* end = nullptr;
      const double value = std::strtod(cell.c_str() + inside, &end);
      if (end != cell.c_str() + inside) cells[where][key] = value;
    }
  }
}

/// Rows of the page's tables.
std::map<std::string, Figures> figures_in_page(const std::string& html) {
  std::map<std::string, Figures> cells;
  for (std::size_t at = 0;;) {
    const std::string row = between(html, "<tr data-style=", "</tr>", at);
    if (at == std::string::npos) return cells;
    std::size_t inside = 0;
    std::string where = between(row, "\"", "\"", inside);
    where += "|" + between(row, "data-load=\"", "\"", inside);
    where += "|" + between(row, "data-strategy=\"", "\"", inside);
    while (true) {
      const std::string key = between(row, "data-key=\"", "\"", inside);
      if (inside == std::string::npos) break;
      cells[where][key] = std::stod(between(row, "data-value=\"", "\"", inside));
    }
  }
}

TEST(Compare, ThePageShowsTheFiguresOfTheJson) {
  const auto json = figures_in_json(compare_json(short_comparison()));
  const auto page = figures_in_page(compare_html(short_comparison()));
  ASSERT_EQ(json.size(), 2U * 6U * 8U);
  ASSERT_EQ(page.size(), json.size());
  for (const auto& [where, figures] : page) {
    ASSERT_TRUE(json.contains(where)) << where;
    EXPECT_GE(figures.size(), 9U);
    for (const auto& [key, value] : figures) {
      ASSERT_TRUE(json.at(where).contains(key)) << where << " " << key;
      EXPECT_EQ(json.at(where).at(key), value) << where << " " << key;
    }
  }
}

TEST(Compare, ThePageStandsAloneAndCanBeReadWithoutItsPictures) {
  const std::string html = compare_html(short_comparison());
  for (const char* outside : {"http:", "https:", "<script", "<link", "@import", "url(", "src="}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(html.find("<html lang=\"en\">"), std::string::npos);
  EXPECT_NE(html.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(html.find("&quot;quoted&quot; &lt;about&gt;"), std::string::npos);
  const auto count = [&](const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = html.find(what); at != std::string::npos; at = html.find(what, at + 1)) {
      ++found;
    }
    return found;
  };
  // Four charts and a strip for each strategy, of each style; every drawing has a title.
  EXPECT_EQ(count("role=\"img\"><title>"), 2U * (4U + 8U));
  EXPECT_EQ(count("role=\"img\""), count("role=\"img\"><title>"));
  EXPECT_EQ(count("<table>"), 2U);
  for (const char* tag : {"svg", "figure", "section", "table", "tr", "g", "ul", "div"}) {
    const std::string name = tag;
    EXPECT_EQ(count("<" + name + ">") + count("<" + name + " "), count("</" + name + ">")) << tag;
  }
}

TEST(Compare, NobodyBeatsTheOracleAndTheGovernorIsNotRefused) {
  const Comparison& compared = short_comparison();
  EXPECT_EQ(compared.faults(), std::vector<std::string>{});
  for (const Cell& cell : compared.cells) {
    EXPECT_LE(cell.use, cell.ceiling) << cell.strategy << cell.load;
    EXPECT_LE(cell.served, cell.calls);
    EXPECT_TRUE(cell.strategy != "weir" || cell.rejected == 0) << cell.style << cell.load;
    EXPECT_EQ(cell.series.empty(), cell.load != compared.pictured_load);
    EXPECT_LE(cell.series.size(), Recording::kMaxPoints);
  }
  const Cell* weir = compared.find("sliding-60s", "120%", "weir");
  const Cell* none = compared.find("sliding-60s", "120%", "none");
  const Cell* retry = compared.find("sliding-60s", "120%", "retry-jitter");
  ASSERT_TRUE(weir != nullptr && none != nullptr && retry != nullptr);
  EXPECT_GT(weir->success(), none->success());
  EXPECT_GT(retry->share_429(), none->share_429()) << "retries meet the same full window";
}

TEST(Compare, AStrategyAboveTheCeilingIsAFaultWithItsName) {
  Comparison compared;
  Cell cell;
  cell.style = "sliding-60s";
  cell.load = "120%";
  cell.strategy = "hope";
  cell.use = 1.2;
  cell.ceiling = 1.0;
  cell.beats_ceiling = true;
  compared.cells.push_back(cell);
  ASSERT_EQ(compared.faults().size(), 1U);
  EXPECT_NE(compared.faults().front().find("hope at sliding-60s 120% beats its oracle"),
            std::string::npos);
}

TEST(Compare, TheRecordingAgreesWithTheHarness) {
  auto set = load_scenarios(kFile);
  ASSERT_TRUE(set.has_value());
  Scenario world = set->scenarios.front();
  world.horizon = std::chrono::minutes(4);
  set_load(world, 1.5);
  Recording recording(world);
  const Report report = run(world, 2, recorded(direct_port(), recording));
  const Report plain = run(world, 2);
  EXPECT_EQ(report.digest, plain.digest) << "watching changes nothing";
  EXPECT_EQ(recording.waits().size(), static_cast<std::size_t>(report.books.served));
  EXPECT_EQ(sum_up(recording.waits()).p99, plain.waits.p99) << "none was retried";
  double most = 0;
  for (const SeriesPoint& point : recording.series()) most = std::max(most, point.window_share);
  EXPECT_NEAR(most, report.worst_window, 0.02);
}

TEST(Compare, AblationsAreContendersOfTheirOwn) {
  EXPECT_EQ(find_ablation("no-luck"), nullptr);
  auto set = load_scenarios(kFile);
  ASSERT_TRUE(set.has_value());
  Scenario world = set->scenarios.front();
  ASSERT_EQ(world.style, "sliding-60s");
  world.horizon = std::chrono::minutes(5);
  set_load(world, 2);
  CompareOptions options;
  options.seeds = {1};
  options.load = "200%";
  options.ablations = {"no-guard", "no-settlement"};
  const auto compared = compare("ablations", "", {world}, options);
  ASSERT_TRUE(compared.has_value());
  ASSERT_EQ(compared->cells.size(), 10U);
  EXPECT_EQ(compared->cells[7].rejected, 0);
  EXPECT_GT(compared->cells[8].rejected, 0) << "the guard is what keeps jitter from being refused";
  options.load = "55%";
  EXPECT_FALSE(compare("ablations", "", {world}, options).has_value());
}

/// Each part earns its place where it is needed: the mirror against windows, filling in behind
/// large calls, brackets where a limit is not known.
TEST(Compare, AnAblationIsWorseWhereThePartIsNeeded) {
  auto set = load_scenarios("scenarios/ablations.yaml");
  ASSERT_TRUE(set.has_value());
  CompareOptions options;
  options.seeds = {1};
  const auto run = [&](const char* load, const std::string& ablation) {
    options.load = load;
    options.ablations = {ablation};
    return *compare("ablations", "", set->scenarios, options);
  };
  const auto cell = [](const Comparison& of, const char* style, const std::string& strategy) {
    const Cell* found = of.find(style, of.loads.front(), strategy);
    EXPECT_NE(found, nullptr) << style << " " << strategy;
    return found == nullptr ? Cell{} : *found;
  };
  const Comparison mirror = run("150%", "no-mirror");
  for (const char* style : {"fixed-window", "long-context"}) {
    EXPECT_EQ(cell(mirror, style, "weir").rejected, 0) << style;
    EXPECT_GT(cell(mirror, style, "weir no-mirror").share_429(), 0.001) << style;
  }
  const Comparison aimd = run("150%", "aimd");
  EXPECT_LT(cell(aimd, "hidden", "weir").share_429() * 2,
            cell(aimd, "hidden", "weir aimd").share_429());
  EXPECT_GT(cell(aimd, "hidden", "weir").use, cell(aimd, "hidden", "weir aimd").use + 0.1);
  const Comparison fifo = run("95%", "fifo");
  EXPECT_LT(cell(fifo, "long-context", "weir").p50_s * 2,
            cell(fifo, "long-context", "weir fifo").p50_s);
}

TEST(Compare, TheCommandWritesTheSameTwiceAndThePageBesideIt) {
  const auto path = std::filesystem::path(testing::TempDir()) / "weir_compare_test.html";
  RunOptions options;
  options.compare = true;
  options.json = true;
  options.style = "fixed-10s";
  options.load = "120%";
  options.report = path.string();
  std::ostringstream first, second, faults;
  EXPECT_EQ(run_scenario_file(kFile, options, first, faults), 0) << faults.str();
  std::ifstream in(path);
  const std::string page{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_NE(page.find("</html>"), std::string::npos);
  EXPECT_EQ(run_scenario_file(kFile, options, second, faults), 0);
  EXPECT_EQ(first.str(), second.str());
  std::filesystem::remove(path);
  options.report = testing::TempDir() + "/not/there.html";
  EXPECT_EQ(run_scenario_file(kFile, options, second, faults), 1);
  EXPECT_NE(faults.str().find("cannot be written"), std::string::npos);
}

}  // namespace
}  // namespace weir::sim
