// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "governor/quantile_sketch.h"
#include "weir/memory.h"

namespace weir::governor {

/// One answer as its provider reported it, and what had been charged for it. Units: tokens, bytes;
/// outputs per choice unless said otherwise.
struct Learned {
  double input_bytes = 0;  ///< 0: the prompt's bytes are not known
  double input = 0;
  double cached = 0;
  bool has_output = false;
  double output = 0;
  std::size_t bucket = 0;     ///< of the output, or of more where the answer was cut short
  bool beyond_cap = false;    ///< longer than the caller had declared
  bool within_cap = false;    ///< a length was declared and kept to
  double charged_input = 0;   ///< of the whole call
  double charged_output = 0;  ///< of the whole call
  double settled_output = 0;  ///< of the whole call
};

/// What is known of the calls of one caller, one tenant or one deployment. Three of them make a
/// chain in which each leans on the one above it as long as it knows little itself.
///
/// mean = (w x + k mu) / (w + k): w calls seen, each counting half after 200 more, with mean x;
/// mu the mean above; k = s^2 / (x - mu)^2, at most 20, where s^2 is the variance of the calls
/// seen: a caller that is plainly unlike the others is believed after a few calls, one whose few
/// calls may be chance is not.
/// Worked example (also a test): 5 answers of 30 tokens each, below a tenant's mean of 300 with as
/// large a deviation: s^2 = 30^2 / 6 = 150, k = 150 / 270^2 = 0.002, the mean is 30.1.
/// Threads: one owner.
class EstimateLevel {
 public:
  /// From so many answers on its own quantiles are used.
  static constexpr std::int64_t kKnown = 20;

  EstimateLevel() = default;
  /// A level above which there is none: it starts from what the policy says.
  EstimateLevel(double bytes_per_token, double mean_output);

  /// What calls are taken to be like, at a level and as far as those below it know no better.
  struct Belief {
    double mean = 0;
    double variance = 0;
    double tokens_per_byte = 0;
    double cached_ratio = 0;  ///< share of the input that is read from a cache
  };
  [[nodiscard]] Belief belief(const Belief& parent) const;
  /// Of a level above which there is none.
  [[nodiscard]] Belief own_belief() const;
  /// The belief as of the last `remember`, so that it need not be worked out for every question.
  [[nodiscard]] const Belief& remembered() const { return remembered_; }
  void remember(const Belief& belief) { remembered_ = belief; }
  [[nodiscard]] bool known() const { return answers_ >= kKnown; }
  [[nodiscard]] std::int64_t answers() const { return answers_; }
  [[nodiscard]] const QuantileSketch& sketch() const { return sketch_; }
  [[nodiscard]] double factor() const { return factor_.value(); }
  /// Whether its answers have lately been longer than was declared, so that a declared length
  /// bounds nothing.
  [[nodiscard]] bool distrusted() const { return distrust_ > 0.5; }

  /// `predicted_p95`: what this level had said of the quantile, per choice. `witness`: the level
  /// is that of many, where one who lies does not make all others liars.
  void learn(const Learned& one, double predicted_p95, bool witness);

  /// Everything but the debts, which show again by themselves.
  [[nodiscard]] RememberedCalls remember() const;
  /// Takes what another knew; what cannot be is held in range.
  void recall(const RememberedCalls& calls);

  /// The decayed sums of what was charged and of what it turned out to be.
  struct Debt {
    double charged = 0;
    double settled = 0;
    bool raised = false;
    /// Whether it just became true that settled amounts stay above charged ones.
    bool update(double charged_now, double settled_now, double calls);
  };
  [[nodiscard]] const Debt& input_debt() const { return input_debt_; }
  [[nodiscard]] const Debt& output_debt() const { return output_debt_; }
  [[nodiscard]] bool input_alarm() const { return input_alarm_; }
  [[nodiscard]] bool output_alarm() const { return output_alarm_; }

 private:
  double mean_ = 0;
  double weight_ = 0;
  double variance_ = 0;
  double bytes_ = 0;  // decayed sums, so that large prompts weigh as much as they cost
  double tokens_ = 0;
  double cached_ = 0;
  double cacheable_ = 0;
  double distrust_ = 0;
  double debt_calls_ = 0;
  Debt input_debt_;
  Debt output_debt_;
  Belief remembered_;
  bool input_alarm_ = false;
  bool output_alarm_ = false;
  std::int64_t answers_ = 0;
  ConformalFactor factor_;
  QuantileSketch sketch_;
};

}  // namespace weir::governor
