// SPDX-License-Identifier: Apache-2.0
//
// The situations that break governors, one file each (scenarios/hard). A goal says what is right.
// What this version misses is listed here, so that a fix shows itself and nothing else may be
// missed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "sim/harness.h"
#include "sim/report.h"

namespace weir::sim {
namespace {

struct Hard {
  const char* file;
  std::set<std::string> missed = {};  ///< "style goal" of any seed
};
void PrintTo(const Hard& hard, std::ostream* out) { *out << hard.file; }

const Hard kHard[] = {
    {"01-waking-tenant"},
    {"02-waking-concurrency"},
    // Nothing learns a limit that was not told.
    {"03-unknown-second", {" refusals"}},
    {"04-strange-429s"},
    {"05-late-refusals", {" 429_share", " use"}},
    {"06-falling-limit", {"halved-twice 429_share", "suspended 429_share"}},
    {"07-naive-neighbour", {" 429_share", " served_share"}},
    {"08-longer-than-the-window"},
    {"09-window-shapes"},
    {"10-as-large-as-the-quantum"},
    // A large head is pinned for itself alone: the next of its tenant is passed anew for
    // eight seconds.
    {"11-many-tenants", {"forger violations"}},
    {"12-costs-shift", {"longer-answers use", "longer-answers violations"}},
    {"13-kept-order", {" violations"}},
    {"14-clock-and-restart", {}},
    // A remaining of 0 that means unknown is believed.
    {"15-lying-headers", {"zero window_share"}},
    {"16-delay-spread"},
    {"17-bursts-below"},
    {"18-settled-abuse", {" use", " violations", " window_ratio"}},
};

class HardScenarios : public testing::TestWithParam<Hard> {};

TEST_P(HardScenarios, MissNothingButWhatIsKnown) {
  const std::string path =
      std::string(WEIR_SOURCE_DIR "/scenarios/hard/") + GetParam().file + ".yaml";
  const auto set = load_scenarios(path);
  ASSERT_TRUE(set.has_value()) << set.error().text;
  std::set<std::string> missed;
  std::vector<Report> reports;
  for (const Scenario& scenario : set->scenarios) {
    for (const std::uint64_t seed : set->seeds) {
      reports.push_back(run(scenario, seed));
      for (const Judgement& one : reports.back().judgements) {
        if (!one.held) missed.insert(scenario.style + " " + one.goal);
      }
    }
  }
  EXPECT_EQ(missed, GetParam().missed) << table({set->name, set->about, 0}, reports);
}

std::string name_of(const testing::TestParamInfo<Hard>& info) {
  std::string name;
  for (const char* at = info.param.file; *at != '\0'; ++at) name += *at == '-' ? '_' : *at;
  return "Nr" + name;
}
INSTANTIATE_TEST_SUITE_P(Files, HardScenarios, testing::ValuesIn(kHard), name_of);

TEST(HardScenariosFolder, HasNoFileThatIsNotRun) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEIR_SOURCE_DIR "/scenarios/hard")) {
    files += entry.path().extension() == ".yaml" ? 1 : 0;
  }
  EXPECT_EQ(files, std::size(kHard));
}

}  // namespace
}  // namespace weir::sim
