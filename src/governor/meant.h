// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "governor/terms.h"
#include "weir/signal.h"

namespace weir::governor {

/// The unit of the rules that an error's limiter means; false if it means none that is kept.
/// `any_tokens`: the rules of every token unit.
inline bool unit_of(Limiter limiter, Unit& unit, bool& any_tokens) {
  any_tokens = false;
  switch (limiter) {
    case Limiter::rpm:
    case Limiter::rps:
    case Limiter::rpd: unit = Unit::requests; return true;
    case Limiter::input_tpm: unit = Unit::input_tokens; return true;
    case Limiter::output_tpm: unit = Unit::output_tokens; return true;
    case Limiter::total_tpm:
    case Limiter::tps:
    case Limiter::tpd:
      unit = Unit::total_tokens;
      any_tokens = true;
      return true;
    case Limiter::concurrency: unit = Unit::concurrency; return true;
    case Limiter::burst:
    case Limiter::budget:
    case Limiter::images:
    case Limiter::audio_seconds:
    case Limiter::tasks:
    case Limiter::stream_seconds:
    case Limiter::unknown: return false;
  }
  return false;
}

/// Whether a rule of that window is what the limiter names.
inline bool window_of(Limiter limiter, Duration window) {
  const auto up_to = [&](Duration most) { return window <= most; };
  switch (limiter) {
    case Limiter::rps:
    case Limiter::tps: return up_to(std::chrono::seconds(10));
    case Limiter::rpd:
    case Limiter::tpd: return window > std::chrono::hours(1);
    case Limiter::rpm:
    case Limiter::input_tpm:
    case Limiter::output_tpm:
    case Limiter::total_tpm:
      return window > std::chrono::seconds(1) && up_to(std::chrono::hours(1));
    case Limiter::concurrency: return true;
    case Limiter::burst:
    case Limiter::budget:
    case Limiter::images:
    case Limiter::audio_seconds:
    case Limiter::tasks:
    case Limiter::stream_seconds:
    case Limiter::unknown: return false;
  }
  return false;
}

/// Visits the rules that an error's limiter means; false if the limiter means none of them.
template <class Visit>
bool each_meant(const DeploymentTerms& deployment, Limiter limiter, Visit&& visit) {
  Unit unit = Unit::requests;
  bool any_tokens = false;
  if (!unit_of(limiter, unit, any_tokens)) return false;
  const auto is_unit = [&](const MeterRef& ref) {
    if (ref.claim.unit == unit) return true;
    return any_tokens && ref.claim.unit != Unit::requests && ref.claim.unit != Unit::concurrency;
  };
  for (const bool exact : {true, false}) {
    bool any = false;
    for (const MeterRef& ref : deployment.rules) {
      // Nobody told it, and a provider that names a limit on calls in flight means one of its own.
      if (ref.congestion) continue;
      if (!is_unit(ref) || (exact && !window_of(limiter, ref.limit.window))) continue;
      visit(ref);
      any = true;
    }
    if (any) return true;
  }
  return false;
}

}  // namespace weir::governor
