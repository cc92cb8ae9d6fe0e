// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "weir/rng.h"
#include "weir/time.h"

namespace weir::emulator::model {

/// How fast a modelled provider answers.
struct LatencySettings {
  Duration base_first_token = std::chrono::milliseconds(300);
  Duration per_input_token = std::chrono::microseconds(50);
  Duration per_output_token = std::chrono::milliseconds(25);
  /// Attempts in flight up to which the speed holds; 0: no knee.
  std::int64_t knee = 0;
  /// Past the knee a token takes 1 + slope * (inflight - knee) / knee times as long.
  double slope = 1.0;
  /// The same of the time to first token.
  double first_token_slope = 0;
  /// More attempts in flight than this are answered with 503; 0: any number is taken.
  std::int64_t depth = 0;
  /// Share of the attempts that slower back ends answer, and how many times as long those take.
  double slow_share = 0;
  double slow_factor = 6;
  /// Sigma of a log-normal factor of mean 1 on each attempt; 0: none.
  double noise = 0.1;
};

/// When an attempt's answer comes. Units: from admission; between two tokens.
struct Timing {
  Duration first_token{0};
  Duration per_token{0};
  /// From admission to the last token of `output_tokens`.
  [[nodiscard]] Duration until(std::int64_t output_tokens) const;
};

/// Time to first token = (base + input * per_input_token) * degradation * noise; time per token =
/// per_output_token * degradation * noise; both times slow_factor on a slower back end. Example:
/// base 300 ms, 50 us per input token, 1000 in, no noise: 350 ms. With slope 1 twice as many
/// attempts past the knee take twice as long, so that their throughput is that of the knee.
/// Pure and seeded; all times stay within 0 and one day. Threads: one owner.
class LatencyModel {
 public:
  LatencyModel(const LatencySettings& settings, std::uint64_t seed)
      : settings_(settings), rng_(seed) {}
  Timing plan(std::int64_t input_tokens, std::int64_t inflight);
  /// Whether one more than `inflight` attempts is too many.
  [[nodiscard]] bool full(std::int64_t inflight) const {
    return settings_.depth > 0 && inflight >= settings_.depth;
  }
  /// Other speeds from now on; what was drawn stays drawn.
  void change(const LatencySettings& settings) { settings_ = settings; }

 private:
  LatencySettings settings_;
  Rng rng_;
};

/// How long a modelled provider's answers are where the request does not say.
struct OutputSettings {
  double mean_tokens = 300;
  double sigma = 0.7;  ///< of the log-normal; 0: always the mean
  std::int64_t cap = 32'768;
};

/// Draws output lengths. Pure and seeded. Threads: one owner.
class OutputModel {
 public:
  OutputModel(const OutputSettings& settings, std::uint64_t seed)
      : settings_(settings), rng_(seed) {}
  /// At least 1, at most the cap and `max_output_tokens` (0 where that is 0). `exact` wins over the
  /// draw. The generator moves on either way, so one exact request does not shift the others.
  std::int64_t draw(std::optional<std::int64_t> exact,
                    std::optional<std::int64_t> max_output_tokens);

 private:
  OutputSettings settings_;
  Rng rng_;
};

enum class FaultKind : std::uint8_t {
  none,
  server_error,
  reset_before,
  reset_inside,
  slow,
  malformed
};

/// Shares of the admitted attempts, each 0..1; their sum above 1 is cut off in this order.
struct FaultSettings {
  double server_error = 0;  ///< a 5xx answer instead of a response
  double reset_before = 0;  ///< the connection breaks before the first byte
  double reset_inside = 0;  ///< the connection breaks inside the body or stream
  double slow = 0;          ///< everything takes `slow_factor` times as long
  double malformed = 0;     ///< the body or one stream event is not what its format says
  double slow_factor = 10;
};

struct Fault {
  FaultKind kind = FaultKind::none;
  double where = 0;   ///< share of the output after which it happens, 0..1
  double factor = 1;  ///< on every time; above 1 only for `slow`
};

/// Draws faults. Pure and seeded. Threads: one owner.
class FaultModel {
 public:
  FaultModel(const FaultSettings& settings, std::uint64_t seed) : settings_(settings), rng_(seed) {}
  Fault draw();

 private:
  FaultSettings settings_;
  Rng rng_;
};

}  // namespace weir::emulator::model
