// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "governor/size_fit.h"
#include "weir/time.h"

namespace weir::governor {

/// How many calls a deployment takes at once, learned from how fast it answers.
///
/// A quota refuses and is seen by its refusals (learning.cc). A provider that has too much to do
/// answers late: beyond some number of calls in flight, the knee, more of them bring nothing. This
/// class finds that number; it never speaks of quotas.
///
/// Three times are measured: to the first token and per token on streams, the whole answer where
/// nothing is streamed. Lengths are regressed out (SizeFit). What is left, z = time / expected, is
/// put beside the number of calls n that were in flight when the call left, as a curve of log z
/// over log n. Throughput is n / z, so with e = d log z / d log n it grows by 1 - e: e = 0 without
/// congestion, e = 1 beyond a knee. A call's z is that of its parts, weighted by the seconds they
/// take.
///
/// Congestion is suspected where e >= 0.7 between a calmer part of the curve and now, by three
/// standard errors: what varies much, as two kinds of back ends do, must show it longer. Suspicion
/// is not enough. A provider that becomes slower for another reason has more calls in flight as
/// well. So a suspicion starts a trial: a limit a fifth below n. If the calls under it are faster
/// by half of what the knee would make them, it is congestion, and the limit follows the knee: z is
/// kept between 1.06 and 1.18. If not, the limit is lifted, the present speed is the new normal
/// one, and the next trial waits twice as long. Every later decrease is judged the same way.
/// Overload answers (503, 529, timeouts) are evidence too, judged by whether they become fewer.
///
/// Invariant: one decrease per epoch. An epoch begins with a change of the limit, and only calls
/// sent within it say anything about it. The limit is 0 (none) or at least 1.
///
/// Example: calls take 8 s, from 32 in flight on n / 32 times that. 40 in flight: z = 1.25,
/// e = log 1.25 / log 1.25 = 1. The trial at 32 has z = 1, a fifth faster: a hold, near 36.
///
/// Bounded: about 6 KB each. Threads: one owner. Time is passed in.
class Congestion {
 public:
  enum class State : std::uint8_t { free, trying, holding };

  /// The call that something was measured of.
  struct Of {
    std::int64_t inflight = 1;  ///< of the deployment when it left, itself included
    Instant sent_at;
  };

  void first_token(const Of& of, Duration took, std::int64_t input_tokens, Instant now);
  /// `took`: for `tokens` that followed others.
  void tokens(const Of& of, Duration took, std::int64_t tokens, Instant now);
  /// An answer that was not streamed. Units: tokens.
  void whole(const Of& of, Duration took, std::int64_t input_tokens, std::int64_t output_tokens,
             Instant now);
  /// The provider said that it has too much to do, or said nothing in time.
  void overloaded(const Of& of, Instant now);
  /// Calls in flight have become this many.
  void granted(std::int64_t inflight, Instant now);

  [[nodiscard]] State state() const { return state_; }
  /// Calls that may be in flight; 0: any number.
  [[nodiscard]] std::int64_t limit() const { return limit_; }
  /// Times that congestion set in, and trials that found none.
  [[nodiscard]] std::int64_t holds() const { return holds_; }
  [[nodiscard]] std::int64_t refuted() const { return refuted_; }
  /// What is normal. Units: seconds; 0: unknown.
  [[nodiscard]] double normal_first_token() const;
  [[nodiscard]] double normal_per_token() const;

 private:
  static constexpr std::size_t kTracks = 3;
  static constexpr std::size_t kLevels = 48;  // of calls in flight, each 1.2 times the one below
  static constexpr std::size_t kRecent = 48;
  enum Track : std::uint8_t { kFirst, kGap, kWhole };

  /// Logarithms of one track: how many, and their mean.
  struct Mean {
    double count = 0;
    double z = 0;
    double n = 0;
  };
  using Means = std::array<Mean, kTracks>;
  struct Level {
    Means means;
    Instant touched = kDawn;
  };
  struct Sample {
    double z = 0;
    double n = 0;
    Instant at;
  };
  struct Recent {
    std::array<Sample, kRecent> samples{};
    std::size_t count = 0;
    std::size_t next = 0;
  };
  /// One set of means against another.
  struct Difference {
    bool known = false;
    double z = 0;
    double n = 0;
    double error = 0;  ///< standard error of z
  };

  void add(Track track, const Of& of, double z, double seconds, Instant now);
  [[nodiscard]] Means recent(Instant now) const;
  [[nodiscard]] bool enough(const Means& means) const;
  [[nodiscard]] Difference differ(const Means& from, const Means& to) const;
  [[nodiscard]] double noise() const;
  void look(Instant now);
  void look_for_congestion(const Means& present, Instant now);
  void judge_trial(const Means& present, Instant now);
  void follow(const Means& present, Instant now);
  void look_at_overload(Instant now);
  void decrease(double to, const Means& before, Instant now);
  void take_back(const Means& present, Instant now);
  void judge_probe(const Means& present, const Difference& effect, Instant now);
  [[nodiscard]] bool may_probe(const Difference& slower, Instant now) const;
  void grow(Instant now);
  void release(Instant now);
  void begin_epoch(Instant now);
  void forget_curve();
  [[nodiscard]] const Level* calmest(double below, Instant now) const;

  State state_ = State::free;
  std::int64_t limit_ = 0;
  std::int64_t limit_before_ = 0;
  std::int64_t set_in_at_ = 0;  ///< calls in flight when it was first suspected
  std::int64_t holds_ = 0;
  std::int64_t refuted_ = 0;

  SizeFit first_fit_, whole_fit_;
  std::array<double, kTracks> variance_{};
  std::array<double, kTracks> level_{};
  std::array<double, kTracks> latest_{};
  std::array<std::int64_t, kTracks> samples_{};
  std::array<double, kTracks> seconds_{};  ///< that go by in each track, a mean of late
  double mean_input_ = 0;

  std::array<Level, kLevels> curve_{};
  std::array<Recent, kTracks> recent_{};
  std::int64_t since_look_ = 0;

  Means normal_{};            ///< as it was before congestion set in
  Means before_{};            ///< as it was before the last decrease
  bool judging_ = false;      ///< the last change was a decrease whose effect is not known yet
  bool by_overload_ = false;  ///< it was for overload answers
  Instant epoch_ = kDawn;
  Instant bound_at_ = kDawn;  ///< the limit was last reached
  bool bound_ = false;        ///< it was within the epoch
  double boost_ = 1;
  int grown_ = 0;          ///< times in a row
  bool by_speed_ = false;  ///< it holds for what is slow, not for overload answers
  bool probing_ = false;   ///< the last decrease asks whether the knee is lower than believed
  Instant next_probe_ = kDawn;
  Duration probe_every_ = std::chrono::minutes(2);
  Instant next_trial_ = kDawn;
  Duration backoff_ = std::chrono::minutes(1);

  double attempts_ = 0;              ///< of this epoch, older ones for less
  double overloads_ = 0;             ///< how many of them had an overload answer
  std::int64_t epoch_attempts_ = 0;  ///< the same, all alike
  std::int64_t epoch_overloads_ = 0;
  int steps_ = 0;                ///< decreases for them in a row that did not help
  double overloads_before_ = 0;  ///< their share before the last decrease
  double failed_at_ = 0;         ///< calls in flight at overload answers, a mean
  double ceiling_ = 0;           ///< more than this had overload answers
  Instant ceiling_at_ = kDawn;
  Duration probe_after_ = std::chrono::seconds(30);
};

}  // namespace weir::governor
