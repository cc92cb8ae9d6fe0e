// SPDX-License-Identifier: Apache-2.0
// How well the estimator foresees the outputs of the shipped traces.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "sim/estimates.h"
#include "sim/workload.h"

namespace weir::sim {
namespace {

class Estimates : public testing::TestWithParam<const char*> {
 protected:
  static std::vector<TraceRow> rows(const std::string& name) {
    std::ifstream file(WEIR_SOURCE_DIR "/scenarios/traces/" + name);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    auto parsed = parse_trace(text);
    EXPECT_TRUE(parsed.has_value());
    return parsed ? *parsed : std::vector<TraceRow>{};
  }
};

TEST_P(Estimates, CoverageAndBiasAreWithinTheirGoals) {
  const std::vector<TraceRow> trace = rows(GetParam());
  ASSERT_GT(trace.size(), 8000U);
  const TraceEstimates measured = replay_estimates(trace);
  SCOPED_TRACE(estimates_table(measured));
  std::printf("%s\n%s\n", GetParam(), estimates_table(measured).c_str());
  EXPECT_EQ(measured.calls, std::ssize(trace));
  EXPECT_GE(measured.blocks, 8);
  EXPECT_LE(static_cast<double>(measured.blocks_off), 0.1 * static_cast<double>(measured.blocks));
  // Reasoning answers of up to 800 s: in the first minutes only the short ones are known, which
  // stays in the sum over half an hour. Learned at once (below) they are within the goal too.
  const bool reasoning = std::string(GetParam()).find("r1") != std::string::npos;
  EXPECT_LE(std::fabs(measured.bias), reasoning ? 0.06 : 0.01);
  for (const KeyEstimates& key : measured.keys) {
    if (key.blocks == 0) continue;
    EXPECT_LE(std::fabs(key.bias), 0.02) << key.tenant;
  }
  EXPECT_EQ(measured.missed().size(), reasoning ? 1U : 0U);
}
INSTANTIATE_TEST_SUITE_P(Traces, Estimates,
                         testing::Values("azure2023_conv.csv", "azure2023_code.csv",
                                         "servegen_mlarge_39tenants_30min.csv",
                                         "servegen_r1_30tenants_30min.csv"),
                         [](const auto& about) {
                           const std::string name = about.param;
                           std::string plain;
                           for (const char each : name.substr(0, name.find('.'))) {
                             if (each != '_') plain += each;
                           }
                           return plain;
                         });

TEST_P(Estimates, AreUnbiasedFromTheFirstCallOnWhereAnswersEndAtOnce) {
  const TraceEstimates measured = replay_estimates(rows(GetParam()), true);
  std::printf("%s, learned at once: bias %.2f %%, worst key %.2f %%, %d of %d blocks off\n",
              GetParam(), 100 * measured.bias, 100 * measured.worst_bias,
              static_cast<int>(measured.blocks_off), static_cast<int>(measured.blocks));
  EXPECT_LE(std::fabs(measured.bias), 0.01);
  EXPECT_LE(std::fabs(measured.worst_bias), 0.02);
  EXPECT_LE(static_cast<double>(measured.blocks_off), 0.1 * static_cast<double>(measured.blocks));
}

TEST_F(Estimates, AreJudgedByWhatTheyMiss) {
  // Answers that grow faster than anything learned from the past.
  std::vector<TraceRow> growing;
  for (int i = 0; i < 3000; ++i) {
    TraceRow row;
    row.at = std::chrono::seconds(i);
    row.output_tokens = 1 + static_cast<std::int64_t>(std::pow(1.004, i));
    growing.push_back(row);
  }
  const TraceEstimates measured = replay_estimates(growing);
  EXPECT_LT(measured.bias, -0.1);
  EXPECT_EQ(measured.missed().size(), 3U) << "coverage, the whole's bias and the only key's";
  EXPECT_TRUE(replay_estimates({}).missed().empty());
}

}  // namespace
}  // namespace weir::sim
