// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "governor/bracket.h"
#include "governor/cost.h"
#include "governor/counter_mirror.h"
#include "governor/growth.h"
#include "governor/others.h"
#include "governor/pacer.h"
#include "governor/window_meter.h"
#include "weir/memory.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir::governor {

/// How a rule is to be kept, as its policy says.
struct MeterSettings {
  Rule rule;
  Side side = Side::provider;
  bool pace = false;           ///< departures are paced where decision 3 asks for it
  bool force_bucket = false;   ///< strategy `rate`: a bucket with debt whatever the enforcement
  bool goes_alone = false;     ///< a longer window of the unit takes what is larger than this one
  std::int64_t alone_max = 0;  ///< the largest such amount
  std::optional<GrowthRule> growth;  ///< the limit is not the rule's, but what this leaves
  bool adaptive = false;  ///< the limit may be another than the rule says, and is learned
  double start_level = 1;
  Duration warmup{0};
  std::optional<std::int64_t> burst_percent;
  std::optional<double> margin;
  std::optional<Duration> guard;
};

/// What a call holds on a meter, as it was when it was granted: a reload may change the meter's
/// terms, never a call's.
struct Claim {
  Unit unit = Unit::requests;
  Counting count = Counting::settle;
  Side side = Side::provider;
};

/// Where a call stands when it ends, as far as a meter needs it.
struct Progressed {
  bool sent = false;
  Instant sent_at;
  std::int64_t metered = 0;       ///< output tokens reported by progress so far
  std::int64_t last_metered = 0;  ///< the last of these reports
  Instant metered_at;
};

/// One rule kept: a mirror of what its owner counts, the amounts granted but not yet in it, and a
/// pacer for departures.
///
/// fits:  used(t) + open + c <= limit * (1 - margin), where used is the sliding log (or the exact
///        bucket), plus what is assumed to be left from before the start; a call that fits only an
///        empty window goes when nothing else is in it.
/// Sliding and fixed windows of any phase, and a bucket of the same depth, are all kept by the
/// sliding log: any window holds at most the limit. A sliding counter's estimate of whatever phase
/// is kept beside the log, for it can be above every true sum. The guard lengthens the window by
/// the spread of the network delay, so stamps taken at departure bound sums taken at arrival.
/// Invariants: open >= 0, held >= 0; with every call ended both are 0.
/// Units: of the rule. Threads: one owner.
class RuleMeter {
 public:
  RuleMeter(const MeterSettings& settings, Instant now);
  /// New terms; what was counted stays.
  void configure(const MeterSettings& settings, Instant now);

  /// Whether a call that charges `amount` now, and `paced` to the pacer, may be granted.
  [[nodiscard]] bool fits(std::int64_t amount, std::int64_t paced, Instant now);
  /// The earliest time at which it could fit as things stand; after `now` if it does not fit now.
  /// `returned`: what calls in flight may still give back, to be counted as free.
  [[nodiscard]] Instant when(std::int64_t amount, std::int64_t paced, std::int64_t returned,
                             Instant now);
  /// Whether the amount can pass at all, ever.
  [[nodiscard]] bool ever_fits(std::int64_t amount) const { return amount <= largest_; }
  /// The most that ever fits.
  [[nodiscard]] std::int64_t largest() const { return std::max<std::int64_t>(0, largest_); }

  void grant(const Claim& terms, const Cost& cost, Instant now);
  void sent(const Claim& terms, const Cost& cost, Instant now);
  void progress(const Claim& terms, std::int64_t output, Instant now);
  void finish(const Claim& terms, const Cost& cost, const Progressed& progressed,
              const Actual& actual, Instant now);
  /// What `sent` puts into the mirror.
  [[nodiscard]] static std::int64_t mirrored(const Claim& terms, const Cost& cost);
  /// Stamps a call whose reservation had been given up before it left.
  void sent_late(const Claim& terms, const Cost& cost, Instant now);
  /// Adds usage that became known after its reservation had expired.
  void book_late(const Claim& terms, std::int64_t missing, Instant now);

  /// Nothing passes before `until`; afterwards departures start without a burst.
  void hold(Instant until, Instant now);
  /// Whether it limits growth.
  [[nodiscard]] bool grows() const { return growth_.has_value(); }
  /// A refusal for growth.
  void grew_too_fast(Instant now);
  /// A refusal that the mirror did not foresee: the guard grows, and at its bound the limit
  /// shrinks.
  void unexplained(Instant now);

