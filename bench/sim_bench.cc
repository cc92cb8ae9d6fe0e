// SPDX-License-Identifier: Apache-2.0
// How many requests a second of processor time the simulator plays, by kind of world:
//   weir_bench_sim scenarios
//   perf stat -e instructions:u weir_bench_sim scenarios openai    # only worlds of this name
#include <fmt/core.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "sim/harness.h"

namespace {

struct World {
  std::string_view file, style, load, what;
};

// Tokens that count as they are produced are looked at five times a second while an answer runs, so
// such a world has many more steps for a request than the others.
constexpr World kWorlds[] = {
    {"told-limits.yaml", "openai", "200%", "requests scarce, twice the load"},
    {"told-limits.yaml", "sliding-60s", "95%", "requests scarce, all served"},
    {"token-bound.yaml", "chat-settle", "", "tokens scarce, counted at the end"},
    {"token-bound.yaml", "chat-realtime", "", "tokens scarce, counted as produced"},
    {"token-bound.yaml", "reasoning-realtime", "", "the same with long answers"},
};
constexpr double kLeastSeconds = 1;

double processor_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

void play(const weir::sim::Scenario& scenario, std::string_view what) {
  std::int64_t requests = 0;
  std::int64_t steps = 0;
  const double start = processor_seconds();
  double spent = 0;
  for (std::uint64_t seed = 1; spent < kLeastSeconds; ++seed) {
    const weir::sim::Report report = weir::sim::run(scenario, seed);
    requests += report.books.arrivals;
    steps += report.events;
    spent = processor_seconds() - start;
  }
  const auto of = [](std::int64_t count) { return static_cast<double>(count); };
  fmt::print("{:<20}{:<8}{:>10.0f} requests/s {:>7.1f} steps/request {:>6.0f} ns/step  {}\n",
             scenario.style, scenario.load, of(requests) / spent, of(steps) / of(requests),
             spent * 1e9 / of(steps), what);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "usage: weir_bench_sim SCENARIOS-FOLDER [STYLE]\n");
    return 2;
  }
  for (const World& world : kWorlds) {
    if (count > 2 && world.style != arguments[2]) continue;
    const std::string path = fmt::format("{}/{}", arguments[1], world.file);
    const auto loaded = weir::sim::load_scenarios(path);
    if (!loaded) {
      fmt::print(stderr, "{}", loaded.error().text);
      return 3;
    }
    for (const weir::sim::Scenario& scenario : loaded->scenarios) {
      if (scenario.style == world.style && scenario.load == world.load) play(scenario, world.what);
    }
  }
  return 0;
}
