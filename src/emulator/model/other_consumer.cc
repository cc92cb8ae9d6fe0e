// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/other_consumer.h"

#include <algorithm>
#include <cmath>

namespace weir::emulator::model {
namespace {

/// Above this a modelled stream has no use, and every mean gap is a microsecond or more.
constexpr double kMostPerSecond = 1e6;

std::int64_t length(Rng& rng, double mean, double sigma, std::int64_t cap) {
  const double drawn = std::min(rng.log_normal(std::max(mean, 0.0), std::max(sigma, 0.0)), 1e15);
  return std::clamp<std::int64_t>(std::llround(drawn), 1, std::max<std::int64_t>(cap, 1));
}

}  // namespace

OtherConsumer::OtherConsumer(const OtherSettings& settings, const LatencySettings& latency,
                             std::uint64_t seed, Instant start)
    : settings_(settings),
      latency_(latency, seed ^ 0x0174e5ULL),
      arrivals_(seed ^ 0x07e4aULL),
      lengths_(seed ^ 0x1e27ULL),
      start_(start) {
  settings_.per_second = std::clamp(settings_.per_second, 0.0, kMostPerSecond);
  if (settings_.swings_to) {
    settings_.swings_to = std::clamp(*settings_.swings_to, 0.0, kMostPerSecond);
  }
  settings_.retry_after = std::max(settings_.retry_after, Duration(std::chrono::milliseconds(1)));
  draw_arrival(saturating_add(start_, std::max(settings_.from, Duration{0})));
}

OtherConsumer::Rate OtherConsumer::rate_at(Instant at) const {
  if (!settings_.swings_to || settings_.period.count() <= 1) return {settings_.per_second, kNever};
  const Duration first = settings_.period - settings_.period / 2;
  const Duration into = saturating_sub(at, start_) % settings_.period;
  if (into < first) return {settings_.per_second, saturating_add(at, first - into)};
  return {*settings_.swings_to, saturating_add(at, settings_.period - into)};
}

void OtherConsumer::draw_arrival(Instant after) {
  const double most = std::max(settings_.per_second, settings_.swings_to.value_or(0));
  arrival_ = kNever;
  if (!(most > 0)) return;
  const Instant end = saturating_add(start_, settings_.until);
  // Arrivals of the larger rate, each kept with the chance that its own time's rate gives it.
  for (Instant at = after; at < end;) {
    const Rate present = rate_at(at);
    if (present.per_second <= 0) {
      at = present.until;
      continue;
    }
    at = saturating_add(at, from_seconds(arrivals_.exponential(1 / most)) + Duration(1));
    if (arrivals_.uniform() * most >= rate_at(at).per_second) continue;
    if (at < end) arrival_ = at;
    return;
  }
}

Instant OtherConsumer::next() const {
  return happenings_.empty() ? arrival_ : std::min(arrival_, happenings_.top().at);
}

void OtherConsumer::come(Happening one, ProviderRules& rules, const Watch& watch) {
  AdmitRequest request{.input_tokens = one.input, .max_output_tokens = std::nullopt};
  if (settings_.names_maximum) request.max_output_tokens = one.output;
  const Admission admission = rules.admit(request, one.at);
  OtherEvent event{
      .kind = admission.admitted ? OtherEvent::Kind::admitted : OtherEvent::Kind::refused,
      .at = one.at,
      .admitted_at = one.at,
      .input_tokens = one.input,
      .output_tokens = one.output,
      .max_output_tokens = request.max_output_tokens};
  if (watch) watch(event);
  ++one.tries;
  one.number = next_number_++;
  if (admission.admitted) {
    one.attempt = admission.attempt;
    one.admitted_at = one.at;
    const Timing timing = latency_.plan(one.input, rules.counters().inflight);
    one.at = saturating_add(one.at, timing.until(one.output));
    happenings_.push(one);
  } else if (settings_.retries && one.tries < settings_.attempts && !admission.never_fits) {
    one.at = saturating_add(one.at, settings_.retry_after);
    happenings_.push(one);
  }
}

void OtherConsumer::step(ProviderRules& rules, const Watch& watch) {
  if (!happenings_.empty() && happenings_.top().at <= arrival_) {
    const Happening one = happenings_.top();
    happenings_.pop();
    if (one.attempt == 0) {
      come(one, rules, watch);
      return;
    }
    rules.finish(one.attempt, one.input, one.output, one.at);
    if (watch) {
      watch({.kind = OtherEvent::Kind::ended,
             .at = one.at,
             .admitted_at = one.admitted_at,
             .input_tokens = one.input,
             .output_tokens = one.output,
             .max_output_tokens =
                 settings_.names_maximum ? std::optional<std::int64_t>(one.output) : std::nullopt});
    }
    return;
  }
  Happening fresh;
  fresh.at = arrival_;
  fresh.input = length(lengths_, settings_.input_mean, settings_.input_sigma, settings_.length_cap);
  fresh.output =
      length(lengths_, settings_.output_mean, settings_.output_sigma, settings_.length_cap);
  draw_arrival(arrival_);
  if (happenings_.size() < kMaxOpen) come(fresh, rules, watch);
}

void OtherConsumer::advance(ProviderRules& rules, Instant now, const Watch& watch,
                            Duration catch_up) {
  if (arrival_ < now && saturating_sub(now, arrival_) > catch_up) draw_arrival(now - catch_up);
  while (next() <= now && next() != kNever) step(rules, watch);
}

}  // namespace weir::emulator::model
