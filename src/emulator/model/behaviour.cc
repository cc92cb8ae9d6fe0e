// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/behaviour.h"

#include <algorithm>
#include <cmath>

namespace weir::emulator::model {
namespace {

/// Keeps a computed time between 0 and a day, whatever the settings were.
Duration bounded(double nanoseconds) {
  constexpr double kDay = 86'400e9;
  if (!(nanoseconds > 0)) return Duration{0};
  return Duration(static_cast<std::int64_t>(std::min(nanoseconds, kDay)));
}

double count(Duration duration) { return static_cast<double>(duration.count()); }

}  // namespace

Duration Timing::until(std::int64_t output_tokens) const {
  const double after_first = static_cast<double>(std::max<std::int64_t>(output_tokens - 1, 0));
  return bounded(count(first_token) + after_first * count(per_token));
}

Timing LatencyModel::plan(std::int64_t input_tokens, std::int64_t inflight) {
  const double sigma = std::max(settings_.noise, 0.0);
  const double first_noise = rng_.log_normal(1, sigma);
  const double token_noise = rng_.log_normal(1, sigma);
  double beyond = 0;
  if (settings_.knee > 0 && inflight > settings_.knee) {
    const double knee = static_cast<double>(settings_.knee);
    beyond = (static_cast<double>(inflight) - knee) / knee;
  }
  // Nothing is drawn where there is one kind of back end, so that its times stay what they were.
  const bool slow = settings_.slow_share > 0 && rng_.uniform() < settings_.slow_share;
  const double factor = slow ? std::max(settings_.slow_factor, 0.0) : 1;
  const double input = static_cast<double>(std::max<std::int64_t>(input_tokens, 0));
  Timing timing;
  timing.first_token =
      bounded((count(settings_.base_first_token) + input * count(settings_.per_input_token)) *
              (1 + settings_.first_token_slope * beyond) * first_noise * factor);
  timing.per_token = bounded(count(settings_.per_output_token) * (1 + settings_.slope * beyond) *
                             token_noise * factor);
  return timing;
}

std::int64_t OutputModel::draw(std::optional<std::int64_t> exact,
                               std::optional<std::int64_t> max_output_tokens) {
  const double length = std::min(
      rng_.log_normal(std::max(settings_.mean_tokens, 0.0), std::max(settings_.sigma, 0.0)), 1e15);
  std::int64_t tokens = exact ? *exact : std::llround(length);
  tokens = std::min(std::max<std::int64_t>(tokens, 1), std::max<std::int64_t>(settings_.cap, 1));
  if (max_output_tokens) tokens = std::min(tokens, std::max<std::int64_t>(*max_output_tokens, 0));
  return tokens;
}

Fault FaultModel::draw() {
  const double choice = rng_.uniform();
  Fault fault;
  fault.where = rng_.uniform();
  double edge = 0;
  const auto within = [&](double share) {
    edge += std::max(share, 0.0);
    return choice < edge;
  };
  if (within(settings_.server_error)) {
    fault.kind = FaultKind::server_error;
  } else if (within(settings_.reset_before)) {
    fault.kind = FaultKind::reset_before;
  } else if (within(settings_.reset_inside)) {
    fault.kind = FaultKind::reset_inside;
  } else if (within(settings_.slow)) {
    fault.kind = FaultKind::slow;
    fault.factor = std::max(settings_.slow_factor, 1.0);
  } else if (within(settings_.malformed)) {
    fault.kind = FaultKind::malformed;
  }
  return fault;
}

}  // namespace weir::emulator::model
