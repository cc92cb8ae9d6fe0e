// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weir/time.h"
#include "weir/units.h"

namespace weir {

/// So much was charged so long before the memory was taken.
struct RememberedCharge {
  Duration age{0};
  std::int64_t amount = 0;
};

/// A limit that was found to be another than it was told to be. Units: of the rule; durations
/// before or after the memory was taken.
struct RememberedLimit {
  std::int64_t kept = 0;
  std::int64_t most = 0;  ///< the largest sum that was accepted
  std::int64_t lump = 1;  ///< the cost of what was refused last
  Duration refused_ago = kForever;
  Duration probe_every{0};  ///< how seldom it is asked whether the limit rose, at most
  Duration probe_next{0};   ///< and after how long the next time but one
  Duration probe_in{0};     ///< the next time
  bool found = true;        ///< false: it was being looked for
};

/// What speaks for a rule (a guess, or one that was told).
struct RememberedBelief {
  bool active = true;
  double score = 0;
  double met = 0.5;
  Duration refused_ago = kForever;
  Duration trusted{0};
};

/// How calls differ from what they were charged, from which the margin follows. Units: tokens.
struct RememberedMargin {
  double calls = 0;
  double error_squared = 0;
  double output = 0;
  double output_squared = 0;
};

/// What of a rule on growth is kept, after refusals: shares of its floor and of its ratio.
struct RememberedGrowth {
  double floor_part = 1;
  double ratio_part = 1;
  Duration refused_ago = kForever;
};

/// One limit: what is known of it and what its window holds.
struct RememberedMeter {
  std::string name;  ///< whose limit, of what, in which window: "deployment|chat-1|requests|60s"
  Unit unit = Unit::requests;
  Duration window{0};
  std::int64_t amount = 0;  ///< as it was told or guessed; with another, what was learned is void
  std::optional<RememberedLimit> limit;
  std::optional<RememberedBelief> belief;
  std::optional<RememberedMargin> margin;
  std::optional<RememberedGrowth> growth;
  bool counted = false;                   ///< whether `charges` and `level` say something
  std::vector<RememberedCharge> charges;  ///< oldest first
  double level = 0;                       ///< of a bucket or a sliding counter
};

/// What is known of the calls of one caller, tenant or deployment. Units: tokens, bytes.
struct RememberedCalls {
  double mean = 0;
  double weight = 0;
  double variance = 0;
  double bytes = 0;
  double tokens = 0;
  double cached = 0;
  double cacheable = 0;
  double distrust = 0;
  double factor = 1;
  std::int64_t answers = 0;
  /// The quantile sketch: which bucket holds how many.
  std::vector<std::pair<std::uint16_t, std::uint16_t>> buckets{};
  // What its mean is taken to be, with what the levels above it know.
  double believed_mean = 0;
  double believed_variance = 0;
  double believed_tokens_per_byte = 0;
  double believed_cached_ratio = 0;
};

/// A caller or tenant on a deployment, by a hash of their names.
struct RememberedCaller {
  std::uint64_t key = 0;
  RememberedCalls calls;
};

/// One deployment, beside its limits.
struct RememberedDeployment {
  std::string name;
  std::string model;  ///< with another, nothing of this holds
  RememberedCalls calls;
  double tokens_per_event = 1;
  double mean_seconds = 1;
  double produced = 0;
  double producing = 0;
  Duration refusals_take{0};
  Duration least_round_trip{0};  ///< the range of the last one to two minutes; both 0: unknown
  Duration most_round_trip{0};
};

/// What a governor has learned and what its long windows hold, by names, as plain values: enough
/// for its successor to begin where it ended (Governor::remember, Governor::recall). Ages are
/// counted back from the moment at which it was taken.
/// Bounds: kMeters, kCallers; a meter has at most kCharges charges.
/// Threads: a plain value.
struct Memory {
  static constexpr std::size_t kMeters = 20'000;
  static constexpr std::size_t kCallers = 2'000;
  static constexpr std::size_t kCharges = 160;

  std::vector<RememberedMeter> meters;
  std::vector<RememberedDeployment> deployments;
  std::vector<RememberedCaller> callers;  ///< those with the most answers
  std::size_t left_out = 0;               ///< meters beyond kMeters
  std::uint64_t revision = 0;             ///< equal where nothing has changed in between
};

/// Where a memory that is taken piece by piece is continued.
struct MemoryCursor {
  enum class Part : std::uint8_t { meters, deployments, callers, done };
  Part part = Part::meters;
  std::string after;      ///< of the meters, the last one taken
  std::size_t index = 0;  ///< of the others, the next one
};

/// How old a memory is when it is given back. Where that is not known for sure, the two bounds
/// differ: what was charged is held for longer, what was learned is believed less.
struct MemoryAge {
  Duration at_least{0};
  Duration at_most{0};
  /// Nothing was sent after it was taken. Otherwise something was, for up to `unseen`: what may
  /// have left in that time counts as charged.
  bool complete = false;
  Duration unseen = std::chrono::seconds(20);
};

}  // namespace weir
