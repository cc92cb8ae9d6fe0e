// SPDX-License-Identifier: Apache-2.0
#include "emulator/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "config/faults.h"
#include "config/quantity.h"
#include "config/schema.h"
#include "config/section.h"
#include "config/yaml_tree.h"

namespace weir::emulator {
namespace {

using config::Field;
using config::Record;
using config::Section;
using config::Type;

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1000 * kMillisecond;
constexpr std::int64_t kDay = 86'400 * kSecond;

constexpr std::string_view kUnits = "requests|input_tokens|output_tokens|total_tokens|concurrency";
constexpr std::string_view kEnforcements = "sliding|fixed|bucket|unknown";
constexpr std::string_view kCountings = "reserve|reserve_refund|settle|realtime|input";

constexpr Field kRule[] = {
    {.key = "unit",
     .type = Type::choice,
     .doc = "What it counts",
     .choices = kUnits,
     .required = true},
    {.key = "amount", .type = Type::count, .doc = "How much of it in the window", .required = true},
    {.key = "per",
     .type = Type::duration,
     .doc = "The window; not for concurrency",
     .low = kMillisecond,
     .high = 366 * kDay},
    {.key = "enforce",
     .type = Type::choice,
     .doc = "How the window moves; unknown: drawn from the seed",
     .fallback = "sliding",
     .choices = kEnforcements},
    {.key = "count",
     .type = Type::choice,
     .doc = "When and what it counts of tokens",
     .fallback = "settle",
     .choices = kCountings},
    {.key = "burst", .type = Type::count, .doc = "Depth of a bucket; absent: the amount", .low = 1},
};
constexpr Record kRuleRecord = {"emulator_rule", "A limit of the emulated provider", kRule};

constexpr Field kLatency[] = {
    {.key = "first_token",
     .type = Type::duration,
     .doc = "Until the first token of an empty prompt",
     .fallback = "300ms",
     .high = kDay},
    {.key = "per_input_token",
     .type = Type::text,
     .doc = "More for each input token, a duration down to ns",
     .fallback = "50us"},
    {.key = "per_output_token",
     .type = Type::duration,
     .doc = "Between two tokens",
     .fallback = "25ms",
     .high = kDay},
    {.key = "knee",
     .type = Type::count,
     .doc = "Requests in flight up to which the speed holds; 0: any number",
     .fallback = "0"},
    {.key = "slope",
     .type = Type::percent,
     .doc = "How much slower at twice the knee",
     .fallback = "100%",
     .high = 100'000},
    {.key = "noise",
     .type = Type::percent,
     .doc = "Sigma of a log-normal factor of mean 1 on each answer's times",
     .fallback = "10%",
     .high = 300},
};
constexpr Record kLatencyRecord = {"emulator_latency", "How fast it answers", kLatency};

constexpr Field kOutput[] = {
    {.key = "mean",
     .type = Type::count,
     .doc = "Mean length of an answer in tokens",
     .fallback = "300",
     .low = 1,
     .high = 1'000'000},
    {.key = "sigma",
     .type = Type::percent,
     .doc = "Of the log-normal the length is drawn from; 0%: always the mean",
     .fallback = "70%",
     .high = 300},
    {.key = "cap",
     .type = Type::count,
     .doc = "Longest answer in tokens",
     .fallback = "32768",
     .low = 1,
     .high = 10'000'000},
    {.key = "exact",
     .type = Type::boolean,
     .doc = "An answer is as long as the request's max_tokens, where it has one",
     .fallback = "false"},
};
constexpr Record kOutputRecord = {"emulator_output", "How long its answers are", kOutput};

constexpr Field kFaults[] = {
    {.key = "server_error",
     .type = Type::percent,
     .doc = "Share of requests answered 500",
     .fallback = "0%",
     .high = 100},
    {.key = "reset_before",
     .type = Type::percent,
     .doc = "Share whose connection breaks before the first byte",
     .fallback = "0%",
     .high = 100},
    {.key = "reset_inside",
     .type = Type::percent,
     .doc = "Share whose connection breaks inside the answer",
     .fallback = "0%",
     .high = 100},
    {.key = "slow",
     .type = Type::percent,
     .doc = "Share that take ten times as long",
     .fallback = "0%",
     .high = 100},
    {.key = "malformed",
     .type = Type::percent,
     .doc = "Share whose body or one of whose events is not JSON",
     .fallback = "0%",
     .high = 100},
};
constexpr Record kFaultsRecord = {"emulator_faults", "What goes wrong, and how often", kFaults};

constexpr Field kSettings[] = {
    {.key = "rules", .type = Type::records, .doc = "Its limits", .record = &kRuleRecord},
    {.key = "rejected_counted",
     .type = Type::boolean,
     .doc = "A refused request counts against the request rules",
     .fallback = "false"},
    {.key = "phase",
     .type = Type::duration,
     .doc = "Where fixed windows begin; absent: drawn from the seed",
     .high = 366 * kDay},
    {.key = "default_max_output",
     .type = Type::count,
     .doc = "Reserved as output where a request has no maximum",
     .fallback = "0"},
    {.key = "latency",
     .type = Type::record,
     .doc = "How fast it answers",
     .record = &kLatencyRecord},
    {.key = "output",
     .type = Type::record,
     .doc = "How long its answers are",
     .record = &kOutputRecord},
    {.key = "faults",
     .type = Type::record,
     .doc = "What goes wrong, and how often",
     .record = &kFaultsRecord},
    {.key = "models", .type = Type::texts, .doc = "What /v1/models lists"},
    {.key = "require_key",
     .type = Type::boolean,
     .doc = "A request without a key is 401",
     .fallback = "false"},
    {.key = "seed", .type = Type::count, .doc = "Of everything that is drawn", .fallback = "1"},
};
constexpr Record kSettingsRecord = {"emulator", "An emulated provider", kSettings};

/// A part that stands alone in a request's body, under a key so that one reader serves both.
constexpr Field kAlone[] = {
    {.key = "rules", .type = Type::records, .doc = "Its limits", .record = &kRuleRecord},
    {.key = "latency", .type = Type::record, .doc = "Latency", .record = &kLatencyRecord},
    {.key = "faults", .type = Type::record, .doc = "Faults", .record = &kFaultsRecord},
};
constexpr Record kAloneRecord = {"emulator_part", "One part", kAlone};

template <class Enum, std::size_t N>
Enum named(const std::array<Enum, N>& all, std::string_view word, Enum fallback) {
  const auto found = std::ranges::find_if(all, [&](Enum each) { return name(each) == word; });
  return found == all.end() ? fallback : *found;
}

constexpr std::array kAllEnforcements = {Enforcement::sliding, Enforcement::fixed,
                                         Enforcement::bucket, Enforcement::unknown};
constexpr std::array kAllCountings = {Counting::reserve, Counting::reserve_refund, Counting::settle,
                                      Counting::realtime, Counting::input};

Rule read_rule(const Section& section, config::Faults& faults) {
  Rule rule;
  rule.unit = named(kAllUnits, section.text("unit"), Unit::requests);
  rule.amount = section.count("amount").value_or(0);
  rule.window = section.duration("per").value_or(Duration{0});
  rule.enforce = named(kAllEnforcements, section.text("enforce"), Enforcement::sliding);
  rule.count = named(kAllCountings, section.text("count"), Counting::settle);
  rule.burst = section.count("burst");
  if (rule.unit == Unit::concurrency && section.has("per")) {
    faults.add(section.place("per"), section.path("per"), "concurrency has no window",
               "leave `per` out");
  }
  if (rule.unit != Unit::concurrency && !section.has("per")) {
    faults.add(section.place(), section.path("per"), "is missing", "give the window, `per: 60s`");
  }
  return rule;
}

std::vector<Rule> read_rules(const Section& parent, config::Faults& faults) {
  std::vector<Rule> rules;
  for (const Section& section : parent.sections("rules")) {
    rules.push_back(read_rule(section, faults));
  }
  if (rules.size() > model::ProviderRules::kMaxRules) {
    faults.add(parent.place("rules"), parent.path("rules"),
               fmt::format("{} rules are too many", rules.size()),
               fmt::format("at most {}", model::ProviderRules::kMaxRules));
  }
  return rules;
}

/// A duration with `us` and `ns` as well, which only a time per token needs.
std::optional<Duration> read_short_duration(std::string_view text) {
  for (const auto& [suffix, nanoseconds] :
       {std::pair<std::string_view, double>{"us", 1e3}, {"ns", 1.0}}) {
    if (!text.ends_with(suffix)) continue;
    const auto number = config::parse_decimal(text.substr(0, text.size() - suffix.size()));
    if (!number || *number > 1e12) return std::nullopt;
    return from_seconds(*number * nanoseconds * 1e-9);
  }
  const auto whole = config::parse_duration(text);
  if (!whole) return std::nullopt;
  return *whole;
}

model::LatencySettings read_latency(const Section& section, config::Faults& faults) {
  model::LatencySettings latency;
  latency.base_first_token = section.duration("first_token").value_or(latency.base_first_token);
  const auto per_input = read_short_duration(section.text("per_input_token"));
  if (!per_input) {
    faults.add(section.place("per_input_token"), section.path("per_input_token"),
               "is not a duration", "write it with ns, us, ms or s, like 50us");
  }
  latency.per_input_token = per_input.value_or(Duration{0});
  latency.per_output_token =
      section.duration("per_output_token").value_or(latency.per_output_token);
  latency.knee = section.count("knee").value_or(0);
  latency.slope = section.percent("slope").value_or(1.0);
  latency.noise = section.percent("noise").value_or(0.1);
  return latency;
}

model::FaultSettings read_faults(const Section& section, config::Faults& faults) {
  model::FaultSettings settings;
  settings.server_error = section.percent("server_error").value_or(0);
  settings.reset_before = section.percent("reset_before").value_or(0);
  settings.reset_inside = section.percent("reset_inside").value_or(0);
  settings.slow = section.percent("slow").value_or(0);
  settings.malformed = section.percent("malformed").value_or(0);
  const double sum = settings.server_error + settings.reset_before + settings.reset_inside +
                     settings.slow + settings.malformed;
  if (sum > 1.0 + 1e-9) {
    faults.add(section.place(), section.path(), "the shares come to more than 100%",
               "lower some of them");
  }
  return settings;
}

std::optional<std::string> no_environment(std::string_view /*name*/) { return std::nullopt; }

/// The text as a checked tree; null where nothing can be read.
std::shared_ptr<config::Node> parse(std::string_view text, const Record& record,
                                    config::Faults& faults) {
  auto node = config::parse_yaml(text, faults);
  if (!node) return nullptr;
  config::prepare(*node, "", &no_environment, faults);
  config::check(*node, record, "", faults);
  return node;
}

/// Reads a part that stands alone, as JSON.
template <class Value, class Read>
Result<Value> read_part(std::string_view key, std::string_view text, Read read) {
  config::Faults faults("body");
  const std::string wrapped = fmt::format("{{\"{}\": {}\n}}", key, text);
  const auto node = parse(wrapped, kAloneRecord, faults);
  Value value{};
  if (node) value = read(Section(node.get(), kAloneRecord, ""), faults);
  if (faults.empty()) return value;
  const auto all = faults.take();
  return fail(ErrorCode::malformed,
              fmt::format("{}: {}; {}", all.front().path, all.front().message, all.front().fix),
              Origin::client);
}

std::string nanoseconds(Duration duration) { return fmt::format("{}ns", duration.count()); }

}  // namespace

ReadSettings read_settings(std::string_view text, const std::string& file) {
  config::Faults faults(file);
  ReadSettings result;
  const auto node = parse(text, kSettingsRecord, faults);
  if (node) {
    const Section top(node.get(), kSettingsRecord, "");
    Settings settings;
    settings.seed = static_cast<std::uint64_t>(top.count("seed").value_or(1));
    settings.provider.rules = read_rules(top, faults);
    settings.provider.rejected_counted = top.boolean("rejected_counted");
    settings.provider.phase = top.duration("phase");
    settings.provider.default_max_output = top.count("default_max_output").value_or(0);
    settings.provider.seed = settings.seed;
    settings.latency = read_latency(top.section("latency"), faults);
    settings.faults = read_faults(top.section("faults"), faults);
    const Section output = top.section("output");
    settings.output.mean_tokens = static_cast<double>(output.count("mean").value_or(300));
    settings.output.sigma = output.percent("sigma").value_or(0.7);
    settings.output.cap = output.count("cap").value_or(32'768);
    settings.exact_output = output.boolean("exact");
    settings.models = top.texts("models");
    settings.require_key = top.boolean("require_key");
    result.settings = std::move(settings);
  }
  if (!faults.empty()) result.settings.reset();
  result.faults = faults.take();
  return result;
}

Result<std::vector<Rule>> read_rules(std::string_view text) {
  return read_part<std::vector<Rule>>(
      "rules", text, [](const Section& part, auto& faults) { return read_rules(part, faults); });
}

Result<model::LatencySettings> read_latency(std::string_view text) {
  return read_part<model::LatencySettings>("latency", text, [](const Section& part, auto& faults) {
    return read_latency(part.section("latency"), faults);
  });
}

Result<model::FaultSettings> read_faults(std::string_view text) {
  return read_part<model::FaultSettings>("faults", text, [](const Section& part, auto& faults) {
    return read_faults(part.section("faults"), faults);
  });
}

std::string rules_json(const std::vector<Rule>& rules) {
  std::string json = "[";
  for (const Rule& rule : rules) {
    if (json.size() > 1) json += ',';
    json += fmt::format(R"({{"unit":"{}","amount":{})", name(rule.unit), rule.amount);
    if (rule.unit != Unit::concurrency) {
      json += fmt::format(R"(,"per":"{}")", config::show(rule.window));
    }
    json += fmt::format(R"(,"enforce":"{}","count":"{}")", name(rule.enforce), name(rule.count));
    if (rule.burst) json += fmt::format(R"(,"burst":{})", *rule.burst);
    json += '}';
  }
  return json + "]";
}

std::string latency_json(const model::LatencySettings& latency) {
  return fmt::format(
      R"({{"first_token":"{}","per_input_token":"{}","per_output_token":"{}","knee":{},)"
      R"("slope":"{}","noise":"{}"}})",
      config::show(latency.base_first_token), nanoseconds(latency.per_input_token),
      config::show(latency.per_output_token), latency.knee, config::show_percent(latency.slope),
      config::show_percent(latency.noise));
}

std::string faults_json(const model::FaultSettings& faults) {
  return fmt::format(R"({{"server_error":"{}","reset_before":"{}","reset_inside":"{}","slow":"{}",)"
                     R"("malformed":"{}"}})",
                     config::show_percent(faults.server_error),
                     config::show_percent(faults.reset_before),
                     config::show_percent(faults.reset_inside), config::show_percent(faults.slow),
                     config::show_percent(faults.malformed));
}

const Record& settings_schema() { return kSettingsRecord; }

}  // namespace weir::emulator
