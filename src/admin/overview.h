// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "admin/admin.h"
#include "gateway/plan.h"
#include "telemetry/metrics.h"
#include "weir/governor.h"

/// The state of the gateway as JSON. The counters are those of /metrics, so the two agree.
namespace weir::admin {

/// Everything the views are made of, taken at one moment.
struct State {
  governor::Snapshot snapshot;
  std::shared_ptr<const gateway::Plan> plan;
  const gateway::Meters* meters = nullptr;
  bool draining = false;
  std::string_view version, commit;
};

std::string overview_json(const State& state);
std::string deployments_json(const State& state);
std::string classes_json(const State& state);
std::string queues_json(const State& state);

}  // namespace weir::admin
