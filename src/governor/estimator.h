// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "governor/cost.h"
#include "governor/estimate_table.h"
#include "weir/demand.h"
#include "weir/policy.h"
#include "weir/usage.h"

namespace weir::governor {

/// Whose call is estimated, by hashes of names (0: nobody known), and what is asked of the
/// estimate.
struct Asked {
  std::uint64_t tenant = 0;
  std::uint64_t caller = 0;  ///< the tenant's key together with the model profile
  OutputEstimate output = OutputEstimate::mean;
  OutputEstimate unknown = OutputEstimate::mean;
  bool propose = false;  ///< where the caller gives no cap, one is put into its request
};

/// What an answer says about the estimates, for the metrics.
struct EstimateView {
  double bytes_per_token = 0;
  double mean_output = 0;
  double p95_output = 0;
  double error = 0;         ///< moving mean of (charged - actual) / actual, total tokens
  double output_bias = 0;   ///< (estimated - actual) / actual of the means, by tokens
  double p95_coverage = 0;  ///< share of answers no longer than their estimated 95 % quantile
  double cached_ratio = 0;  ///< share of the input that was read from a cache
};

/// Whose charges stay below what is settled; nothing in most cases.
struct DebtNote {
  bool input = false;
  bool output = false;
  double charged = 0;  ///< decayed sums of the last hundred calls; of the output if both
  double settled = 0;
};

/// Learns what calls cost on one deployment, for each caller on it, and says what one will cost.
///
/// input  = exact count, or bytes * tokens per byte, rounded up
/// output = min(cap, estimate) * choices; the estimate is the mean or the quantile of 95 % of what
///          the caller's answers were; who is not known yet gets his tenant's, else the
///          deployment's, which starts from the policy's values (4 bytes of English prose to a
///          token, the figure OpenAI's own help pages give).
/// A caller whose answers were lately longer than the cap it gave is estimated without the cap.
/// Only answers with reported usage teach anything.
/// Worked example (also a test): 400 bytes, 4 bytes per token, mean 256, cap 100, 2 choices:
/// input 100, output 200.
/// Threads: one owner.
class Estimator {
 public:
  Estimator(double bytes_per_token, double mean_output_tokens,
            std::shared_ptr<EstimateTable> callers = std::make_shared<EstimateTable>(),
            std::uint64_t identity = 1);

  [[nodiscard]] Cost cost(const Demand& demand, const Asked& asked) const;
  /// What streamed events amount to, until usage is known.
  [[nodiscard]] std::int64_t output_of(std::int64_t events) const;
  /// Learns from a call that came to its end with usage.
  DebtNote learn(const Demand& demand, const Asked& asked, const Cost& cost, const Usage& usage,
                 std::int64_t events);

  /// What is known of the deployment's calls, into `deployment`.
  void remember(RememberedDeployment& deployment) const;
  void recall(const RememberedDeployment& deployment);

  [[nodiscard]] EstimateView view() const;
  /// The quantile of 95 % of one caller's answers, per choice.
  [[nodiscard]] double p95_of(const Asked& asked) const;
  /// The mean of one caller's answers, per choice.
  [[nodiscard]] double mean_of(const Asked& asked) const;

 private:
  /// Caller, tenant and deployment; those that are not known are null.
  struct Chain {
    std::array<const EstimateLevel*, 3> levels{};
    EstimateLevel::Belief belief;
  };
  [[nodiscard]] std::uint64_t key_of(std::uint64_t name) const;
  [[nodiscard]] Chain chain_of(const Asked& asked) const;
  /// What the known levels of the chain come to.
  static EstimateLevel::Belief believe(const Chain& chain);
  /// The quantile as level `from` of the chain and those above it have it, a whole number.
  [[nodiscard]] double p95(const Chain& chain, std::size_t from) const;
  [[nodiscard]] std::int64_t proposal(const Chain& chain) const;
  static bool distrusted(const Chain& chain);
  void note_quality(const Cost& cost, double mean, double p95, double output, const Usage& usage,
                    std::int64_t choices);

  std::uint64_t identity_;
  std::shared_ptr<EstimateTable> callers_;
  EstimateLevel whole_;  // of the deployment
  double prior_mean_;
  double tokens_per_event_ = 1;
  double error_ = 0;
  bool any_error_ = false;
  double bias_estimated_ = 0;  // decayed sums
  double bias_actual_ = 0;
  double covered_ = 0;
  double coverage_of_ = 0;
};

}  // namespace weir::governor
