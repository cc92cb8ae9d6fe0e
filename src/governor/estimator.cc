// SPDX-License-Identifier: Apache-2.0
#include "governor/estimator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "weir/units.h"

namespace weir::governor {
namespace {

constexpr double kErrorWeight = 0.02;
constexpr double kEventWeight = 0.05;
// Over some 1000 calls: as many as a block that the coverage is judged by.
constexpr double kQualityDecay = 0.999;
// The quantile of 95 % of an exponential distribution, ln 20 times its mean, stands for that of
// answers of which only a mean is known.
constexpr double kPriorQuantile = 3;
constexpr std::int64_t kProposeFrom = 200;
constexpr std::int64_t kProposeLeast = 256;
constexpr double kProposeShare = 0.99;
constexpr double kProposeRoom = 1.25;

std::int64_t bounded(double tokens) {
  if (!(tokens > 0)) return 0;
  if (tokens >= static_cast<double>(kMaxTokens)) return kMaxTokens;
  const auto whole = static_cast<std::int64_t>(tokens);
  return whole + (static_cast<double>(whole) < tokens - 1e-9 ? 1 : 0);
}

/// The next whole number.
double upwards(double tokens) { return static_cast<double>(bounded(tokens)); }

std::int64_t bounded(std::int64_t tokens) {
  return std::clamp<std::int64_t>(tokens, 0, kMaxTokens);
}

std::int64_t choices_of(const Demand& demand) { return std::max<std::int64_t>(1, demand.choices); }

/// Some providers go a few tokens over a cap; that is no lie about the call's size.
bool beyond(double output, std::int64_t cap) {
  const auto most = static_cast<double>(cap);
  return output > most + most / 16 + 2;
}

}  // namespace

Estimator::Estimator(double bytes_per_token, double mean_output_tokens,
                     std::shared_ptr<EstimateTable> callers, std::uint64_t identity)
    : identity_(identity),
      callers_(std::move(callers)),
      whole_(bytes_per_token, mean_output_tokens),
      prior_mean_(std::max(0.0, mean_output_tokens)) {}

std::uint64_t Estimator::key_of(std::uint64_t name) const {
  std::uint64_t mixed = (name ^ (identity_ >> 1U)) * 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ (mixed >> 29U) ^ identity_) * 0xbf58476d1ce4e5b9ULL;
  return mixed ^ (mixed >> 32U);
}

EstimateLevel::Belief Estimator::believe(const Chain& chain) {
  EstimateLevel::Belief belief = chain.levels[2]->own_belief();
  for (const std::size_t i : {1U, 0U}) {
    if (chain.levels[i] != nullptr) belief = chain.levels[i]->belief(belief);
  }
  return belief;
}

Estimator::Chain Estimator::chain_of(const Asked& asked) const {
  Chain chain;
  chain.levels[2] = &whole_;
  if (asked.caller != 0) chain.levels[0] = callers_->find(key_of(asked.caller));
  if (chain.levels[0] != nullptr && chain.levels[0]->known()) {
    // Whoever knows enough himself asks nobody.
    chain.belief = chain.levels[0]->remembered();
    return chain;
  }
  if (asked.tenant != 0) chain.levels[1] = callers_->find(key_of(asked.tenant));
  chain.belief = believe(chain);
  return chain;
}

double Estimator::p95(const Chain& chain, std::size_t from) const {
  double factor = 1;
  bool corrected = false;
  for (std::size_t i = from; i < 3; ++i) {
    const EstimateLevel* level = chain.levels[i];
    if (level == nullptr) continue;
    if (!corrected) factor = level->factor();
    corrected = true;
    if (level->known()) return upwards(level->sketch().value() * factor);
  }
  const double mean = from == 2 ? whole_.own_belief().mean : chain.belief.mean;
  return upwards(mean * kPriorQuantile * factor);
}

std::int64_t Estimator::proposal(const Chain& chain) const {
  for (const EstimateLevel* level : chain.levels) {
    if (level == nullptr || level->answers() < kProposeFrom) continue;
    const double wanted = level->sketch().quantile(kProposeShare) * kProposeRoom;
    return std::max(kProposeLeast, bounded(wanted * std::max(1.0, level->factor())));
  }
  return 0;
}

