// SPDX-License-Identifier: Apache-2.0
// Which limits a provider keeps, learned from what it accepts and what it refuses.
//
// Told are amounts for a minute. A provider may keep them in shorter windows, count the maximum
// output at admission, or keep another amount altogether. Every such guess has a meter that counts
// along; one refusal is put beside all of them. A guess that stood at its limit when a call was
// refused is the better supported the seldomer calls stand there; one that did not is wrong, unless
// its limit fell. Obeyed are the told rules and, of the guesses, those that refusals speak for;
// where nothing explains a refusal, some limit shrinks all the same, so that none goes unanswered.
// Source: control.md sections 13.0 (10) and 13.2 (d).
#include <algorithm>
#include <cmath>

#include "governor/impl.h"
#include "governor/meant.h"

namespace weir::governor {
namespace {

constexpr double kAgainst = -3;
constexpr double kUnlikely = -1.5;
constexpr double kDoubt = 0;
// A guess worse than this is not taken although nothing else explains a refusal.
constexpr double kGuessLeast = -1.25;
constexpr double kScoreMost = 6;
// What a guess must have over the rule that is kept, where both explain a refusal.
constexpr double kChallenge = 1.5;
constexpr double kMetLeast = 0.02;
constexpr double kMetMemory = 0.02;
// A refusal that names no limit, where none is near, may have nothing to do with limits. When more
// than this share of the verdicts are such, of about the last fifty, it has.
constexpr double kUnnamedMost = 0.08;
constexpr double kUnnamedMemory = 0.02;
constexpr Duration kShort = std::chrono::seconds(1);
// A limit that moved by less is not told of, and no more changes than these wait to be told.
constexpr double kMoved = 0.03;
constexpr std::size_t kNotes = 64;

struct Suspect {
  const MeterRef* ref = nullptr;
  std::size_t index = 0;
};

std::size_t learned_rules(const DeploymentTerms& deployment) {
  return std::min(deployment.rules.size(), kLearnedRules);
}

bool of_limiter(const MeterRef& ref, Limiter limiter) {
  Unit unit = Unit::requests;
  bool any_tokens = false;
  // A refusal that names no limit may be any.
  if (!unit_of(limiter, unit, any_tokens)) return limiter == Limiter::unknown;
  if (ref.claim.unit == unit) return true;
  return any_tokens && ref.claim.unit != Unit::requests && ref.claim.unit != Unit::concurrency;
}

bool names_seconds(Limiter limiter) { return limiter == Limiter::rps || limiter == Limiter::tps; }

bool window_suits(const MeterRef& ref, Limiter limiter) {
  if (limiter == Limiter::unknown) return true;
  return names_seconds(limiter) == (ref.limit.window <= kShort);
}

void drop(const MeterRef& ref, Instant now) {
  ref.shared->belief.active = false;
  ref.shared->recalled = false;
  ref.meter().forget_learned(now);
}

}  // namespace

void Governor::Impl::note_standing(Record& record, const DeploymentTerms& deployment, Instant now) {
  for (std::size_t i = 0; i < learned_rules(deployment); ++i) {
    record.standing[i] = deployment.rules[i].meter().standing(now);
  }
}

// A reading is of the rule whose limit it names; where it names none that was told, of the longest.
void Governor::Impl::learn_headers(const Record& record, const Signal& signal, Instant now) {
  const DeploymentTerms& deployment = record.terms->deployments[record.deployment];
  const auto read = [&](const LimitReading& reading, Unit unit) {
    if (!reading.limit || !reading.remaining || *reading.limit <= 0) return;
    // Zero means nothing, for some; what says it is used up is seen to elsewhere.
    if (*reading.remaining <= 0 || *reading.remaining > *reading.limit) return;
    std::size_t best = learned_rules(deployment);
    for (std::size_t i = 0; i < learned_rules(deployment); ++i) {
      const MeterRef& ref = deployment.rules[i];
      if (ref.claim.unit != unit || ref.shared->belief.guessed || ref.meter().grows()) continue;
      const RuleMeter& meter = ref.meter();
      if (best < learned_rules(deployment)) {
        const RuleMeter& other = deployment.rules[best].meter();
        const bool names = meter.rule().amount == *reading.limit;
        const bool named = other.rule().amount == *reading.limit;
        if (named && !names) continue;
        if (named == names && meter.rule().window < other.rule().window) continue;
      }
      best = i;
    }
    if (best >= learned_rules(deployment)) return;
    // One answer raises nothing.
    if (*reading.limit > deployment.rules[best].meter().rule().amount) return;
    deployment.rules[best].meter().read_headers(
        *reading.limit - *reading.remaining, record.standing[best], record.progressed.sent_at, now);
  };
  read(signal.requests, Unit::requests);
  read(signal.tokens, Unit::total_tokens);
  read(signal.input_tokens, Unit::input_tokens);
  read(signal.output_tokens, Unit::output_tokens);
}

void Governor::Impl::learn_acceptance(Record& record, Instant now) {
  const DeploymentTerms& deployment = record.terms->deployments[record.deployment];
  if (!deployment.learns || record.judged || !record.progressed.sent) return;
  record.judged = true;
  deployment.state->unnamed -= deployment.state->unnamed * kUnnamedMemory;
  for (std::size_t i = 0; i < learned_rules(deployment); ++i) {
    const MeterRef& ref = deployment.rules[i];
    if (ref.meter().bracket() == nullptr || !record.cost.concerns(ref.claim.unit)) continue;
    Belief& belief = ref.shared->belief;
    const std::int64_t standing = saturating_add(record.standing[i], ref.meter().others(now));
    const bool met = ref.meter().bracket()->explains(standing);
    belief.met += ((met ? 1.0 : 0.0) - belief.met) * kMetMemory;
    ref.meter().accepted(standing, record.progressed.sent_at, now);
    note_learned(record, ref);
    if (!belief.guessed || !belief.active) continue;
    if (saturating_sub(now, belief.refused_at) < belief.trusted) continue;
    // Long without a refusal: it may have been wrong. One refusal brings it back, for longer.
    drop(ref, now);
    note_learned(record, ref);
    belief.trusted = std::min<Duration>(belief.trusted * 2, std::chrono::hours(24));
  }
}

void Governor::Impl::note_learned(const Record& record, const MeterRef& ref) {
  Metered& metered = *ref.shared;
  const Belief& belief = metered.belief;
  const Bracket* bracket = metered.meter.bracket();
  if (bracket == nullptr) return;
  const std::int64_t told = metered.meter.rule().amount;
  const std::int64_t before = metered.noted > 0 ? metered.noted : told;
  const std::int64_t after = bracket->settled().value_or(before);
  const bool turned = belief.guessed && belief.active != metered.noted_active;
  const double moved = std::abs(static_cast<double>(after - before));
  if (!turned && moved < kMoved * static_cast<double>(std::max<std::int64_t>(before, 1))) return;
  if (!turned && belief.guessed && !belief.active) return;
  metered.noted = after;
  metered.noted_active = belief.active;
  if (learned_.size() >= kNotes) return;
  learned_.push_back({record.terms->policy->deployments[record.deployment].name,
                      metered.meter.rule(), belief.guessed, belief.active, before, after,
                      belief.score});
}

bool Governor::Impl::learn_refusal(DeploymentTerms& deployment, const Signal& signal,
                                   Record& record, Instant now) {
  DeploymentState& state = *deployment.state;
  const Duration latency = saturating_sub(now, record.progressed.sent_at);
  state.refusals_take = state.refusals_take == Duration{0}
                            ? latency
                            : state.refusals_take + (latency - state.refusals_take) / 4;
  record.judged = true;
  const bool stale = record.progressed.sent_at <= state.decreased_at;
  if (stale) return true;
  const auto cost_of = [&](const MeterRef& ref) {
    return record.cost.admitted(ref.claim.unit, ref.claim.count, ref.claim.side);
  };
  Suspect kept, guess, shortest, told;
  double kept_share = 0;
  double told_share = -1;
  for (std::size_t i = 0; i < learned_rules(deployment); ++i) {
    const MeterRef& ref = deployment.rules[i];
    const Bracket* bracket = ref.meter().bracket();
    if (bracket == nullptr || !ref.gates || !of_limiter(ref, signal.limiter)) continue;
    if (!record.cost.concerns(ref.claim.unit)) continue;
    Belief& belief = ref.shared->belief;
    const std::int64_t standing = saturating_add(record.standing[i], ref.meter().others(now));
    const bool explains = bracket->explains(standing);
    double gain = explains ? -std::log(std::max(belief.met, kMetLeast)) : kAgainst;
    if (explains && belief.guessed) {
      // More was let in before: true of a fixed window only.
      if (standing <= bracket->most()) gain = std::min(gain, kDoubt);
      // It will not be empty before: no window is as short as that.
      if (signal.retry_after && *signal.retry_after > ref.limit.window + kShort) gain = kUnlikely;
    }
    belief.score = std::clamp(belief.score + gain, -kScoreMost, kScoreMost);
    if (explains) belief.refused_at = now;
    if (belief.active) {
      const double share = static_cast<double>(standing) /
                           static_cast<double>(std::max<std::int64_t>(1, bracket->amount()));
      if (explains && share > kept_share) {
        kept = {&ref, i};
        kept_share = share;
      }
      // Of those it names, the longest; where it names none, the fullest.
      const bool unnamed = signal.limiter == Limiter::unknown;
      const double rank = unnamed ? share : to_seconds(ref.limit.window);
      if (!belief.guessed && rank > told_share) {
        told = {&ref, i};
        told_share = rank;
      }
      if (belief.guessed && !explains && belief.score <= 0) drop(ref, now);
    } else if (explains && window_suits(ref, signal.limiter) && belief.score >= kGuessLeast &&
               (guess.ref == nullptr || belief.score > guess.ref->shared->belief.score)) {
      guess = {&ref, i};
    }
    if (shortest.ref == nullptr || ref.limit.window < shortest.ref->limit.window) {
      shortest = {&ref, i};
    }
  }
  Suspect chosen = kept;
  if (guess.ref != nullptr) {
    const double over = kept.ref == nullptr ? 0 : kept.ref->shared->belief.score + kChallenge;
    if (kept.ref == nullptr || guess.ref->shared->belief.score > over) chosen = guess;
  }
  if (chosen.ref == nullptr && names_seconds(signal.limiter)) chosen = shortest;
  if (chosen.ref == nullptr) chosen = told;
  if (chosen.ref == nullptr) return false;
  if (signal.limiter == Limiter::unknown && kept.ref == nullptr && guess.ref == nullptr) {
    state.unnamed += (1 - state.unnamed) * kUnnamedMemory;
    if (state.unnamed < kUnnamedMost) return false;
    state.unnamed = 0;
  }
  state.decreased_at = now;
  chosen.ref->shared->belief.active = true;
  chosen.ref->shared->belief.refused_at = now;
  chosen.ref->shared->recalled = false;
  const std::int64_t standing =
      saturating_add(record.standing[chosen.index], chosen.ref->meter().others(now));
  chosen.ref->meter().refused(standing, cost_of(*chosen.ref), record.progressed.sent_at,
                              state.refusals_take, now);
  for (std::size_t i = 0; i < learned_rules(deployment); ++i) {
    note_learned(record, deployment.rules[i]);
  }
  return true;
}

}  // namespace weir::governor
