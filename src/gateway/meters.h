// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/plan.h"
#include "telemetry/metrics.h"
#include "weir/governor.h"
#include "weir/usage.h"

namespace weir::gateway {

/// The gateway's metrics (docs/reference/metrics.md). Made once for a process.
/// Threads: any.
class Meters {
 public:
  explicit Meters(telemetry::Registry& registry);

  telemetry::Registry& registry;
  telemetry::Family<telemetry::Counter>& requests;
  telemetry::Family<telemetry::Counter>& attempts;
  telemetry::Family<telemetry::Counter>& retries;
  telemetry::Family<telemetry::Counter>& rejections;
  telemetry::Family<telemetry::Histogram>& retry_after;
  telemetry::Family<telemetry::Histogram>& queue_seconds;
  telemetry::Family<telemetry::Gauge>& queue_depth;
  telemetry::Family<telemetry::Gauge>& queue_oldest;
  telemetry::Family<telemetry::Histogram>& overhead;
  telemetry::Family<telemetry::Histogram>& request_seconds;
  telemetry::Family<telemetry::Histogram>& first_token;
  telemetry::Family<telemetry::Histogram>& per_token;
  telemetry::Family<telemetry::Counter>& tokens;
  telemetry::Family<telemetry::Gauge>& estimate_error;
  telemetry::Family<telemetry::Gauge>& output_bias;
  telemetry::Family<telemetry::Gauge>& p95_coverage;
  telemetry::Family<telemetry::Gauge>& cached_input;
  telemetry::Family<telemetry::Counter>& debt_alarms;
  telemetry::Family<telemetry::Gauge>& quota_used;
  telemetry::Family<telemetry::Gauge>& reserved;
  telemetry::Family<telemetry::Gauge>& inflight;
  telemetry::Family<telemetry::Gauge>& congestion_limit;
  telemetry::Family<telemetry::Counter>& truncated;
  telemetry::Family<telemetry::Counter>& client_gone;
  telemetry::Family<telemetry::Counter>& early_refusals;
  telemetry::Family<telemetry::Counter>& accept_failures;
  telemetry::Family<telemetry::Counter>& observed;
  telemetry::Family<telemetry::Counter>& reloads;
  telemetry::Family<telemetry::Counter>& state_writes;
  telemetry::Family<telemetry::Histogram>& pacer_lateness;
  telemetry::Family<telemetry::Gauge>& build_info;

  /// Sets the gauges that stand for the governor's state.
  void show(const governor::Snapshot& snapshot, const Plan& plan);
};

/// The label of an HTTP status: the statuses providers use by number, others by hundred.
std::string_view status_label(std::uint16_t status);

/// One handler's pointers to the series it writes, so that a request finds them without building
/// label texts. Bounded; emptied when the configuration changes. Threads: its loop's.
class SeriesCache {
 public:
  explicit SeriesCache(Meters& meters);
  /// Forgets everything; what follows is for `plan`. Requests that still run under an older plan
  /// are counted without the cache.
  void reset(const Plan* plan = nullptr);

  /// A finished request. `outcome`: the decision's name, or the code of the fault.
  void count_request(const Plan& plan, DeploymentId deployment, std::string_view tenant,
                     ClassId traffic_class, std::string_view outcome);
  void count_attempt(const Plan& plan, DeploymentId deployment, std::uint16_t status);
  void count_tokens(const Plan& plan, DeploymentId deployment, std::string_view tenant,
                    ClassId traffic_class, const Usage& usage);
  void observe_queue(const Plan& plan, ClassId traffic_class, Duration queued);
  telemetry::Histogram& overhead() { return overhead_; }
  telemetry::Histogram& request_seconds() { return request_seconds_; }
  telemetry::Histogram& first_token() { return first_token_; }
  telemetry::Histogram& per_token() { return per_token_; }

 private:
  struct Tokens {
    telemetry::Counter* input = nullptr;
    telemetry::Counter* cached = nullptr;
    telemetry::Counter* output = nullptr;
    telemetry::Counter* reasoning = nullptr;
  };
  /// Views into static text, the plan and the configuration; compared by address, which is only
  /// a cache: two addresses for one text lead to one series.
  struct Key {
    const char* tenant = nullptr;
    const char* outcome = nullptr;
    std::uint32_t deployment = 0;
    std::uint32_t traffic_class = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  void bound();

  Meters& meters_;
  const Plan* plan_ = nullptr;
  telemetry::Histogram& overhead_;
  telemetry::Histogram& request_seconds_;
  telemetry::Histogram& first_token_;
  telemetry::Histogram& per_token_;
  std::unordered_map<Key, telemetry::Counter*, KeyHash> requests_;
  std::unordered_map<Key, Tokens, KeyHash> tokens_;
  std::unordered_map<Key, telemetry::Counter*, KeyHash> attempts_;
  std::vector<telemetry::Histogram*> queues_;
};

}  // namespace weir::gateway
