// SPDX-License-Identifier: Apache-2.0
#include "governor/terms.h"

#include <algorithm>
#include <utility>

namespace weir::governor {
namespace {

constexpr std::int64_t kUnlimited = std::int64_t{1} << 60U;
constexpr Duration kJitterSpan = std::chrono::minutes(1);

// A deployment's rule of the same unit whose longer window takes more than this one's.
std::int64_t largest_of_longer(const DeploymentPolicy& policy, const Rule& rule) {
  std::int64_t most = 0;
  for (const Rule& other : policy.rules) {
    if (other.unit == rule.unit && other.window > rule.window) most = std::max(most, other.amount);
  }
  return most;
}

MeterSettings provider_settings(const DeploymentPolicy& policy, const Rule& rule) {
  MeterSettings settings;
  settings.rule = rule;
  settings.side = Side::provider;
  settings.pace = policy.strategy >= Strategy::shaping && rule.unit != Unit::concurrency;
  settings.adaptive = policy.strategy == Strategy::adaptive;
  settings.force_bucket = policy.strategy == Strategy::rate && rule.unit == Unit::requests;
  settings.alone_max = largest_of_longer(policy, rule);
  const std::int64_t depth =
      settings.force_bucket ? rule.burst.value_or(rule.amount) : rule.depth();
  settings.goes_alone = settings.alone_max > depth;
  settings.start_level = policy.start_level;
  settings.warmup = policy.warmup;
  settings.burst_percent = policy.burst_percent;
  settings.margin = policy.margin;
  settings.guard = policy.guard;
  return settings;
}

MeterSettings own_settings(const Rule& rule) {
  MeterSettings settings;
  settings.rule = rule;
  settings.side = Side::own;
  return settings;
}

// FNV-1a. What is learned stays with a name over reloads, which may number things anew.
std::uint64_t hash_of(std::string_view kind, std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto mix = [&hash](std::string_view part) {
    for (const char each : part) {
      hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3ULL;
    }
  };
  mix(kind);
  mix("|");
  mix(text);
  return hash == 0 ? 1 : hash;
}

// Part of a meter's name, which people may read: "60s".
std::string window_text(Duration window) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(window);
  if (seconds == window) return std::to_string(seconds.count()) + "s";
  return std::to_string(window.count()) + "ns";
}

std::string node_owner(const NodePolicy& node) {
  return "node|" + std::string(name(node.kind)) + "|" + node.name;
}

}  // namespace

bool strategy_gates(Strategy strategy, Unit unit) {
  switch (strategy) {
    case Strategy::passthrough:
    case Strategy::retry: return false;
    case Strategy::rate: return unit == Unit::requests || unit == Unit::concurrency;
    case Strategy::shaping:
    case Strategy::adaptive: return true;
  }
  return true;
}

DeploymentState::DeploymentState(const DeploymentPolicy& policy,
                                 std::shared_ptr<EstimateTable> callers)
    : estimator(policy.bytes_per_token, policy.mean_output_tokens, std::move(callers),
                hash_of("deployment", policy.name)) {}

Asked Terms::asked(const Call& call, std::uint32_t deployment) const {
  const NodeTerms& leaf = nodes[call.leaf.value()];
  const ProfileTerms& profile = profiles[call.profile.value()];
  Asked asked;
  asked.tenant = leaf.tenant;
  asked.caller = (leaf.identity ^ 0x5bd1e9955bd1e995ULL) * 0x9e3779b97f4a7c15ULL ^ profile.identity;
  asked.output = profile.output;
  asked.unknown = profile.unknown;
  asked.propose = profile.propose && deployments[deployment].reserves_output;
  return asked;
}

Cost Terms::cost(const Call& call, std::uint32_t deployment) const {
  const DeploymentTerms& at = deployments[deployment];
  Cost cost = at.state->estimator.cost(call.demand, asked(call, deployment));
  cost.cached_counts = at.cached_counts;
  return cost;
}

