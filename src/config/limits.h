// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/faults.h"
#include "config/section.h"
#include "weir/rule.h"

namespace weir::config {

/// What a kind of provider does where the file does not say.
/// Source: developers.openai.com/api/docs/guides/rate-limits, read 2026-11: the larger of
/// max_tokens and an estimate is counted at admission, and failed requests count. How the window
/// moves and whether a pre-count is given back is not documented, so the safe reading is taken.
struct KindDefaults {
  Enforcement enforce = Enforcement::unknown;
  Counting count = Counting::reserve;
  bool rejected_counted = true;
  bool cached_input_counted = true;
};
KindDefaults defaults_of(std::string_view kind);

/// A rule and where it comes from: "limits.rpm; enforce by default".
struct SourcedRule {
  Rule rule;
  std::string origin;
};

/// The unit and window of a key of `limits`; none for keys of later versions.
struct LimitKey {
  std::string_view key;
  Unit unit;
  Duration window;
};
const std::vector<LimitKey>& limit_keys();

/// The limits of a node or class of our own: sliding, reserved and corrected to real usage.
std::vector<Rule> node_limits(const Section& limits);

/// A deployment's rules: `rules` over `limits` over those of its quota.
std::vector<SourcedRule> deployment_rules(const Section& deployment, const Section& quota,
                                          const KindDefaults& defaults, Faults& faults);

/// A deployment's rules on growth, and the one that `shaping.growth` stands for: a factor from one
/// minute to the next, from a twentieth of the requests a minute that `rules` allow, or 20.
std::vector<GrowthRule> growth_rules(const Section& deployment, const std::vector<Rule>& rules,
                                     Faults& faults);

}  // namespace weir::config
