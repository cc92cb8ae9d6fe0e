// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "load/workload.h"
#include "weir/time.h"

namespace weir::load {

enum class Outcome : std::uint8_t {
  ok,
  refused,   ///< 429 or 503 after the last attempt
  failed,    ///< another status, a broken or silent connection, an answer without its end
  aborted,   ///< left on purpose
  not_sent,  ///< beyond the bound of calls at once
};

/// What became of one call. Times from its arrival.
struct CallRecord {
  std::size_t client = 0;
  Outcome outcome = Outcome::failed;
  std::int32_t attempts = 0;
  std::int32_t seen_429 = 0;
  std::uint16_t status = 0;  ///< the last one; 0: none
  std::string code;          ///< of a call that was refused or failed: the error's code
  std::string message;       ///< the same; kept for the first of its status and code only
  Duration arrived{0};       ///< from the start of the run
  Duration wait{0};  ///< until the attempt that was answered left, and what a gateway held it
  std::optional<Duration> first_byte;  ///< of the body: for a stream the time to the first token
  Duration ended{0};
  std::int64_t output_tokens = 0;
  bool stream = false;
};

/// Nearest-rank percentiles. Units: milliseconds.
struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0, longest = 0;
};
Percentiles percentiles(std::vector<Duration> values);

/// Figures of a group of calls.
struct Figures {
  std::string name;
  std::int64_t calls = 0, ok = 0, refused = 0, failed = 0, aborted = 0, not_sent = 0;
  std::int64_t attempts = 0, seen_429 = 0;
  std::int64_t output_tokens = 0;
  Percentiles wait, first_byte, latency;
  double ms_per_output_token = 0;  ///< mean over streams, after the first
  /// Of the calls that were not left on purpose.
  [[nodiscard]] double success() const;
};

/// Why calls were refused or failed.
struct Reason {
  std::uint16_t status = 0;  ///< 0: no answer
  std::string code;
  std::string message;  ///< of the first
  std::int64_t calls = 0;
};

struct Report {
  Duration duration{0};  ///< from the first arrival to the last end
  Figures all;
  std::vector<Figures> classes;
  std::vector<Figures> tenants;
  std::vector<Reason> reasons;  ///< most frequent first
  /// Jain's index over the tenants' share of calls that succeeded: 1 is even. None where it means
  /// nothing: for fewer than two tenants, or if no call succeeded.
  std::optional<double> fairness;
};

/// (sum x)^2 / (n sum x^2); 1 for none or all zero. Source: Jain, Chiu and Hawe, DEC-TR-301, 1984.
/// Example: {1, 1, 0} gives 2/3.
double jain(std::span<const double> values);

Report sum_up(const Workload& workload, std::span<const CallRecord> calls);
std::string report_json(const Report& report);
/// A table for a terminal.
std::string report_text(const Report& report);

}  // namespace weir::load
