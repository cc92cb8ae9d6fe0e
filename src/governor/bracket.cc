// SPDX-License-Identifier: Apache-2.0
#include "governor/bracket.h"

#include <algorithm>
#include <array>

#include "weir/units.h"

namespace weir::governor {
namespace {

// Where canaries ask, as shares of the sum that was refused first. A fall by a quarter costs two of
// them and one by half three; every further one is half of the last.
constexpr std::array<double, 5> kCanaries{0.94, 0.80, 0.65, 0.48, 0.35};
// A probe knows where the limit was a moment ago.
constexpr double kCanaryOfProbe = 0.985;
// What is kept below a limit that was just met.
constexpr double kBelow = 0.005;
// A limit met where it is told to be is left where it is, but for this.
constexpr double kBelowExpected = 0.0025;
// Met there again and again, it is left by twice as much each time: what is known of the sums is
// less than they are.
constexpr int kAgainMost = 5;
constexpr double kClosed = 0.02;
constexpr double kProbeOver = 1.03;
constexpr double kProbeTells = 1.015;
constexpr double kClimb = 1.3;
constexpr double kClimbAfterFall = 1.1;
constexpr double kReached = 0.97;
constexpr Duration kProbeLeast = std::chrono::seconds(120);
constexpr Duration kProbeSoon = std::chrono::seconds(5);
constexpr Duration kProbeMost = std::chrono::minutes(30);
// Refusals by probing are kept to about this share of what is sent.
constexpr double kProbeShare = 0.0008;
constexpr Duration kConsentLeast = std::chrono::milliseconds(100);
constexpr Duration kConsentMost = std::chrono::minutes(2);
// What a predecessor learned this long ago may not hold any more; later it is not worth a thought.
constexpr Duration kStale = std::chrono::hours(1);
constexpr Duration kForgotten = std::chrono::hours(24 * 30);
// An account that refuses everything is asked this seldom at most.
constexpr Duration kPauseMost = std::chrono::minutes(1);

std::int64_t whole(double amount) {
  return amount >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(amount);
}

}  // namespace

Bracket::Bracket(std::int64_t told, Duration window, double slack)
    : told_(std::max<std::int64_t>(told, 0)),
      window_(window),
      slack_(slack),
      amount_(told_),
      kept_(told_),
      consent_(kConsentLeast),
      probe_every_(kProbeLeast),
      probe_next_(kProbeLeast) {}

bool Bracket::explains(std::int64_t sum) const {
  return static_cast<double>(sum) >= static_cast<double>(kept_) * (1 - slack_);
}

Instant Bracket::closed_until() const {
  if (mode_ != Mode::drain || !canary_out_) return not_before_;
  const Instant since = canary_sent_ == kDawn ? canary_granted_ : canary_sent_;
  return std::max(not_before_, saturating_add(since, consent_));
}

void Bracket::tell(std::int64_t told) {
  if (told == told_) return;
  *this = Bracket(told, window_, slack_);
}

void Bracket::granted(Instant now) {
  if (mode_ != Mode::drain || canary_out_) return;
  canary_out_ = true;
  canary_granted_ = now;
  canary_sent_ = kDawn;
}

void Bracket::sent(std::int64_t sum, Instant now) {
  if (!canary_out_ || canary_sent_ != kDawn) return;
  canary_sent_ = now;
  canary_sum_ = sum;
}

void Bracket::ended(Instant sent_at) {
  if (canary_out_ && (canary_sent_ == sent_at || canary_sent_ == kDawn)) canary_out_ = false;
}

void Bracket::hold(double amount, Instant now) {
  kept_ = std::clamp<std::int64_t>(whole(amount), 1, std::max<std::int64_t>(told_, 1));
  amount_ = kept_;
  mode_ = kept_ >= told_ ? Mode::open : Mode::hold;
  probe_at_ = saturating_add(now, probe_next_);
}

bool Bracket::fills(std::int64_t sum) const {
  return static_cast<double>(sum) >= static_cast<double>(amount_) * kReached ||
         saturating_add(sum, lump_) > amount_;
}

void Bracket::climb_to(double amount) {
  amount_ = kept_ = std::min(told_, std::max(saturating_add(amount_, 1), whole(amount)));
  mode_ = amount_ >= told_ ? Mode::open : Mode::climb;
}

void Bracket::drain_to(double share, Instant now) {
  mode_ = Mode::drain;
  amount_ = whole(static_cast<double>(top_) * share);
  canary_out_ = false;
  not_before_ = now;
  if (amount_ > 0 && step_ < static_cast<int>(kCanaries.size()) + 3) return;
  // Nothing passes at all: the account is closed, or its limit is zero for now.
  const int doublings = std::clamp(step_ - static_cast<int>(kCanaries.size()), 0, 6);
  const Duration pause = std::chrono::seconds(std::int64_t{1} << doublings);
  not_before_ = saturating_add(now, std::min(kPauseMost, pause));
}

void Bracket::pass_canary(std::int64_t sum, Instant now) {
  canary_out_ = false;
  most_ = std::max(most_, sum);
  const double top = static_cast<double>(top_);
  if (step_ == 0 && fills(sum)) {
    const double again = static_cast<double>(std::int64_t{1} << again_);
    double held = expected_ ? static_cast<double>(kept_) * (1 - kBelowExpected * again)
                            : top * (1 - kBelow * again);
    // Below what has just been accepted the next call of that size would not fit.
    const bool large = static_cast<double>(lump_) > kBelow * top;
    if (large && again_ == 0) held = std::max(held, static_cast<double>(most_));
    hold(held, now);
    return;
  }
  // Somewhere between what passed, which may have waited for long, and what was refused last: one
  // more refusal says where.
  most_ = sum;
  amount_ = kept_ = std::max<std::int64_t>(sum, 1);
  // After all of the window had to empty first, the account was closed, and what was refused
  // meanwhile says nothing of its limit.
  const bool closed = static_cast<double>(sum) <= top * kClosed;
  climb_to(closed ? top : static_cast<double>(std::max(refused_, sum)));
}

void Bracket::accepted(std::int64_t sum, Instant sent_at, Instant now) {
  if (mode_ == Mode::drain) {
    if (canary_out_ && sent_at == canary_sent_) pass_canary(sum, now);
    return;
  }
  if (sent_at <= epoch_) return;
  most_ = std::max(most_, sum);
  const double value = static_cast<double>(sum);
  // There has to be room for one more of them, or the sum never comes so far.
  const double one_more = static_cast<double>(saturating_add(sum, lump_));
  if (mode_ == Mode::probe && value >= static_cast<double>(kept_) * kProbeTells) {
    climb_to(std::max(value * kClimb, one_more));
  } else if (mode_ == Mode::climb && fills(sum)) {
    climb_to(std::max(value * kClimbAfterFall, one_more));
  }
}

bool Bracket::refused(std::int64_t sum, std::int64_t cost, Instant sent_at, Duration latency,
                      Instant now) {
  if (sent_at <= epoch_) return false;
  epoch_ = now;
  lump_ = std::max<std::int64_t>(cost, 1);
  consent_ = std::clamp(2 * latency, kConsentLeast, kConsentMost);
  if (mode_ == Mode::drain) {
    // What was on its way when the drain began says nothing about where it has come to.
    const bool below = static_cast<double>(sum - cost) <= static_cast<double>(amount_);
    if (!below) return false;
    refused_ = std::max<std::int64_t>(sum - cost, 1);
    ++step_;
    double share = 1;
    const int last = static_cast<int>(kCanaries.size()) - 1;
    for (int beyond = step_; beyond > last; --beyond) share /= 2;
    drain_to(kCanaries[static_cast<std::size_t>(std::min(step_, last))] * share, now);
    return true;
  }
  const bool probing = mode_ == Mode::probe;
  const bool lately = refused_at_ != kDawn &&
                      saturating_sub(now, refused_at_) < std::max(10 * window_, kProbeLeast);
  refused_at_ = now;
  expected_ = !climbs() && explains(sum);
  again_ = !climbs() && lately ? std::min(again_ + 1, kAgainMost) : 0;
  const std::int64_t before = std::max<std::int64_t>(sum - cost, 0);
  // Refused above what was accepted lately: the limit is where it was, and the larger of the two
  // bounds is the closer one. Refused below it: the limit fell.
  top_ = sum > most_ ? std::max(before, std::min(most_, sum - 1)) : before;
  if (sum <= most_) most_ = 0;
  refused_ = std::max<std::int64_t>(before, 1);
  step_ = 0;
  const double window = static_cast<double>(window_.count());
  const double flying = static_cast<double>(top_) * static_cast<double>(latency.count()) / window;
  const double mean_cost = static_cast<double>(std::max<std::int64_t>(cost, 1));
  const double calls = std::max(1.0, static_cast<double>(top_) / mean_cost);
  const double wanted = (1 + flying / mean_cost) / kProbeShare / calls * window;
  probe_every_ = std::clamp(Duration(whole(wanted)), kProbeLeast, kProbeMost);
  // What was met by climbing or probing is known to be there; what was met unawares may have been
  // another limit, so it is asked again soon, and each time it is confirmed less so.
  if (probing) {
    probe_next_ = std::min(2 * probe_next_, probe_every_);
  } else {
    probe_next_ = climbs() || expected_ ? probe_every_
                                        : std::max({window_ / 4, kProbeSoon, probe_every_ / 16});
  }
  drain_to(probing ? kCanaryOfProbe : kCanaries.front(), now);
  return true;
}

std::optional<RememberedLimit> Bracket::remember(Instant now) const {
  if (mode_ == Mode::open) return std::nullopt;
  RememberedLimit limit;
  limit.kept = kept_;
  limit.most = most_;
  limit.lump = lump_;
  if (refused_at_ != kDawn) limit.refused_ago = saturating_sub(now, refused_at_);
  limit.probe_every = probe_every_;
  limit.probe_next = probe_next_;
  if (mode_ == Mode::hold) limit.probe_in = std::max(Duration{0}, saturating_sub(probe_at_, now));
  limit.found = mode_ == Mode::hold || mode_ == Mode::probe;
  if (limit.found) return limit;
  // Somewhere above what passed last. After all of the window had to empty first, the account was
  // closed, and only what it held then says something of its limit.
  const bool closed = static_cast<double>(amount_) <= static_cast<double>(top_) * kClosed;
  const bool drained = mode_ == Mode::drain;
  limit.kept = drained ? (closed ? top_ : amount_) : most_;
  return limit;
}

void Bracket::recall(const RememberedLimit& limit, Duration age, Instant now) {
  if (age >= kForgotten || limit.kept <= 0 || limit.kept >= told_) return;
  most_ = std::clamp<std::int64_t>(limit.most, 0, told_);
  lump_ = std::clamp<std::int64_t>(limit.lump, 1, told_);
  probe_every_ = std::clamp(limit.probe_every, kProbeLeast, kProbeMost);
  const Duration soon = std::max(window_ / 4, kProbeSoon);
  const bool doubtful = !limit.found || age >= kStale;
  probe_next_ = doubtful ? soon : std::clamp(limit.probe_next, soon, probe_every_);
  if (limit.refused_ago != kForever && limit.refused_ago >= Duration{0}) {
    refused_at_ = saturating_add(saturating_add(now, -limit.refused_ago), -age);
  }
  hold(static_cast<double>(limit.kept), now);
  const Duration left = std::clamp(limit.probe_in, Duration{0}, kProbeMost);
  // For a window its sums are of charges that are known in part only: asked before, a refusal would
  // be taken for more than it says.
  const Duration wait = doubtful ? Duration{0} : left - std::clamp(age, Duration{0}, kStale);
  probe_at_ = saturating_add(now, std::max(wait, window_));
}

void Bracket::roll(bool wanted, Instant now) {
  switch (mode_) {
    case Mode::open:
    case Mode::climb: return;
    case Mode::drain:
      if (!canary_out_ || now < closed_until()) return;
      if (canary_sent_ == kDawn) {
        canary_out_ = false;  // it never left
      } else {
        epoch_ = std::max(epoch_, canary_sent_ - Duration{1});
        pass_canary(canary_sum_, now);
      }
      return;
    case Mode::hold:
      if (now < probe_at_ || !wanted) return;
      mode_ = Mode::probe;
      amount_ = std::min(told_, std::max(whole(static_cast<double>(kept_) * kProbeOver),
                                         saturating_add(kept_, lump_)));
      probe_until_ = saturating_add(now, 2 * window_);
      return;
    case Mode::probe:
      if (now < probe_until_) return;
      hold(static_cast<double>(kept_), now);
      return;
  }
}

}  // namespace weir::governor
