// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/port.h"
#include "sim/scenario.h"

namespace weir::sim {

/// What one stretch of a run looked like from the gateway's side.
struct SeriesPoint {
  double at_s = 0;
  double accepted_per_s = 0;
  double refused_per_s = 0;
  double window_share = 0;  ///< largest sum over the last window, of the scarcest rule's limit
};

/// What a gateway sees of its own run: whatever stands between clients and provider, it is counted
/// the same way. Bounded: one number a second and rule up to kMaxSeconds, one wait for each call.
class Recording {
 public:
  static constexpr std::size_t kMaxSeconds = 7200;
  static constexpr std::size_t kMaxPoints = 240;

  explicit Recording(const Scenario& scenario);

  /// From arrival to the departure of the attempt that was answered, of the calls that were.
  [[nodiscard]] const std::vector<Duration>& waits() const { return waits_; }
  [[nodiscard]] std::int64_t retries() const { return retries_; }
  [[nodiscard]] std::int64_t retries_answered() const { return retries_answered_; }
  /// Of answers that ended within the horizon.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// At most kMaxPoints, over the horizon. The window's sum is put together from departures and
  /// reported usage, so it is as late as the network is.
  [[nodiscard]] std::vector<SeriesPoint> series() const;

 private:
  friend class RecordingPort;
  struct Track {
    Instant arrived;
    Instant left;
    std::int32_t attempts = 0;
    std::int64_t max_output = 0;
  };
  void add(std::vector<double>& to, Instant at, double amount) const;
  void spread(std::vector<double>& to, Instant from, Instant until, double amount) const;
  void answered(const Track& track, const Usage& usage, Instant now);
  void charge(std::size_t rule, const Track& track, const Usage& usage, Instant now);

  std::vector<Rule> rules_;
  std::int64_t default_max_output_ = 0;
  Instant horizon_;
  std::vector<double> accepted_, refused_;    ///< by second
  std::vector<std::vector<double>> charged_;  ///< by rule, by second
  std::vector<Track> tracks_;                 ///< by the call's slot
  std::vector<Duration> waits_;
  std::int64_t retries_ = 0;
  std::int64_t retries_answered_ = 0;
  std::int64_t tokens_ = 0;
};

/// Puts what goes through `inner` on record. `recording` outlives the ports that are made.
MakePort recorded(MakePort inner, Recording& recording);

}  // namespace weir::sim
