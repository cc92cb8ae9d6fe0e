// SPDX-License-Identifier: Apache-2.0
#include "gateway/meters.h"

#include <algorithm>

namespace weir::gateway {
namespace {

constexpr std::size_t kMaxCached = 8192;

std::string_view deployment_name(const Plan& plan, DeploymentId id) {
  return id.valid() && id.value() < plan.policy().deployments.size()
             ? std::string_view(plan.deployment(id).name)
             : std::string_view{};
}

std::string_view class_name(const Plan& plan, ClassId id) {
  return id.valid() && id.value() < plan.policy().classes.size()
             ? std::string_view(plan.policy().classes[id.value()].name)
             : std::string_view{};
}

}  // namespace

Meters::Meters(telemetry::Registry& metrics)
    : registry(metrics),
      requests(metrics.counter("weir_requests_total",
                               "Requests answered or refused, by what became of them.",
                               {"deployment", "tenant", "class", "decision"})),
      attempts(metrics.counter("weir_attempts_total", "Attempts at a provider, by its status.",
                               {"deployment", "status"})),
      retries(metrics.counter("weir_retries_total", "Attempts that were put back to be repeated.",
                              {"deployment", "reason"})),
      rejections(metrics.counter("weir_provider_rejections_total",
                                 "Attempts a provider refused for a limit.",
                                 {"deployment", "limiter"})),
      retry_after(metrics.histogram("weir_provider_retry_after_seconds",
                                    "What providers told to wait.", {"provider", "limiter"},
                                    telemetry::duration_bounds())),
      queue_seconds(metrics.histogram("weir_queue_seconds", "Time from arrival to the last grant.",
                                      {"class"}, telemetry::duration_bounds())),
      queue_depth(metrics.gauge("weir_queue_depth", "Calls waiting.", {"class"})),
      queue_oldest(metrics.gauge("weir_queue_oldest_seconds", "How long the first of them waits.",
                                 {"class"})),
      overhead(metrics.histogram("weir_overhead_seconds",
                                 "Time in the gateway without queue and provider.", {},
                                 telemetry::overhead_bounds())),
      request_seconds(metrics.histogram("weir_request_seconds",
                                        "Time from a request's arrival to its answer's end.", {},
                                        telemetry::duration_bounds())),
      first_token(metrics.histogram("weir_time_to_first_token_seconds",
                                    "Time from a stream's arrival to its first bytes.", {},
                                    telemetry::first_token_bounds())),
      per_token(metrics.histogram("weir_time_per_output_token_seconds",
                                  "Time between a stream's output tokens after the first.", {},
                                  telemetry::per_token_bounds())),
      tokens(metrics.counter("weir_tokens_total",
                             "Tokens charged: as reported, else as seen or estimated.",
                             {"kind", "deployment", "tenant", "class"})),
      estimate_error(metrics.gauge("weir_estimate_error_ratio",
                                   "Moving mean of (estimated - actual) / actual tokens.",
                                   {"deployment"})),
      output_bias(metrics.gauge("weir_estimate_output_bias_ratio",
                                "Output means against reported outputs of some 1000 answers: "
                                "(estimated - actual) / actual tokens.",
                                {"deployment"})),
      p95_coverage(metrics.gauge("weir_estimate_p95_coverage_ratio",
                                 "Share of some 1000 answers within their estimated 95 % quantile.",
                                 {"deployment"})),
      cached_input(metrics.gauge("weir_cached_input_ratio",
                                 "Share of the input that came from the provider's cache.",
                                 {"deployment"})),
      debt_alarms(metrics.counter("weir_estimate_debt_alarms_total",
                                  "Times a tenant's calls settled at half as much again as they "
                                  "were charged, over about a hundred of them.",
                                  {"deployment", "tenant", "unit"})),
      quota_used(metrics.gauge("weir_quota_used_ratio",
                               "Share of the tightest limit that is used or granted.",
                               {"deployment", "unit"})),
      reserved(metrics.gauge("weir_reserved", "Held by calls granted and not settled.",
                             {"deployment", "unit"})),
      inflight(metrics.gauge("weir_inflight", "Calls granted and not settled.", {"deployment"})),
      congestion_limit(metrics.gauge("weir_congestion_limit",
                                     "Calls that may be in flight because of congestion; 0: any.",
                                     {"deployment"})),
      truncated(metrics.counter("weir_truncated_total",
                                "Answers a provider broke off after they had begun.",
                                {"deployment"})),
      client_gone(metrics.counter("weir_client_gone_total",
                                  "Requests whose caller left before the end.", {"phase"})),
      early_refusals(metrics.counter("weir_early_refusals_total",
                                     "Requests refused by their head alone.", {"code"})),
      accept_failures(metrics.counter(
          "weir_accept_failures_total",
          "Times that a listener could not take a connection, for want of descriptors.", {})),
      observed(metrics.counter("weir_observed_total",
                               "Requests under mode observe, by what enforce would have done.",
                               {"deployment", "would"})),
      reloads(metrics.counter("weir_config_reloads_total", "Configuration reloads.", {"result"})),
      state_writes(metrics.counter("weir_state_writes_total",
                                   "Times the file of stores.state was written, or could not be.",
                                   {"result"})),
      pacer_lateness(metrics.histogram("weir_pacer_lateness_seconds",
                                       "How late the pacer's timer ran.", {},
                                       telemetry::overhead_bounds())),
      build_info(metrics.gauge("weir_build_info", "Always 1; the build is in the labels.",
                               {"version", "commit"})) {}

void Meters::show(const governor::Snapshot& snapshot, const Plan& plan) {
  for (auto* family : {&queue_depth, &queue_oldest, &estimate_error, &output_bias, &p95_coverage,
                       &cached_input, &quota_used, &reserved, &inflight, &congestion_limit}) {
    family->clear();
  }
  for (const auto& view : snapshot.classes) {
    const auto label = class_name(plan, view.traffic_class);
    queue_depth.with({label}).set(static_cast<double>(view.depth));
    queue_oldest.with({label}).set(to_seconds(view.oldest));
  }
  for (const auto& view : snapshot.deployments) {
    const auto label = deployment_name(plan, view.deployment);
    inflight.with({label}).set(static_cast<double>(view.inflight));
    congestion_limit.with({label}).set(static_cast<double>(view.congestion_limit));
    estimate_error.with({label}).set(view.estimate_error_ratio);
    output_bias.with({label}).set(view.output_bias_ratio);
    // Nothing covered is not the same as nothing known.
    if (view.p95_coverage_ratio > 0) p95_coverage.with({label}).set(view.p95_coverage_ratio);
    cached_input.with({label}).set(view.cached_input_ratio);
    for (const auto& meter : view.meters) {
      // Several windows of one unit are one series: the fullest of them.
      const auto unit = name(meter.rule.unit);
      auto& used = quota_used.with({label, unit});
      // A call on its way is in `used` as well as in `reserved`; it is one.
      const auto taken = static_cast<double>(meter.used) + static_cast<double>(meter.pending);
      const auto amount = static_cast<double>(meter.rule.amount);
      used.set(std::max(used.value(), amount > 0 ? taken / amount : 1.0));
      auto& held = reserved.with({label, unit});
      held.set(std::max(held.value(), static_cast<double>(meter.reserved)));
    }
  }
}

std::string_view status_label(std::uint16_t status) {
  switch (status) {
    case 0: return "none";
    case 200: return "200";
    case 400: return "400";
    case 401: return "401";
    case 403: return "403";
    case 404: return "404";
    case 408: return "408";
    case 413: return "413";
    case 422: return "422";
    case 429: return "429";
    case 500: return "500";
    case 502: return "502";
    case 503: return "503";
    case 504: return "504";
    case 529: return "529";
    default: break;
  }
  switch (status / 100) {
    case 2: return "2xx";
    case 3: return "3xx";
    case 4: return "4xx";
    default: return "5xx";
  }
}

std::size_t SeriesCache::KeyHash::operator()(const Key& key) const {
  constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15ULL;
  std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(key.tenant);
  mixed = (mixed ^ reinterpret_cast<std::uintptr_t>(key.outcome)) * kMultiplier;
  mixed = (mixed ^ key.deployment) * kMultiplier;
  mixed = (mixed ^ key.traffic_class) * kMultiplier;
  return mixed ^ (mixed >> 32U);
}

SeriesCache::SeriesCache(Meters& meters)
    : meters_(meters),
      overhead_(meters.overhead.with({})),
      request_seconds_(meters.request_seconds.with({})),
      first_token_(meters.first_token.with({})),
      per_token_(meters.per_token.with({})) {}

void SeriesCache::reset(const Plan* plan) {
  plan_ = plan;
  requests_.clear();
  tokens_.clear();
  attempts_.clear();
  queues_.clear();
}

void SeriesCache::bound() {
  if (requests_.size() + tokens_.size() > kMaxCached) reset(plan_);
}

void SeriesCache::count_request(const Plan& plan, DeploymentId deployment, std::string_view tenant,
                                ClassId traffic_class, std::string_view outcome) {
  if (&plan != plan_) {
    return meters_.requests
        .with({deployment_name(plan, deployment), tenant, class_name(plan, traffic_class), outcome})
        .add();
  }
  const Key key{tenant.data(), outcome.data(), deployment.value(), traffic_class.value()};
  const auto found = requests_.find(key);
  if (found != requests_.end()) return found->second->add();
  bound();
  auto& counter = meters_.requests.with(
      {deployment_name(plan, deployment), tenant, class_name(plan, traffic_class), outcome});
  requests_.emplace(key, &counter);
  counter.add();
}

void SeriesCache::count_attempt(const Plan& plan, DeploymentId deployment, std::uint16_t status) {
  const auto label = status_label(status);
  if (&plan != plan_) {
    return meters_.attempts.with({deployment_name(plan, deployment), label}).add();
  }
  const Key key{nullptr, label.data(), deployment.value(), 0};
  const auto found = attempts_.find(key);
  if (found != attempts_.end()) return found->second->add();
  auto& counter = meters_.attempts.with({deployment_name(plan, deployment), label});
  attempts_.emplace(key, &counter);
  counter.add();
}

void SeriesCache::count_tokens(const Plan& plan, DeploymentId deployment, std::string_view tenant,
                               ClassId traffic_class, const Usage& usage) {
  const auto find = [&] {
    const auto name = deployment_name(plan, deployment);
    const auto label = class_name(plan, traffic_class);
    return Tokens{&meters_.tokens.with({"input", name, tenant, label}),
                  &meters_.tokens.with({"cached_input", name, tenant, label}),
                  &meters_.tokens.with({"output", name, tenant, label}),
                  &meters_.tokens.with({"reasoning", name, tenant, label})};
  };
  Tokens series;
  if (&plan != plan_) {
    series = find();
  } else {
    const Key key{tenant.data(), nullptr, deployment.value(), traffic_class.value()};
    auto found = tokens_.find(key);
    if (found == tokens_.end()) {
      bound();
      found = tokens_.emplace(key, find()).first;
    }
    series = found->second;
  }
  const auto add = [](telemetry::Counter& counter, std::int64_t amount) {
    if (amount > 0) counter.add(amount);
  };
  add(*series.input, usage.input_tokens);
  add(*series.output, usage.output_tokens);
  add(*series.cached, usage.cached_input_tokens.value_or(0));
  add(*series.reasoning, usage.reasoning_tokens.value_or(0));
}

void SeriesCache::observe_queue(const Plan& plan, ClassId traffic_class, Duration queued) {
  const std::size_t index = traffic_class.value();
  if (index >= plan.policy().classes.size()) return;
  if (&plan != plan_) {
    return meters_.queue_seconds.with({plan.policy().classes[index].name}).observe(queued);
  }
  if (queues_.size() <= index) queues_.resize(index + 1, nullptr);
  if (queues_[index] == nullptr) {
    queues_[index] = &meters_.queue_seconds.with({plan.policy().classes[index].name});
  }
  queues_[index]->observe(queued);
}

}  // namespace weir::gateway