  // Of a rule whose limit is learned; the others do nothing and say nothing.
  [[nodiscard]] const Bracket* bracket() const { return bracket_ ? &*bracket_ : nullptr; }
  /// What the window has counted, for `accepted` and `refused` to be told of later.
  [[nodiscard]] std::int64_t standing(Instant now) const {
    return saturating_add(log_.sum(), phantom(now));
  }
  /// The provider said that its window held `said` after it had let in a call that was sent when
  /// the window here stood at `standing`: what is more there, others of the account have used.
  void read_headers(std::int64_t said, std::int64_t standing, Instant sent_at, Instant now);
  /// An answer said that nothing is left, or that something is. How many in a row said nothing.
  int says_spent(bool spent) { return spent_ = spent ? std::min(spent_ + 1, 1000) : 0; }
  /// What others are thought to have used of the limit.
  [[nodiscard]] std::int64_t others(Instant now) const;
  /// A call that was sent when the window stood at `standing`, itself included, was let in.
  void accepted(std::int64_t standing, Instant sent_at, Instant now);
  /// Forgets what was learned of the limit.
  void forget_learned(Instant now);
  /// It was refused. False: that says nothing new.
  bool refused(std::int64_t standing, std::int64_t amount, Instant sent_at, Duration latency,
               Instant now);
  /// What its window holds and what was learned of its limit, into `meter`.
  void remember(RememberedMeter& meter, Instant now);
  /// Takes what a predecessor had learned, before its first call.
  void recall_learned(const RememberedMeter& meter, Duration age, Instant now);
  /// Takes what a predecessor's window held, before its first call, instead of what is assumed of
  /// an unknown one. `unseen`: what may have been charged after the memory was taken.
  void recall_charges(const RememberedMeter& meter, Duration age, std::int64_t unseen, Instant now);
  /// The same of a window that may have filled up since the memory was taken: what is known leaves
  /// when it is due, what could have been sent in `unseen` at the pace is held for a whole window,
  /// and the rest of the limit is assumed to be taken as without a memory.
  void recall_open_end(const RememberedMeter& meter, Duration age, Duration unseen, Instant now);

  /// The measured spread of the network delay.
  void set_spread(Duration spread) { spread_ = spread; }
  /// How much output a call in flight produces in a second, on average.
  void set_speed(double tokens_per_second) { speed_ = tokens_per_second * 1e-9; }
  /// A call was found waiting for this rule, with so much queued behind it (itself included).
  void note_blocked(std::int64_t queued, Instant now);
  /// A slot for one refused caller at or after `at`; each caller gets its own.
  Instant promise(Instant at, std::int64_t amount);

  [[nodiscard]] const MeterSettings& settings() const { return settings_; }
  [[nodiscard]] Duration spread() const { return spread_; }
  [[nodiscard]] const Rule& rule() const { return settings_.rule; }
  /// Another amount of a rule on calls in flight; nothing else changes. Allocates nothing.
  void set_slots(std::int64_t amount) {
    settings_.rule.amount = amount;
    derive();
  }
  [[nodiscard]] bool level() const { return settings_.rule.unit == Unit::concurrency; }
  [[nodiscard]] std::int64_t used(Instant now);
  [[nodiscard]] std::int64_t open() const { return open_; }
  [[nodiscard]] std::int64_t held() const { return held_; }
  [[nodiscard]] std::int64_t limit(Instant now) const;
  [[nodiscard]] Instant empties(Instant now);
  [[nodiscard]] Duration guard(Instant now) const;
  /// What calls in flight may give back when they end.
  [[nodiscard]] std::int64_t returnable() const;
  /// Work per nanosecond at the full rate.
  [[nodiscard]] double rate() const { return rate_; }

