// SPDX-License-Identifier: Apache-2.0
#include "sim/baseline_strategies.h"

#include <algorithm>
#include <cmath>

#include "weir/units.h"

namespace weir::sim {
namespace {

double per_second(const Rule& rule) {
  const double window = to_seconds(std::max(rule.window, Duration{1}));
  return static_cast<double>(rule.amount) / window;
}

bool counts_tokens(const Rule& rule) {
  return rule.unit == Unit::total_tokens || rule.unit == Unit::input_tokens ||
         rule.unit == Unit::output_tokens;
}

/// A told concurrency limit, or a whole window's requests of the widest request rule.
std::int64_t slots_for(const std::vector<Rule>& rules) {
  std::int64_t told = 0;
  std::int64_t window = 0;
  for (const Rule& rule : rules) {
    if (rule.unit == Unit::concurrency)
      told = told == 0 ? rule.amount : std::min(told, rule.amount);
    if (rule.unit == Unit::requests) window = std::max(window, rule.amount);
  }
  return told > 0 ? told : window;
}

}  // namespace

std::optional<Duration> JitterRetry::pause(std::int32_t attempts) {
  if (attempts >= kAttempts) return std::nullopt;
  const double longest = std::min(60.0, std::ldexp(1.0, attempts));
  return from_seconds(rng().uniform() * longest);
}

std::optional<Duration> FixedRetry::pause(std::int32_t attempts) {
  if (attempts >= JitterRetry::kAttempts) return std::nullopt;
  return std::chrono::seconds(12);
}

// ---- request bucket

RequestBucket::RequestBucket(std::shared_ptr<const Policy> policy, std::uint64_t seed, Start start)
    : JitterRetry(std::move(policy), seed), slots_(slots_for(deployment().rules)) {
  for (const Rule& rule : deployment().rules) {
    if (rule.unit != Unit::requests) continue;
    const auto quota = static_cast<double>(rule.amount);
    buckets_.emplace_back(quota, per_second(rule), start == Start::full ? quota : 0.0);
  }
}

Instant RequestBucket::may_go(const Cost&, Instant now) const {
  for (const DebtBucket& bucket : buckets_) now = std::max(now, bucket.covers(1, now));
  return now;
}

void RequestBucket::goes(const Cost&, Instant now) {
  for (DebtBucket& bucket : buckets_) bucket.take(1, now);
}

// ---- dual bucket

DualBucket::DualBucket(std::shared_ptr<const Policy> policy, std::uint64_t seed)
    : JitterRetry(std::move(policy), seed), slots_(slots_for(deployment().rules)) {
  for (const Rule& rule : deployment().rules) {
    if (rule.unit == Unit::concurrency || rule.window.count() <= 0) continue;
    shaped_.push_back({rule, DebtBucket(static_cast<double>(rule.amount), 0, 0)});
    if (rule.unit != Unit::requests || rule.amount <= 0) continue;
    interval_ = std::max(interval_, rule.window / rule.amount);
  }
}

double DualBucket::at_door(const Rule& rule, const Cost& cost) {
  if (rule.unit == Unit::requests) return 1;
  const bool reserves = rule.count == Counting::reserve || rule.count == Counting::reserve_refund;
  std::int64_t tokens = rule.unit == Unit::output_tokens ? 0 : cost.input;
  if (reserves && rule.unit != Unit::input_tokens) tokens += cost.output;
  return static_cast<double>(tokens);
}

Instant DualBucket::may_go(const Cost& cost, Instant now) const {
  Instant at = std::max(now, next_departure_);
  for (const Shaped& one : shaped_) {
    at = std::max(at, one.bucket.covers(at_door(one.rule, cost), now));
  }
  return at;
}

void DualBucket::goes(const Cost& cost, Instant now) {
  for (Shaped& one : shaped_) one.bucket.take(at_door(one.rule, cost), now);
  next_departure_ = now + interval_;
}

void DualBucket::ended(const Cost& cost, const End& end, Instant now) {
  for (Shaped& one : shaped_) {
    if (!counts_tokens(one.rule)) continue;
    const double taken = at_door(one.rule, cost);
    if (end.rejected) continue;
    double used = 0;
    if (!end.rejected) {
      const bool sees_output =
          one.rule.unit != Unit::input_tokens && one.rule.count != Counting::input;
      if (one.rule.unit != Unit::output_tokens) used += static_cast<double>(end.used.input_tokens);
      if (sees_output) {
        // A provider that reserves keeps what was reserved, whatever was produced.
        const std::int64_t output =
            one.rule.count == Counting::reserve ? cost.output : end.used.output_tokens;
        used += static_cast<double>(output);
      }
    }
    one.bucket.take(used - taken, now);
  }
}

void DualBucket::tick(Instant now) {
  if (!began_) began_ = now;
  const double share = std::clamp(to_seconds(now - *began_) / to_seconds(kWarmup), 0.1, 1.0);
  for (Shaped& one : shaped_) one.bucket.set_rate(share * per_second(one.rule), now);
  next_tick_ = share < 1 ? now + std::chrono::milliseconds(100) : kNever;
}

// ---- elastic boundary probing

ElasticBoundary::ElasticBoundary(std::shared_ptr<const Policy> policy, std::uint64_t seed)
    : JitterRetry(std::move(policy), seed) {
  for (const Rule& rule : deployment().rules) {
    if (rule.unit == Unit::concurrency || rule.window.count() <= 0) continue;
    double& into = rule.unit == Unit::requests ? request_guide_ : token_guide_;
    into = into > 0 ? std::min(into, per_second(rule)) : per_second(rule);
  }
  mean_cost_ = 2 * std::max(deployment().mean_output_tokens, 1.0);
  rate_ = guide();
  mark_ = rate_;
  success_ = rate_;
}

double ElasticBoundary::guide() const {
  if (request_guide_ > 0) return request_guide_;
  return token_guide_ > 0 ? token_guide_ / std::max(mean_cost_, 1.0) : 1e6;
}

Instant ElasticBoundary::may_go(const Cost&, Instant now) const {
  const Instant paced = saturating_add(last_departure_, from_seconds(1 / rate_));
  return std::max({now, paced, drained_});
}

void ElasticBoundary::goes(const Cost&, Instant now) {
  if (now - last_departure_ > std::chrono::seconds(30)) rate_ = std::max(mark_ / 2, 0.05 * guide());
  last_departure_ = now;
}

void ElasticBoundary::ended(const Cost&, const End& end, Instant now) {
  constexpr double kWeight = 0.1;
  constexpr double kSlowWeight = 0.02;
  if (end.rejected) {
    if (now < drained_) return;
    mark_ = std::max(0.97 * success_, 0.05 * guide());
    rate_ = std::max(0.7 * rate_, 0.05 * guide());
    drained_ = now + std::chrono::seconds(1);
    return;
  }
  ++successes_;
  if (end.used.output_tokens <= 0) return;
  const auto tokens = static_cast<double>(end.used.input_tokens + end.used.output_tokens);
  mean_cost_ += kSlowWeight * (tokens - mean_cost_);
  const double per_token = to_seconds(end.took) / static_cast<double>(end.used.output_tokens);
  per_token_ = per_token_ > 0 ? per_token_ + kWeight * (per_token - per_token_) : per_token;
  congested_ = per_token > 2 * per_token_;
}

void ElasticBoundary::tick(Instant now) {
  const Duration since = now - next_tick_ + std::chrono::seconds(1);
  next_tick_ = now + std::chrono::seconds(1);
  const double per_second = static_cast<double>(successes_) / std::max(to_seconds(since), 1.0);
  successes_ = 0;
  // Nothing goes while it drains, which says nothing about what would succeed.
  if (now < drained_) return;
  success_ += 0.3 * (per_second - success_);
  if (congested_) return;
  const double step = 0.002 * guide();
  if (rate_ < mark_) {
    rate_ = std::min(rate_ + 0.2 * (mark_ - rate_) + step, std::max(mark_, rate_ + step));
  } else {
    // Never past 1.2 times what succeeds, but a quiet time does not take the rate back.
    rate_ = std::max(rate_, std::min(rate_ + step, 1.2 * success_));
  }
  rate_ = std::clamp(rate_, 0.05 * guide(), guide());
}

// ---- by name

namespace {

template <class Port>
MakePort make() {
  return [](std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant) {
    return std::make_unique<Port>(std::move(policy), seed);
  };
}

MakePort make_bucket(RequestBucket::Start start) {
  return [start](std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant) {
    return std::make_unique<RequestBucket>(std::move(policy), seed, start);
  };
}

}  // namespace

const std::vector<BaselineStrategy>& baseline_strategies() {
  static const std::vector<BaselineStrategy> all = {
      {"none", "no governor, no retry", make<NoGovernor>()},
      {"retry-jitter", "basic retry, full jitter up to 60 s, 6 attempts", make<JitterRetry>()},
      {"retry-fixed", "basic retry, every 12 s, 6 attempts", make<FixedRetry>()},
      {"bucket-full", "request bucket with debt, full at the start, and a semaphore",
       make_bucket(RequestBucket::Start::full)},
      {"bucket-empty", "request bucket with debt, empty at the start, and a semaphore",
       make_bucket(RequestBucket::Start::empty)},
      {"dual-bucket", "request and token bucket with warm-up and pacing", make<DualBucket>()},
      {"ebp", "elastic boundary probing", make<ElasticBoundary>()},
  };
  return all;
}

const BaselineStrategy* find_baseline(std::string_view name) {
  const auto& all = baseline_strategies();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const BaselineStrategy& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace weir::sim
