// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weir/ids.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// How a deployment's traffic is shaped; each includes those before it.
enum class Strategy : std::uint8_t { passthrough, retry, rate, shaping, adaptive };
/// enforce: delay and refuse. observe: account and say what would have been done, nothing else.
enum class Mode : std::uint8_t { enforce, observe };
/// What happens to a call whose time in the queue is over.
enum class OnTimeout : std::uint8_t { reject };
enum class NodeKind : std::uint8_t { organization, tenant, team, key, profile };

std::string_view name(Strategy strategy);
std::string_view name(Mode mode);
std::string_view name(NodeKind kind);

/// How the governor retries what a provider refused. Where the provider gave no hint, the n-th
/// wait is drawn at random from half to the whole of min(cap, base * 2^n): spread, and each longer
/// than the one before it, which a draw from zero on would not be.
struct RetryPolicy {
  std::int32_t attempts = 2;  ///< in all, the first included
  Duration base = std::chrono::seconds(1);
  Duration cap = std::chrono::seconds(60);
};

/// One model at one provider under one quota. Names are unique; meters keep their state across a
/// reload under (deployment name, unit, window).
struct DeploymentPolicy {
  std::string name;
  ProviderId provider;
  std::string model;  ///< empty: the client's model name is passed on
  std::vector<Rule> rules;
  bool rejected_counted = false;     ///< refused attempts count against request rules
  bool cached_input_counted = true;  ///< cached input tokens count
  Strategy strategy = Strategy::shaping;
  Mode mode = Mode::enforce;
  double start_level = 0.0;  ///< 0 empty .. 1 full: quota assumed free at the start
  Duration warmup{0};        ///< the rate grows linearly from the start over this
  std::optional<std::int64_t> burst_percent;  ///< pacing burst in % of the limit; absent: auto
  std::optional<double> margin;               ///< share of token quotas kept free; absent: auto
  std::optional<Duration> guard;              ///< network jitter allowed for; absent: measured
  RetryPolicy retry;
  Duration lease = std::chrono::seconds(660);  ///< a sent call without any byte for this is lost
  /// A granted call whose request has not left by then is lost. Longer than it may take to connect
  /// and to write the request.
  Duration send_lease = std::chrono::seconds(365);
  double bytes_per_token = 4.0;       ///< start of calibration; see docs for its source
  double mean_output_tokens = 256.0;  ///< start of the learned mean
};

/// A deployment that serves a profile. Lower priority first; among equals, by weight.
struct Candidate {
  DeploymentId deployment;
  std::int32_t priority = 0;
  std::int32_t weight = 1;
};

/// Which estimate of the output is reserved.
enum class OutputEstimate : std::uint8_t { mean, max_tokens };

/// A model profile: what clients name in "model". At most 8 candidates.
struct ProfilePolicy {
  std::string name;  ///< "*": every other model name
  NodeId node;       ///< its own limits
  std::vector<Candidate> candidates;
  std::optional<ClassId> traffic_class;
  OutputEstimate output = OutputEstimate::mean;
};

/// A node of the hierarchy with its own limits. Parents stand before children.
struct NodePolicy {
  std::string name;  ///< path below the organisation, "acme/search/prod"
  NodeKind kind = NodeKind::tenant;
  NodeId parent;  ///< none for the organisation and for profiles
  std::vector<Rule> limits;
  /// observe: its limits stop nobody, and calls whose leaf it is are stopped by no limit at all.
  Mode mode = Mode::enforce;
};

/// A traffic class; the vector's order is from highest to lowest.
struct ClassPolicy {
  std::string name;
  std::int32_t weight = 1;
  Duration max_wait = std::chrono::seconds(30);
  std::int64_t depth = 10'000;  ///< calls that may wait in it
  OnTimeout on_timeout = OnTimeout::reject;
  std::vector<Rule> limits;
};

/// Everything the governor needs to know, immutable once built. The configuration makes it; a
/// program that embeds the library fills it by hand.
struct Policy {
  std::vector<DeploymentPolicy> deployments;
  std::vector<ProfilePolicy> profiles;
  std::vector<NodePolicy> nodes;
  std::vector<ClassPolicy> classes;
  std::int64_t max_calls = 100'000;  ///< calls known at once, waiting and in flight
};

}  // namespace weir
