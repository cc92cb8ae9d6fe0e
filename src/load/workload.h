// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "weir/result.h"
#include "weir/rng.h"
#include "weir/time.h"

namespace weir::load {

/// A rate of arrivals that holds from `from` on. Units: requests per second.
struct RateStep {
  Duration from{0};
  double per_second = 0;
};

/// One line of a trace: when, and how much where the trace says.
struct TraceRow {
  Duration at{0};
  std::optional<std::int64_t> input_tokens;
  std::optional<std::int64_t> output_tokens;
};

/// A length in tokens, log-normal with this mean and sigma, at least 1, at most `cap`.
struct Length {
  double mean = 100;
  double sigma = 0.7;
  std::int64_t cap = 8192;
};

/// How a client tries again, as the SDKs do: after 408, 409, 429, 5xx and broken connections, with
/// base * 2^n less up to a quarter of jitter, or as long as Retry-After says if that is at most a
/// minute; `x-should-retry` overrules the status.
/// Source: clients.md section 1 (openai/openai-python src/openai/_base_client.py, read 2026-08-21).
struct RetrySettings {
  std::int32_t attempts = 3;  ///< in all; 1: none
  Duration base = std::chrono::milliseconds(500);
  Duration cap = std::chrono::seconds(8);
};

/// Clients of one kind: a tenant's traffic of one class.
struct Client {
  std::string name;           ///< of the tenant
  std::string traffic_class;  ///< sent as x-weir-class; empty: not sent
  std::string key;            ///< its virtual key
  std::int64_t share = 1;     ///< of the arrivals
};

/// What `weir load` does, as its file says.
struct Workload {
  std::uint64_t seed = 1;
  Duration duration = std::chrono::seconds(30);  ///< of the arrivals; what runs then may end
  std::string model = "toy-chat";
  std::vector<RateStep> rates;  ///< Poisson with these rates, unless there is a trace
  Duration on{0};               ///< with `off`: arrivals only in the first `on` of on + off
  Duration off{0};
  std::vector<TraceRow> trace;
  Length input;
  Length output;
  double stream_share = 0.5;
  double abort_share = 0;  ///< of the calls, left in the middle
  RetrySettings retry;
  Duration timeout = std::chrono::seconds(600);  ///< of one attempt
  std::int64_t in_flight = 10'000;               ///< bound; an arrival beyond it is not sent
  std::vector<Client> clients;
};

struct ReadWorkload {
  std::optional<Workload> workload;  ///< absent if there are faults
  std::vector<config::Diagnostic> faults;
};

/// Reads one YAML text. `trace` names a CSV file, read by `read_file`.
using ReadFile = Result<std::string> (*)(const std::string& name);
ReadWorkload read_workload(std::string_view text, const std::string& file, ReadFile read_file);

/// docs/reference/load.md, made from the table that files are checked against.
std::string load_markdown();

/// A CSV trace: seconds from the start, then, if there, input and output tokens. A first line that
/// is no number is a heading. Errors: malformed, naming the line.
Result<std::vector<TraceRow>> read_trace(std::string_view text);

/// One call to come. Everything is drawn here, so that the same seed sends the same calls however
/// they are answered.
struct Arrival {
  Duration at{0};  ///< from the start
  std::size_t client = 0;
  std::int64_t input_tokens = 1;
  std::int64_t output_tokens = 1;
  bool stream = false;
  std::optional<double> abort_at;  ///< share of its expected output after which the client leaves
  std::uint64_t number = 0;
};

/// Draws the arrivals of a workload in order of time. Threads: one owner.
class Arrivals {
 public:
  explicit Arrivals(const Workload& workload);
  /// The next arrival; none after the end.
  std::optional<Arrival> next();

 private:
  [[nodiscard]] double rate_at(Duration at) const;
  [[nodiscard]] std::optional<Duration> next_time();
  std::int64_t length(const Length& length);

  const Workload& workload_;
  Rng times_;
  Rng sizes_;
  double peak_ = 0;
  std::int64_t shares_ = 0;
  Duration at_{0};
  std::size_t row_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace weir::load