bool Estimator::distrusted(const Chain& chain) {
  for (const EstimateLevel* level : chain.levels) {
    if (level == nullptr) continue;
    return level->distrusted();
  }
  return false;
}

Cost Estimator::cost(const Demand& demand, const Asked& asked) const {
  const Chain chain = chain_of(asked);
  Cost cost;
  cost.produces_output = demand.produces_output;
  cost.silent = demand.produces_output && !demand.streaming;
  if (demand.input_tokens) {
    cost.input = bounded(*demand.input_tokens);
  } else {
    cost.input = bounded(static_cast<double>(std::max<std::int64_t>(0, demand.input_bytes)) *
                         chain.belief.tokens_per_byte);
  }
  cost.cached_input =
      static_cast<std::int64_t>(static_cast<double>(cost.input) * chain.belief.cached_ratio);
  if (!demand.produces_output) return cost;
  const std::int64_t choices = choices_of(demand);
  const auto times = static_cast<double>(choices);
  const std::int64_t mean = bounded(chain.belief.mean * times);
  const bool unknown = asked.unknown == OutputEstimate::max_tokens && !whole_.known();
  std::int64_t estimate = mean;
  if (asked.output == OutputEstimate::p95) estimate = bounded(p95(chain, 0) * times);
  if (unknown) estimate = bounded(kPriorQuantile * prior_mean_ * times);
  std::optional<std::int64_t> cap = demand.max_output_tokens;
  if (!cap && asked.propose) {
    cost.proposed = proposal(chain);
    if (cost.proposed > 0) cap = cost.proposed;
  }
  cost.reserve_output = estimate;
  cost.output = estimate;
  if (!cap) return cost;
  const std::int64_t most = bounded(saturating_multiply(std::max<std::int64_t>(0, *cap), choices));
  const bool whole = unknown || asked.output == OutputEstimate::max_tokens;
  cost.reserve_output = most;
  cost.output = whole ? most : std::min(estimate, most);
  if (cost.proposed == 0 && distrusted(chain)) {
    cost.reserve_output = std::max(most, estimate);
    cost.output = std::max(cost.output, estimate);
  }
  return cost;
}

std::int64_t Estimator::output_of(std::int64_t events) const {
  return bounded(static_cast<double>(std::max<std::int64_t>(0, events)) * tokens_per_event_);
}

double Estimator::mean_of(const Asked& asked) const { return chain_of(asked).belief.mean; }
double Estimator::p95_of(const Asked& asked) const { return p95(chain_of(asked), 0); }

void Estimator::note_quality(const Cost& cost, double mean, double p95, double output,
                             const Usage& usage, std::int64_t choices) {
  const double actual = static_cast<double>(bounded(usage.input_tokens)) +
                        static_cast<double>(bounded(usage.output_tokens));
  if (actual > 0) {
    const double charged = static_cast<double>(cost.input) + static_cast<double>(cost.output);
    const double error = (charged - actual) / actual;
    error_ = any_error_ ? error_ + (error - error_) * kErrorWeight : error;
    any_error_ = true;
  }
  if (!cost.produces_output) return;
  const auto times = static_cast<double>(choices);
  bias_estimated_ = bias_estimated_ * kQualityDecay + mean * times;
  bias_actual_ = bias_actual_ * kQualityDecay + output * times;
  covered_ = covered_ * kQualityDecay + (output > p95 ? 0 : 1);
  coverage_of_ = coverage_of_ * kQualityDecay + 1;
}

