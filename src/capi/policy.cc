// SPDX-License-Identifier: Apache-2.0
// The policy of the C interface: every value is looked at here, so that the governor can rely on
// what its configuration file would have been checked for.
#include <cmath>
#include <cstring>
#include <optional>

#include "capi/handles.h"
#include "capi/structs.h"

namespace weir::capi {
namespace {

constexpr std::size_t kMostName = 256;
constexpr std::size_t kMostRules = 16;
constexpr std::size_t kMostDeployments = 1024;
constexpr std::size_t kMostModels = 1024;
constexpr std::size_t kMostClasses = 32;
constexpr std::size_t kMostNodes = 1'000'000;
constexpr std::size_t kMostCandidates = 8;
constexpr int kMostDepth = 16;
constexpr std::int64_t kMostWeight = 1'000'000;

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

// An error of reading a struct, with the text that the code alone means.
std::int32_t plain(Faulty& faulty, std::int32_t status) {
  return faulty.fail(status, weir_status_text(status));
}

std::int32_t out_of_range(Faulty& faulty, const char* member, const char* range) {
  return faulty.fail(WEIR_ERROR_RANGE, std::string(member) + " is out of range; it is " + range);
}

std::int32_t not_found(Faulty& faulty, const char* what, std::uint32_t id) {
  return faulty.fail(WEIR_ERROR_NOT_FOUND, std::string("there is no ") + what + " " +
                                               std::to_string(id) + " in this policy");
}

std::int32_t too_many(Faulty& faulty, const char* what, std::size_t most) {
  return faulty.fail(WEIR_ERROR_TOO_MANY,
                     "more than " + std::to_string(most) + " " + what + "; leave some out");
}

std::int32_t check_name(Faulty& faulty, const char* name) {
  if (name == nullptr) return faulty.fail(WEIR_ERROR_NULL, "the name is NULL; set it");
  const std::size_t length = strnlen(name, kMostName + 1);
  if (length == 0 || length > kMostName) {
    return out_of_range(faulty, "the name's length", "1 to 256 bytes");
  }
  return WEIR_OK;
}

template <class List>
bool named(const List& list, const std::string& name) {
  for (const auto& each : list) {
    if (each.name == name) return true;
  }
  return false;
}

std::int32_t taken(Faulty& faulty, const char* what, const char* name) {
  return faulty.fail(WEIR_ERROR_DUPLICATE,
                     std::string(what) + " " + quoted(name) + " stands there already; rename one");
}

std::int32_t to_rule(Faulty& faulty, const weir_rule& from, Rule& made) {
  if (!within(from.unit, WEIR_REQUESTS, WEIR_CONCURRENCY)) {
    return out_of_range(faulty, "unit", "WEIR_REQUESTS to WEIR_CONCURRENCY");
  }
  if (!within(from.enforce, WEIR_SLIDING, WEIR_COUNTER)) {
    return out_of_range(faulty, "enforce", "WEIR_SLIDING to WEIR_COUNTER");
  }
  if (!within(from.count, WEIR_COUNT_RESERVE, WEIR_COUNT_INPUT)) {
    return out_of_range(faulty, "count", "WEIR_COUNT_RESERVE to WEIR_COUNT_INPUT");
  }
  if (!within(from.amount, 0, kMostTokens)) return out_of_range(faulty, "amount", "0 to 10^12");
  const bool level = from.unit == WEIR_CONCURRENCY;
  if (level && from.window_ns != 0) {
    return out_of_range(faulty, "window_ns", "0 for concurrency, which has no window");
  }
  if (!level && !within(from.window_ns, 1, kMostWindow)) {
    return out_of_range(faulty, "window_ns", "1 ns to 366 days");
  }
  if (from.burst != WEIR_UNKNOWN && from.enforce != WEIR_BUCKET) {
    return out_of_range(faulty, "burst", "WEIR_UNKNOWN for all but a bucket");
  }
  if (!unknown_or_within(from.burst, 1, kMostTokens)) {
    return out_of_range(faulty, "burst", "1 to 10^12, or WEIR_UNKNOWN");
  }
  if (from.reserved != 0) return out_of_range(faulty, "reserved", "0");
  made.unit = static_cast<Unit>(from.unit);
  made.amount = from.amount;
  made.window = Duration(from.window_ns);
  made.enforce = static_cast<Enforcement>(from.enforce);
  // Requests and slots are counted when they are sent.
  const bool tokens = from.unit != WEIR_REQUESTS && !level;
  made.count = tokens ? static_cast<Counting>(from.count) : Counting::reserve;
  if (from.burst != WEIR_UNKNOWN) made.burst = from.burst;
  return WEIR_OK;
}

std::int32_t add_rule(weir_policy& policy, std::vector<Rule>& rules, const weir_rule* theirs) {
  weir_rule from = default_rule();
  if (const std::int32_t bad = read(theirs, from); bad != WEIR_OK) return plain(policy, bad);
  Rule made;
  if (const std::int32_t bad = to_rule(policy, from, made); bad != WEIR_OK) return bad;
  for (const Rule& other : rules) {
    if (other.unit == made.unit && other.window == made.window) {
      return policy.fail(WEIR_ERROR_DUPLICATE, "a second limit of " + std::string(name(made.unit)) +
                                                   " in the same window; keep one");
    }
  }
  if (rules.size() >= kMostRules) return too_many(policy, "limits", kMostRules);
  rules.push_back(made);
  return WEIR_OK;
}

bool ratio(double value, double least, double most) { return value >= least && value <= most; }

std::int32_t check_deployment(Faulty& faulty, const weir_deployment& from) {
  const auto bad = [&](const char* member, const char* range) {
    return out_of_range(faulty, member, range);
  };
  if (!within(from.strategy, WEIR_PASSTHROUGH, WEIR_SHAPING)) {
    return bad("strategy", "WEIR_PASSTHROUGH to WEIR_SHAPING");
  }
  if (!within(from.mode, WEIR_ENFORCE, WEIR_OBSERVE)) {
    return bad("mode", "WEIR_ENFORCE or WEIR_OBSERVE");
  }
  if (!ratio(from.start_level, 0, 1)) return bad("start_level", "0 to 1");
  if (!ratio(from.margin, 0, 0.9) && from.margin != WEIR_UNKNOWN) {
    return bad("margin", "0 to 0.9, or WEIR_UNKNOWN");
  }
  if (!unknown_or_within(from.guard_ns, 0, kMostWindow)) {
    return bad("guard_ns", "0 to 366 days, or WEIR_UNKNOWN");
  }
  if (!within(from.warmup_ns, 0, kMostWindow)) return bad("warmup_ns", "0 to 366 days");
  if (!within(from.retry_attempts, 1, 100)) return bad("retry_attempts", "1 to 100");
  if (!within(from.retry_base_ns, 1, kMostWindow)) return bad("retry_base_ns", "1 ns to 366 days");
  if (!within(from.retry_cap_ns, from.retry_base_ns, kMostWindow)) {
    return bad("retry_cap_ns", "retry_base_ns to 366 days");
  }
  if (!within(from.lease_ns, 1, kMostWindow)) return bad("lease_ns", "1 ns to 366 days");
  if (!within(from.send_lease_ns, 1, kMostWindow)) return bad("send_lease_ns", "1 ns to 366 days");
  if (!ratio(from.bytes_per_token, 0.01, 1000)) return bad("bytes_per_token", "0.01 to 1000");
  if (!ratio(from.mean_output_tokens, 0, 1e9)) return bad("mean_output_tokens", "0 to 10^9");
  if (from.reserved != 0) return bad("reserved", "0");
  return WEIR_OK;
}

DeploymentPolicy to_deployment(const weir_deployment& from) {
  DeploymentPolicy made;
  made.name = from.name;
  made.strategy = static_cast<Strategy>(from.strategy);
  made.mode = static_cast<Mode>(from.mode);
  made.start_level = from.start_level;
  if (from.margin != WEIR_UNKNOWN) made.margin = from.margin;
  if (from.guard_ns != WEIR_UNKNOWN) made.guard = Duration(from.guard_ns);
  made.warmup = Duration(from.warmup_ns);
  made.retry = {from.retry_attempts, Duration(from.retry_base_ns), Duration(from.retry_cap_ns)};
  made.rejected_counted = from.rejected_counted != 0;
  made.cached_input_counted = from.uncached_only == 0;
  made.lease = Duration(from.lease_ns);
  made.send_lease = Duration(from.send_lease_ns);
  made.bytes_per_token = from.bytes_per_token;
  made.mean_output_tokens = from.mean_output_tokens;
  return made;
}

std::uint32_t last_of(std::size_t size) { return static_cast<std::uint32_t>(size - 1); }

}  // namespace

std::int32_t complete(weir_policy& from, std::shared_ptr<const Policy>& made) {
  if (from.policy.deployments.empty()) {
    return from.fail(WEIR_ERROR_NOT_FOUND, "no deployment; call weir_policy_add_deployment");
  }
  auto whole = std::make_shared<Policy>(from.policy);
  std::vector<std::vector<Rule>> limits = from.model_limits;
  if (whole->nodes.empty()) {
    whole->nodes.push_back({"default", NodeKind::organization, NodeId(), {}, Mode::enforce});
  }
  if (whole->classes.empty()) {
    ClassPolicy one;
    one.name = "default";
    whole->classes.push_back(std::move(one));
  }
  if (whole->profiles.empty()) {
    ProfilePolicy all;
    all.name = "*";
    if (whole->deployments.size() > kMostCandidates) {
      return too_many(from, "deployments without a model", kMostCandidates);
    }
    for (std::uint32_t i = 0; i < whole->deployments.size(); ++i) {
      all.candidates.push_back({DeploymentId(i), 0, 1});
    }
    whole->profiles.push_back(std::move(all));
    limits.emplace_back();
  }
  for (std::size_t i = 0; i < whole->profiles.size(); ++i) {
    ProfilePolicy& profile = whole->profiles[i];
    if (profile.candidates.empty()) {
      return from.fail(WEIR_ERROR_NOT_FOUND, "the model " + quoted(profile.name) +
                                                 " has no deployment; call "
                                                 "weir_policy_add_candidate");
    }
    profile.node = NodeId(static_cast<std::uint32_t>(whole->nodes.size()));
    whole->nodes.push_back(
        {profile.name, NodeKind::profile, NodeId(), std::move(limits[i]), Mode::enforce});
  }
  made = std::move(whole);
  return WEIR_OK;
}

}  // namespace weir::capi

