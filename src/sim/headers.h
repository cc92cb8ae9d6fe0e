// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "emulator/model/provider_rules.h"
#include "weir/rng.h"
#include "weir/signal.h"
#include "weir/time.h"

namespace weir::sim {

/// Whose rate-limit headers the answers carry.
enum class HeaderStyle : std::uint8_t {
  every,      ///< every unit that is limited, exact
  openai,     ///< requests and one of tokens; resets in whole milliseconds
  anthropic,  ///< requests, input, output and all tokens; tokens left in whole thousands, resets in
              ///< whole seconds
};

/// What stands where the amount left is written.
enum class RemainingSays : std::uint8_t {
  truth,
  unknown,  ///< -1, which the dialects hand on as absent
  zero,     ///< 0 whatever is left
};

/// How a modelled provider's headers differ from the truth.
/// Source: providers.md, read 2026-11: Azure sends -1 and 0 for unknown, Anthropic rounds tokens to
/// thousands; cached values and a limit raised for one answer are from control.md section 13.4.
struct HeaderQuirks {
  HeaderStyle style = HeaderStyle::every;
  double share = 1;  ///< of the answers that carry any, 0..1
  RemainingSays remaining = RemainingSays::truth;
  Duration cached{0};                                ///< what is told is up to this old
  std::optional<Duration> raised_at = std::nullopt;  ///< the first answer from here on lies once:
  double raised_by = 2;  ///< limit and remaining are this many times as large
};

/// Writes the headers of a modelled provider's answers as the governor would read them.
///
/// Worked example (also a test): 600 requests a minute of which 100 are used, Anthropic style, 1234
/// of 10,000 tokens used: remaining 500 and 9,000, resets in whole seconds, rounded up.
/// Threads: one owner. Time: `now` must not go back.
class HeaderTeller {
 public:
  HeaderTeller(const HeaderQuirks& quirks, std::uint64_t seed) : quirks_(quirks), rng_(seed) {}
  /// What one answer tells; absent: it carries none.
  std::optional<Signal> tell(emulator::model::ProviderRules& provider, Instant now);

 private:
  [[nodiscard]] Signal read(emulator::model::ProviderRules& provider, Instant now) const;

  HeaderQuirks quirks_;
  Rng rng_;
  bool raised_ = false;
  std::optional<Signal> kept_;
  Instant kept_at_;
};

}  // namespace weir::sim