DebtNote Estimator::learn(const Demand& demand, const Asked& asked, const Cost& cost,
                          const Usage& usage, std::int64_t events) {
  const std::int64_t choices = choices_of(demand);
  const auto reported = static_cast<double>(bounded(usage.output_tokens));
  Learned one;
  one.input = static_cast<double>(bounded(usage.input_tokens));
  one.cached =
      std::clamp(static_cast<double>(usage.cached_input_tokens.value_or(0)), 0.0, one.input);
  const auto bytes = static_cast<double>(demand.input_bytes);
  // A ratio outside these bounds is not text (an image, a lie): it teaches nothing.
  if (bytes > one.input * 0.1 && bytes < one.input * 100) one.input_bytes = bytes;
  one.has_output = demand.produces_output;
  one.output = reported / static_cast<double>(choices);
  one.charged_input = static_cast<double>(cost.input);
  one.charged_output = static_cast<double>(cost.output);
  one.settled_output = reported;
  if (demand.max_output_tokens) {
    one.beyond_cap = beyond(one.output, *demand.max_output_tokens);
    one.within_cap = !one.beyond_cap;
  }
  // An answer that our own proposal cut short would have been longer: learned as it stands, the
  // proposals would follow each other down.
  const bool cut = cost.proposed > 0 && one.output >= static_cast<double>(cost.proposed);
  one.bucket = QuantileSketch::bucket_of(cut ? 2 * one.output : one.output);

  Chain chain;
  chain.levels[2] = &whole_;
  std::array<EstimateLevel*, 3> levels{nullptr, nullptr, &whole_};
  if (asked.tenant != 0) levels[1] = &callers_->take(key_of(asked.tenant));
  if (asked.caller != 0) levels[0] = &callers_->take(key_of(asked.caller));
  for (const std::size_t i : {0U, 1U}) chain.levels[i] = levels[i];
  const bool fresh = levels[0] == nullptr || !levels[0]->known();
  chain.belief = fresh ? believe(chain) : levels[0]->remembered();
  std::array<double, 3> p95s{};
  for (const std::size_t i : {0U, 1U, 2U}) p95s[i] = p95(chain, i);
  note_quality(cost, chain.belief.mean, p95s[0], one.output, usage, choices);
  if (demand.produces_output && events > 0 && reported > 0) {
    const double each = std::clamp(reported / static_cast<double>(events), 0.01, 1000.0);
    tokens_per_event_ += (each - tokens_per_event_) * kEventWeight;
  }
  for (const std::size_t i : {0U, 1U, 2U}) {
    if (levels[i] != nullptr) levels[i]->learn(one, p95s[i], i == 2);
  }
  if (levels[0] != nullptr) levels[0]->remember(believe(chain));
  if (levels[1] == nullptr) return {};
  const EstimateLevel& tenant = *levels[1];
  DebtNote note{tenant.input_alarm(), tenant.output_alarm(), 0, 0};
  if (!note.input && !note.output) return note;
  const EstimateLevel::Debt& debt = note.output ? tenant.output_debt() : tenant.input_debt();
  note.charged = debt.charged;
  note.settled = debt.settled;
  return note;
}

void Estimator::remember(RememberedDeployment& deployment) const {
  deployment.calls = whole_.remember();
  deployment.tokens_per_event = tokens_per_event_;
}

void Estimator::recall(const RememberedDeployment& deployment) {
  EstimateLevel level = whole_;
  level.recall(deployment.calls);
  // It is the level above which there is none: without a ratio it could estimate nothing.
  if (level.own_belief().tokens_per_byte <= 0) return;
  whole_ = level;
  if (deployment.tokens_per_event > 0) {
    tokens_per_event_ = std::clamp(deployment.tokens_per_event, 0.01, 1000.0);
  }
}

EstimateView Estimator::view() const {
  EstimateView view;
  const EstimateLevel::Belief belief = whole_.own_belief();
  view.bytes_per_token = belief.tokens_per_byte > 0 ? 1 / belief.tokens_per_byte : 0;
  view.mean_output = belief.mean;
  Chain chain;
  chain.levels[2] = &whole_;
  view.p95_output = p95(chain, 2);
  view.error = error_;
  if (bias_actual_ > 0) view.output_bias = bias_estimated_ / bias_actual_ - 1;
  if (coverage_of_ > 0) view.p95_coverage = covered_ / coverage_of_;
  view.cached_ratio = belief.cached_ratio;
  return view;
}

}  // namespace weir::governor
