// SPDX-License-Identifier: Apache-2.0
#include "emulator/provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/settings.h"

namespace weir::emulator {
namespace {

/// What a rule would count of a request at the door.
std::int64_t requested(const Rule& rule, const ModelRequest& request, std::int64_t max_output) {
  const bool reserves = rule.count == Counting::reserve || rule.count == Counting::reserve_refund;
  switch (rule.unit) {
    case Unit::requests:
    case Unit::concurrency: return 1;
    case Unit::input_tokens: return request.input_tokens;
    case Unit::output_tokens: return reserves ? max_output : 0;
    case Unit::total_tokens: return request.input_tokens + (reserves ? max_output : 0);
  }
  return 0;
}

Duration scaled(Duration duration, double factor) {
  return from_seconds(to_seconds(duration) * factor);
}

/// What the other consumer did longer ago than this, while nobody looked, is left out.
constexpr Duration kCatchUp = std::chrono::minutes(10);

/// The provider's clock starts at 0 when the emulator starts; its days begin at midnight UTC.
model::ProviderSettings on_calendar(model::ProviderSettings settings, WallTime start) {
  settings.day_phase -= start.time_since_epoch() % std::chrono::hours(24);
  return settings;
}

}  // namespace

Instant Attempt::ready_at(std::int64_t count) const {
  const std::int64_t after_first = std::max<std::int64_t>(count - 1, 0);
  return saturating_add(begun, first_token + per_token * after_first);
}

Provider::Provider(Settings settings, double time_scale, Instant start, WallTime wall_start)
    : settings_(std::move(settings)),
      time_scale_(time_scale),
      start_(start),
      wall_start_(wall_start),
      rules_(on_calendar(settings_.provider, wall_start), inside(start)),
      other_(settings_.other, settings_.latency, settings_.seed + 3, inside(start)),
      queue_(settings_.wait),
      latency_(settings_.latency, settings_.seed + 1),
      faults_(settings_.faults, settings_.seed + 2) {}

Instant Provider::inside(Instant now) const {
  return Instant{} + scaled(now - start_, time_scale_);
}

Duration Provider::outside(Duration duration) const { return scaled(duration, 1 / time_scale_); }

std::int64_t Provider::created(Instant now) const {
  return std::chrono::duration_cast<std::chrono::seconds>(
             (wall_start_ + (now - start_)).time_since_epoch())
      .count();
}

Instant Provider::turn_to(Instant now) {
  const Instant at = inside(now);
  other_.advance(rules_, at, {}, kCatchUp);
  serve_queue(at);
  return at;
}

void Provider::serve_queue(Instant at) {
  if (queue_.size() == 0) return;
  std::vector<model::WaitQueue::Answer> due;
  queue_.advance(rules_, at, due);
  for (const model::WaitQueue::Answer& one : due) called_.emplace(one.ticket, one.admission);
}

Begun Provider::begin(const ModelRequest& request, std::optional<Duration> patience, Instant now) {
  const std::lock_guard lock(mutex_);
  const Instant at = turn_to(now);
  if (latency_.full(rules_.counters().inflight)) {
    Refusal refusal;
    refusal.model = request.model;
    refusal.overload = true;
    return {Turned{refusal, ++serial_}, limit_fields(at)};
  }
  const bool produces = request.operation != Operation::embedding;
  model::AdmitRequest ask{.input_tokens = request.input_tokens, .max_output_tokens = 0};
  if (produces) {
    ask.max_output_tokens = request.max_output_tokens;
    if (ask.max_output_tokens) *ask.max_output_tokens *= request.choices;
  }
  const std::uint64_t serial = ++serial_;
  const Duration longest = patience ? scaled(*patience, time_scale_) : settings_.wait_unasked;
  const model::WaitQueue::Answer answer = queue_.submit(rules_, ask, longest, at);
  if (answer.ticket != 0) return {Waits{answer.ticket, epoch_, serial}, {}};
  return answered(request, answer.admission, serial, now);
}

Begun Provider::knock(const Waits& waits, const ModelRequest& request, Instant now) {
  if (waits.epoch != epoch()) return begin(request, Duration{0}, now);
  const std::lock_guard lock(mutex_);
  turn_to(now);
  const auto called = called_.find(waits.ticket);
  if (called == called_.end()) return {waits, {}};
  const model::Admission admission = called->second;
  called_.erase(called);
  return answered(request, admission, waits.serial, now);
}

void Provider::leave(const Waits& waits, Instant now) {
  const std::lock_guard lock(mutex_);
  if (waits.epoch != epoch_) return;
  const Instant at = turn_to(now);
  queue_.cancel(waits.ticket);
  const auto called = called_.find(waits.ticket);
  if (called == called_.end()) return;
  if (called->second.admitted) rules_.abort(called->second.attempt, 0, at);
  called_.erase(called);
}

std::uint32_t Provider::epoch() {
  const std::lock_guard lock(mutex_);
  return epoch_;
}

Begun Provider::answered(const ModelRequest& request, const model::Admission& admission,
                         std::uint64_t serial, Instant now) {
  const Instant at = inside(now);
  Begun begun;
  if (!admission.admitted) {
    begun.what = Turned{explain(request, admission, at), serial};
    begun.fields = limit_fields(at);
    return begun;
  }
  Attempt attempt;
  attempt.id = admission.attempt;
  attempt.epoch = epoch_;
  attempt.serial = serial;
  attempt.begun = now;
  attempt.fault = faults_.draw();
  const model::Timing timing = latency_.plan(request.input_tokens, rules_.counters().inflight);
  const double factor = attempt.fault.factor / time_scale_;
  attempt.first_token = scaled(timing.first_token, factor);
  attempt.per_token = scaled(timing.per_token, factor);
  if (request.operation != Operation::embedding) {
    // The length is drawn from the prompt, not from a running generator, so that a prompt has one
    // answer whatever else is going on.
    model::OutputModel lengths(settings_.output, settings_.seed ^ request.digest);
    const auto exact = settings_.exact_output ? request.max_output_tokens : std::nullopt;
    attempt.output_tokens = lengths.draw(exact, request.max_output_tokens);
    attempt.cut = request.max_output_tokens && attempt.output_tokens >= *request.max_output_tokens;
  }
  begun.what = attempt;
  begun.fields = limit_fields(at);
  return begun;
}

Refusal Provider::explain(const ModelRequest& request, const model::Admission& admission,
                          Instant at) {
  Refusal refusal;
  refusal.model = request.model;
  refusal.never_fits = admission.never_fits;
  refusal.growth = admission.growth.has_value();
  if (admission.retry_after) refusal.retry_after = outside(*admission.retry_after);
  if (!admission.rule) return refusal;
  const auto readings = rules_.readings(at);
  if (*admission.rule >= readings.size()) return refusal;
  const model::Reading& reading = readings[*admission.rule];
  refusal.rule = reading.rule;
  refusal.used = reading.limit - reading.remaining;
  const std::int64_t max_output =
      request.max_output_tokens.value_or(settings_.provider.default_max_output) * request.choices;
  refusal.requested = requested(reading.rule, request, max_output);
  return refusal;
}

std::string Provider::limit_fields(Instant at) {
  std::string fields;
  const auto append = [&](std::string_view unit, const model::Reading& reading) {
    append_limit_fields(
        fields, unit,
        {.limit = reading.limit, .remaining = reading.remaining, .reset = outside(reading.reset)});
  };
  if (const auto requests = rules_.reading(Unit::requests, at)) append("requests", *requests);
  for (const Unit unit : {Unit::total_tokens, Unit::input_tokens, Unit::output_tokens}) {
    if (const auto tokens = rules_.reading(unit, at)) {
      append("tokens", *tokens);
      break;
    }
  }
  return fields;
}

void Provider::produced(const Attempt& attempt, std::int64_t tokens, Instant now) {
  const std::lock_guard lock(mutex_);
  if (attempt.epoch == epoch_) rules_.produced(attempt.id, tokens, turn_to(now));
}

void Provider::finish(const Attempt& attempt, std::int64_t input, std::int64_t output,
                      Instant now) {
  const std::lock_guard lock(mutex_);
  if (attempt.epoch == epoch_) rules_.finish(attempt.id, input, output, turn_to(now));
}

void Provider::abort(const Attempt& attempt, std::int64_t output_so_far, Instant now) {
  const std::lock_guard lock(mutex_);
  if (attempt.epoch == epoch_) rules_.abort(attempt.id, output_so_far, turn_to(now));
}

void Provider::fail(const Attempt& attempt, Instant now) {
  const std::lock_guard lock(mutex_);
  if (attempt.epoch == epoch_) rules_.fail(attempt.id, turn_to(now));
}

std::string Provider::counters(Instant now) {
  const std::lock_guard lock(mutex_);
  const Instant at = turn_to(now);
  const model::Counters& seen = rules_.counters();
  std::string json = fmt::format(
      R"({{"attempts":{},"admitted":{},"refused":{},"inflight":{},"finished":{},"aborted":{},)"
      R"("failed":{},"input_tokens":{},"output_tokens":{},"time_scale":{},"virtual_ms":{},)"
      R"("waiting":{},"refused_for_growth":{},"rules":[)",
      seen.admitted + seen.refused, seen.admitted, seen.refused, seen.inflight, seen.finished,
      seen.aborted, seen.failed, seen.input_tokens, seen.output_tokens, time_scale_,
      at.time_since_epoch().count() / 1'000'000, queue_.size(), seen.refused_by_growth);
  const auto readings = rules_.readings(at);
  for (std::size_t index = 0; index < readings.size(); ++index) {
    const model::Reading& reading = readings[index];
    const std::int64_t refused =
        index < seen.refused_by_rule.size() ? seen.refused_by_rule[index] : 0;
    fmt::format_to(std::back_inserter(json),
                   R"({}{{"limiter":"{}","limit":{},"remaining":{},"reset_ms":{},"refused":{}}})",
                   index == 0 ? "" : ",", limiter_name(reading.rule.unit, reading.rule.window),
                   reading.limit, reading.remaining, outside(reading.reset).count() / 1'000'000,
                   refused);
  }
  return json + "]}";
}

std::string Provider::rules() {
  const std::lock_guard lock(mutex_);
  return rules_json(settings_.provider.rules);
}

std::string Provider::latency() {
  const std::lock_guard lock(mutex_);
  return latency_json(settings_.latency);
}

std::string Provider::faults() {
  const std::lock_guard lock(mutex_);
  return faults_json(settings_.faults);
}

void Provider::set_rules(const std::vector<Rule>& rules, Instant now) {
  const std::lock_guard lock(mutex_);
  settings_.provider.rules = rules;
  rules_.set_rules(rules, turn_to(now));
}

void Provider::set_latency(const model::LatencySettings& latency) {
  const std::lock_guard lock(mutex_);
  settings_.latency = latency;
  latency_ = model::LatencyModel(latency, settings_.seed + 1);
}

void Provider::set_faults(const model::FaultSettings& faults) {
  const std::lock_guard lock(mutex_);
  settings_.faults = faults;
  faults_ = model::FaultModel(faults, settings_.seed + 2);
}

void Provider::reset(Instant now) {
  const std::lock_guard lock(mutex_);
  ++epoch_;
  const Instant at = inside(now);
  rules_ = model::ProviderRules(on_calendar(settings_.provider, wall_start_), at);
  other_ = model::OtherConsumer(settings_.other, settings_.latency, settings_.seed + 3, at);
  queue_ = model::WaitQueue(settings_.wait);
  called_.clear();
}

}  // namespace weir::emulator