using namespace weir;
using namespace weir::capi;

extern "C" {

int32_t weir_policy_create(weir_policy** policy) {
  if (policy == nullptr) return WEIR_ERROR_NULL;
  *policy = new (std::nothrow) weir_policy;
  return *policy == nullptr ? WEIR_ERROR_MEMORY : WEIR_OK;
}

void weir_policy_destroy(weir_policy* policy) { delete policy; }

const char* weir_policy_error(const weir_policy* policy) {
  return policy == nullptr ? "" : policy->text();
}

int32_t weir_policy_set_max_calls(weir_policy* policy, int64_t max_calls) {
  return guarded(policy, [&](weir_policy& to) {
    if (!within(max_calls, 1, 10'000'000)) return out_of_range(to, "max_calls", "1 to 10000000");
    to.policy.max_calls = max_calls;
    return int32_t{WEIR_OK};
  });
}

int32_t weir_policy_add_deployment(weir_policy* policy, const weir_deployment* deployment,
                                   uint32_t* id) {
  return guarded(policy, [&](weir_policy& to) {
    if (id == nullptr) return plain(to, WEIR_ERROR_NULL);
    weir_deployment from = default_deployment();
    if (const int32_t bad = read(deployment, from); bad != WEIR_OK) return plain(to, bad);
    if (const int32_t bad = check_name(to, from.name); bad != WEIR_OK) return bad;
    if (const int32_t bad = check_deployment(to, from); bad != WEIR_OK) return bad;
    if (named(to.policy.deployments, from.name)) return taken(to, "the deployment", from.name);
    if (to.policy.deployments.size() >= kMostDeployments) {
      return too_many(to, "deployments", kMostDeployments);
    }
    to.policy.deployments.push_back(to_deployment(from));
    *id = last_of(to.policy.deployments.size());
    return int32_t{WEIR_OK};
  });
}

int32_t weir_policy_add_rule(weir_policy* policy, uint32_t deployment, const weir_rule* rule) {
  return guarded(policy, [&](weir_policy& to) {
    if (deployment >= to.policy.deployments.size()) return not_found(to, "deployment", deployment);
    return add_rule(to, to.policy.deployments[deployment].rules, rule);
  });
}

int32_t weir_policy_add_node(weir_policy* policy, const char* name, uint32_t parent, int32_t mode,
                             uint32_t* id) {
  return guarded(policy, [&](weir_policy& to) {
    if (id == nullptr) return plain(to, WEIR_ERROR_NULL);
    if (const int32_t bad = check_name(to, name); bad != WEIR_OK) return bad;
    if (!within(mode, WEIR_ENFORCE, WEIR_OBSERVE)) {
      return out_of_range(to, "mode", "WEIR_ENFORCE or WEIR_OBSERVE");
    }
    const bool root = parent == WEIR_NONE;
    if (!root && parent >= to.policy.nodes.size()) return not_found(to, "node", parent);
    const int depth = root ? 1 : to.node_depths[parent] + 1;
    if (depth > kMostDepth) {
      return too_many(to, "nodes above one another", static_cast<std::size_t>(kMostDepth));
    }
    if (to.policy.nodes.size() >= kMostNodes) return too_many(to, "nodes", kMostNodes);
    if (!to.node_names.insert(name).second) return taken(to, "the node", name);
    NodePolicy made;
    made.name = name;
    made.kind = root ? NodeKind::organization : NodeKind::tenant;
    if (!root) made.parent = NodeId(parent);
    made.mode = static_cast<Mode>(mode);
    to.policy.nodes.push_back(std::move(made));
    to.node_depths.push_back(depth);
    *id = last_of(to.policy.nodes.size());
    return int32_t{WEIR_OK};
  });
}

int32_t weir_policy_limit_node(weir_policy* policy, uint32_t node, const weir_rule* rule) {
  return guarded(policy, [&](weir_policy& to) {
    if (node >= to.policy.nodes.size()) return not_found(to, "node", node);
    return add_rule(to, to.policy.nodes[node].limits, rule);
  });
}

int32_t weir_policy_add_class(weir_policy* policy, const weir_class* traffic_class, uint32_t* id) {
  return guarded(policy, [&](weir_policy& to) {
    if (id == nullptr) return plain(to, WEIR_ERROR_NULL);
    weir_class from = default_class();
    if (const int32_t bad = read(traffic_class, from); bad != WEIR_OK) return plain(to, bad);
    if (const int32_t bad = check_name(to, from.name); bad != WEIR_OK) return bad;
    if (!within(from.max_wait_ns, 0, kMostWindow)) {
      return out_of_range(to, "max_wait_ns", "0 to 366 days");
    }
    if (!within(from.depth, 0, 10'000'000)) return out_of_range(to, "depth", "0 to 10000000");
    if (!within(from.weight, 1, kMostWeight)) return out_of_range(to, "weight", "1 to 1000000");
    if (from.reserved != 0) return out_of_range(to, "reserved", "0");
    if (named(to.policy.classes, from.name)) return taken(to, "the class", from.name);
    if (to.policy.classes.size() >= kMostClasses) return too_many(to, "classes", kMostClasses);
    ClassPolicy made;
    made.name = from.name;
    made.weight = from.weight;
    made.max_wait = Duration(from.max_wait_ns);
    made.depth = from.depth;
    to.policy.classes.push_back(std::move(made));
    *id = last_of(to.policy.classes.size());
    return int32_t{WEIR_OK};
  });
}

int32_t weir_policy_limit_class(weir_policy* policy, uint32_t traffic_class,
                                const weir_rule* rule) {
  return guarded(policy, [&](weir_policy& to) {
    if (traffic_class >= to.policy.classes.size()) return not_found(to, "class", traffic_class);
    return add_rule(to, to.policy.classes[traffic_class].limits, rule);
  });
}

int32_t weir_policy_add_model(weir_policy* policy, const char* name, int32_t reserve,
                              uint32_t* id) {
  return guarded(policy, [&](weir_policy& to) {
    if (id == nullptr) return plain(to, WEIR_ERROR_NULL);
    if (const int32_t bad = check_name(to, name); bad != WEIR_OK) return bad;
    if (reserve < WEIR_RESERVE_MEAN || reserve > WEIR_RESERVE_P95) {
      return out_of_range(to, "reserve", "a WEIR_RESERVE_ value");
    }
    if (named(to.policy.profiles, name)) return taken(to, "the model", name);
    if (to.policy.profiles.size() >= kMostModels) return too_many(to, "models", kMostModels);
    ProfilePolicy made;
    made.name = name;
    if (reserve == WEIR_RESERVE_MAX_TOKENS) made.output = OutputEstimate::max_tokens;
    if (reserve == WEIR_RESERVE_P95) made.output = OutputEstimate::p95;
    to.policy.profiles.push_back(std::move(made));
    to.model_limits.emplace_back();
    *id = last_of(to.policy.profiles.size());
    return int32_t{WEIR_OK};
  });
}

int32_t weir_policy_limit_model(weir_policy* policy, uint32_t model, const weir_rule* rule) {
  return guarded(policy, [&](weir_policy& to) {
    if (model >= to.policy.profiles.size()) return not_found(to, "model", model);
    return add_rule(to, to.model_limits[model], rule);
  });
}

int32_t weir_policy_add_candidate(weir_policy* policy, uint32_t model, uint32_t deployment,
                                  int32_t priority, int32_t weight) {
  return guarded(policy, [&](weir_policy& to) {
    if (model >= to.policy.profiles.size()) return not_found(to, "model", model);
    if (deployment >= to.policy.deployments.size()) return not_found(to, "deployment", deployment);
    if (!within(priority, 0, kMostWeight)) return out_of_range(to, "priority", "0 to 1000000");
    if (!within(weight, 1, kMostWeight)) return out_of_range(to, "weight", "1 to 1000000");
    ProfilePolicy& profile = to.policy.profiles[model];
    for (const Candidate& other : profile.candidates) {
      if (other.deployment == DeploymentId(deployment)) {
        return taken(to, "the candidate", to.policy.deployments[deployment].name.c_str());
      }
    }
    if (profile.candidates.size() >= kMostCandidates) {
      return too_many(to, "deployments for one model", kMostCandidates);
    }
    profile.candidates.push_back({DeploymentId(deployment), priority, weight});
    return int32_t{WEIR_OK};
  });
}

}  // extern "C"
