// SPDX-License-Identifier: Apache-2.0
#include "emulator/model/provider_rules.h"

#include <algorithm>
#include <utility>

namespace weir::emulator::model {
namespace {

/// The part of a request's tokens that a rule of this unit looks at.
std::int64_t tokens_of(Unit unit, std::int64_t input, std::int64_t output) {
  input = std::max<std::int64_t>(input, 0);
  output = std::max<std::int64_t>(output, 0);
  switch (unit) {
    case Unit::input_tokens: return input;
    case Unit::output_tokens: return output;
    case Unit::total_tokens: return saturating_add(input, output);
    case Unit::requests:
    case Unit::concurrency: break;
  }
  return 0;
}

bool whole_days(Duration window) {
  constexpr Duration kDay = std::chrono::hours(24);
  return window >= kDay && window % kDay == Duration{0};
}

bool counts_tokens(Unit unit) { return unit != Unit::requests && unit != Unit::concurrency; }

/// What a rule charges at the door.
std::int64_t at_admission(const Rule& rule, std::int64_t input, std::int64_t reserved) {
  if (!counts_tokens(rule.unit)) return 1;
  switch (rule.count) {
    case Counting::reserve:
    case Counting::reserve_refund: return tokens_of(rule.unit, input, reserved);
    case Counting::settle:
    case Counting::realtime:
    case Counting::input: return tokens_of(rule.unit, input, 0);
  }
  return 0;
}

/// What must be free at the door. A rule that charges later still refuses once it is used up.
std::int64_t needed(const Rule& rule, std::int64_t charge) {
  const bool charges_later = counts_tokens(rule.unit) &&
                             (rule.count == Counting::settle || rule.count == Counting::realtime);
  return charges_later ? std::max<std::int64_t>(charge, 1) : charge;
}

}  // namespace

ProviderRules::ProviderRules(const ProviderSettings& settings, Instant now)
    : settings_(settings), rng_(settings.seed) {
  for (const Rule& rule : settings_.rules) {
    if (meters_.size() >= kMaxRules) break;
    meters_.push_back(make(rule, now));
  }
  for (const GrowthSettings& growth : settings_.growth) {
    if (growth_.size() >= kMaxRules) break;
    if (growth.of == Unit::concurrency) continue;
    growth_.emplace_back(growth, settings_.seed + growth_.size(), now);
  }
  counters_.refused_by_rule.assign(meters_.size(), 0);
}

ProviderRules::Metered ProviderRules::make(const Rule& rule, Instant now) {
  Rule decided = rule;
  const std::uint64_t drawn = rng_.below(3);
  if (decided.enforce == Enforcement::unknown) {
    constexpr Enforcement kKinds[] = {Enforcement::sliding, Enforcement::fixed,
                                      Enforcement::bucket};
    decided.enforce = kKinds[drawn];
  }
  const auto window = static_cast<std::uint64_t>(std::max<std::int64_t>(rule.window.count(), 1));
  const Duration random_phase(static_cast<std::int64_t>(rng_.below(window)));
  Duration phase = settings_.phase.value_or(random_phase);
  if (whole_days(rule.window)) phase = settings_.day_phase;
  return {next_meter_++, Meter(decided, phase, now)};
}

std::int64_t ProviderRules::reserved_output(const AdmitRequest& request) const {
  return request.max_output_tokens.value_or(settings_.default_max_output);
}

Admission ProviderRules::look(const AdmitRequest& request, Instant now) {
  Admission answer;
  if (counters_.inflight >= settings_.max_inflight) {
    answer.retry_after = std::chrono::seconds(1);
    return answer;
  }
  const std::int64_t reserved = reserved_output(request);
  Duration longest{-1};
  for (std::size_t index = 0; index < meters_.size(); ++index) {
    Meter& meter = meters_[index].meter;
    const Rule& rule = meter.rule();
    Duration wait{0};
    if (rule.unit == Unit::concurrency) {
      if (counters_.inflight < rule.amount) continue;
      wait = rule.amount == 0 ? kForever : Duration{0};
    } else {
      const std::int64_t need = needed(rule, at_admission(rule, request.input_tokens, reserved));
      if (meter.has_room(need, now)) continue;
      wait = meter.wait_for(need, now);
    }
    if (wait <= longest) continue;
    longest = wait;
    answer.rule = index;
    answer.never_fits = wait == kForever;
    answer.retry_after.reset();
    if (wait != kForever && rule.unit != Unit::concurrency) answer.retry_after = wait;
  }
  if (!answer.rule) look_at_growth(request, answer, now);
  answer.admitted = !answer.rule && !answer.growth;
  return answer;
}

void ProviderRules::look_at_growth(const AdmitRequest& request, Admission& answer, Instant now) {
  Duration longest{0};
  for (std::size_t index = 0; index < growth_.size(); ++index) {
    const Unit unit = growth_[index].settings().of;
    const std::int64_t amount = counts_tokens(unit) ? tokens_of(unit, request.input_tokens, 0) : 1;
    const Duration wait = growth_[index].wait_for(std::max<std::int64_t>(amount, 1), now);
    if (wait <= longest) continue;
    longest = wait;
    answer.growth = index;
    answer.retry_after = wait;
  }
}

void ProviderRules::count_refusal(const Admission& answer, Instant now) {
  ++counters_.refused;
  if (answer.rule) ++counters_.refused_by_rule[*answer.rule];
  if (answer.growth) ++counters_.refused_by_growth;
  const bool by_a_limit = answer.rule || answer.growth;
  if (!by_a_limit || !settings_.rejected_counted) return;
  for (auto& [id, meter] : meters_) {
    if (meter.rule().unit == Unit::requests) meter.add_refused(1, now);
  }
}

void ProviderRules::grow(Unit unit, std::int64_t amount, Instant now) {
  if (amount <= 0) return;
  for (GrowthMeter& growth : growth_) {
    if (growth.settings().of == unit) growth.add(amount, now);
  }
}

Admission ProviderRules::admit(const AdmitRequest& request, Instant now) {
  Admission answer = look(request, now);
  if (!answer.admitted) {
    count_refusal(answer, now);
    return answer;
  }
  const std::int64_t reserved = reserved_output(request);
  Attempt attempt;
  attempt.input_tokens = std::max<std::int64_t>(request.input_tokens, 0);
  attempt.held.reserve(meters_.size());
  for (auto& [id, meter] : meters_) {
    if (meter.rule().unit == Unit::concurrency) continue;
    const std::int64_t amount = at_admission(meter.rule(), request.input_tokens, reserved);
    attempt.held.push_back({id, meter.add(amount, now), amount});
  }
  grow(Unit::requests, 1, now);
  grow(Unit::input_tokens, attempt.input_tokens, now);
  grow(Unit::total_tokens, attempt.input_tokens, now);
  answer.attempt = next_attempt_++;
  attempts_.emplace(answer.attempt, std::move(attempt));
  ++counters_.admitted;
  ++counters_.inflight;
  return answer;
}

ProviderRules::Metered* ProviderRules::find(std::uint32_t id) {
  for (Metered& metered : meters_) {
    if (metered.id == id) return &metered;
  }
  return nullptr;
}

void ProviderRules::produced(AttemptId id, std::int64_t output_tokens, Instant now) {
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return;
  Attempt& attempt = found->second;
  if (output_tokens <= attempt.output_so_far) return;
  attempt.output_so_far = output_tokens;
  for (Held& held : attempt.held) {
    Metered* metered = find(held.meter);
    if (metered == nullptr) continue;
    const Rule& rule = metered->meter.rule();
    if (!counts_tokens(rule.unit) || rule.count != Counting::realtime) continue;
    const std::int64_t actual = tokens_of(rule.unit, attempt.input_tokens, output_tokens);
    if (actual <= held.counted) continue;
    metered->meter.add(actual - held.counted, now);
    held.counted = actual;
  }
}

void ProviderRules::correct(Attempt& attempt, std::int64_t input, std::int64_t output,
                            Instant now) {
  for (Held& held : attempt.held) {
    Metered* metered = find(held.meter);
    if (metered == nullptr) continue;
    Meter& meter = metered->meter;
    const Rule& rule = meter.rule();
    if (!counts_tokens(rule.unit) || rule.count == Counting::reserve) continue;
    const std::int64_t actual =
        tokens_of(rule.unit, input, rule.count == Counting::input ? 0 : output);
    if (actual > held.counted) {
      meter.add(actual - held.counted, now);
    } else if (rule.count == Counting::reserve_refund) {
      meter.give_back(held.charge, held.counted - actual, now);
    }
  }
}

void ProviderRules::end(AttemptId id, std::int64_t input, std::int64_t output, End how,
                        Instant now) {
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return;
  Attempt attempt = std::move(found->second);
  attempts_.erase(found);
  input = std::max<std::int64_t>(input, 0);
  output = std::max<std::int64_t>(output, 0);
  correct(attempt, input, output, now);
  grow(Unit::output_tokens, output, now);
  grow(Unit::total_tokens, output, now);
  --counters_.inflight;
  switch (how) {
    case End::finished: ++counters_.finished; break;
    case End::aborted: ++counters_.aborted; break;
    case End::failed: ++counters_.failed; break;
  }
  counters_.input_tokens = saturating_add(counters_.input_tokens, input);
  counters_.output_tokens = saturating_add(counters_.output_tokens, output);
}

void ProviderRules::finish(AttemptId attempt, std::int64_t input_tokens, std::int64_t output_tokens,
                           Instant now) {
  end(attempt, input_tokens, output_tokens, End::finished, now);
}

void ProviderRules::abort(AttemptId attempt, std::int64_t output_so_far, Instant now) {
  const auto found = attempts_.find(attempt);
  if (found == attempts_.end()) return;
  const std::int64_t output = std::max(output_so_far, found->second.output_so_far);
  end(attempt, found->second.input_tokens, output, End::aborted, now);
}

void ProviderRules::fail(AttemptId attempt, Instant now) { end(attempt, 0, 0, End::failed, now); }

void ProviderRules::set_rules(const std::vector<Rule>& rules, Instant now) {
  std::vector<Metered> next;
  std::vector<bool> taken(meters_.size(), false);
  for (const Rule& rule : rules) {
    if (next.size() >= kMaxRules) break;
    std::size_t match = meters_.size();
    for (std::size_t index = 0; index < meters_.size(); ++index) {
      const Rule& old = meters_[index].meter.rule();
      if (taken[index] || old.unit != rule.unit) continue;
      if (old.unit != Unit::concurrency && old.window != rule.window) continue;
      match = index;
      if (old.enforce == rule.enforce || rule.enforce == Enforcement::unknown) break;
    }
    if (match == meters_.size()) {
      next.push_back(make(rule, now));
      continue;
    }
    taken[match] = true;
    Metered& old = meters_[match];
    if (rule.enforce == old.meter.rule().enforce || rule.enforce == Enforcement::unknown) {
      old.meter.resize(rule, now);
      next.push_back(std::move(old));
    } else {
      Metered made = make(rule, now);
      made.meter.add(old.meter.used(now), now);
      next.push_back(std::move(made));
    }
  }
  meters_ = std::move(next);
  counters_.refused_by_rule.assign(meters_.size(), 0);
}

Reading ProviderRules::read(Meter& meter, Instant now) const {
  Reading reading;
  reading.rule = meter.rule();
  if (reading.rule.unit == Unit::concurrency) {
    reading.limit = reading.rule.amount;
    reading.remaining = std::max<std::int64_t>(0, reading.limit - counters_.inflight);
    return reading;
  }
  reading.limit = meter.capacity();
  reading.remaining = std::max<std::int64_t>(0, reading.limit - meter.used(now));
  reading.reset = meter.time_to_empty(now);
  return reading;
}

std::vector<Reading> ProviderRules::readings(Instant now) {
  std::vector<Reading> all;
  all.reserve(meters_.size());
  for (auto& [id, meter] : meters_) all.push_back(read(meter, now));
  return all;
}

std::optional<Reading> ProviderRules::reading(Unit unit, Instant now) {
  std::optional<Reading> tightest;
  double least = 2;
  for (auto& [id, meter] : meters_) {
    if (meter.rule().unit != unit) continue;
    const Reading one = read(meter, now);
    const double share =
        one.limit == 0 ? 0 : static_cast<double>(one.remaining) / static_cast<double>(one.limit);
    if (share >= least) continue;
    least = share;
    tightest = one;
  }
  return tightest;
}

}  // namespace weir::emulator::model
