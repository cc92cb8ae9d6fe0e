// SPDX-License-Identifier: Apache-2.0
#include "gateway/gateway.h"

#include <utility>

#include "gateway/handler.h"

namespace weir::gateway {

Gateway::Gateway(std::shared_ptr<const config::Config> config, GatewayParts parts)
    : clock_(parts.clock),
      log_(parts.log),
      meters_(parts.registry),
      lateness_(meters_.pacer_lateness.with({})),
      dispatcher_(std::make_shared<const Plan>(std::move(config)), parts.seed, parts.clock.now(),
                  std::move(parts.wake)),
      seed_(parts.seed) {}

Gateway::~Gateway() = default;

std::unique_ptr<http::Handler> Gateway::make_handler(http::Loop& loop, http::Connector& connector) {
  return std::make_unique<Handler>(*this, loop, connector);
}

void Gateway::reload(std::shared_ptr<const config::Config> config) {
  auto plan = std::make_shared<const Plan>(std::move(config));
  const std::string file = plan->config().file;
  dispatcher_.apply(std::move(plan), clock_.now());
  plan_version_.fetch_add(1, std::memory_order_release);
  meters_.reloads.with({"applied"}).add();
  log_.write(telemetry::LogLevel::info, "config_reloaded", {{"file", std::string_view(file)}});
}

void Gateway::note_failed_reload(std::string_view reason) {
  meters_.reloads.with({"refused"}).add();
  log_.write(telemetry::LogLevel::error, "config_reload_refused", {{"reason", reason}});
}

void Gateway::drain() {
  if (draining_.exchange(true)) return;
  log_.write(telemetry::LogLevel::info, "draining");
  dispatcher_.drain(false);
}

void Gateway::end_all() {
  draining_.store(true);
  dispatcher_.drain(true);
}

governor::Snapshot Gateway::observe(Instant now) {
  governor::Snapshot snapshot;
  dispatcher_.snapshot(snapshot, now);
  meters_.show(snapshot, *dispatcher_.plan());
  return snapshot;
}

void Gateway::tell_debts() {
  const auto plan = dispatcher_.plan();
  for (const governor::DebtAlarm& alarm : dispatcher_.take_debt_alarms()) {
    meters_.debt_alarms.with({alarm.deployment, plan->tenant_label(alarm.tenant), name(alarm.unit)})
        .add();
    log_.write(telemetry::LogLevel::warn, "estimate_debt",
               {{"tenant", std::string_view(alarm.tenant)},
                {"deployment", std::string_view(alarm.deployment)},
                {"metric", name(alarm.unit)},
                {"charged", static_cast<std::int64_t>(alarm.charged)},
                {"settled", static_cast<std::int64_t>(alarm.settled)}});
  }
}

void Gateway::tell_learned() {
  for (const governor::LearnedNote& note : dispatcher_.take_learned()) {
    const std::string_view what = !note.active ? "guess_dropped" : note.guessed ? "guess" : "limit";
    log_.write(telemetry::LogLevel::info, "limit_learned",
               {{"deployment", std::string_view(note.deployment)},
                {"what", what},
                {"unit", name(note.rule.unit)},
                {"window_s", to_seconds(note.rule.window)},
                {"count", name(note.rule.count)},
                {"told", note.guessed ? std::int64_t{0} : note.rule.amount},
                {"before", note.before},
                {"kept", note.after},
                {"evidence", note.evidence}});
  }
}

void Gateway::tell_congestion() {
  for (const governor::CongestionNote& note : dispatcher_.take_congestion_notes()) {
    const bool holds = note.limit > 0;
    log_.write(holds ? telemetry::LogLevel::warn : telemetry::LogLevel::info,
               holds ? "congestion_set_in" : "congestion_ended",
               {{"deployment", std::string_view(note.deployment)}, {"limit", note.limit}});
  }
}

std::uint64_t Gateway::next_seed() {
  constexpr std::uint64_t kStep = 0xd1342543de82ef95ULL;
  return seed_.fetch_add(kStep, std::memory_order_relaxed);
}

}  // namespace weir::gateway
