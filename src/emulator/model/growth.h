// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "emulator/model/meter.h"
#include "weir/rule.h"
#include "weir/time.h"
#include "weir/units.h"

namespace weir::emulator::model {

/// How fast a provider lets an account's traffic grow.
/// Source: help.aliyun.com model-studio/rate-limit, read 2026-11: a limit on sharp growth with a
/// dynamic threshold beside RPM and TPM, its numbers not published; Anthropic documents an
/// acceleration limit of the same kind. The form is that of control.md section 10.4.
struct GrowthSettings {
  Unit of = Unit::requests;  ///< requests, or a unit of tokens
  double ratio = 2.0;        ///< at most this times the peak; below 1 counts as 1
  Duration per = std::chrono::seconds(10);
  std::int64_t floor = 20;  ///< in one period this much always passes, but for the wandering
  Duration look_back = std::chrono::minutes(5);
  double wander = 0;  ///< the threshold moves within 1 - wander .. 1 + wander, 0..0.9
};

/// One growth rule. What passes in the last `per` may come to at most
///   max(floor, ratio * peak) * (1 + wander * z)
/// where peak is the largest sum of any period that ended from `look_back` to one period ago, and z
/// wanders in -1..1 from knot to knot, one a minute, drawn from the seed. Sums are exact; the peak
/// is looked up on a grid of at most kMaxSamples points. What comes alone in its period passes
/// whatever its size, for there is nothing that it grew over.
///
/// Worked example (also a test): ratio 2, 10 s, floor 20, no wandering. An idle account may send 20
/// at t = 0 and not the 21st. At t = 10 s they have left the period, and the period that held them
/// ended only now: still 20. At t = 20 s the peak is 20 and 40 pass; at 40 s, 80.
/// Errors: none; odd settings are held in range. Time: `now` must not go back.
/// Threads: one owner.
class GrowthMeter {
 public:
  static constexpr std::int64_t kMaxSamples = 2048;

  GrowthMeter(const GrowthSettings& settings, std::uint64_t seed, Instant now);
  /// How long `amount` has to wait; 0: it may pass now.
  [[nodiscard]] Duration wait_for(std::int64_t amount, Instant now);
  void add(std::int64_t amount, Instant now);
  /// What the last period may hold, as of now.
  [[nodiscard]] std::int64_t threshold(Instant now);
  [[nodiscard]] std::int64_t used(Instant now) { return recent_.used(now); }
  [[nodiscard]] const GrowthSettings& settings() const { return settings_; }

 private:
  struct Sample {
    Instant at;
    std::int64_t sum;
  };
  void move_to(Instant now);
  [[nodiscard]] double wandered(Instant now) const;

  GrowthSettings settings_;
  std::uint64_t seed_;
  Duration step_;
  Instant next_sample_;
  Meter recent_;
  std::deque<Sample> peaks_;  ///< sums falling, times rising: the first is the peak
  std::deque<Sample> fresh_;  ///< of periods that ended less than a period ago
};

}  // namespace weir::emulator::model
