// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/model/behaviour.h"
#include "emulator/model/other_consumer.h"
#include "emulator/model/provider_rules.h"
#include "emulator/model/wait_queue.h"
#include "sim/headers.h"
#include "sim/limit_steps.h"
#include "weir/policy.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir::sim {

/// A rate of arrivals that holds from `from` on. Units: requests per second.
struct RateStep {
  Duration from{0};
  double per_second = 0;
};

/// One line of a trace: when, and how much where the trace knows it.
struct TraceRow {
  Duration at{0};
  std::optional<std::int64_t> input_tokens;
  std::optional<std::int64_t> output_tokens;
  std::optional<std::uint32_t> tenant;          ///< numbered in the order of their first lines
  std::optional<Duration> took = std::nullopt;  ///< from request to the end of its answer
};
using Trace = std::shared_ptr<const std::vector<TraceRow>>;

/// When requests arrive: Poisson with a rate in steps, switched off and on, or a trace.
struct ArrivalPattern {
  std::vector<RateStep> rates;  ///< sorted by `from`; one step is a plain Poisson stream
  Duration on{0};               ///< with `off`: only the first `on` of every on + off has arrivals
  Duration off{0};
  Trace trace;          ///< present: these, and no drawn arrivals
  double speed = 1;     ///< of the trace
  bool repeat = false;  ///< the trace begins anew at its end
  /// Present: one step whose rate asks for this share of the provider's scarcest rule, by the mean
  /// cost of a request.
  std::optional<double> of_quota;
};

/// In which order the lines of `Workload::lengths` come.
enum class LengthOrder : std::uint8_t { kept, shuffled };

/// What a request names as its maximum output.
enum class MaxTokens : std::uint8_t {
  absent,
  exact,       ///< the length the answer will really have
  rounded_up,  ///< that, rounded up to a multiple of `max_tokens_step`
  constant,    ///< `max_tokens_step`; the answer is cut there
};

/// The clients. Lengths are those of a trace, again and again, or log-normal with the given mean
/// and sigma. Units: tokens.
struct Workload {
  ArrivalPattern arrivals;
  Trace lengths;  ///< present: the lengths of its lines, whenever the requests arrive
  LengthOrder order = LengthOrder::shuffled;
  double input_mean = 350;
  double input_sigma = 0.7;
  double output_mean = 350;
  double output_sigma = 0.7;
  std::int64_t length_cap = 32'768;
  MaxTokens max_tokens = MaxTokens::absent;
  std::int64_t max_tokens_step = 64;
  double bytes_per_token = 4;  ///< true mean; the governor has to find it
  double bytes_noise = 0.05;
  double streaming_share = 1;
  std::uint32_t tenants = 1;  ///< each with a lane of its own; equal shares
  double abort_share = 0;     ///< of the clients, that go away ...
  Duration abort_after{0};    ///< ... at an exponential time with this mean from their arrival
};

/// The way between gateway and provider, each direction uniform in [delay, delay + jitter].
struct Network {
  Duration delay = std::chrono::milliseconds(10);
  Duration jitter = std::chrono::milliseconds(20);
  double handshake_share = 0;  ///< of the sends, that wait up to `handshake` for a connection first
  Duration handshake{0};
};

/// The network is another one from `at` on.
struct NetworkStep {
  Duration at{0};
  Network network;
};

/// The provider answers at another speed from `at` on; nobody is told.
struct LatencyStep {
  Duration at{0};
  emulator::model::LatencySettings latency;
};

/// How refusals reach the gateway beside what the rules say.
struct Refusals {
  Duration delay{0};   ///< added to the way back of a refusal ...
  Duration jitter{0};  ///< ... and uniform up to this on top
  double stray = 0;    ///< share of the attempts that somebody on the way refuses with a 429
};

/// The gateway's clock moves against the world's.
struct ClockStep {
  Duration at{0};
  Duration by{0};  ///< below 0: it falls behind
};

/// Further clients, with lengths and arrivals of their own.
struct Flow {
  std::string name;
  std::optional<std::uint32_t> first_tenant;  ///< absent: tenants that no flow before it has
  Workload workload;
};

