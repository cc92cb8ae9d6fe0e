// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::sim {

enum class ClaimVerdict : std::uint8_t {
  reproduced,             ///< our simulation of the published method gives the published figure
  corrected,              ///< it gives another one, or gives it only under a condition left unsaid
  not_reproducible_here,  ///< it is about something no simulator of limits can show
};
std::string_view name(ClaimVerdict verdict);

/// One published figure beside ours. Sources of the figures: Alibaba Cloud Model Studio, "Best
/// practices for handling rate limiting",
/// https://help.aliyun.com/en/model-studio/rate-limiting-best-practices, and articles on gateways
/// for large language models that repeat each other; none publishes the set-up behind a figure.
struct Claim {
  std::string id;
  std::string claim;      ///< what was published
  std::string published;  ///< the figure
  std::string baseline;   ///< what the published method gives here; empty: nothing was measured
  std::string weir;       ///< what the governor gives in the same world
  ClaimVerdict verdict = ClaimVerdict::not_reproducible_here;
  std::string reason;  ///< one line
  /// What the texts were made of, by name, for tests and JSON.
  std::vector<std::pair<std::string, double>> figures;
  [[nodiscard]] double figure(std::string_view name) const;  ///< NaN: there is none
};

/// Measures them all. Equal seeds give equal claims. `progress` may be empty; it is told how many
/// of how many worlds are done. Takes some seconds.
std::vector<Claim> measure_claims(std::uint64_t seed,
                                  const std::function<void(std::size_t, std::size_t)>& progress);

std::string claims_table(const std::vector<Claim>& claims);
std::string claims_json(const std::vector<Claim>& claims);

}  // namespace weir::sim
