// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "emulator/model/behaviour.h"
#include "emulator/model/other_consumer.h"
#include "emulator/model/provider_rules.h"
#include "emulator/model/wait_queue.h"
#include "weir/result.h"
#include "weir/rule.h"

namespace weir::emulator {

/// Everything an emulated provider is, as its file says. All times are the provider's own; with a
/// time scale N one of its seconds passes in 1/N of a real one.
struct Settings {
  model::ProviderSettings provider;
  model::LatencySettings latency;
  model::OutputSettings output;
  bool exact_output = false;  ///< answers are as long as the request's maximum, where it has one
  model::FaultSettings faults;
  model::OtherSettings other;       ///< who else uses the account
  model::WaitSettings wait;         ///< its own queue
  Duration wait_unasked{0};         ///< for requests without X-DashScope-Wait-Timeout
  std::vector<std::string> models;  ///< what /v1/models lists; any other name is served too
  bool require_key = false;         ///< an empty bearer is 401
  std::uint64_t seed = 1;
};

struct ReadSettings {
  std::optional<Settings> settings;  ///< absent if there are faults
  std::vector<config::Diagnostic> faults;
};

/// Reads one YAML (or JSON) text. Errors: every fault it can find, with its place.
ReadSettings read_settings(std::string_view text, const std::string& file);

/// The parts that can be changed while running, in the same vocabulary: a list of rules, the
/// `latency` map, the `faults` map. What is absent takes its default.
/// Errors: malformed, with the first fault and how to mend it.
Result<std::vector<Rule>> read_rules(std::string_view text);
Result<model::LatencySettings> read_latency(std::string_view text);
Result<model::FaultSettings> read_faults(std::string_view text);

/// The same parts as JSON that the functions above read back.
std::string rules_json(const std::vector<Rule>& rules);
std::string latency_json(const model::LatencySettings& latency);
std::string faults_json(const model::FaultSettings& faults);

/// docs/reference/emulator.md, made from the table that files are checked against.
std::string emulator_markdown();

}  // namespace weir::emulator