/// What the governor is told.
struct Told {
  std::vector<Rule> rules;
  bool growth = false;  ///< whether it is told of the provider's rules on growth
  std::vector<Rule> organization_limits;
  double start_level = 1.0;
  std::optional<Duration> guard;
  std::optional<double> margin;
  Strategy strategy = Strategy::shaping;
  Mode mode = Mode::enforce;
  Duration max_wait = std::chrono::seconds(30);
  std::int64_t depth = 100'000;
};

/// What a run must reach; absent goals are only reported.
struct Goals {
  std::optional<double> max_429_share;     ///< provider refusals per attempt
  std::optional<double> min_window_share;  ///< admitted of what the windows allow
  std::optional<double> min_use;           ///< charged by the scarcest rule, of its limit
  std::optional<double> min_use_of_fifo;   ///< that, of what clairvoyant FIFO charges
  bool all_served = false;
  std::optional<std::int64_t> max_429s;      ///< provider refusals in all
  std::optional<std::vector<Rule>> learned;  ///< exactly these, beyond what was told; unit, window
  std::optional<Duration> max_p99_over_oracle;  ///< wait, against clairvoyant FIFO
  std::optional<double> max_429_share_restart;  ///< in the two windows after the restart
  std::optional<double> max_429_share_transit;  ///< of attempts on their way at the kill, of all
  std::optional<double> min_share;              ///< of any tenant, of its max-min share
  std::optional<double> min_jain;               ///< over the tenants' shares of theirs
  std::optional<double> min_served;             ///< of all requests
  std::optional<Duration> max_p99;              ///< wait, from arrival to the first departure
  double max_window_ratio = 1.05;               ///< provider's window sum over its limit
  std::optional<std::int64_t> max_holds;        ///< times that congestion set in, by the governor
  std::optional<std::int64_t> min_holds;
  /// Answered within the horizon, of what the best number of calls in flight that is told and kept
  /// has answered; found by trying.
  std::optional<double> min_of_best_fixed;
  std::optional<Duration> max_p95_first_token;  ///< from departure
  std::optional<double> max_503_share;          ///< of attempts
};

/// The governor's process dies and a new one starts.
struct Restart {
  Duration at{0};
  double start_level = 0;
  bool memory = false;  ///< the new one knows what the old one has written last ...
  Duration write_every = std::chrono::seconds(10);  ///< ... half of this before its end
};

/// One world: clients, network, provider, and what the governor knows of it.
struct Scenario {
  std::string file;   ///< name of the scenario as a whole
  std::string style;  ///< name of the provider's rules
  std::string load;   ///< name of the load
  Duration horizon = std::chrono::minutes(10);
  Duration measure_from{0};  ///< the use of the limits is measured from here to the horizon
  Workload workload;
  std::vector<Flow> flows;  ///< beside `workload`, whose own arrivals may be none
  Network network;
  std::vector<NetworkStep> network_steps;
  Refusals refusals;
  std::vector<ClockStep> clock_steps;
  emulator::model::ProviderSettings provider;  ///< its seed and phase are drawn for each run
  emulator::model::LatencySettings latency;
  std::vector<LatencyStep> latency_steps;
  emulator::model::FaultSettings faults;
  Told told;
  Goals goals;
  std::optional<Restart> restart;
  Duration progress_every = std::chrono::seconds(1);  ///< between two progress calls of a stream
  bool retry_hints = true;                            ///< its refusals say when to come back ...
  bool names_limits = true;                           ///< ... and which unit was short
  bool headers = false;                               ///< answers carry rate-limit headers
  HeaderQuirks header_quirks;                         ///< and how they differ from the truth
  std::vector<LimitStep> steps;                       ///< of the provider's limits; nobody is told
  emulator::model::OtherSettings other;               ///< comes until the horizon at most
  emulator::model::WaitSettings wait;  ///< every attempt asks to wait for as long as it may
};

/// How many tenants its clients belong to, numbered from 0.
std::uint32_t tenants_of(const Scenario& scenario);

/// A scenario file: worlds and the seeds each runs with.
struct ScenarioSet {
  std::string name;
  std::string about;
  std::vector<std::uint64_t> seeds;
  std::vector<Scenario> scenarios;
};

}  // namespace weir::sim
