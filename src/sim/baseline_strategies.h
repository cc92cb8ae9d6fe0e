// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/baseline_port.h"

namespace weir::sim {

// The published client-side strategies. Sources: Alibaba Cloud Model Studio, "Best practices for
// handling rate limiting", https://help.aliyun.com/en/model-studio/rate-limiting-best-practices
// (its four client-side strategies: basic retry, request rate limiting, traffic shaping, adaptive
// congestion control), and the OpenAI cookbook, "How to handle rate limits", for the parameters of
// the retry. What a source leaves open is chosen in the strategy's favour; each class says what.

/// No governor and no retry: every call goes when it comes and fails with its first 429.
class NoGovernor final : public BaselinePort {
 public:
  using BaselinePort::BaselinePort;
};

/// Basic retry: tenacity's `wait_random_exponential(1, 60)` and `stop_after_attempt(6)`. The pause
/// after the n-th attempt is drawn from U(0, min(60 s, 1 s * 2^n)), n from 1 on: full jitter.
/// Open: whether n starts at 0 or 1; at 1 the six attempts span a minute's window, which is better
/// for the strategy.
class JitterRetry : public BaselinePort {
 public:
  static constexpr std::int32_t kAttempts = 6;
  using BaselinePort::BaselinePort;

 protected:
  std::optional<Duration> pause(std::int32_t attempts) override;
};

/// The same six attempts a fixed time apart.
/// Open: the interval; 12 s, so that the last attempt comes a whole minute after the first.
class FixedRetry final : public BaselinePort {
 public:
  using BaselinePort::BaselinePort;

 protected:
  std::optional<Duration> pause(std::int32_t attempts) override;
};

/// Request rate limiting: a bucket of the request quota (capacity = quota, refill = quota / window,
/// debt, first in first out), then a semaphore, in that order; then basic retry.
/// Open: the size of the semaphore, and what to do about several request rules. One bucket for each
/// rule; the semaphore holds a told concurrency limit or, without one, a whole window's requests,
/// so that it is never what holds traffic back. Tokens are not looked at: that is the strategy.
class RequestBucket final : public JitterRetry {
 public:
  enum class Start : std::uint8_t { empty, full };
  RequestBucket(std::shared_ptr<const Policy> policy, std::uint64_t seed, Start start);

 protected:
  [[nodiscard]] Instant may_go(const Cost& cost, Instant now) const override;
  void goes(const Cost& cost, Instant now) override;
  [[nodiscard]] std::int64_t slots() const override { return slots_; }

 private:
  std::vector<DebtBucket> buckets_;
  std::int64_t slots_ = 0;
};

/// Traffic shaping: a request bucket and a token bucket together, input taken before, output
/// settled after, linear warm-up from the start of the process, a least time between two
/// departures; then the semaphore and basic retry. Buckets start empty.
/// Open: the warm-up's length (10 s here, from a tenth of the rate; it costs R * T / 2), the input
/// estimate (bytes by the policy's ratio, corrected at settlement), what happens to the tokens of a
/// refused attempt (given back: it used none), providers that charge max_tokens at the door (taken
/// at the door and kept, which is what such a provider charges).
class DualBucket final : public JitterRetry {
 public:
  static constexpr Duration kWarmup = std::chrono::seconds(10);
  DualBucket(std::shared_ptr<const Policy> policy, std::uint64_t seed);

 protected:
  [[nodiscard]] Instant may_go(const Cost& cost, Instant now) const override;
  void goes(const Cost& cost, Instant now) override;
  void ended(const Cost& cost, const End& end, Instant now) override;
  [[nodiscard]] Instant next_tick() const override { return next_tick_; }
  void tick(Instant now) override;
  [[nodiscard]] std::int64_t slots() const override { return slots_; }

 private:
  struct Shaped {
    Rule rule;
    DebtBucket bucket;
  };
  [[nodiscard]] static double at_door(const Rule& rule, const Cost& cost);
  std::vector<Shaped> shaped_;
  Duration interval_{0};
  Instant next_departure_{};
  Instant next_tick_{};
  std::optional<Instant> began_;
  std::int64_t slots_ = 0;
};

/// Adaptive: elastic boundary probing (EBP). A rate of requests, moved once a second:
///   success      moving mean (weight 0.3) of successes a second
///   a 429        rate *= 0.7, 0.97 of the mean of successes is remembered as the high mark, and
///                nothing goes for a second (drain); further 429s in that second change nothing
///   congestion   time per output token above twice its moving mean: the rate is held
///   below mark   spring: rate += 0.2 * (mark - rate) + step
///   above mark   probe: rate += step, and never past 1.2 * success
///   idle         after 30 s without a departure the rate starts from half the mark
/// with step = 0.2 % of the guide rate (the told request quota, also the start) and departures one
/// interval of the rate apart; then basic retry. The rate stays within 5 % and 100 % of the guide.
/// Re-created from descriptions; the source's own code is not here. Open, and in its favour: one
/// decrease a drain instead of one for each refused attempt (k refusals in flight would give
/// 0.7^k); a drain of 1 s and a step of 0.2 %, the best of 0 to 5 s and 0.05 to 0.5 % against a
/// hidden limit; the guide is never passed; the mean of the time per token takes each sample in
/// first; where only tokens are limited, the guide is the token quota over a moving mean of what
/// calls cost.
class ElasticBoundary final : public JitterRetry {
 public:
  ElasticBoundary(std::shared_ptr<const Policy> policy, std::uint64_t seed);

 protected:
  [[nodiscard]] Instant may_go(const Cost& cost, Instant now) const override;
  void goes(const Cost& cost, Instant now) override;
  void ended(const Cost& cost, const End& end, Instant now) override;
  [[nodiscard]] Instant next_tick() const override { return next_tick_; }
  void tick(Instant now) override;

 private:
  [[nodiscard]] double guide() const;
  double request_guide_ = 0;  ///< per second; 0: no request rule
  double token_guide_ = 0;    ///< tokens per second; 0: no token rule
  double mean_cost_ = 0;
  double rate_ = 0;
  double mark_ = 0;
  double success_ = 0;
  double per_token_ = 0;  ///< moving mean, seconds
  std::int64_t successes_ = 0;
  bool congested_ = false;
  Instant drained_{};
  Instant last_departure_{};
  Instant next_tick_{};
};

/// A strategy by name.
struct BaselineStrategy {
  std::string_view name;
  std::string_view title;  ///< one line for people
  MakePort make;
};
/// All of them, from the plainest to the most elaborate.
const std::vector<BaselineStrategy>& baseline_strategies();
/// nullptr: there is none of that name.
const BaselineStrategy* find_baseline(std::string_view name);

}  // namespace weir::sim
