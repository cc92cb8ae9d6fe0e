// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <ostream>

#include "sim/harness.h"
#include "sim/report.h"

namespace weir::sim {

int run_scenario_file(const std::string& path, const RunOptions& options, std::ostream& out,
                      std::ostream& faults) {
  const Result<ScenarioSet> loaded = load_scenarios(path);
  if (!loaded) {
    faults << loaded.error().text << '\n';
    return 3;
  }
  // The only real time in a simulation: how fast it ran on this machine.
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::uint64_t>& seeds = options.seeds.empty() ? loaded->seeds : options.seeds;
  std::vector<Report> reports;
  for (const Scenario& scenario : loaded->scenarios) {
    if (!options.style.empty() && options.style != scenario.style) continue;
    if (!options.load.empty() && options.load != scenario.load) continue;
    for (const std::uint64_t seed : seeds) reports.push_back(run(scenario, seed));
  }
  if (reports.empty()) {
    faults << "No world of " << path << " has that style and load; leave one of them out.\n";
    return 3;
  }
  RunSummary summary;
  summary.name = loaded->name;
  summary.about = loaded->about;
  summary.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out << (options.json ? json(summary, reports) : table(summary, reports));
  bool held = true;
  for (const Report& report : reports) held = held && report.held();
  return held ? 0 : 1;
}

}  // namespace weir::sim
