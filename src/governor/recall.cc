// SPDX-License-Identifier: Apache-2.0
// How a governor hands on what it has learned and what its long windows hold, and how its successor
// takes it.
//
// Everything goes by names, and by ages instead of instants. Whatever is taken may be wrong: it is
// held in range, and what does not fit what is told now is left out. Limits of our own are kept
// over long windows only, those of providers over all: after an end in order a successor need not
// take their windows as full. After any other end the short ones are taken as full all the same,
// but what is known of what fills them leaves when it is due; and the long ones hold in addition
// what may have left after the memory was taken.
#include <algorithm>
#include <cmath>
#include <map>

#include "governor/impl.h"

namespace weir::governor {
namespace {

constexpr Duration kLong = std::chrono::hours(1);
constexpr Duration kForgotten = std::chrono::hours(24 * 30);
// A network's delay says little about that of another hour.
constexpr Duration kRoundTripsHold = std::chrono::hours(1);
constexpr std::size_t kPiece = 64;
constexpr std::int64_t kAmountMost = std::int64_t{1} << 60U;
constexpr double kLearnedMost = 1e15;
constexpr double kMarginCallsMost = 512;
// So finely a window is handed on: a long one of many tenants in less detail.
constexpr std::int64_t kLongCharges = 32;
constexpr std::int64_t kShortCharges = 128;
constexpr std::int64_t kPhantomPieces = 8;
// No pacer lets more pass than this, of the rate and of the limit at once.
constexpr double kPaceMost = 1.25;
constexpr double kBurstMost = 0.13;
// What a deployment's state may be taken to be.
constexpr double kSecondsMost = 3600;
constexpr Duration kRefusalsTakeMost = std::chrono::minutes(5);
constexpr Duration kTrustedLeast = std::chrono::minutes(1);
constexpr Duration kTrustedMost = std::chrono::hours(24);
constexpr double kScoreMost = 6;

double at_most(double value, double most) { return value > 0 ? std::min(value, most) : 0.0; }

Duration positive(Duration duration) { return std::max(Duration{0}, duration); }

Instant before(Instant now, Duration ago, Duration age) {
  if (ago == kForever) return kDawn;
  return saturating_add(saturating_add(now, -positive(ago)), -positive(age));
}

RememberedBelief taken_down(const Belief& belief, Instant now) {
  RememberedBelief taken{belief.active, belief.score, belief.met, kForever, belief.trusted};
  if (belief.refused_at != kDawn) taken.refused_ago = saturating_sub(now, belief.refused_at);
  return taken;
}

}  // namespace

void RuleMeter::remember(RememberedMeter& meter, Instant now) {
  meter.unit = settings_.rule.unit;
  meter.window = settings_.rule.window;
  meter.amount = settings_.growth ? settings_.growth->floor : settings_.rule.amount;
  if (bracket_) meter.limit = bracket_->remember(now);
  if (growth_) meter.growth = growth_->remember(now);
  if (learned_ > 0) {
    meter.margin = RememberedMargin{learned_, error_squared_, output_, output_squared_};
  }
  if (level() || growth_) return;
  if (settings_.side == Side::own && settings_.rule.window < kLong) return;
  meter.counted = true;
  // Of calls on their way a provider charges the output when they end or are cut.
  const bool later =
      settings_.side == Side::provider && tokens() &&
      (settings_.rule.count == Counting::settle || settings_.rule.count == Counting::realtime);
  const double coming =
      static_cast<double>(open_) + (later ? static_cast<double>(calls_) * output_ : 0.0);
  const std::int64_t taken = used(now);
  if (bucket()) {
    meter.level = static_cast<double>(taken) + coming;
    return;
  }
  meter.charges = log_.remember(meter.window < kLong ? kShortCharges : kLongCharges, now);
  remember_phantom(meter.charges, now);
  const auto more = static_cast<std::int64_t>(std::min(coming, kLearnedMost));
  if (more > 0) meter.charges.push_back({Duration{0}, more});
  if (counter_) {
    meter.level = static_cast<double>(counter_->estimate(guard(now), now)) + coming;
  }
}

void RuleMeter::remember_phantom(std::vector<RememberedCharge>& charges, Instant now) const {
  const std::int64_t left = phantom(now);
  if (left <= 0) return;
  const Duration window = settings_.rule.window;
  const Duration passed = positive(saturating_sub(now, start_));
  const auto add = [&](std::int64_t amount, Duration age) {
    if (amount > 0) charges.push_back({positive(age), amount});
  };
  if (window <= kLong) return add(left, passed);
  // It leaves evenly until the window has passed: in pieces, each of them when its last part does.
  const Duration still = positive(window - passed);
  std::int64_t told = 0;
  for (std::int64_t piece = 1; piece <= kPhantomPieces; ++piece) {
    const std::int64_t upto =
        left / kPhantomPieces * piece + left % kPhantomPieces * piece / kPhantomPieces;
    add(upto - told, window - still / kPhantomPieces * piece);
    told = upto;
  }
}

void RuleMeter::recall_learned(const RememberedMeter& meter, Duration age, Instant now) {
  if (age >= kForgotten) return;
  if (bracket_ && meter.limit) {
    const std::int64_t told = bracket_->amount();
    const bool climbed = bracket_->climbs();
    bracket_->recall(*meter.limit, age, now);
    follow_bracket(told, climbed, now);
  }
  if (growth_ && meter.growth) growth_->recall(*meter.growth, age, now);
  if (!meter.margin || !(meter.margin->calls > 0)) return;
  learned_ = at_most(meter.margin->calls, kMarginCallsMost);
  error_squared_ = at_most(meter.margin->error_squared, kLearnedMost);
  output_ = at_most(meter.margin->output, kLearnedMost);
  output_squared_ = at_most(meter.margin->output_squared, kLearnedMost);
  keep_what_is_unforeseen();
}

void RuleMeter::recall_charges(const RememberedMeter& meter, Duration age, std::int64_t unseen,
                               Instant now) {
  if (!meter.counted || level() || growth_) return;
  assumed_ = 0;
  age = positive(age);
  unseen = std::clamp<std::int64_t>(unseen, 0, settings_.rule.amount);
  if (bucket()) {
    const Slope slope = mirror_slope(now);
    const double left =
        at_most(meter.level, kLearnedMost) - slope.per_ns * static_cast<double>(age.count());
    bucket_ = Pacer();
    bucket_.charge(std::max(0.0, left) + static_cast<double>(unseen), slope, now);
    return;
  }
  std::vector<RememberedCharge> charges = meter.charges;
  if (charges.size() > Memory::kCharges) charges.resize(Memory::kCharges);
  std::stable_sort(charges.begin(), charges.end(),
                   [](const auto& left, const auto& right) { return left.age > right.age; });
  for (const RememberedCharge& charge : charges) {
    log_.add(before(now, charge.age, age), std::clamp<std::int64_t>(charge.amount, 0, kAmountMost));
  }
  log_.add(now, unseen);
  log_.expire(now, guard(now));
  if (!counter_) return;
  // Which of its windows held what is not known any more, so all of it counts as charged now.
  counter_ = std::make_unique<CounterMirror>(settings_.rule.window, now);
  const auto held = static_cast<std::int64_t>(at_most(meter.level, kLearnedMost));
  const bool gone = age >= 2 * settings_.rule.window;
  counter_->add(saturating_add(gone ? 0 : held, unseen), guard(now), now);
}

void RuleMeter::recall_open_end(const RememberedMeter& meter, Duration age, Duration unseen,
                                Instant now) {
  if (!meter.counted || level() || growth_ || bucket() || counter_) return;
  recall_charges(meter, age, 0, now);
  const double window = static_cast<double>(settings_.rule.window.count());
  const double passed = static_cast<double>(std::min(positive(age), unseen).count());
  const double sent = static_cast<double>(amount()) * (kPaceMost * passed / window + kBurstMost);
  // Of the oldest piece that is still there a part has left already, so that more can have come.
  const std::int64_t sure = log_.sum() - log_.oldest();
  const std::int64_t room = std::max<std::int64_t>(0, amount() - sure);
  const auto fresh = static_cast<std::int64_t>(std::min(sent, static_cast<double>(room)));
  log_.add(now, fresh);
  const double share = 1 - std::clamp(settings_.start_level, 0.0, 1.0);
  assumed_ = static_cast<std::int64_t>(share * static_cast<double>(room - fresh));
}

void Jitter::remember(RememberedDeployment& deployment) const {
  const Duration least = std::min(present_.least, previous_.least);
  const Duration most = std::max(present_.most, previous_.most);
  if (most < least) return;
  deployment.least_round_trip = least;
  deployment.most_round_trip = most;
}

void Jitter::recall(const RememberedDeployment& deployment, Instant now) {
  const Duration least = positive(deployment.least_round_trip);
  const Duration most = deployment.most_round_trip;
  if (most <= Duration{0} || most < least || most > kRoundTripsHold) return;
  present_ = {least, most};
  turned_ = now;
}

std::shared_ptr<Metered> Registry::next_meter(std::string& after) const {
  for (auto at = meters_.upper_bound(after); at != meters_.end(); ++at) {
    if (auto found = at->second.lock()) {
      after = at->first;
      return found;
    }
  }
  return nullptr;
}

bool Governor::Impl::remember(Memory& into, MemoryCursor& at, Instant now) {
  now = tick(now);
  into.revision = revision_;
  using Part = MemoryCursor::Part;
  for (std::size_t taken = 0; taken < kPiece; ++taken) {
    if (at.part == Part::meters) {
      const std::shared_ptr<Metered> found = registry_.next_meter(at.after);
      if (!found) {
        at.part = Part::deployments;
        continue;
      }
      RememberedMeter meter;
      found->meter.remember(meter, now);
      const bool learns = found->meter.bracket() != nullptr;
      const Belief& belief = found->belief;
      if (learns && (belief.guessed || belief.refused_at != kDawn)) {
        meter.belief = taken_down(belief, now);
      }
      const bool held = !meter.charges.empty() || meter.level > 0;
      if (!held && !meter.counted && !meter.belief && !meter.growth && !meter.margin) continue;
      // An empty window of a provider says something: without it, it would be assumed to be full.
      if (!held && !meter.belief && !meter.margin && found->meter.settings().side == Side::own) {
        continue;
      }
      meter.name = at.after;
      if (into.meters.size() >= Memory::kMeters) {
        ++into.left_out;
      } else {
        into.meters.push_back(std::move(meter));
      }
    } else if (at.part == Part::deployments) {
      if (at.index >= terms_->deployments.size()) {
        at.part = Part::callers;
        at.index = 0;
        continue;
      }
      into.deployments.push_back(remember_deployment(at.index++));
    } else if (at.part == Part::callers) {
      if (at.index >= registry_.callers().size()) {
        at.part = Part::done;
        return false;
      }
      remember_caller(into, at.index++);
    } else {
      return false;
    }
  }
  return true;
}

RememberedDeployment Governor::Impl::remember_deployment(std::size_t index) const {
  const DeploymentState& state = *terms_->deployments[index].state;
  RememberedDeployment made;
  made.name = terms_->policy->deployments[index].name;
  made.model = terms_->policy->deployments[index].model;
  state.estimator.remember(made);
  state.jitter.remember(made);
  made.mean_seconds = state.mean_seconds;
  made.produced = state.produced;
  made.producing = state.producing;
  made.refusals_take = state.refusals_take;
  return made;
}

// The callers with the most answers, in a heap whose top has the fewest of them.
void Governor::Impl::remember_caller(Memory& into, std::size_t index) const {
  const EstimateLevel& level = registry_.callers().level_at(index);
  if (!level.known()) return;
  const auto fewer = [](const RememberedCaller& left, const RememberedCaller& right) {
    if (left.calls.answers != right.calls.answers) return left.calls.answers > right.calls.answers;
    return left.key > right.key;
  };
  auto& heap = into.callers;
  if (heap.size() >= Memory::kCallers) {
    if (heap.front().calls.answers >= level.answers()) return;
    std::pop_heap(heap.begin(), heap.end(), fewer);
    heap.pop_back();
  }
  heap.push_back({registry_.callers().key_at(index), level.remember()});
  std::push_heap(heap.begin(), heap.end(), fewer);
}

void Governor::Impl::recall(const Memory& memory, const MemoryAge& age, Instant now) {
  now = tick(now);
  // What calls have done since is worth more than what is remembered.
  if (next_seq_ != 1) return;
  std::map<std::string_view, const RememberedMeter*> meters;
  for (const RememberedMeter& meter : memory.meters) meters.emplace(meter.name, &meter);
  const auto find_meter = [&](const MeterRef& ref) -> const RememberedMeter* {
    const auto found = meters.find(ref.shared->name);
    return found == meters.end() ? nullptr : found->second;
  };
  const auto recall_own = [&](const NodeTerms& node) {
    for (const MeterRef& ref : node.rules) {
      const RememberedMeter* meter = find_meter(ref);
      if (meter == nullptr || ref.limit.window < kLong) continue;
      ref.book(true, [&](RuleMeter& own) { own.recall_charges(*meter, age.at_least, 0, now); });
    }
  };
  for (const NodeTerms& node : terms_->nodes) recall_own(node);
  for (const NodeTerms& traffic_class : terms_->classes) recall_own(traffic_class);
  for (std::size_t index = 0; index < terms_->deployments.size(); ++index) {
    const DeploymentPolicy& policy = terms_->policy->deployments[index];
    const auto found =
        std::find_if(memory.deployments.begin(), memory.deployments.end(),
                     [&](const RememberedDeployment& one) { return one.name == policy.name; });
    // Another model has limits and answers of its own.
    if (found == memory.deployments.end() || found->model != policy.model) continue;
    const DeploymentTerms& deployment = terms_->deployments[index];
    recall_deployment(*found, deployment, age, now);
    for (const MeterRef& ref : deployment.rules) {
      const RememberedMeter* meter = find_meter(ref);
      if (meter != nullptr) recall_meter(*meter, ref, deployment, age, now);
    }
  }
  std::size_t left = Memory::kCallers;
  for (const RememberedCaller& caller : memory.callers) {
    if (caller.key == 0 || age.at_most >= kForgotten || left-- == 0) continue;
    registry_.callers().take(caller.key).recall(caller.calls);
  }
}

void Governor::Impl::recall_deployment(const RememberedDeployment& from,
                                       const DeploymentTerms& deployment, const MemoryAge& age,
                                       Instant now) {
  if (age.at_most >= kForgotten) return;
  DeploymentState& state = *deployment.state;
  state.estimator.recall(from);
  state.mean_seconds = from.mean_seconds > 0 ? std::min(from.mean_seconds, kSecondsMost) : 1;
  state.produced = at_most(from.produced, static_cast<double>(kMaxTokens));
  state.producing = at_most(from.producing, kSecondsMost);
  state.refusals_take = std::clamp(from.refusals_take, Duration{0}, kRefusalsTakeMost);
  if (age.at_most < kRoundTripsHold) state.jitter.recall(from, now);
  const double speed = state.producing > 0 ? state.produced / state.producing : 0;
  for (const MeterRef& ref : deployment.rules) {
    ref.book(true, [&](RuleMeter& meter) {
      meter.set_speed(speed);
      meter.set_spread(state.jitter.spread());
    });
  }
}

void Governor::Impl::recall_meter(const RememberedMeter& from, const MeterRef& ref,
                                  const DeploymentTerms& deployment, const MemoryAge& age,
                                  Instant now) {
  // The limit first: how much the window may hold follows from it.
  recall_limit(from, ref, age, now);
  const Rule& rule = ref.meter().rule();
  if (age.complete || rule.window >= kLong) {
    const std::int64_t unseen = age.complete ? 0 : may_have_left(deployment, rule, age.unseen);
    ref.book(true, [&](RuleMeter& own) { own.recall_charges(from, age.at_least, unseen, now); });
  } else if (rule.window > 2 * positive(std::min(age.unseen, kLong))) {
    ref.book(true,
             [&](RuleMeter& own) { own.recall_open_end(from, age.at_least, age.unseen, now); });
  }
}

void Governor::Impl::recall_limit(const RememberedMeter& from, const MeterRef& ref,
                                  const MemoryAge& age, Instant now) {
  RuleMeter& meter = ref.meter();
  const std::int64_t told =
      meter.settings().growth ? meter.settings().growth->floor : meter.rule().amount;
  if (from.amount != told) return;
  meter.recall_learned(from, age.at_most, now);
  if (meter.bracket() != nullptr) ref.shared->noted = meter.bracket()->settled().value_or(0);
  if (!from.belief || meter.bracket() == nullptr || age.at_most >= kForgotten) return;
  Belief& belief = ref.shared->belief;
  belief.score = std::clamp(std::isfinite(from.belief->score) ? from.belief->score : 0, -kScoreMost,
                            kScoreMost);
  belief.met = std::clamp(std::isfinite(from.belief->met) ? from.belief->met : 0.5, 0.0, 1.0);
  belief.refused_at = before(now, from.belief->refused_ago, age.at_most);
  ref.shared->recalled = belief.refused_at != kDawn;
  if (!belief.guessed) return;
  belief.trusted = std::clamp(from.belief->trusted, kTrustedLeast, kTrustedMost);
  // What no refusal has confirmed for as long as it is trusted is dropped, here as anywhere.
  const Duration since = saturating_sub(now, belief.refused_at);
  belief.active = from.belief->active && belief.refused_at != kDawn && since < belief.trusted;
  ref.shared->noted_active = belief.active;
  if (!belief.active) meter.forget_learned(now);
}

// As much of a long window as the deployment's shorter rules of the unit let pass in `time`;
// without any, what the rule itself lets pass on average.
std::int64_t Governor::Impl::may_have_left(const DeploymentTerms& deployment, const Rule& rule,
                                           Duration time) {
  time = positive(time);
  std::int64_t least = rule.amount;
  bool shorter = false;
  for (const MeterRef& ref : deployment.rules) {
    const Rule& other = ref.meter().rule();
    if (ref.claim.unit != rule.unit || ref.shared->belief.guessed || ref.meter().grows()) continue;
    if (other.window <= Duration{0} || other.window >= kLong) continue;
    const std::int64_t windows = time / other.window + 1;
    least = std::min(least, saturating_multiply(std::max<std::int64_t>(other.amount, 0), windows));
    shorter = true;
  }
  if (shorter || rule.window <= Duration{0}) return least;
  const double share = static_cast<double>(time.count()) / static_cast<double>(rule.window.count());
  return std::min(least, static_cast<std::int64_t>(
                             std::ceil(std::min(1.0, share) * static_cast<double>(rule.amount))));
}

}  // namespace weir::governor