void Jitter::sample(Duration round_trip, Instant now) {
  if (round_trip < Duration{0}) return;
  if (turned_ == kDawn || saturating_sub(now, turned_) > kJitterSpan) {
    previous_ = present_;
    present_ = Range{};
    turned_ = now;
  }
  present_.least = std::min(present_.least, round_trip);
  present_.most = std::max(present_.most, round_trip);
}

Duration Jitter::spread() const {
  const Duration least = std::min(present_.least, previous_.least);
  const Duration most = std::max(present_.most, previous_.most);
  return most > least ? most - least : Duration{0};
}

MeterRef Registry::bind(const std::string& owner, const MeterSettings& settings, Instant now,
                        std::map<std::string, int>& taken) {
  std::string key = owner;
  key += '|';
  key += name(settings.rule.unit);
  key += '|';
  key += window_text(settings.rule.window);
  // Two rules of one owner may differ in their amounts only: the second has a meter of its own.
  const int copy = taken[key]++;
  if (copy > 0) key += '#' + std::to_string(copy);

  MeterRef ref;
  auto& slot = meters_[key];
  ref.shared = slot.lock();
  if (ref.shared) {
    ref.shared->meter.configure(settings, now);
    if (ref.shared->as_enforced) ref.shared->as_enforced->configure(settings, now);
    ref.shared->waiters = Waiters{};
  } else {
    ref.shared = std::make_shared<Metered>(settings, now);
    ref.shared->name = key;
    slot = ref.shared;
  }
  ref.claim = Claim{settings.rule.unit, settings.rule.count, settings.side};
  ref.limit.unit = settings.rule.unit;
  ref.limit.window = settings.rule.window;
  return ref;
}

// What a provider may keep beside or instead of what was told: the same rate in shorter windows,
// and the maximum output counted at admission.
void Registry::bind_guesses(const DeploymentPolicy& from, std::size_t index,
                            DeploymentTerms& deployment, Instant now) {
  const std::size_t told = deployment.rules.size();
  const auto short_told = [&](Unit unit) {
    return std::any_of(from.rules.begin(), from.rules.end(), [&](const Rule& rule) {
      return rule.unit == unit && rule.window <= std::chrono::seconds(10);
    });
  };
  const auto guess = [&](Rule rule, Duration window, Counting count, double prior) {
    if (deployment.rules.size() >= kLearnedRules) return;
    const double share =
        static_cast<double>(window.count()) / static_cast<double>(rule.window.count());
    rule.amount = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(rule.amount) * share));
    rule.window = window;
    rule.count = count;
    rule.enforce = Enforcement::unknown;
    rule.burst.reset();
    std::map<std::string, int> taken;
    const std::string owner = "guess|" + from.name + "|" + std::string(name(count));
    MeterRef ref = bind(owner, provider_settings(from, rule), now, taken);
    Belief& belief = ref.shared->belief;
    if (!belief.guessed || belief.amount != rule.amount) {
      belief = Belief{};
      belief.guessed = true;
      belief.active = false;
      belief.score = prior;
      belief.amount = rule.amount;
      ref.shared->noted = 0;
      ref.shared->noted_active = false;
    }
    ref.limit.deployment = DeploymentId(static_cast<std::uint32_t>(index));
    ref.gates = !deployment.observe;
    ref.meter().set_spread(deployment.state->jitter.spread());
    deployment.rules.push_back(std::move(ref));
  };
  for (std::size_t i = 0; i < told; ++i) {
    const Rule rule = deployment.rules[i].meter().rule();
    const bool minute =
        rule.window >= std::chrono::seconds(30) && rule.window <= std::chrono::minutes(2);
    if (rule.unit == Unit::concurrency || rule.amount <= 0 || !minute) continue;
    const bool tokens = rule.unit != Unit::requests;
    const bool later =
        tokens && (rule.count == Counting::settle || rule.count == Counting::realtime);
    if (later && rule.unit != Unit::input_tokens) {
      guess(rule, rule.window, Counting::reserve, -0.5);
    }
    if (short_told(rule.unit)) continue;
    guess(rule, std::chrono::seconds(10), rule.count, -0.5);
    if (later && rule.count == Counting::settle && rule.unit != Unit::input_tokens) {
      guess(rule, std::chrono::seconds(10), Counting::realtime, -1);
    }
    guess(rule, std::chrono::seconds(1), rule.count, -1);
    if (later && rule.unit != Unit::input_tokens) {
      guess(rule, std::chrono::seconds(10), Counting::reserve, -1);
    }
  }
}

