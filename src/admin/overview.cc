// SPDX-License-Identifier: Apache-2.0
#include "admin/overview.h"

#include <cstdint>
#include <map>
#include <string_view>

#include "telemetry/json_writer.h"
#include "weir/rule.h"

namespace weir::admin {
namespace {

using telemetry::JsonWriter;

/// The value of one label in a series' label text, `a="x",b="y"`, escapes left as they stand.
std::string_view label_of(std::string_view labels, std::string_view label) {
  const std::string wanted = std::string(label) + "=\"";
  std::size_t at = labels.starts_with(wanted) ? 0 : labels.find("," + wanted);
  if (at == std::string_view::npos) return {};
  at = labels.find('"', at) + 1;
  std::size_t end = at;
  while (end < labels.size() && labels[end] != '"') end += labels[end] == '\\' ? 2 : 1;
  return labels.substr(at, end - at);
}

struct Counts {
  std::int64_t requests = 0;   ///< answered or refused
  std::int64_t answered = 0;   ///< answered by a provider with a success or passed on
  std::int64_t refused = 0;    ///< by the gateway
  std::int64_t attempts = 0;   ///< at providers
  std::int64_t succeeded = 0;  ///< attempts with 2xx
  std::int64_t rejected = 0;   ///< attempts refused for a limit
};

bool answered_by_provider(std::string_view decision) {
  return decision == "admitted" || decision == "queued" || decision == "spilled" ||
         decision == "observed" || decision == "truncated";  // broken off is answered in part
}

/// Sums the counters of /metrics by one label of each.
std::map<std::string, Counts, std::less<>> count_by(const gateway::Meters& meters,
                                                    std::string_view label) {
  std::map<std::string, Counts, std::less<>> sums;
  meters.requests.each([&](std::string_view labels, const telemetry::Counter& counter) {
    Counts& counts = sums[std::string(label_of(labels, label))];
    counts.requests += counter.value();
    if (answered_by_provider(label_of(labels, "decision"))) {
      counts.answered += counter.value();
    } else if (label_of(labels, "decision") != "client_gone") {
      counts.refused += counter.value();
    }
  });
  if (label != "deployment") return sums;
  meters.attempts.each([&](std::string_view labels, const telemetry::Counter& counter) {
    Counts& counts = sums[std::string(label_of(labels, label))];
    counts.attempts += counter.value();
    const auto status = label_of(labels, "status");
    if (status == "200" || status == "2xx") counts.succeeded += counter.value();
  });
  meters.rejections.each([&](std::string_view labels, const telemetry::Counter& counter) {
    sums[std::string(label_of(labels, label))].rejected += counter.value();
  });
  return sums;
}

Counts total(const std::map<std::string, Counts, std::less<>>& sums) {
  Counts all;
  for (const auto& [name, counts] : sums) {
    all.requests += counts.requests;
    all.answered += counts.answered;
    all.refused += counts.refused;
    all.attempts += counts.attempts;
    all.succeeded += counts.succeeded;
    all.rejected += counts.rejected;
  }
  return all;
}

void append_counts(JsonWriter& json, const Counts& counts) {
  json.member("requests", counts.requests).member("answered", counts.answered);
  json.member("refused", counts.refused).member("attempts", counts.attempts);
  json.member("succeeded", counts.succeeded).member("provider_rejections", counts.rejected);
}

void append_meter(JsonWriter& json, const governor::MeterView& meter) {
  json.begin_object();
  json.member("limiter", limiter_name(meter.rule.unit, meter.rule.window));
  json.member("unit", name(meter.rule.unit));
  json.member("window_seconds", to_seconds(meter.rule.window));
  json.member("enforce", name(meter.rule.enforce)).member("count", name(meter.rule.count));
  json.member("limit", meter.rule.amount).member("used", meter.used);
  json.member("reserved", meter.reserved).member("pending", meter.pending);
  json.member("remaining", meter.remaining);
  json.member("refill_seconds", to_seconds(meter.refill));
  json.member("kept", meter.kept).member("guessed", meter.guessed);
  json.member("evidence", meter.evidence);
  json.key("refused_seconds_ago");
  if (meter.refused_ago == kForever) {
    json.null();
  } else {
    json.real(to_seconds(meter.refused_ago));
  }
  json.member("recalled", meter.recalled);
  json.end_object();
}

void append_deployments(JsonWriter& json, const State& state) {
  const auto sums = count_by(*state.meters, "deployment");
  json.begin_array();
  for (const auto& view : state.snapshot.deployments) {
    if (!view.deployment.valid() ||
        view.deployment.value() >= state.plan->policy().deployments.size()) {
      continue;
    }
    const auto& deployment = state.plan->deployment(view.deployment);
    json.begin_object().member("name", deployment.name);
    json.member("provider", state.plan->provider(deployment.provider).name);
    json.member_or_null("model", deployment.model);
    json.member("strategy", name(deployment.strategy)).member("mode", name(deployment.mode));
    json.member("inflight", view.inflight);
    const auto found = sums.find(deployment.name);
    append_counts(json, found == sums.end() ? Counts{} : found->second);
    json.member("bytes_per_token", view.bytes_per_token);
    json.member("mean_output_tokens", view.mean_output_tokens);
    json.member("p95_output_tokens", view.p95_output_tokens);
    json.member("estimate_error_ratio", view.estimate_error_ratio);
    json.member("output_bias_ratio", view.output_bias_ratio);
    json.member("p95_coverage_ratio", view.p95_coverage_ratio);
    json.member("cached_input_ratio", view.cached_input_ratio);
    json.member("guard_seconds", to_seconds(view.guard));
    json.member("congestion_limit", view.congestion_limit).member("congested", view.congested);
    json.member("normal_first_token_seconds", view.normal_first_token_seconds);
    json.member("normal_token_seconds", view.normal_token_seconds);
    json.key("meters").begin_array();
    for (const auto& meter : view.meters) append_meter(json, meter);
    json.end_array().end_object();
  }
  json.end_array();
}

void append_classes(JsonWriter& json, const State& state) {
  const auto sums = count_by(*state.meters, "class");
  json.begin_array();
  for (const auto& view : state.snapshot.classes) {
    const auto& classes = state.plan->policy().classes;
    if (!view.traffic_class.valid() || view.traffic_class.value() >= classes.size()) continue;
    const auto& policy = classes[view.traffic_class.value()];
    json.begin_object().member("name", policy.name);
    json.member("weight", std::int64_t{policy.weight});
    json.member("max_wait_seconds", to_seconds(policy.max_wait));
    json.member("max_depth", policy.depth);
    json.member("depth", view.depth).member("oldest_seconds", to_seconds(view.oldest));
    const auto found = sums.find(policy.name);
    const Counts counts = found == sums.end() ? Counts{} : found->second;
    json.member("requests", counts.requests).member("answered", counts.answered);
    json.member("refused", counts.refused).end_object();
  }
  json.end_array();
}

}  // namespace

std::string overview_json(const State& state) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("version", state.version).member("commit", state.commit);
  json.member("draining", state.draining);
  json.member("inflight", state.snapshot.inflight).member("queued", state.snapshot.queued);
  json.key("totals").begin_object();
  append_counts(json, total(count_by(*state.meters, "deployment")));
  json.end_object();
  json.key("deployments");
  append_deployments(json, state);
  json.key("classes");
  append_classes(json, state);
  json.key("notices").begin_array();
  for (const auto& notice : state.plan->config().notices) json.text(notice);
  json.end_array().end_object();
  return out;
}

std::string deployments_json(const State& state) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("deployments");
  append_deployments(json, state);
  json.end_object();
  return out;
}

std::string classes_json(const State& state) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("classes");
  append_classes(json, state);
  json.end_object();
  return out;
}

std::string queues_json(const State& state) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("queued", state.snapshot.queued);
  json.key("queues").begin_array();
  for (const auto& view : state.snapshot.classes) {
    const auto& classes = state.plan->policy().classes;
    if (!view.traffic_class.valid() || view.traffic_class.value() >= classes.size()) continue;
    const auto& policy = classes[view.traffic_class.value()];
    json.begin_object().member("class", policy.name).member("depth", view.depth);
    json.member("max_depth", policy.depth).member("oldest_seconds", to_seconds(view.oldest));
    json.end_object();
  }
  json.end_array().end_object();
  return out;
}

}  // namespace weir::admin
