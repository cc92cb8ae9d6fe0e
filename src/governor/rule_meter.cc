// SPDX-License-Identifier: Apache-2.0
#include "governor/rule_meter.h"

#include <algorithm>
#include <cmath>

#include "weir/units.h"

namespace weir::governor {
namespace {

// Departures are paced a little faster than the limit, with a burst, so that a stall of the mirror
// is caught up (control.md 13.0). Where a long queue keeps a request rule busy there is nothing to
// catch up, and both shrink: lumps even out, and a successor that knows nothing finds an even
// window. Token rules need their burst there most: what a call takes is known when it is over.
struct Pace {
  double factor;       ///< of the rule's rate
  double factor_busy;  ///< the same with a long queue
  double burst;        ///< of the amount
  double burst_busy;
};
constexpr Pace kPaceRequests{1.05, 1.03, 0.10, 0.02};
constexpr Pace kPaceTokens{1.05, 1.05, 0.13, 0.13};
// A stall lasts as long as calls do, whatever the window is: in a short one its part is larger.
constexpr Duration kStall = std::chrono::seconds(8);
constexpr double kBurstMostTokens = 0.40;
// A short window that is known is kept by its mirror; its pacer only evens out lumps.
constexpr double kBurstShortKnown = 0.20;
// What is kept free of a token quota: a floor for what is in the network; so many standard
// deviations of what the inputs in flight were misjudged by; and, where output is counted at the
// end, so many answers of the size that a token is most likely part of, for those that end while a
// request is on its way.
constexpr double kMarginDeviations = 2.5;
constexpr double kMarginAnswers = 4.5;
constexpr double kMarginMost = 0.05;
constexpr double kMarginMemory = 512;
constexpr double kMarginTokens = 0.005;
constexpr Duration kMinute = std::chrono::seconds(60);
constexpr Duration kHour = std::chrono::hours(1);
// How exactly the sums are known by which a limit is learned: inputs are estimated.
constexpr double kSlackRequests = 0.03;
constexpr double kSlackTokens = 0.05;
// How much faster departures are while a limit is being found.
constexpr double kBurstClimbing = 0.001;
constexpr double kBurstShared = 0.002;
constexpr double kHaste = 1.4;
// What a pause for a canary cost is caught up without a burst.
constexpr double kHasteUnsettled = 1.2;
constexpr double kHasteProbe = 1.1;
constexpr std::int64_t kLeakyGuard = 10;
constexpr Duration kGuardFloor = std::chrono::milliseconds(20);
constexpr Duration kBoostHalf = std::chrono::minutes(10);
constexpr Duration kShrinkRecovery = std::chrono::minutes(5);
constexpr std::int64_t kProviderCells = 8192;
constexpr std::int64_t kOwnCells = 128;

// Calls that were in flight when a predecessor died are cut, and a provider that counts at the end
// counts what they had used at once, on top of a full window. In a short window that is much of it.
constexpr Duration kCutCalls = std::chrono::seconds(10);

double nanoseconds(Duration duration) { return static_cast<double>(duration.count()); }

Pace pace_of(const Rule& rule) {
  if (rule.unit == Unit::requests || rule.unit == Unit::concurrency) return kPaceRequests;
  Pace pace = kPaceTokens;
  const double stall = nanoseconds(kStall) / std::max(1.0, nanoseconds(rule.window));
  pace.burst_busy = std::clamp(stall, pace.burst_busy, kBurstMostTokens);
  pace.burst = pace.burst_busy;
  return pace;
}

// What a start that assumes a full window releases of it: the busy pacer bounds what its
// predecessor can have sent in any part of the last window, so this never releases more than left.
double release_slope(const Rule& rule) { return pace_of(rule).factor_busy; }
double release_offset(const Rule& rule) {
  const Pace pace = pace_of(rule);
  return pace.factor_busy - 1 + pace.burst_busy;
}

std::int64_t scaled(std::int64_t amount, double factor) {
  if (factor >= 1) return amount;
  const double value = std::floor(static_cast<double>(amount) * std::max(0.0, factor) + kSlack);
  return value >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(value);
}

}  // namespace

RuleMeter::RuleMeter(const MeterSettings& settings, Instant now)
    : settings_(settings),
      start_(now),
      log_(settings.rule.window, settings.side == Side::own ? kOwnCells : kProviderCells) {
  keep_bracket();
  derive();
  if (bucket() && !level()) {
    const double taken = assumed_full() * (1 + cut_share());
    bucket_.charge(taken, mirror_slope(now), now);
  }
  keep_counter(static_cast<std::int64_t>(std::min(assumed_full(), 9e18)), now);
}

void RuleMeter::keep_counter(std::int64_t taken, Instant now) {
  if (settings_.rule.enforce != Enforcement::counter || bucket() || level()) {
    counter_.reset();
    return;
  }
  if (counter_) return;
  counter_ = std::make_unique<CounterMirror>(settings_.rule.window, now);
  counter_->add(taken, guard(now), now);
}

void RuleMeter::keep_bracket() {
  const Rule& rule = settings_.rule;
  if (settings_.growth && growth_) growth_->tell(*settings_.growth);
  if (settings_.growth && !growth_) growth_.emplace(*settings_.growth);
  if (!settings_.growth) growth_.reset();
  // A bucket that holds less than its amount refuses what comes too close together, whatever the
  // sum of a window is: it is kept as told, for nothing is learned of it by sums.
  const bool shallow = refills(rule.enforce) && rule.depth() < rule.amount;
  const bool wanted = !growth_ && !shallow && settings_.adaptive &&
                      settings_.side == Side::provider && !level() && rule.window > Duration{0};
  if (!wanted) {
    bracket_.reset();
  } else if (bracket_) {
    bracket_->tell(rule.amount);
  } else {
    bracket_.emplace(rule.amount, rule.window, tokens() ? kSlackTokens : kSlackRequests);
  }
}

void RuleMeter::roll(Instant now) {
  if (!bracket_) return;
  const std::int64_t before = bracket_->amount();
  const bool climbed = bracket_->climbs();
  const bool wanted =
      blocked_at_ != kDawn && saturating_sub(now, blocked_at_) < settings_.rule.window;
  bracket_->roll(wanted, now);
  follow_bracket(before, climbed, now);
}

void RuleMeter::follow_bracket(std::int64_t before, bool climbed, Instant now) {
  if (bracket_->amount() == before && bracket_->climbs() == climbed) return;
  const Slope slope = pace_slope(now);
  const double factor = static_cast<double>(std::max<std::int64_t>(1, bracket_->amount())) /
                        static_cast<double>(std::max<std::int64_t>(1, before));
  pacer_.rescale(factor, slope, now);
  derive();
  keep_what_is_unforeseen();
}

void RuleMeter::accepted(std::int64_t standing, Instant sent_at, Instant now) {
  if (!bracket_) return;
  const std::int64_t before = bracket_->amount();
  const bool climbed = bracket_->climbs();
  bracket_->accepted(standing, sent_at, now);
  follow_bracket(before, climbed, now);
}

void RuleMeter::read_headers(std::int64_t said, std::int64_t standing, Instant sent_at,
                             Instant now) {
  if (settings_.side == Side::own || level()) return;
  others_.read(said - standing, sent_at, now);
}

std::int64_t RuleMeter::others(Instant now) const {
  return std::min(others_.used(settings_.rule.window, now), settings_.rule.amount);
}

void RuleMeter::forget_learned(Instant now) {
  if (!bracket_) return;
  const std::int64_t before = bracket_->amount();
  const bool climbed = bracket_->climbs();
  bracket_.reset();
  keep_bracket();
  follow_bracket(before, climbed, now);
}

bool RuleMeter::refused(std::int64_t standing, std::int64_t amount, Instant sent_at,
                        Duration latency, Instant now) {
  if (!bracket_) return false;
  const std::int64_t before = bracket_->amount();
  const bool climbed = bracket_->climbs();
  const bool news = bracket_->refused(standing, amount, sent_at, latency, now);
  follow_bracket(before, climbed, now);
  return news;
}

void RuleMeter::configure(const MeterSettings& settings, Instant now) {
  const bool was_bucket = bucket();
  const std::int64_t before = used(now);
  const double factor = settings_.rule.amount > 0 ? static_cast<double>(settings.rule.amount) /
                                                        static_cast<double>(settings_.rule.amount)
                                                  : 1;
  if (!level()) {
    pacer_.rescale(factor, pace_slope(now), now);
    bucket_.rescale(factor, mirror_slope(now), now);
  }
  settings_ = settings;
  keep_bracket();
  derive();
  keep_what_is_unforeseen();
  keep_counter(before, now);
  if (was_bucket && !bucket()) log_.add(now, before);
  if (!was_bucket && bucket()) {
    bucket_.charge(static_cast<double>(before), mirror_slope(now), now);
  }
}

void RuleMeter::derive() {
  const Rule& rule = settings_.rule;
  bucket_kept_ = !bracket_ && (settings_.force_bucket || refills(rule.enforce));
  rate_ = rule.window <= Duration{0} ? 0 : static_cast<double>(amount()) / nanoseconds(rule.window);
  keep_free(settings_.side == Side::provider && tokens()
                ? std::clamp(settings_.margin.value_or(kMarginTokens), 0.0, 0.9)
                : 0);
  guard_most_ = rule.window / 10;
  if (rule.enforce == Enforcement::leaky && rule.amount > 0) {
    // Its guard is a pause after every departure, so it is held to a few of them.
    guard_most_ = std::min(guard_most_, kLeakyGuard * (rule.window / rule.amount));
  }
  guard_floor_ = settings_.guard ? *settings_.guard : std::min(kGuardFloor, rule.window / 50);
  largest_ = bracket_ ? std::max(capacity(), rule.amount) : capacity();
  if (settings_.goes_alone) largest_ = std::max(largest_, settings_.alone_max);
  if (level()) largest_ = INT64_MAX;
  if (rule.amount <= 0) largest_ = INT64_MIN;
}

void RuleMeter::keep_free(double share) {
  margin_ = share;
  pace_ = rate_ * (1 - margin_) * pace_of(settings_.rule).factor * haste();
  // What asks whether a limit is higher has to come as high as it says.
  whole_ = scaled(amount(), bracket_ && bracket_->climbs() ? 1 : 1 - margin_);
}

void RuleMeter::learn(std::int64_t error, std::int64_t output) {
  learned_ = std::min(learned_ + 1, kMarginMemory);
  const auto mix = [this](double& mean, double value) { mean += (value - mean) / learned_; };
  const auto squared = [](std::int64_t value) {
    return static_cast<double>(value) * static_cast<double>(value);
  };
  mix(error_squared_, squared(error));
  mix(output_, static_cast<double>(output));
  mix(output_squared_, squared(output));
  keep_what_is_unforeseen();
}

void RuleMeter::keep_what_is_unforeseen() {
  if (settings_.margin || settings_.rule.amount <= 0 || learned_ <= 0) return;
  double unforeseen =
      kMarginDeviations * std::sqrt(static_cast<double>(calls_ + 1) * error_squared_);
  if (settings_.rule.count == Counting::settle && output_ > 0) {
    unforeseen += kMarginAnswers * output_squared_ / output_;
  }
  const double share = unforeseen / static_cast<double>(std::max<std::int64_t>(1, amount()));
  keep_free(std::min(kMarginTokens + share, kMarginMost));
}

double RuleMeter::haste() const {
  if (!bracket_ || !bracket_->climbs()) return 1;
  return bracket_->probes() ? kHasteProbe : kHaste;
}

double RuleMeter::shrink(Instant now) const {
  if (shrunk_ >= 1) return 1;
  const double back = nanoseconds(saturating_sub(now, shrunk_at_)) / nanoseconds(kShrinkRecovery);
  return std::min(1.0, shrunk_ + back);
}

Duration RuleMeter::guard(Instant now) const {
  if (settings_.side == Side::own) return Duration{0};
  Duration wanted = settings_.guard ? Duration{0} : spread_;
  if (boost_ > Duration{0}) {
    const double aged = nanoseconds(saturating_sub(now, boosted_at_)) / nanoseconds(kBoostHalf);
    const double boost = nanoseconds(boost_) * std::exp2(-aged);
    wanted = std::max(wanted, Duration(static_cast<std::int64_t>(std::min(boost, 1e18))));
  }
  const Duration whole = std::max(guard_floor_, std::min(guard_most_, wanted));
  if (settings_.rule.enforce != Enforcement::fixed || bucket()) return whole;
  // A fixed window overflows only if its edge also falls into the short gap between two arrivals
  // that both met the extremes of the delay, so its guard can do with a little less.
  return whole - whole / 20;
}

double RuleMeter::saturation(Instant now) const {
  if (blocked_at_ == kDawn) return 0;
  const double window = nanoseconds(settings_.rule.window);
  const double passed = nanoseconds(saturating_sub(now, blocked_at_));
  if (window <= 0) return 0;
  // It comes and goes over two windows, so that no change of the pace lets a lump through.
  const bool still = busy_ && passed <= window * 1.25;
  return std::clamp(saturation_ + (still ? passed : -passed) / (2 * window), 0.0, 1.0);
}

double RuleMeter::burst(Instant now) const {
  // A bucket that is deeper than what it refills in its window lets more than that go at once.
  const double amount = static_cast<double>(bracket_ ? bracket_->amount()
                                                     : std::max(settings_.rule.amount, capacity()));
  const bool known = settings_.rule.enforce != Enforcement::unknown;
  const Pace pace = pace_of(settings_.rule);
  double part =
      known && !tokens() && settings_.rule.window < kMinute ? kBurstShortKnown : pace.burst;
  if (settings_.burst_percent) {
    part = std::clamp(static_cast<double>(*settings_.burst_percent) / 100, 0.0, 1.0);
  } else {
    part += (pace.burst_busy - part) * saturation(now);
  }
  // What goes out while a limit is looked for is refused together where it is found.
  if (bracket_ && (bracket_->climbs() || bracket_->unsettled(now))) {
    part = std::min(part, kBurstClimbing);
  }
  // So does what goes out while others use what is left.
  if (others(now) > 0) part = std::min(part, kBurstShared);
  // One request more than the next, so that a departure which came late is made up for.
  return std::max(std::min(2.0, amount), amount * part);
}

Slope RuleMeter::mirror_slope(Instant now) const {
  double kept = rate();
  if (bucket() && settings_.side == Side::provider) {
    // A bucket that is too shallow for what the delay's spread bunches together is kept by spacing
    // the departures: 1/R + J apart where its depth is one, of which the provider sees 1/R at
    // least.
    const double bunched = rate() * nanoseconds(guard(now));
    kept /= std::max(1.0, 2 - static_cast<double>(capacity()) + bunched);
  }
  return Slope{kept, kDawn, Duration{0}};
}

Slope RuleMeter::pace_slope(Instant now) const {
  if (blocked_at_ == kDawn && shrunk_ >= 1) return Slope{pace_, start_, settings_.warmup};
  const Pace pace = pace_of(settings_.rule);
  const double factor = pace.factor + (pace.factor_busy - pace.factor) * saturation(now);
  double faster = haste();
  if (bracket_ && bracket_->unsettled(now)) faster = std::max(faster, kHasteUnsettled);
  return Slope{rate() * (1 - margin()) * factor * faster * shrink(now), start_, settings_.warmup};
}

std::int64_t RuleMeter::capacity() const {
  if (bracket_) return amount();
  if (refills(settings_.rule.enforce)) return settings_.rule.depth();
  return bucket() ? settings_.rule.burst.value_or(settings_.rule.amount) : settings_.rule.amount;
}

double RuleMeter::depth(Instant now) const {
  const double full = static_cast<double>(capacity());
  if (settings_.side == Side::own) return full;
  // Arrivals spread by the guard can meet a bucket that is emptier by what refills in that time.
  return std::max(std::min(full, 1.0), full - rate() * nanoseconds(guard(now)));
}

std::int64_t RuleMeter::limit(Instant now) const {
  if (level()) return settings_.rule.amount;
  if (growth_) return growth_->most(guard(now));
  const bool plain = bracket_ || (shrunk_ >= 1 && settings_.warmup <= Duration{0});
  if (plain && !bucket()) return whole_;
  double factor = (1 - margin()) * shrink(now);
  if (settings_.warmup > Duration{0}) {
    factor *= Slope{0, start_, settings_.warmup}.share(now);
  }
  if (!bucket()) return scaled(amount(), factor);
  const double value = depth(now) * factor + kSlack;
  return value >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(value);
}

double RuleMeter::assumed_full() const {
  if (assumed_) return static_cast<double>(*assumed_);
  return static_cast<double>(capacity()) * (1 - std::clamp(settings_.start_level, 0.0, 1.0));
}

double RuleMeter::cut_share() const {
  const Duration window = settings_.rule.window;
  if (!tokens() || settings_.rule.count != Counting::settle || window >= kMinute) return 0;
  return std::min(1.0, nanoseconds(kCutCalls) / std::max(1.0, nanoseconds(window)));
}

std::int64_t RuleMeter::phantom(Instant now) const {
  const Duration window = settings_.rule.window;
  const Rule& rule = settings_.rule;
  if (settings_.start_level >= 1 || assumed_ == 0 || bucket() || growth_) return 0;
  if (window <= Duration{0}) return 0;
  const double passed =
      nanoseconds(saturating_sub(now, saturating_add(start_, guard(now)))) / nanoseconds(window);
  if (passed >= 1) return 0;
  const double full = assumed_full();
  const double released = window > kHour
                              ? std::max(0.0, passed)
                              : std::max(0.0, release_slope(rule) * passed - release_offset(rule));
  const double left = std::ceil(full * (1 - std::min(1.0, released) + cut_share()) - kSlack);
  return left >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(left);
}

Instant RuleMeter::phantom_at_most(std::int64_t most, Instant now) const {
  const Duration window = settings_.rule.window;
  const Rule& rule = settings_.rule;
  const double full = assumed_full();
  const Instant base = saturating_add(start_, guard(now));
  const Instant end = saturating_add(base, window);
  if (full <= 0 || most < 0) return end;
  const double released = 1 + cut_share() - static_cast<double>(most) / full;
  const double passed =
      window > kHour ? released : (released + release_offset(rule)) / release_slope(rule);
  if (passed >= 1) return end;
  const double wait = std::ceil(std::max(0.0, passed) * nanoseconds(window)) + 1;
  return std::min(end, saturating_add(base, Duration(static_cast<std::int64_t>(wait))));
}

bool RuleMeter::counts_production(const Claim& claim) const {
  return claim.side == Side::provider && claim.count == Counting::realtime &&
         (claim.unit == Unit::output_tokens || claim.unit == Unit::total_tokens);
}

void RuleMeter::flow(Instant now) {
  if (silent_ <= 0 || now <= flowed_at_) {
    flowed_at_ = std::max(flowed_at_, now);
    return;
  }
  const double passed = nanoseconds(saturating_sub(now, flowed_at_));
  flowed_at_ = now;
  flowed_ += std::min(passed * speed_ * static_cast<double>(silent_), 1e15);
  const auto whole = static_cast<std::int64_t>(flowed_);
  if (whole <= 0) return;
  flowed_ -= static_cast<double>(whole);
  mirror_add(whole, now);
}

std::int64_t RuleMeter::used(Instant now) {
  if (level()) return held_;
  flow(now);
  if (bucket()) {
    const double debt = std::ceil(bucket_.debt(mirror_slope(now), now) - kSlack);
    return debt >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(debt);
  }
  if (growth_) growth_->follow(log_, guard(now), now);
  log_.expire(now, guard(now));
  return saturating_add(log_.sum(), phantom(now));
}

bool RuleMeter::paced(Instant now) const {
  if (!settings_.pace || level()) return false;
  if (bracket_) return !bracket_->drains();
  if (tokens()) return true;
  if (now < paced_until_ || settings_.warmup > Duration{0}) return true;
  if (bucket()) return false;
  if (settings_.rule.enforce == Enforcement::unknown || counter_ ||
      settings_.rule.window < kMinute) {
    return true;
  }
  // A lump that fills the window at once blocks it for as long as the window is.
  return saturating_sub(now, blocked_at_) <= settings_.rule.window + settings_.rule.window / 4;
}

bool RuleMeter::fits(std::int64_t amount, std::int64_t paced_amount, Instant now) {
  if (settings_.rule.amount <= 0 || now < hold_until_) return false;
  if (level()) return held_ < settings_.rule.amount;
  if (now < alone_until_) return false;
  if (bracket_) {
    roll(now);
    if (now < bracket_->closed_until()) return false;
  }
  amount = std::max<std::int64_t>(amount, 1);
  const std::int64_t taken = saturating_add(used(now), open_);
  const std::int64_t asked = saturating_add(amount, others(now));
  if (saturating_add(taken, asked) > limit(now) && !(taken == 0 && ever_fits(amount))) {
    return false;
  }
  if (counter_ && !counter_fits(amount, now)) return false;
  if (!paced(now)) return true;
  const double cost = static_cast<double>(std::min(paced_amount, capacity()));
  return pacer_.debt(pace_slope(now), now) + cost <= std::max(burst(now), cost) + kSlack;
}

bool RuleMeter::counter_fits(std::int64_t amount, Instant now) {
  const std::int64_t taken = saturating_add(counter_->estimate(guard(now), now), open_);
  return saturating_add(taken, amount) <= limit(now) || (taken == 0 && ever_fits(amount));
}

Instant RuleMeter::mirror_when(std::int64_t amount, std::int64_t returned, Instant now) {
  const std::int64_t most = std::max<std::int64_t>(0, limit(now) - amount);
  const Instant soon = saturating_add(now, Duration{1});
  if (bucket()) {
    const double level_wanted =
        static_cast<double>(most) - static_cast<double>(open_) + static_cast<double>(returned);
    const Slope slope = mirror_slope(now);
    const Instant at = bucket_.falls_to(std::max(level_wanted, 0.0), slope, now);
    // What is granted and not stamped yet has to be worked off too.
    return std::max(soon, level_wanted < 0 ? slope.reach(at, -level_wanted) : at);
  }
  const std::int64_t taken =
      std::max<std::int64_t>(0, saturating_add(log_.sum(), open_) - returned);
  const std::int64_t ghost = phantom(now);
  if (taken <= most && saturating_add(taken, ghost) > most) {
    return std::max(soon, phantom_at_most(most - taken, now));
  }
  if (saturating_add(taken, ghost) <= most) return soon;
  const std::int64_t need = taken - most;
  const Instant freed = log_.frees(need, guard(now));
  // What is granted but not stamped yet can leave a window after its stamp at the earliest.
  if (freed == kNever) {
    return saturating_add(saturating_add(now, settings_.rule.window), guard(now));
  }
  return std::max(soon, freed);
}

Instant RuleMeter::when(std::int64_t amount, std::int64_t paced_amount, std::int64_t returned,
                        Instant now) {
  if (settings_.rule.amount <= 0) return kNever;
  if (level()) {
    if (now < hold_until_) return hold_until_;
    return held_ - returned < settings_.rule.amount ? now : kNever;
  }
  amount = std::max<std::int64_t>(amount, 1);
  Instant at = std::max({now, hold_until_, alone_until_});
  if (bracket_) {
    roll(now);
    at = std::max(at, bracket_->closed_until());
  }
  flow(now);
  if (growth_) growth_->follow(log_, guard(now), now);
  if (!bucket()) log_.expire(now, guard(now));
  const std::int64_t taken = std::max<std::int64_t>(
      0, saturating_add(saturating_add(log_.sum(), phantom(now)), open_) - returned);
  const std::int64_t debt =
      bucket() ? std::max<std::int64_t>(0, saturating_add(used(now), open_) - returned) : taken;
  const std::int64_t foreign = others(now);
  const std::int64_t asked = saturating_add(amount, foreign);
  if (saturating_add(debt, asked) > limit(now) && !(debt == 0 && ever_fits(amount))) {
    Instant freed = mirror_when(asked, returned, now);
    // Its limit rises by itself.
    if (growth_) freed = std::min(freed, std::max(growth_->looks_again(), now + Duration{1}));
    if (foreign > 0) freed = std::min(freed, saturating_add(now, settings_.rule.window / 64));
    if (settings_.warmup > Duration{0} && now < saturating_add(start_, settings_.warmup)) {
      // The limit itself grows: look again within a hundredth of the way.
      freed = std::min(freed, saturating_add(now, settings_.warmup / 100 + Duration{1}));
    }
    at = std::max(at, freed);
  }
  if (counter_ && !counter_fits(amount, now)) {
    const std::int64_t most = limit(now) - amount - open_ + returned;
    at =
        std::max({at, counter_->falls_to(most, guard(now), now), saturating_add(now, Duration{1})});
  }
  if (paced(now)) {
    const double cost = static_cast<double>(std::min(paced_amount, capacity()));
    const double wanted = std::max(burst(now), cost) - cost;
    at = std::max(at, pacer_.falls_to(wanted, pace_slope(now), now));
  }
  return at;
}

void RuleMeter::mirror_add(std::int64_t amount, Instant now) {
  if (bucket()) {
    bucket_.charge(static_cast<double>(amount), mirror_slope(now), now);
  } else {
    if (growth_) growth_->follow(log_, guard(now), now);
    log_.expire(now, guard(now));
    log_.add(now, amount);
    if (counter_) counter_->add(amount, guard(now), now);
  }
  if (settings_.goes_alone && amount > capacity() && rate() > 0) {
    alone_until_ = mirror_slope(now).reach(now, static_cast<double>(amount));
  }
}

void RuleMeter::mirror_credit(Instant stamp, std::int64_t amount, Instant now) {
  if (bucket()) {
    bucket_.correct(-static_cast<double>(amount), mirror_slope(now), now);
  } else {
    log_.credit(stamp, amount);
    if (counter_) counter_->credit(stamp, amount, guard(now), now);
  }
}

void RuleMeter::grant(const Claim& claim, const Cost& cost, Instant now) {
  const std::int64_t amount = cost.admitted(claim.unit, claim.count, claim.side);
  held_ += amount;
  ++calls_;
  if (claim.unit == Unit::concurrency) return;
  open_ += amount;
  if (bracket_) bracket_->granted(now);
  if (settings_.pace) {
    const std::int64_t paced_amount = std::min(cost.paced(claim.unit, claim.count), capacity());
    pacer_.charge(static_cast<double>(paced_amount), pace_slope(now), now);
  }
}

void RuleMeter::sent(const Claim& claim, const Cost& cost, Instant now) {
  if (claim.unit == Unit::concurrency) return;
  open_ -= cost.admitted(claim.unit, claim.count, claim.side);
  const std::int64_t amount = mirrored(claim, cost);
  if (amount > 0) mirror_add(amount, now);
  if (bracket_) bracket_->sent(standing(now), now);
  if (cost.silent && counts_production(claim)) {
    flow(now);
    ++silent_;
  }
}

std::int64_t RuleMeter::mirrored(const Claim& claim, const Cost& cost) {
  return claim.unit == Unit::concurrency ? 0 : cost.admitted(claim.unit, claim.count, claim.side);
}

void RuleMeter::sent_late(const Claim& claim, const Cost& cost, Instant now) {
  const std::int64_t amount = mirrored(claim, cost);
  if (amount > 0) mirror_add(amount, now);
  if (settings_.pace && !level()) {
    const std::int64_t paced_amount = std::min(cost.paced(claim.unit, claim.count), capacity());
    pacer_.charge(static_cast<double>(paced_amount), pace_slope(now), now);
  }
}

void RuleMeter::progress(const Claim& claim, std::int64_t output, Instant now) {
  if (claim.side == Side::own) return;
  if (claim.unit != Unit::output_tokens && claim.unit != Unit::total_tokens) return;
  if (claim.count == Counting::realtime) mirror_add(output, now);
}

void RuleMeter::finish(const Claim& claim, const Cost& cost, const Progressed& progressed,
                       const Actual& actual, Instant now) {
  const std::int64_t amount = cost.admitted(claim.unit, claim.count, claim.side);
  held_ -= amount;
  --calls_;
  if (claim.unit == Unit::concurrency) return;
  if (bracket_) bracket_->ended(progressed.sent ? progressed.sent_at : kDawn);
  const auto pace = [&](std::int64_t real) {
    if (!settings_.pace) return;
    const std::int64_t paced_amount = std::min(cost.paced(claim.unit, claim.count), capacity());
    const double delta = static_cast<double>(real) - static_cast<double>(paced_amount);
    pacer_.correct(delta, pace_slope(now), now);
  };
  if (!progressed.sent) {
    open_ -= amount;
    pace(0);
    return;
  }
  const bool output_unit = claim.unit == Unit::output_tokens || claim.unit == Unit::total_tokens;
  std::int64_t metered = output_unit ? progressed.metered : 0;
  const bool silent = cost.silent && counts_production(claim);
  if (silent) {
    flow(now);
    --silent_;
    const double lasted = nanoseconds(saturating_sub(now, progressed.sent_at));
    metered = static_cast<std::int64_t>(std::min(lasted * speed_, 1e15));
  }
  const std::int64_t real = actual.of(claim.unit);
  const auto correct = [&](std::int64_t delta) {
    if (delta > 0) mirror_add(delta, now);
    if (delta < 0) mirror_credit(progressed.sent_at, -delta, now);
  };
  if (claim.side == Side::own || claim.unit == Unit::requests) {
    correct(real - amount);
    pace(real);
    return;
  }
  const std::int64_t input = actual.tokens_charged ? actual.input : 0;
  const std::int64_t known_input = claim.unit == Unit::output_tokens ? 0 : input;
  const std::int64_t held_input = claim.unit == Unit::output_tokens ? 0 : cost.input;
  // Without a report an estimate would be compared with itself.
  if (actual.tokens_charged && actual.reported) {
    const bool ends_at_once = claim.unit == Unit::input_tokens || claim.count == Counting::input;
    learn(known_input - held_input, ends_at_once ? 0 : actual.output);
  }
  switch (claim.count) {
    case Counting::reserve:
      // Never given back, so only a larger input than estimated is added; a refused or failed
      // attempt was not charged at all.
      if (!actual.tokens_charged) {
        correct(-amount);
        pace(0);
      } else {
        correct(std::max<std::int64_t>(0, known_input - held_input));
      }
      return;
    case Counting::reserve_refund: correct(real - amount); break;
    case Counting::settle:
      correct(known_input - held_input);
      mirror_add(real - known_input, now);
      break;
    case Counting::realtime: {
      correct(known_input - held_input);
      const std::int64_t late = real - known_input - metered;
      if (late > 0) mirror_add(late, now);
      if (late < 0) {
        const std::int64_t most = silent ? -late : progressed.last_metered;
        mirror_credit(silent ? now : progressed.metered_at, std::min(-late, most), now);
      }
      break;
    }
    case Counting::input:
      if (claim.unit != Unit::output_tokens) correct(input - amount);
      pace(claim.unit == Unit::output_tokens ? 0 : input);
      return;
  }
  pace(real);
}

void RuleMeter::book_late(const Claim& claim, std::int64_t missing, Instant now) {
  if (missing <= 0 || claim.unit == Unit::requests || claim.unit == Unit::concurrency) return;
  if (claim.side == Side::provider && claim.count == Counting::reserve) return;
  mirror_add(missing, now);
  if (settings_.pace) pacer_.correct(static_cast<double>(missing), pace_slope(now), now);
}

void RuleMeter::hold(Instant until, Instant now) {
  if (until <= now) return;
  hold_until_ = std::max(hold_until_, until);
  if (!settings_.pace || level()) return;
  paced_until_ = saturating_add(hold_until_, std::max(settings_.rule.window, kMinute));
  pacer_.raise(std::max(0.0, burst(now) - 1), pace_slope(now), hold_until_);
}

void RuleMeter::grew_too_fast(Instant now) {
  if (!growth_) return;
  const std::int64_t sum = used(now);
  growth_->refused(sum, guard(now), now);
}

void RuleMeter::unexplained(Instant now) {
  if (settings_.side == Side::own || level()) return;
  const Duration most = settings_.rule.window / 10;
  const Duration present = guard(now);
  if (present >= most) {
    shrunk_ = std::max(0.2, shrink(now) * 0.9);
    shrunk_at_ = now;
  }
  boost_ = std::min(most, std::max(present * 2, Duration(std::chrono::milliseconds(1))));
  boosted_at_ = now;
}

void RuleMeter::note_blocked(std::int64_t queued, Instant now) {
  saturation_ = saturation(now);
  busy_ = queued >= amount() / 4;
  blocked_at_ = now;
}

Instant RuleMeter::promise(Instant at, std::int64_t amount) {
  if (rate() <= 0) return at;
  Instant slot = std::max(at, promised_);
  const Duration horizon = std::max(settings_.rule.window, kMinute);
  if (slot > saturating_add(at, horizon)) slot = at;
  promised_ = mirror_slope(at).reach(slot, static_cast<double>(std::max<std::int64_t>(amount, 1)));
  return slot;
}

Instant RuleMeter::empties(Instant now) {
  if (level()) return held_ > 0 ? kNever : now;
  const Slope slope = mirror_slope(now);
  if (bucket()) {
    const Instant at = bucket_.falls_to(0, slope, now);
    return open_ > 0 ? slope.reach(at, static_cast<double>(open_)) : at;
  }
  Instant at = std::max(now, log_.empties(guard(now)));
  // What is granted and not yet stamped stays for a whole window after its stamp.
  if (open_ > 0) at = std::max(at, saturating_add(now, settings_.rule.window));
  if (phantom(now) > 0) at = std::max(at, phantom_at_most(0, now));
  if (counter_) at = std::max(at, counter_->falls_to(0, guard(now), now));
  return at;
}

std::int64_t RuleMeter::returnable() const {
  if (level()) return held_;
  if (!tokens()) return 0;
  const bool refunds =
      settings_.side == Side::own || settings_.rule.count == Counting::reserve_refund;
  return refunds ? held_ : 0;
}

}  // namespace weir::governor
