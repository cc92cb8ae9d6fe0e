// SPDX-License-Identifier: Apache-2.0
#include "config/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace weir::config {

namespace {

bool counts_tokens(Unit unit) {
  return unit == Unit::input_tokens || unit == Unit::output_tokens || unit == Unit::total_tokens;
}

template <class Value, std::size_t N>
std::optional<Value> by_name(std::string_view text, const std::array<Value, N>& values) {
  for (const Value value : values) {
    if (name(value) == text) return value;
  }
  return std::nullopt;
}

constexpr std::array kEnforcements = {Enforcement::sliding, Enforcement::fixed, Enforcement::bucket,
                                      Enforcement::counter, Enforcement::unknown};
constexpr std::array kCountings = {Counting::reserve, Counting::reserve_refund, Counting::settle,
                                   Counting::realtime, Counting::input};

using Rules = std::vector<SourcedRule>;

Rules::iterator same_meter(Rules& rules, Unit unit, Duration window) {
  return std::find_if(rules.begin(), rules.end(), [&](const SourcedRule& other) {
    return other.rule.unit == unit && other.rule.window == window;
  });
}

/// Requests and slots are counted when they are sent; how tokens count is the provider's matter.
Counting counting_of(Unit unit, Counting tokens) {
  return counts_tokens(unit) ? tokens : Counting::reserve;
}

Rules shorthand(const Section& limits, Enforcement enforce, Counting count,
                std::string_view origin) {
  Rules rules;
  for (const LimitKey& key : limit_keys()) {
    const std::optional<Allowance> allowance = limits.allowance(key.key, key.window);
    if (!allowance) continue;
    Rule rule;
    rule.unit = key.unit;
    rule.amount = allowance->amount;
    rule.window = allowance->window;
    rule.enforce = enforce;
    rule.count = counting_of(key.unit, count);
    rules.push_back({rule, fmt::format("{}.{}", origin, key.key)});
  }
  return rules;
}

/// Reads the long form. Wrong units and the like were reported by `check` and are left out here.
class LongForm {
 public:
  LongForm(const KindDefaults& defaults, Faults& faults) : defaults_(defaults), faults_(faults) {}

  /// Lets one rule replace, remove or join those in `rules`.
  void apply(const Section& section, std::string_view origin, Rules& own, Rules& rules) {
    const std::optional<Unit> unit = by_name(section.text("unit"), kAllUnits);
    if (!unit) return;
    Rule rule;
    rule.unit = *unit;
    if (!window(section, rule)) return;
    if (same_meter(own, *unit, rule.window) != own.end()) {
      faults_.add(section.place(), section.path(),
                  fmt::format("a second rule for {} per {}", name(*unit), show(rule.window)),
                  "keep one of them");
      return;
    }
    if (section.boolean("off")) {
      const auto removed = same_meter(rules, *unit, rule.window);
      if (removed != rules.end()) rules.erase(removed);
      return;
    }
    if (!amount(section, rule) || !manner(section, rule)) return;
    own.push_back({rule, describe(section, origin, rule)});
  }

 private:
  bool window(const Section& section, Rule& rule) {
    if (rule.unit == Unit::concurrency) {
      if (!section.has("per")) return true;
      faults_.add(section.place("per"), section.path("per"), "concurrency has no window",
                  "remove it");
      return false;
    }
    const std::optional<Duration> per = section.duration("per");
    if (per && *per > Duration::zero()) {
      rule.window = *per;
      return true;
    }
    if (!section.has("per")) {
      faults_.add(section.place(), section.path("per"), "this key is missing",
                  "add the window, such as per: 60s");
    }
    return false;
  }

  bool amount(const Section& section, Rule& rule) {
    const Node* node = section.find("amount");
    if (node == nullptr) {
      faults_.add(section.place(), section.path("amount"), "this key is missing",
                  "add it, or off: true to remove a rule");
      return false;
    }
    const std::optional<Allowance> allowance = section.allowance("amount", rule.window);
    if (!allowance) {
      // `check` looked at it as an amount per minute; only what depends on the window is new.
      if (section.allowance("amount", std::chrono::minutes(1))) {
        faults_.add(node->place, section.path("amount"),
                    about(*node, {"does not fit its window",
                                  "write a whole number, or a longer share of the window"}));
      }
      return false;
    }
    rule.amount = allowance->amount;
    rule.window = allowance->window;
    return true;
  }

  bool manner(const Section& section, Rule& rule) {
    rule.enforce = by_name(section.text("enforce"), kEnforcements).value_or(defaults_.enforce);
    const std::optional<Counting> count = by_name(section.text("count"), kCountings);
    rule.count = count.value_or(counting_of(rule.unit, defaults_.count));
    if (count && !counts_tokens(rule.unit) && *count != Counting::reserve) {
      faults_.add(
          section.place("count"), section.path("count"),
          fmt::format("count says when tokens count; {} always count when sent", name(rule.unit)),
          "remove it");
      return false;
    }
    const std::optional<std::int64_t> burst = section.count("burst");
    if (burst && rule.enforce != Enforcement::bucket) {
      faults_.add(section.place("burst"), section.path("burst"), "only a bucket has a burst",
                  "add enforce: bucket, or remove it");
      return false;
    }
    rule.burst = burst;
    return true;
  }

  static std::string describe(const Section& section, std::string_view origin, const Rule& rule) {
    std::string defaulted;
    if (!section.has("enforce")) defaulted = "enforce";
    if (!section.has("count") && counts_tokens(rule.unit)) {
      defaulted += defaulted.empty() ? "count" : " and count";
    }
    if (defaulted.empty()) return std::string(origin);
    return fmt::format("{}; {} by the kind's default", origin, defaulted);
  }