// The limit that congestion sets is a rule on calls in flight like one that was told, so that who
// waits for it, how long and what he is told are the same.
void Registry::bind_congestion(const DeploymentPolicy& from, std::size_t index,
                               DeploymentTerms& deployment, Instant now) {
  Rule rule;
  rule.unit = Unit::concurrency;
  rule.window = Duration{0};
  const std::int64_t limit = deployment.state->congestion.limit();
  rule.amount = std::max<std::int64_t>(1, limit);
  MeterSettings settings = provider_settings(from, rule);
  settings.adaptive = false;
  settings.goes_alone = false;
  std::map<std::string, int> taken;
  MeterRef ref = bind("congestion|" + from.name, settings, now, taken);
  ref.shared->belief.guessed = true;
  ref.shared->belief.active = limit > 0;
  ref.congestion = true;
  ref.limit.deployment = DeploymentId(static_cast<std::uint32_t>(index));
  deployment.rules.push_back(std::move(ref));
}

void Registry::bind_deployments(const Policy& policy, Terms& terms, Instant now) {
  for (std::size_t i = 0; i < policy.deployments.size(); ++i) {
    const DeploymentPolicy& from = policy.deployments[i];
    DeploymentTerms deployment;
    auto& slot = states_[from.name];
    deployment.state = slot.lock();
    if (!deployment.state) {
      deployment.state = std::make_shared<DeploymentState>(from, callers_);
      slot = deployment.state;
    }
    deployment.state->lease = from.lease;
    deployment.state->send_lease = from.send_lease;
    deployment.observe = from.mode == Mode::observe;
    deployment.cached_counts = from.cached_input_counted;
    terms.any_watched = terms.any_watched || deployment.observe;
    deployment.class_finish.assign(policy.classes.size(), 0.0);
    std::map<std::string, int> taken;
    for (const Rule& rule : from.rules) {
      MeterRef ref = bind("deployment|" + from.name, provider_settings(from, rule), now, taken);
      ref.gates = !deployment.observe && strategy_gates(from.strategy, rule.unit);
      ref.watched = deployment.observe && strategy_gates(from.strategy, rule.unit);
      ref.limit.deployment = DeploymentId(static_cast<std::uint32_t>(i));
      const bool reserves =
          rule.count == Counting::reserve || rule.count == Counting::reserve_refund;
      const bool of_output = rule.unit == Unit::output_tokens || rule.unit == Unit::total_tokens;
      deployment.reserves_output = deployment.reserves_output || (reserves && of_output);
      const Duration spread = deployment.state->jitter.spread();
      ref.book(true, [&](RuleMeter& meter) { meter.set_spread(spread); });
      deployment.rules.push_back(std::move(ref));
    }
    for (const GrowthRule& growth : from.growth) {
      // Nothing but growth limits it: every sum is below its amount.
      Rule rule{growth.of,        kUnlimited,  growth.per, Enforcement::sliding,
                Counting::settle, std::nullopt};
      MeterSettings settings = provider_settings(from, rule);
      settings.growth = growth;
      settings.pace = false;
      settings.adaptive = false;
      MeterRef ref = bind("growth|" + from.name, settings, now, taken);
      ref.gates = !deployment.observe && strategy_gates(from.strategy, Unit::total_tokens);
      ref.watched = deployment.observe;
      ref.limit.deployment = DeploymentId(static_cast<std::uint32_t>(i));
      deployment.rules.push_back(std::move(ref));
    }
    deployment.learns = from.strategy == Strategy::adaptive;
    if (deployment.learns) bind_guesses(from, i, deployment, now);
    if (deployment.learns && !deployment.observe) bind_congestion(from, i, deployment, now);
    terms.deployments.push_back(std::move(deployment));
  }
}

