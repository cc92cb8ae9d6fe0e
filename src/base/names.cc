// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "weir/decision.h"
#include "weir/policy.h"
#include "weir/rule.h"
#include "weir/signal.h"

namespace weir {

std::string_view name(SignalClass kind) {
  switch (kind) {
    case SignalClass::ok: return "ok";
    case SignalClass::rate_limited: return "rate_limited";
    case SignalClass::quota_exhausted: return "quota_exhausted";
    case SignalClass::overloaded: return "overloaded";
    case SignalClass::auth: return "auth";
    case SignalClass::bad_request: return "bad_request";
    case SignalClass::server_error: return "server_error";
    case SignalClass::timeout: return "timeout";
    case SignalClass::content_filter: return "content_filter";
    case SignalClass::context_length: return "context_length";
  }
  return "server_error";
}

std::string_view name(Limiter limiter) {
  switch (limiter) {
    case Limiter::rpm: return "rpm";
    case Limiter::rps: return "rps";
    case Limiter::input_tpm: return "input_tpm";
    case Limiter::output_tpm: return "output_tpm";
    case Limiter::total_tpm: return "total_tpm";
    case Limiter::tps: return "tps";
    case Limiter::burst: return "burst";
    case Limiter::concurrency: return "concurrency";
    case Limiter::rpd: return "rpd";
    case Limiter::tpd: return "tpd";
    case Limiter::budget: return "budget";
    case Limiter::images: return "images";
    case Limiter::audio_seconds: return "audio_seconds";
    case Limiter::tasks: return "tasks";
    case Limiter::stream_seconds: return "stream_seconds";
    case Limiter::unknown: return "unknown";
  }
  return "unknown";
}

std::string_view name(Strategy strategy) {
  switch (strategy) {
    case Strategy::passthrough: return "passthrough";
    case Strategy::retry: return "retry";
    case Strategy::rate: return "rate";
    case Strategy::shaping: return "shaping";
    case Strategy::adaptive: return "adaptive";
  }
  return "shaping";
}

std::string_view name(Mode mode) {
  switch (mode) {
    case Mode::enforce: return "enforce";
    case Mode::observe: return "observe";
  }
  return "enforce";
}

std::string_view name(NodeKind kind) {
  switch (kind) {
    case NodeKind::organization: return "organization";
    case NodeKind::tenant: return "tenant";
    case NodeKind::team: return "team";
    case NodeKind::key: return "key";
    case NodeKind::profile: return "model_profile";
  }
  return "tenant";
}

std::string_view name(Decision decision) {
  switch (decision) {
    case Decision::admitted: return "admitted";
    case Decision::queued: return "queued";
    case Decision::spilled: return "spilled";
    case Decision::observed: return "observed";
    case Decision::rejected_locally: return "rejected_locally";
    case Decision::queue_timeout: return "queue_timeout";
    case Decision::queue_full: return "queue_full";
    case Decision::never_fits: return "never_fits";
    case Decision::admitted_then_provider_rejected: return "admitted_then_provider_rejected";
    case Decision::admitted_then_provider_failed: return "admitted_then_provider_failed";
    case Decision::backpressure: return "backpressure";
    case Decision::draining: return "draining";
    case Decision::not_allowed: return "not_allowed";
  }
  return "rejected_locally";
}

namespace {

std::string window_name(Duration window) {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  using std::chrono::minutes;
  using std::chrono::seconds;
  if (window % hours(24) == Duration::zero()) return std::to_string(window / hours(24)) + "d";
  if (window % hours(1) == Duration::zero()) return std::to_string(window / hours(1)) + "h";
  if (window % minutes(1) == Duration::zero()) return std::to_string(window / minutes(1)) + "m";
  if (window % seconds(1) == Duration::zero()) return std::to_string(window / seconds(1)) + "s";
  return std::to_string(window / milliseconds(1)) + "ms";
}

}  // namespace

std::string limiter_name(Unit unit, Duration window) {
  using std::chrono::hours;
  using std::chrono::minutes;
  using std::chrono::seconds;
  if (unit == Unit::concurrency) return "concurrency";
  const bool requests = unit == Unit::requests;
  if (window == minutes(1)) {
    if (requests) return "rpm";
    if (unit == Unit::input_tokens) return "input_tpm";
    if (unit == Unit::output_tokens) return "output_tpm";
    return "total_tpm";
  }
  if (window == seconds(1) && requests) return "rps";
  if (window == seconds(1) && unit == Unit::total_tokens) return "tps";
  if (window == hours(24) && requests) return "rpd";
  if (window == hours(24) && unit == Unit::total_tokens) return "tpd";
  return std::string(name(unit)) + "_per_" + window_name(window);
}

}  // namespace weir
