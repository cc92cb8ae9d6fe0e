// SPDX-License-Identifier: Apache-2.0
#include "sim/headers.h"

#include <algorithm>
#include <array>

namespace weir::sim {
namespace {

constexpr std::int64_t kThousand = 1000;

Duration up_to(Duration value, Duration grain) {
  if (value > kForever - grain) return value;
  return (value + grain - Duration(1)) / grain * grain;
}

LimitReading read(emulator::model::ProviderRules& provider, Unit unit, Instant now) {
  LimitReading into;
  const auto reading = provider.reading(unit, now);
  if (!reading) return into;
  into.limit = reading->limit;
  into.remaining = reading->remaining;
  into.reset = reading->reset;
  return into;
}

void round_tokens(LimitReading& reading) {
  if (reading.remaining) *reading.remaining -= *reading.remaining % kThousand;
}

std::array<LimitReading*, 4> all(Signal& signal) {
  return {&signal.requests, &signal.tokens, &signal.input_tokens, &signal.output_tokens};
}

}  // namespace

Signal HeaderTeller::read(emulator::model::ProviderRules& provider, Instant now) const {
  Signal signal;
  signal.status = 200;
  signal.requests = sim::read(provider, Unit::requests, now);
  signal.tokens = sim::read(provider, Unit::total_tokens, now);
  signal.input_tokens = sim::read(provider, Unit::input_tokens, now);
  signal.output_tokens = sim::read(provider, Unit::output_tokens, now);
  switch (quirks_.style) {
    case HeaderStyle::every: break;
    case HeaderStyle::openai:
      if (!signal.tokens.limit) signal.tokens = signal.input_tokens;
      if (!signal.tokens.limit) signal.tokens = signal.output_tokens;
      signal.input_tokens = {};
      signal.output_tokens = {};
      for (LimitReading* reading : all(signal)) {
        if (reading->reset) reading->reset = up_to(*reading->reset, std::chrono::milliseconds(1));
      }
      break;
    case HeaderStyle::anthropic:
      round_tokens(signal.tokens);
      round_tokens(signal.input_tokens);
      round_tokens(signal.output_tokens);
      for (LimitReading* reading : all(signal)) {
        if (reading->reset) reading->reset = up_to(*reading->reset, std::chrono::seconds(1));
      }
      break;
  }
  return signal;
}

std::optional<Signal> HeaderTeller::tell(emulator::model::ProviderRules& provider, Instant now) {
  if (rng_.uniform() >= quirks_.share) return std::nullopt;
  if (!kept_ || now - kept_at_ >= quirks_.cached) {
    kept_ = read(provider, now);
    kept_at_ = now;
  }
  Signal signal = *kept_;
  const bool raise = quirks_.raised_at && !raised_ && now >= Instant(*quirks_.raised_at);
  for (LimitReading* reading : all(signal)) {
    if (!reading->limit) continue;
    if (quirks_.remaining == RemainingSays::unknown) reading->remaining.reset();
    if (quirks_.remaining == RemainingSays::zero) reading->remaining = 0;
    const auto raised = [&](std::int64_t value) {
      return static_cast<std::int64_t>(
          std::min(static_cast<double>(value) * std::max(quirks_.raised_by, 0.0), 9e18));
    };
    if (raise) reading->limit = raised(*reading->limit);
    if (raise && reading->remaining) reading->remaining = raised(*reading->remaining);
  }
  raised_ = raised_ || raise;
  return signal;
}

}  // namespace weir::sim