 private:
  void derive();
  /// Charges what calls that are not streamed have produced since it was last done, as far as that
  /// can be known: a rule that counts output as it is produced counts theirs too.
  void flow(Instant now);
  [[nodiscard]] bool counts_production(const Claim& claim) const;
  void keep_bracket();
  /// Departures are this much faster while the limit is being found.
  [[nodiscard]] double haste() const;
  /// The limit as it is told, or as it was learned to be.
  [[nodiscard]] std::int64_t amount() const {
    return bracket_ ? bracket_->amount() : settings_.rule.amount;
  }
  /// Lets the bracket's time pass.
  void roll(Instant now);
  /// What is learned has changed from `before`: everything that follows from it changes.
  void follow_bracket(std::int64_t before, bool climbed, Instant now);
  /// Takes `share` of the amount for the margin that is kept free.
  void keep_free(double share);
  /// A call has ended: by how much its input had been misjudged, and what it produced.
  void learn(std::int64_t error, std::int64_t output);
  /// Sets the margin from what was learned, unless it was told.
  void keep_what_is_unforeseen();
  [[nodiscard]] bool bucket() const { return bucket_kept_; }
  [[nodiscard]] bool tokens() const { return settings_.rule.unit != Unit::requests && !level(); }
  [[nodiscard]] bool paced(Instant now) const;
  [[nodiscard]] std::int64_t capacity() const;
  [[nodiscard]] double depth(Instant now) const;
  [[nodiscard]] double burst(Instant now) const;
  [[nodiscard]] Slope mirror_slope(Instant now) const;
  void keep_counter(std::int64_t taken, Instant now);
  [[nodiscard]] bool counter_fits(std::int64_t amount, Instant now);
  [[nodiscard]] Slope pace_slope(Instant now) const;
  [[nodiscard]] double saturation(Instant now) const;
  [[nodiscard]] double assumed_full() const;
  [[nodiscard]] double cut_share() const;
  [[nodiscard]] std::int64_t phantom(Instant now) const;
  /// What is assumed of the time before the start, as charges that leave no sooner than that does.
  void remember_phantom(std::vector<RememberedCharge>& charges, Instant now) const;
  [[nodiscard]] Instant phantom_at_most(std::int64_t level, Instant now) const;
  [[nodiscard]] double margin() const { return margin_; }
  [[nodiscard]] double shrink(Instant now) const;
  [[nodiscard]] Instant mirror_when(std::int64_t amount, std::int64_t returned, Instant now);
  void mirror_add(std::int64_t amount, Instant now);
  void mirror_credit(Instant stamp, std::int64_t amount, Instant now);

  MeterSettings settings_;
  std::optional<Bracket> bracket_;
  std::optional<GrowthLimit> growth_;
  // What follows from the settings alone, so that no decision computes it anew.
  double rate_ = 0;
  double margin_ = 0;         // this one is learned, unless it was told
  double pace_ = 0;           // work per nanosecond when nothing waits and nothing was cut
  std::int64_t whole_ = 0;    // the limit then, for a rule that is no bucket
  std::int64_t largest_ = 0;  // the most that ever fits
  Duration guard_floor_{0};
  Duration guard_most_{0};
  bool bucket_kept_ = false;
  Instant start_;
  // What is assumed to be in the window at the start beyond what is known; nothing: what the start
  // level says.
  std::optional<std::int64_t> assumed_;
  WindowMeter log_;
  std::unique_ptr<CounterMirror> counter_;  // of a rule that is kept by a sliding counter
  Pacer bucket_;
  Pacer pacer_;
  std::int64_t open_ = 0;    // granted, not in the mirror
  std::int64_t held_ = 0;    // granted, not settled
  std::int64_t calls_ = 0;   // these
  std::int64_t silent_ = 0;  // of those that were sent, the ones that produce unheard
  double speed_ = 0;         // of each, in tokens a nanosecond
  double flowed_ = 0;        // less than a token of it, not charged yet
  Instant flowed_at_ = kDawn;
  double learned_ = 0;  // calls the following means are of, up to their memory
  double error_squared_ = 0;
  double output_ = 0;
  double output_squared_ = 0;
  Instant hold_until_ = kDawn;
  Instant alone_until_ = kDawn;  // a lump larger than the window blocks it for its own length
  Instant paced_until_ = kDawn;
  Instant blocked_at_ = kDawn;
  double saturation_ = 0;  // 0..1, as it stood at blocked_at_
  bool busy_ = false;      // a long queue waits for this rule
  Instant promised_ = kDawn;
  Others others_;
  int spent_ = 0;
  Duration spread_{0};
  Duration boost_{0};
  Instant boosted_at_ = kDawn;
  double shrunk_ = 1;
  Instant shrunk_at_ = kDawn;
};

}  // namespace weir::governor
