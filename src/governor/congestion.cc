// SPDX-License-Identifier: Apache-2.0
#include "governor/congestion.h"

#include <algorithm>
#include <cmath>

namespace weir::governor {
namespace {

constexpr double kStep = 0.1823215567939546;  // log 1.2: from one level of the curve to the next
constexpr double kElasticity = 0.7;           // of z over n, from which throughput hardly grows
constexpr double kApart = 0.22;               // log 1.25: parts of the curve that are compared
constexpr double kErrors = 3;
constexpr double kProbe = 0.13;      // a probe downwards, as a logarithm of calls in flight
constexpr double kProbeShown = 0.6;  // of what it takes away, for the knee to be lower still
constexpr double kProbeNoise = 0.04;
constexpr Duration kSettled = std::chrono::seconds(20);
constexpr Duration kProbeEveryLeast = std::chrono::minutes(2);
constexpr Duration kProbeEveryMost = std::chrono::minutes(10);
constexpr double kTrialLeast = 0.22;
constexpr double kTrialMost = 0.5;
constexpr double kJudgedLeast = 0.1;  // a decrease that took less than this away shows nothing
constexpr double kSuspect = 0.223;    // log 1.25: slower by this than the calmest part of the curve
constexpr double kCalm = 0.058;       // log 1.06: z is kept above this
constexpr double kSlow = 0.166;       // log 1.18: and below this
constexpr double kAim = 1.08;
constexpr double kMinorTrack = 0.1;  // of the time; a track with less says nothing
constexpr double kLevelLeast = 8;    // samples that make a level of the curve
constexpr double kLevelMemory = 100;
constexpr double kLateMemory = 1.0 / 16;
constexpr double kVarianceMemory = 1.0 / 64;
constexpr double kTrackMemory = 1.0 / 128;
constexpr double kWantedError = 0.05;
constexpr double kSamplesLeast = 20;
constexpr double kSamplesMost = 48;
constexpr std::int64_t kLookEvery = 8;
constexpr Duration kRecentFor = std::chrono::seconds(5);
constexpr Duration kCurveFor = std::chrono::minutes(10);
constexpr Duration kIdleFor = std::chrono::minutes(10);
constexpr Duration kBackoffMost = std::chrono::minutes(30);
constexpr Duration kBackoffLeast = std::chrono::minutes(1);
constexpr Duration kProbeLeast = std::chrono::seconds(30);
constexpr Duration kProbeMost = std::chrono::minutes(5);
constexpr double kAttemptMemory = 64;
constexpr double kOverloadsLeast = 3.5;
constexpr double kOverloadShare = 0.08;
constexpr double kOverloadsProbed = 2.5;
constexpr double kOverloadsExpected = 10;  // without an effect, for their absence to be one
constexpr double kBelowFailures = 0.93;
constexpr int kOverloadSteps = 4;
constexpr double kOverloadStep = 0.9;

double logarithm(std::int64_t inflight) {
  return std::log(static_cast<double>(std::max<std::int64_t>(1, inflight)));
}

}  // namespace

void Congestion::first_token(const Of& of, Duration took, std::int64_t input_tokens, Instant now) {
  const double seconds = to_seconds(took);
  if (!(seconds > 0)) return;
  const auto input = static_cast<double>(input_tokens);
  mean_input_ += (input - mean_input_) * (samples_[kFirst] == 0 ? 1 : kTrackMemory);
  const double z = first_fit_.add(seconds, input, 0);
  add(kFirst, of, z, seconds, now);
}

void Congestion::tokens(const Of& of, Duration took, std::int64_t tokens, Instant now) {
  const double seconds = to_seconds(took);
  if (!(seconds > 0) || tokens <= 0) return;
  add(kGap, of, std::log(seconds / static_cast<double>(tokens)), seconds, now);
}

void Congestion::whole(const Of& of, Duration took, std::int64_t input_tokens,
                       std::int64_t output_tokens, Instant now) {
  const double seconds = to_seconds(took);
  if (!(seconds > 0)) return;
  const double z = whole_fit_.add(seconds, static_cast<double>(input_tokens),
                                  static_cast<double>(output_tokens));
  add(kWhole, of, z, seconds, now);
}

void Congestion::overloaded(const Of& of, Instant now) {
  if (of.sent_at < epoch_) return;
  const auto at = static_cast<double>(of.inflight);
  ++overloads_;
  ++epoch_overloads_;
  failed_at_ = overloads_ <= 1 || failed_at_ <= 0 ? at : failed_at_ + (at - failed_at_) / 4;
  // One that fails though fewer are in flight than ever did says nothing of their number.
  if (at > ceiling_) ceiling_at_ = now;
  look_at_overload(now);
}

void Congestion::granted(std::int64_t inflight, Instant now) {
  // Failures come sooner than answers: their share is of what was sent, not of what came back.
  const double kept = 1 - 1 / kAttemptMemory;
  attempts_ = attempts_ * kept + 1;
  ++epoch_attempts_;
  overloads_ *= kept;
  if (limit_ == 0 || inflight < limit_) return;
  bound_ = true;
  bound_at_ = now;
}

void Congestion::add(Track track, const Of& of, double z, double seconds, Instant now) {
  if (of.sent_at < epoch_) return;
  const std::int64_t count = samples_[track]++;
  // From one sample to the next, so that what changes slowly is no noise.
  const double deviation = count == 0 ? 0 : z - latest_[track];
  latest_[track] = z;
  const double late = std::max(kLateMemory, 1.0 / static_cast<double>(count + 1));
  level_[track] += (z - level_[track]) * late;
  const double spread = std::max(kVarianceMemory, 1.0 / static_cast<double>(count + 1));
  variance_[track] += (deviation * deviation / 2 - variance_[track]) * spread;
  for (std::size_t i = 0; i < kTracks; ++i) {
    const double here = i == track ? seconds : 0;
    seconds_[i] += (here - seconds_[i]) * std::max(kTrackMemory, spread / 4);
  }
  const double n = logarithm(of.inflight);
  const auto index = static_cast<std::size_t>(n / kStep);
  Level& level = curve_[std::min(index, kLevels - 1)];
  if (saturating_sub(now, level.touched) > kCurveFor) level.means = Means{};
  level.touched = now;
  Mean& mean = level.means[track];
  mean.count = std::min(mean.count + 1, kLevelMemory);
  mean.z += (z - mean.z) / mean.count;
  mean.n += (n - mean.n) / mean.count;
  Recent& recent = recent_[track];
  recent.samples[recent.next] = {z, n, now};
  recent.next = (recent.next + 1) % kRecent;
  recent.count = std::min(recent.count + 1, kRecent);
  if (++since_look_ < kLookEvery) return;
  since_look_ = 0;
  look(now);
}

double Congestion::noise() const {
  double most = 0;
  double all = 0;
  for (std::size_t i = 0; i < kTracks; ++i) all += seconds_[i];
  for (std::size_t i = 0; i < kTracks; ++i) {
    if (samples_[i] > 0 && seconds_[i] >= kMinorTrack * all) most = std::max(most, variance_[i]);
  }
  return most;
}

// The newest: as many of each track as make a mean worth the name, and all of the last 5 s.
Congestion::Means Congestion::recent(Instant now) const {
  const double wanted =
      std::clamp(noise() / (kWantedError * kWantedError), kSamplesLeast, kSamplesMost);
  Means means;
  for (std::size_t track = 0; track < kTracks; ++track) {
    const Recent& recent = recent_[track];
    Mean& mean = means[track];
    for (std::size_t back = 1; back <= recent.count; ++back) {
      const Sample& sample = recent.samples[(recent.next + kRecent - back) % kRecent];
      if (mean.count >= wanted && saturating_sub(now, sample.at) > kRecentFor) break;
      ++mean.count;
      mean.z += (sample.z - mean.z) / mean.count;
      mean.n += (sample.n - mean.n) / mean.count;
    }
  }
  return means;
}

bool Congestion::enough(const Means& means) const {
  // A few calls in flight give few samples: none of them would wait for twenty long answers.
  const double most =
      limit_ > 0 ? std::clamp(2.0 * static_cast<double>(limit_), 8.0, kSamplesMost) : kSamplesMost;
  const double wanted = std::min(
      most, std::clamp(noise() / (kWantedError * kWantedError), kSamplesLeast, kSamplesMost));
  double all = 0;
  double seen = 0;
  for (std::size_t i = 0; i < kTracks; ++i) {
    all += seconds_[i];
    if (means[i].count >= wanted) seen += seconds_[i];
  }
  return seen > 0 && seen >= all / 2;
}

Congestion::Difference Congestion::differ(const Means& from, const Means& to) const {
  Difference result;
  double weight = 0;
  double factor = 0;
  double squares = 0;
  for (std::size_t i = 0; i < kTracks; ++i) {
    const Mean& left = from[i];
    const Mean& right = to[i];
    if (left.count < kLevelLeast || right.count < kLevelLeast || seconds_[i] <= 0) continue;
    // Seconds at the present level; brought back to those at the level that is compared with.
    const double share = seconds_[i] * std::exp(std::clamp(left.z - level_[i], -5.0, 5.0));
    const double ratio = std::exp(std::clamp(right.z - left.z, -5.0, 5.0));
    const double error2 = variance_[i] * (1 / left.count + 1 / right.count);
    weight += share;
    factor += share * ratio;
    result.n += share * (right.n - left.n);
    squares += share * ratio * share * ratio * error2;
  }
  double all = 0;
  double seen = 0;
  for (std::size_t i = 0; i < kTracks; ++i) {
    all += seconds_[i];
    const bool both = from[i].count >= kLevelLeast && to[i].count >= kLevelLeast;
    if (both) seen += seconds_[i];
  }
  // What most of the time goes into has to be among what is compared.
  if (!(weight > 0) || !(factor > 0) || seen < all / 2) return result;
  result.known = true;
  result.z = std::log(factor / weight);
  result.n /= weight;
  result.error = std::sqrt(squares) / factor;
  return result;
}

const Congestion::Level* Congestion::calmest(double below, Instant now) const {
  const Level* best = nullptr;
  for (const Level& level : curve_) {
    if (saturating_sub(now, level.touched) > kCurveFor) continue;
    const Difference self = differ(level.means, level.means);
    if (!self.known) continue;
    double n = 0;
    for (const Mean& mean : level.means) n = std::max(n, mean.n);
    if (n > below) continue;
    if (best == nullptr) {
      best = &level;
      continue;
    }
    const Difference faster = differ(best->means, level.means);
    if (faster.known && faster.z < -faster.error) best = &level;
  }
  return best;
}

void Congestion::look(Instant now) {
  look_at_overload(now);
  const Means present = recent(now);
  if (!enough(present)) return;
  switch (state_) {
    case State::free: look_for_congestion(present, now); break;
    case State::trying:
      if (!by_overload_) judge_trial(present, now);
      break;
    case State::holding: follow(present, now); break;
  }
}

void Congestion::look_for_congestion(const Means& present, Instant now) {
  if (now < next_trial_) return;
  double n = 0;
  double seconds = 0;
  for (std::size_t i = 0; i < kTracks; ++i) {
    if (present[i].count < kLevelLeast) continue;
    n += present[i].n * seconds_[i];
    seconds += seconds_[i];
  }
  if (!(seconds > 0)) return;
  n /= seconds;
  const Level* calm = calmest(n - kApart, now);
  if (calm == nullptr) return;
  const Difference over_calm = differ(calm->means, present);
  if (!over_calm.known || over_calm.z < kSuspect) return;
  for (const Level& level : curve_) {
    if (saturating_sub(now, level.touched) > kCurveFor) continue;
    const Difference grown = differ(level.means, present);
    if (!grown.known || grown.n < kApart) continue;
    if (grown.z - kErrors * grown.error < kElasticity * grown.n) continue;
    const double less = std::clamp(4 * grown.error, kTrialLeast, kTrialMost);
    normal_ = calm->means;
    state_ = State::trying;
    by_overload_ = false;
    set_in_at_ = std::lround(std::exp(n));
    limit_ = 0;
    decrease(std::exp(n - less), present, now);
    return;
  }
}

void Congestion::judge_trial(const Means& present, Instant now) {
  const Difference effect = differ(before_, present);
  if (!effect.known) return;
  const double taken = -effect.n;
  if (taken < kJudgedLeast) {
    // Nobody wanted that many any more: nothing was shown.
    state_ = State::free;
    limit_ = 0;
    begin_epoch(now);
    return;
  }
  if (-effect.z < taken / 2) {
    ++refuted_;
    next_trial_ = saturating_add(now, backoff_);
    backoff_ = std::min<Duration>(backoff_ * 2, kBackoffMost);
    state_ = State::free;
    limit_ = 0;
    forget_curve();
    begin_epoch(now);
    return;
  }
  ++holds_;
  by_speed_ = true;
  backoff_ = kBackoffLeast;
  state_ = State::holding;
  boost_ = 1;
  grown_ = 0;
  judging_ = false;
  follow(present, now);
}

void Congestion::follow(const Means& present, Instant now) {
  if (saturating_sub(now, std::max(bound_at_, epoch_)) > kIdleFor) return release(now);
  if (judging_ && !by_overload_) {
    const Difference effect = differ(before_, present);
    if (!effect.known) return;
    judging_ = false;
    if (probing_) return judge_probe(present, effect, now);
    const double taken = -effect.n;
    if (taken >= kJudgedLeast && -effect.z < taken / 3) return take_back(present, now);
  }
  const Difference slower = differ(normal_, present);
  if (!slower.known) return grow(now);
  if (slower.z - slower.error > kSlow) {
    by_overload_ = false;
    const double factor = std::clamp(kAim / std::exp(slower.z), 0.5, 0.95);
    return decrease(static_cast<double>(limit_) * factor, present, now);
  }
  // A provider that has become faster has a new normal speed.
  if (slower.z + 2 * slower.error < -2 * kCalm) normal_ = present;
  // Until one probe has shown where the knee is not, what is normal is a guess.
  const bool probe = may_probe(slower, now);
  if (slower.z < kCalm && !(probe && next_probe_ == kDawn)) return grow(now);
  if (!probe) return;
  by_overload_ = false;
  decrease(static_cast<double>(limit_) * std::exp(-kProbe), present, now);
  probing_ = true;
}

bool Congestion::may_probe(const Difference& slower, Instant now) const {
  const bool settled = next_probe_ == kDawn || saturating_sub(now, epoch_) > kSettled;
  return by_speed_ && bound_ && now >= next_probe_ && settled && slower.error < kProbeNoise;
}

// What was taken for normal may have been measured on the way up, or long ago. Where fewer calls
// are faster still, normal is faster than believed; where they are not, this is it.
void Congestion::judge_probe(const Means& present, const Difference& effect, Instant now) {
  probing_ = false;
  const double taken = -effect.n;
  if (taken < kJudgedLeast) return;
  if (-effect.z >= kProbeShown * taken) {
    for (Mean& mean : normal_) mean.z -= taken;
    probe_every_ = kProbeEveryLeast;
    return;
  }
  normal_ = present;
  limit_ = std::max(limit_, limit_before_);
  next_probe_ = saturating_add(now, probe_every_);
  probe_every_ = std::min<Duration>(probe_every_ * 2, kProbeEveryMost);
  begin_epoch(now);
}

void Congestion::look_at_overload(Instant now) {
  const double share = attempts_ > 0 ? overloads_ / attempts_ : 0;
  if (judging_ && by_overload_) {
    const auto all = static_cast<double>(epoch_attempts_);
    if (all < std::max(kSamplesLeast, kOverloadsExpected / overloads_before_)) return;
    judging_ = false;
    const bool fewer = static_cast<double>(epoch_overloads_) < all * overloads_before_ / 4;
    if (state_ == State::trying && fewer) {
      ++holds_;
      by_speed_ = false;
      state_ = State::holding;
      boost_ = 1;
      grown_ = 0;
    }
    if (fewer) {
      overloads_before_ = 0;
      steps_ = 0;
      return;
    }
    // How many were in flight when it refused is known roughly only: a few steps show it.
    if (++steps_ < kOverloadSteps) {
      decrease(static_cast<double>(limit_) * kOverloadStep, recent(now), now);
      return;
    }
    steps_ = 0;
    // As many as before with fewer calls in flight: it is not their number. Where most answers are
    // such the limit stays, for whoever has that much to do should not get more.
    if (share > 0.5) {
      state_ = State::holding;
      return;
    }
    ++refuted_;
    next_trial_ = saturating_add(now, backoff_);
    backoff_ = std::min<Duration>(backoff_ * 2, kBackoffMost);
    return release(now);
  }
  // A probe beyond what had overload answers before needs fewer to be answered.
  const bool probed = state_ == State::holding && ceiling_ > 0 &&
                      static_cast<double>(limit_) > ceiling_ && overloads_ > kOverloadsProbed &&
                      share > kOverloadShare;
  if (!probed && (overloads_ < kOverloadsLeast || share < kOverloadShare)) return;
  if (state_ == State::trying && !by_overload_) return;
  if (state_ == State::free && now < next_trial_) return;
  // Where next to nothing comes through, less is tried once, not again and again.
  if (state_ == State::holding && share > 0.5 && overloads_before_ > 0.5) return;
  by_overload_ = true;
  overloads_before_ = share;
  ceiling_ = std::max(1.0, std::floor(failed_at_ * kBelowFailures));
  if (state_ == State::holding) probe_after_ = std::min<Duration>(probe_after_ * 2, kProbeMost);
  double to = ceiling_;
  if (limit_ > 0) to = std::min(to, static_cast<double>(limit_) * 0.95);
  if (state_ == State::free) {
    state_ = State::trying;
    probe_after_ = kProbeLeast;
    set_in_at_ = std::lround(failed_at_);
    const Means present = recent(now);
    const Level* calm = calmest(std::log(std::max(failed_at_, 1.0)), now);
    normal_ = calm != nullptr ? calm->means : present;
  }
  decrease(to, recent(now), now);
}

void Congestion::decrease(double to, const Means& before, Instant now) {
  std::int64_t limit = std::max<std::int64_t>(1, std::lround(to));
  if (limit_ > 0) limit = std::min(limit, std::max<std::int64_t>(1, limit_ - 1));
  const bool lower = limit_ == 0 || limit < limit_;
  limit_before_ = limit_;
  limit_ = limit;
  before_ = before;
  judging_ = lower || by_overload_;
  probing_ = false;
  boost_ = 1;
  grown_ = 0;
  begin_epoch(now);
}

// Fewer calls were not faster: what is slow is something else, and normal from now on.
void Congestion::take_back(const Means& present, Instant now) {
  ++refuted_;
  limit_ = std::max(limit_, limit_before_);
  normal_ = present;
  forget_curve();
  begin_epoch(now);
}

void Congestion::grow(Instant now) {
  if (!bound_) return;
  const auto limit = static_cast<double>(limit_);
  double to = limit + std::max(1.0, std::min(std::sqrt(limit) / 2 * boost_, limit / 2));
  // It has been passed for an epoch, and nothing happened.
  if (limit > ceiling_) ceiling_ = 0;
  const bool known_ceiling = ceiling_ > 0 && saturating_sub(now, ceiling_at_) < kCurveFor;
  if (known_ceiling && to > ceiling_) {
    to = std::max(limit, ceiling_);
    if (to <= limit) {
      if (saturating_sub(now, ceiling_at_) < probe_after_) return;
      to = limit + 1;
    }
  } else {
    if (grown_ > 0) boost_ = std::min(boost_ * 2, 64.0);
    ++grown_;
  }
  limit_ = std::max(limit_ + 1, std::lround(to));
  by_overload_ = false;
  if (limit_ > 2 * std::max<std::int64_t>(set_in_at_, 1)) return release(now);
  begin_epoch(now);
}

void Congestion::release(Instant now) {
  state_ = State::free;
  limit_ = 0;
  by_overload_ = false;
  judging_ = false;
  probing_ = false;
  probe_every_ = kProbeEveryLeast;
  next_probe_ = kDawn;
  forget_curve();
  begin_epoch(now);
}

void Congestion::begin_epoch(Instant now) {
  epoch_ = now;
  bound_ = false;
  for (Recent& recent : recent_) recent.count = 0;
  since_look_ = 0;
  attempts_ = overloads_ = 0;
  epoch_attempts_ = epoch_overloads_ = 0;
}

void Congestion::forget_curve() {
  for (Level& level : curve_) level = Level{};
}

double Congestion::normal_first_token() const {
  if (samples_[kFirst] == 0) return 0;
  const double z =
      state_ == State::free || normal_[kFirst].count <= 0 ? level_[kFirst] : normal_[kFirst].z;
  return first_fit_.expect(mean_input_, 0) * std::exp(z);
}

double Congestion::normal_per_token() const {
  if (samples_[kGap] == 0) return 0;
  return std::exp(state_ == State::free || normal_[kGap].count <= 0 ? level_[kGap]
                                                                    : normal_[kGap].z);
}

}  // namespace weir::governor
