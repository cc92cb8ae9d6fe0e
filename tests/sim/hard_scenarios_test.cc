// SPDX-License-Identifier: Apache-2.0
//
// The situations that break governors, one file each (scenarios/hard). A goal says what is right.
// What this version misses is listed here, so that a fix shows itself and nothing else may be
// missed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
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
    {"15-lying-headers"},
    {"16-delay-spread"},
    {"17-bursts-below"},
    {"18-settled-abuse", {" use", " violations", " window_ratio"}},
};

/// The same under strategy adaptive, where something is to be learned.
const Hard kLearned[] = {
    {"03-unknown-second"},
    // A refusal that takes 20 s says where the limit was 20 s ago, and a canary's silence says
    // nothing for 40 s.
    {"05-late-refusals", {" 429_share", " use"}},
    // An account that was closed is found open again up to a minute late.
    {"06-falling-limit", {"suspended served_share"}},
    // A neighbour that retries at once keeps more than half of the account.
    {"07-naive-neighbour", {" served_share"}},
    {"15-lying-headers"},
};

class HardScenarios : public testing::TestWithParam<Hard> {};

void expect_missed(const Hard& hard, std::optional<Strategy> strategy) {
  const std::string path = std::string(WEIR_SOURCE_DIR "/scenarios/hard/") + hard.file + ".yaml";
  auto set = load_scenarios(path);
  ASSERT_TRUE(set.has_value()) << set.error().text;
  std::set<std::string> missed;
  std::vector<Report> reports;
  for (Scenario& scenario : set->scenarios) {
    if (strategy) scenario.told.strategy = *strategy;
    for (const std::uint64_t seed : set->seeds) {
      reports.push_back(run(scenario, seed));
      for (const Judgement& one : reports.back().judgements) {
        if (!one.held) missed.insert(scenario.style + " " + one.goal);
      }
    }
  }
  EXPECT_EQ(missed, hard.missed) << table({set->name, set->about, 0}, reports);
}

std::string name_of(const testing::TestParamInfo<Hard>& info) {
  std::string name;
  for (const char* at = info.param.file; *at != '\0'; ++at) name += *at == '-' ? '_' : *at;
  return "Nr" + name;
}
TEST_P(HardScenarios, MissNothingButWhatIsKnown) { expect_missed(GetParam(), std::nullopt); }
INSTANTIATE_TEST_SUITE_P(Files, HardScenarios, testing::ValuesIn(kHard), name_of);

class LearnedHardScenarios : public testing::TestWithParam<Hard> {};
TEST_P(LearnedHardScenarios, MissNothingButWhatIsKnown) {
  expect_missed(GetParam(), Strategy::adaptive);
}
INSTANTIATE_TEST_SUITE_P(Files, LearnedHardScenarios, testing::ValuesIn(kLearned), name_of);

TEST(HardScenariosFolder, HasNoFileThatIsNotRun) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEIR_SOURCE_DIR "/scenarios/hard")) {
    files += entry.path().extension() == ".yaml" ? 1 : 0;
  }
  EXPECT_EQ(files, std::size(kHard));
}

}  // namespace
}  // namespace weir::sim
