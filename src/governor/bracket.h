// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "weir/memory.h"
#include "weir/time.h"

namespace weir::governor {

/// A limit that is not told, or not told right, known by what was accepted and refused under it.
///
/// A window that refuses says what it holds: with S counted there and c asked for, its limit lies
/// in [S, S + c). So a refusal is worth more than any law of decrease: S is kept, and what was
/// accepted bounds it from below. A refusal below what was accepted before says that the limit
/// fell, and not how far: nothing is sent until the sum has drained to some part of S, then one
/// request, the canary, asks; refused, the next asks further down; accepted, the sum climbs until
/// it is refused again, and that one refusal says the new limit. From time to time, while somebody
/// waits for it, the limit is asked whether it rose, by letting the sum go a little over what is
/// known. A canary that nobody has refused in twice the time that refusals take counts as accepted.
///
/// Worked example (also a test): told 2000, really 1200. The 1201st is refused at S = 1200; at 1128
/// a canary passes; from then on 1194 are kept. When the limit falls to 900, one is refused at
/// 1194, canaries at 1122 and 955, the third at 776 passes; climbing, one is refused at 900.
/// Units: of the rule. Source: control.md sections 2, 10.5 and 13.1. Threads: one owner.
class Bracket {
 public:
  /// `slack`: how exactly the sums are known, as a share.
  Bracket(std::int64_t told, Duration window, double slack);

  /// The most to be held in the window now.
  [[nodiscard]] std::int64_t amount() const { return amount_; }
  [[nodiscard]] std::int64_t told() const { return told_; }
  /// The largest sum that was accepted since the limit last fell.
  [[nodiscard]] std::int64_t most() const { return most_; }
  /// Whether the sum should rise faster than the limit alone asks for.
  [[nodiscard]] bool climbs() const { return mode_ == Mode::climb || mode_ == Mode::probe; }
  [[nodiscard]] bool probes() const { return mode_ == Mode::probe; }
  /// The limit as it is held to, where it is not being looked for.
  [[nodiscard]] std::optional<std::int64_t> settled() const {
    if (mode_ != Mode::open && mode_ != Mode::hold) return std::nullopt;
    return kept_;
  }
  /// Whether a window has not passed yet since it was refused last.
  [[nodiscard]] bool unsettled(Instant now) const {
    return refused_at_ != kDawn && saturating_sub(now, refused_at_) < window_;
  }
  /// Whether nothing but canaries passes.
  [[nodiscard]] bool drains() const { return mode_ == Mode::drain; }
  /// Whether a refusal of a request that made the sum `sum` is what this limit foretells.
  [[nodiscard]] bool explains(std::int64_t sum) const;
  /// Nothing may pass before; `now` or earlier: it may.
  [[nodiscard]] Instant closed_until() const;
  /// A new told limit: what was learned under another one is forgotten.
  void tell(std::int64_t told);

  void granted(Instant now);
  /// It left, and made the sum `sum`.
  void sent(std::int64_t sum, Instant now);
  /// A granted request ended without a verdict of the provider.
  void ended(Instant sent_at);
  /// A request sent at `sent_at`, that made the sum `sum`, was accepted.
  void accepted(std::int64_t sum, Instant sent_at, Instant now);
  /// The same was refused; `cost` is its part of the sum. `latency`: what refusals take. Returns
  /// false where it says nothing new, being sent before the last one came.
  bool refused(std::int64_t sum, std::int64_t cost, Instant sent_at, Duration latency, Instant now);
  /// Lets time pass. `wanted`: somebody waits for this limit.
  void roll(bool wanted, Instant now);

  /// What is known of the limit; nothing where no refusal has said anything.
  [[nodiscard]] std::optional<RememberedLimit> remember(Instant now) const;
  /// Takes what a predecessor knew, `age` ago. Older than an hour it is asked about again soon,
  /// and older than thirty days it is not taken.
  void recall(const RememberedLimit& limit, Duration age, Instant now);

 private:
  enum class Mode : std::uint8_t { open, hold, drain, probe, climb };

  void pass_canary(std::int64_t sum, Instant now);
  void hold(double amount, Instant now);
  void drain_to(double share, Instant now);
  void climb_to(double amount);
  /// Whether nothing of the size that was refused fits between `sum` and what is allowed.
  [[nodiscard]] bool fills(std::int64_t sum) const;

  std::int64_t told_;
  Duration window_;
  double slack_;
  Mode mode_ = Mode::open;
  std::int64_t amount_;
  std::int64_t kept_;         // what is held to outside of drains and probes
  std::int64_t most_ = 0;     // the largest accepted sum since the limit last fell
  std::int64_t top_ = 0;      // the sum at which a drain began
  std::int64_t refused_ = 0;  // the last sum that was refused
  std::int64_t lump_ = 1;     // the cost of what was refused last: sums go in steps of that size
  int step_ = 0;
  int again_ = 0;  // refusals in a row where the limit was known to be
  Instant refused_at_ = kDawn;
  bool expected_ = false;  // the drain began where the limit was known to be
  Instant epoch_ = kDawn;  // what was sent up to here is judged already
  bool canary_out_ = false;
  Instant canary_sent_ = kDawn;
  Instant canary_granted_ = kDawn;
  std::int64_t canary_sum_ = 0;
  Instant not_before_ = kDawn;
  Duration consent_;
  Duration probe_every_;  // at most
  Duration probe_next_;
  Instant probe_at_ = kNever;
  Instant probe_until_ = kNever;
};

}  // namespace weir::governor