std::shared_ptr<Terms> Registry::build(std::shared_ptr<const Policy> policy, Instant now) {
  auto terms = std::make_shared<Terms>();
  for (std::size_t i = 0; i < policy->nodes.size(); ++i) {
    const NodePolicy& from = policy->nodes[i];
    NodeTerms node;
    node.observe = from.mode == Mode::observe;
    terms->any_watched = terms->any_watched || node.observe;
    // Parents stand before children, so a walk to the root always ends.
    if (from.parent.valid() && from.parent.value() < i) node.parent = from.parent.value();
    node.identity = hash_of(name(from.kind), from.name);
    if (from.kind == NodeKind::tenant) {
      node.tenant = node.identity;
      node.tenant_node = static_cast<std::uint32_t>(i);
    } else if (node.parent != kNoIndex) {
      node.tenant = terms->nodes[node.parent].tenant;
      node.tenant_node = terms->nodes[node.parent].tenant_node;
    }
    std::map<std::string, int> taken;
    for (const Rule& rule : from.limits) {
      MeterRef ref = bind(node_owner(from), own_settings(rule), now, taken);
      ref.gates = from.mode == Mode::enforce;
      ref.watched = !ref.gates;
      ref.limit.node = NodeId(static_cast<std::uint32_t>(i));
      node.rules.push_back(std::move(ref));
    }
    terms->nodes.push_back(std::move(node));
  }
  for (std::size_t i = 0; i < policy->classes.size(); ++i) {
    NodeTerms traffic_class;
    std::map<std::string, int> taken;
    for (const Rule& rule : policy->classes[i].limits) {
      MeterRef ref = bind("class|" + policy->classes[i].name, own_settings(rule), now, taken);
      ref.limit.traffic_class = ClassId(static_cast<std::uint32_t>(i));
      traffic_class.rules.push_back(std::move(ref));
    }
    terms->classes.push_back(std::move(traffic_class));
  }
  bind_deployments(*policy, *terms, now);
  for (std::size_t i = 0; i < policy->profiles.size(); ++i) {
    const ProfilePolicy& from = policy->profiles[i];
    ProfileTerms profile;
    if (from.node.valid() && from.node.value() < terms->nodes.size()) {
      profile.node = from.node.value();
    }
    profile.identity = hash_of("model", from.name);
    profile.output = from.output;
    profile.unknown = from.unknown;
    profile.propose = from.propose_max_tokens;
    profile.observe = true;
    for (const Candidate& candidate : from.candidates) {
      const std::uint32_t at = candidate.deployment.value();
      if (at >= terms->deployments.size() || profile.candidates.size() >= 8) continue;
      profile.candidates.push_back({at, candidate.priority, std::max(1, candidate.weight), 0});
      profile.observe = profile.observe && terms->deployments[at].observe;
      terms->deployments[at].profiles.push_back(static_cast<std::uint32_t>(i));
    }
    std::stable_sort(
        profile.candidates.begin(), profile.candidates.end(),
        [](const auto& left, const auto& right) { return left.priority < right.priority; });
    terms->profiles.push_back(std::move(profile));
  }
  if (terms->any_watched) watch(*terms, now);
  terms->policy = std::move(policy);
  prune();
  return terms;
}

void Registry::watch(const Terms& terms, Instant now) {
  const auto each = [now](const std::vector<MeterRef>& rules) {
    for (const MeterRef& ref : rules) {
      auto& as_enforced = ref.shared->as_enforced;
      if (as_enforced) continue;
      as_enforced = std::make_unique<RuleMeter>(ref.meter().settings(), now);
      as_enforced->set_spread(ref.meter().spread());
    }
  };
  for (const NodeTerms& node : terms.nodes) each(node.rules);
  for (const NodeTerms& traffic_class : terms.classes) each(traffic_class.rules);
  for (const DeploymentTerms& deployment : terms.deployments) each(deployment.rules);
}

void Registry::prune() {
  std::erase_if(meters_, [](const auto& entry) { return entry.second.expired(); });
  std::erase_if(states_, [](const auto& entry) { return entry.second.expired(); });
}

}  // namespace weir::governor