  const KindDefaults& defaults_;
  Faults& faults_;
};

/// What one `limits` and `rules` pair says.
Rules written(const Section& section, std::string_view prefix, const KindDefaults& defaults,
              Faults& faults, Rules below) {
  for (SourcedRule& rule : shorthand(section.section("limits"), defaults.enforce, defaults.count,
                                     fmt::format("{}limits", prefix))) {
    rule.origin += counts_tokens(rule.rule.unit) ? "; enforce and count by the kind's default"
                                                 : "; enforce by the kind's default";
    const auto same = same_meter(below, rule.rule.unit, rule.rule.window);
    if (same == below.end()) {
      below.push_back(std::move(rule));
    } else if (rule.rule.amount <= same->rule.amount) {
      // A deployment cannot be allowed more than the quota it draws on.
      *same = std::move(rule);
    }
  }
  Rules own;
  LongForm form(defaults, faults);
  const std::vector<Section> sections = section.sections("rules");
  for (std::size_t i = 0; i < sections.size(); ++i) {
    form.apply(sections[i], fmt::format("{}rules[{}]", prefix, i), own, below);
  }
  for (SourcedRule& rule : own) {
    const auto same = same_meter(below, rule.rule.unit, rule.rule.window);
    if (same == below.end()) {
      below.push_back(std::move(rule));
    } else {
      *same = std::move(rule);
    }
  }
  return below;
}

}  // namespace

KindDefaults defaults_of(std::string_view kind) {
  // OpenAI's reading is also the safest, so it stands for what is compatible with it and for the
  // emulator, whose own file may say anything.
  static_cast<void>(kind);
  return {};
}

const std::vector<LimitKey>& limit_keys() {
  using std::chrono::hours;
  using std::chrono::minutes;
  using std::chrono::seconds;
  static const std::vector<LimitKey> kKeys = {
      {"rpm", Unit::requests, minutes(1)},
      {"rps", Unit::requests, seconds(1)},
      {"rpd", Unit::requests, hours(24)},
      {"input_tpm", Unit::input_tokens, minutes(1)},
      {"output_tpm", Unit::output_tokens, minutes(1)},
      {"total_tpm", Unit::total_tokens, minutes(1)},
      {"tps", Unit::total_tokens, seconds(1)},
      {"tpd", Unit::total_tokens, hours(24)},
      {"concurrency", Unit::concurrency, Duration::zero()},
  };
  return kKeys;
}

std::vector<Rule> node_limits(const Section& limits) {
  std::vector<Rule> rules;
  for (const SourcedRule& rule :
       shorthand(limits, Enforcement::sliding, Counting::reserve_refund, "limits")) {
    rules.push_back(rule.rule);
  }
  return rules;
}

std::vector<SourcedRule> deployment_rules(const Section& deployment, const Section& quota,
                                          const KindDefaults& defaults, Faults& faults) {
  Rules rules;
  if (quota.present()) rules = written(quota, "quota.", defaults, faults, {});
  return written(deployment, "", defaults, faults, std::move(rules));
}

std::vector<GrowthRule> growth_rules(const Section& deployment, const std::vector<Rule>& rules,
                                     Faults& faults) {
  std::vector<GrowthRule> growth;
  for (const Section& section : deployment.sections("rules")) {
    const bool grows = section.text("unit") == "growth";
    for (const std::string_view key : {"of", "ratio", "floor"}) {
      if (grows || !section.has(key)) continue;
      faults.add(section.place(key), section.path(key), "only unit: growth has this",
                 "remove it, or write unit: growth");
    }
    if (!grows || section.boolean("off")) continue;
    for (const std::string_view key : {"amount", "enforce", "count", "burst"}) {
      if (!section.has(key)) continue;
      faults.add(section.place(key), section.path(key), "a rule on growth has none",
                 "remove it; ratio, per and floor say how much");
    }
    GrowthRule rule;
    rule.of = by_name(section.text("of"), kAllUnits).value_or(Unit::requests);
    rule.ratio = section.decimal("ratio").value_or(rule.ratio);
    rule.per = section.duration("per").value_or(rule.per);
    rule.floor = section.count("floor").value_or(rule.floor);
    rule.look_back = std::max(rule.look_back, rule.per);
    if (rule.ratio < 1) {
      faults.add(section.place("ratio"), section.path("ratio"), "is less than 1",
                 "write the factor by which traffic may grow, such as 2.0");
    }
    if (!section.has("per") || !section.has("ratio")) {
      faults.add(section.place(), section.path(section.has("per") ? "ratio" : "per"),
                 "this key is missing", "write ratio: 2.0 and per: 10s");
    }
    growth.push_back(rule);
  }
  const Section shaping = deployment.section("shaping");
  if (!shaping.has("growth")) return growth;
  const Parsed<double> per_second = parse_rate(shaping.text("growth"));
  if (!per_second) return growth;  // `check` has said what is wrong with it
  const double factor = *per_second * 60;
  if (factor < 1) {
    faults.add(shaping.place("growth"), shaping.path("growth"), "is less than 1 a minute",
               "write the factor from one minute to the next, such as 2.0/m");
    return growth;
  }
  GrowthRule rule;
  rule.ratio = factor;
  rule.per = std::chrono::minutes(1);
  for (const Rule& told : rules) {
    const bool minute = told.unit == Unit::requests && told.window == std::chrono::minutes(1);
    if (minute) rule.floor = std::max(rule.floor, told.amount / 20);
  }
  growth.push_back(rule);
  return growth;
}

}  // namespace weir::config
