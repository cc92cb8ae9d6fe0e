// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <ostream>
#include <utility>

#include "sim/compare.h"
#include "sim/harness.h"
#include "sim/html_report.h"
#include "sim/report.h"
#include "sim/workload.h"

namespace weir::sim {
namespace {

/// Leaves the worlds that were asked for, changed as asked for.
Result<void> choose(const RunOptions& options, std::vector<Scenario>& scenarios) {
  std::erase_if(scenarios, [&](const Scenario& scenario) {
    return (!options.style.empty() && options.style != scenario.style) ||
           (!options.load.empty() && options.load != scenario.load);
  });
  if (scenarios.empty()) {
    return fail(ErrorCode::not_found,
                "No world of the scenario has that style and load; leave one of them out.");
  }
  if (options.strategy) {
    for (Scenario& scenario : scenarios) scenario.told.strategy = *options.strategy;
  }
  if (options.trace.empty()) return {};
  Result<std::vector<TraceRow>> rows = read_trace(options.trace);
  if (!rows) return fail(rows.error());
  const auto trace = std::make_shared<const std::vector<TraceRow>>(*std::move(rows));
  for (Scenario& scenario : scenarios) scenario.workload.arrivals.trace = trace;
  return {};
}

/// Every strategy beside the governor, and the page where one was asked for.
int run_comparison(const ScenarioSet& set, const std::vector<std::uint64_t>& seeds,
                   const RunOptions& options, std::ostream& out, std::ostream& faults) {
  CompareOptions chosen;
  chosen.seeds = seeds;
  // Six loads and eight strategies make many runs; the file's further seeds are there to be asked.
  if (options.seeds.empty() && !chosen.seeds.empty()) chosen.seeds.resize(1);
  chosen.load = options.load;
  chosen.ablations = options.ablations;
  chosen.progress = options.progress;
  const Result<Comparison> compared = compare(set.name, set.about, set.scenarios, chosen);
  if (!compared) {
    faults << compared.error().text << '\n';
    return 3;
  }
  out << (options.json ? compare_json(*compared) : compare_table(*compared));
  if (!options.report.empty()) {
    std::ofstream page(options.report, std::ios::binary);
    page << compare_html(*compared) << std::flush;
    if (!page) {
      faults << "The page '" << options.report << "' cannot be written; name another file.\n";
      return 1;
    }
  }
  const std::vector<std::string> wrong = compared->faults();
  for (const std::string& one : wrong) faults << one << '\n';
  return wrong.empty() ? 0 : 1;
}

}  // namespace

int run_scenario_file(const std::string& path, const RunOptions& options, std::ostream& out,
                      std::ostream& faults) {
  Result<ScenarioSet> loaded = load_scenarios(path);
  if (!loaded) {
    faults << loaded.error().text << '\n';
    return 3;
  }
  RunOptions of_file = options;
  if (options.compare) of_file.load.clear();  // a comparison has loads of its own
  if (const Result<void> chosen = choose(of_file, loaded->scenarios); !chosen) {
    faults << chosen.error().text << '\n';
    return 3;
  }
  const double start = options.wall_seconds ? options.wall_seconds() : 0;
  const std::vector<std::uint64_t>& seeds = options.seeds.empty() ? loaded->seeds : options.seeds;
  if (options.compare) return run_comparison(*loaded, seeds, options, out, faults);
  std::vector<Report> reports;
  for (const Scenario& scenario : loaded->scenarios) {
    for (const std::uint64_t seed : seeds) reports.push_back(run(scenario, seed));
  }
  RunSummary summary;
  summary.name = loaded->name;
  summary.about = loaded->about;
  if (options.wall_seconds) summary.wall_seconds = options.wall_seconds() - start;
  out << (options.json ? json(summary, reports) : table(summary, reports));
  const bool held = std::all_of(reports.begin(), reports.end(),
                                [](const Report& report) { return report.held(); });
  return held ? 0 : 1;
}

}  // namespace weir::sim
