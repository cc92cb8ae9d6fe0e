// SPDX-License-Identifier: Apache-2.0
#include "sim/world.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "sim/charges.h"
#include "sim/oracle.h"
#include "weir/units.h"

namespace weir::sim {
namespace {

namespace model = emulator::model;

// The lines of the event queue.
constexpr std::size_t kReports = 0;  // of streams, to the governor
constexpr std::size_t kLooks = 1;    // of the provider, at what streams have produced

constexpr Duration kSampleEvery = std::chrono::seconds(10);
/// How long after the horizon the last call may take to end before the run counts as stuck.
constexpr Duration kDrain = std::chrono::hours(4);
/// How late after its time in the queue is over a call may be answered.
constexpr Duration kLate = std::chrono::milliseconds(5);

bool whole_days(Duration window) {
  constexpr Duration kDay = std::chrono::hours(24);
  return window >= kDay && window.count() % kDay.count() == 0;
}

model::OtherSettings within(model::OtherSettings settings, Duration horizon) {
  settings.until = std::min(settings.until, horizon);
  return settings;
}

model::ProviderSettings seeded(model::ProviderSettings settings, std::uint64_t seed) {
  settings.seed = seed ^ 0x9e0d5ULL;
  // One phase for all fixed windows, and the same one for the checkers.
  if (!settings.phase) {
    Duration longest{1};
    for (const Rule& rule : settings.rules) {
      if (!whole_days(rule.window)) longest = std::max(longest, rule.window);
    }
    Rng rng(settings.seed);
    settings.phase =
        Duration(static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(longest.count()))));
  }
  return settings;
}

Limiter limiter_of(const Rule& rule) {
  const bool second = rule.window <= std::chrono::seconds(1);
  const bool day = rule.window >= std::chrono::hours(24);
  switch (rule.unit) {
    case Unit::requests: return second ? Limiter::rps : day ? Limiter::rpd : Limiter::rpm;
    case Unit::input_tokens: return Limiter::input_tpm;
    case Unit::output_tokens: return Limiter::output_tpm;
    case Unit::total_tokens: return second ? Limiter::tps : day ? Limiter::tpd : Limiter::total_tpm;
    case Unit::concurrency: return Limiter::concurrency;
  }
  return Limiter::unknown;
}

}  // namespace

World::World(const Scenario& scenario, std::uint64_t seed, const MakePort& make_port)
    : scenario_(scenario),
      make_port_(make_port),
      seed_(seed),
      network_(seed ^ 0x4e7ULL),
      net_(scenario.network),
      refusals_(seed ^ 0x429ULL),
      handshakes_(seed ^ 0x715ULL),
      arrivals_(make_arrivals(scenario, seed)),
      calls_(arrivals_.size()),
      provider_(seeded(scenario.provider, seed), Instant{}),
      other_(within(scenario.other, scenario.horizon), scenario.latency, seed ^ 0x07e4ULL,
             Instant{}),
      queue_(scenario.wait),
      headers_(scenario.header_quirks, seed ^ 0x4eadULL),
      latency_(scenario.latency, seed ^ 0x1a7ULL),
      faults_(scenario.faults, seed ^ 0xfa17ULL),
      fifo_(tenants_of(scenario)) {
  auto policy = std::make_shared<const Policy>(make_policy(scenario, scenario.told.start_level));
  port_ = make_port_(std::move(policy), seed, Instant{});
  const Duration phase = *seeded(scenario.provider, seed).phase;
  for (const model::Reading& reading : provider_.readings(Instant{})) {
    Rule rule = reading.rule;
    rule.window = std::max(rule.window, Duration{1});
    const Duration begins = whole_days(rule.window) ? scenario.provider.day_phase : phase;
    admitted_.emplace_back(rule, begins);
    offered_.emplace_back(rule, begins);
    charged_.push_back(0);
    meters_streams_ = meters_streams_ || rule.count == Counting::realtime;
  }
  report_.style = scenario.style;
  report_.load = scenario.load;
  report_.seed = seed;
  report_.books.arrivals = static_cast<std::int64_t>(arrivals_.size());
  unfinished_ = report_.books.arrivals;
  late_ = kLate;
  for (const ClockStep& step : scenario.clock_steps) late_ += std::max(-step.by, Duration{0});
  report_.digest = 0xcbf29ce484222325ULL;
}

void World::mix(std::string_view what, std::uint32_t call, Instant now) {
  const auto fold = [this](std::uint64_t value) {
    for (unsigned shift = 0; shift < 64; shift += 8) {
      report_.digest = (report_.digest ^ ((value >> shift) & 0xffU)) * 0x100000001b3ULL;
    }
  };
  for (const char letter : what) fold(static_cast<unsigned char>(letter));
  fold(call);
  fold(static_cast<std::uint64_t>(now.time_since_epoch().count()));
}

void World::schedule(Instant at, Kind kind, std::uint32_t call, std::uint32_t attempt) {
  events_.push({at, next_number_++, call, attempt, kind});
}

void World::schedule_next(Duration after, std::size_t line, const Event& event) {
  Event next = event;
  next.at += after;
  next.number = next_number_++;
  events_.push(next, line);
}

void World::end_call(CallState& call) {
  call.state = State::done;
  --unfinished_;
}

Duration World::way() {
  const double spread = static_cast<double>(net_.jitter.count());
  return net_.delay + Duration(static_cast<std::int64_t>(network_.uniform() * spread));
}

Report World::play() {
  if (!arrivals_.empty()) schedule(arrivals_.front().at, Kind::arrive, 0);
  if (scenario_.restart) {
    const Restart& restart = *scenario_.restart;
    const Instant written(std::max(Duration{0}, restart.at - restart.write_every / 2));
    if (restart.memory) schedule(written, Kind::remember, 0);
    schedule(Instant(restart.at), Kind::restart, 0);
  }
  schedule(Instant(kSampleEvery), Kind::sample, 0);
  for (std::size_t step = 0; step < scenario_.steps.size(); ++step) {
    schedule(Instant(scenario_.steps[step].at), Kind::step, static_cast<std::uint32_t>(step));
  }
  for (std::size_t step = 0; step < scenario_.network_steps.size(); ++step) {
    const Instant at(scenario_.network_steps[step].at);
    schedule(at, Kind::network, static_cast<std::uint32_t>(step));
  }
  for (std::size_t step = 0; step < scenario_.latency_steps.size(); ++step) {
    const Instant at(scenario_.latency_steps[step].at);
    schedule(at, Kind::latency, static_cast<std::uint32_t>(step));
  }
  if (other_.next() != kNever) schedule(other_.next(), Kind::other, 0);
  const Instant limit = Instant(scenario_.horizon + kDrain);
  Instant now{};
  Instant due = port_->next_deadline();
  while (!stuck_ && (!events_.empty() || open_.waiting > 0)) {
    const Instant next = events_.next();
    if (std::min(due, next) > limit) {
      report_.violations.add(
          "stuck", now,
          fmt::format("{} calls wait and {} are granted, and nothing is due any more",
                      open_.waiting, open_.granted));
      break;
    }
    if (due <= next) {
      now = std::max(now, due);
      due = drive(now);
      continue;
    }
    now = next;
    idle_ = 0;
    handle(events_.pop());
    due = drive(now);
  }
  check(now);
  finish_report(now);
  return std::move(report_);
}

Instant World::drive(Instant now) {
  // A governor that asks to be called and then does nothing would spin a real gateway's pacer.
  constexpr int kMostIdle = 2000;
  while (true) {
    const Instant next = port_->next_deadline();
    if (stuck_ || next > now) return next;
    due_.clear();
    port_->advance(now, due_);
    ++report_.events;
    idle_ = due_.empty() ? idle_ + 1 : 0;
    if (idle_ > kMostIdle) {
      report_.violations.add(
          "stuck", now, fmt::format("advance was due {} times in a row and did nothing", idle_));
      stuck_ = true;
    }
    for (std::size_t index = 0; index < due_.size(); ++index) {
      const governor::Event event = due_[index];
      on_event(event, now);
    }
  }
}

void World::handle(const Event& event) {
  ++report_.events;
  const std::uint32_t call = event.call;
  const bool of_a_call = event.kind < Kind::restart;
  if (of_a_call && event.attempt != calls_[call].attempt) return;
  switch (event.kind) {
    case Kind::arrive: arrive(call, event.at); break;
    case Kind::gone: leave(call, event.at); break;
    case Kind::depart: depart(call, event.at); break;
    case Kind::reach: reach(call, event.at); break;
    case Kind::produce: produce(event); break;
    case Kind::finish:
    case Kind::fail:
    case Kind::cut: close_at_provider(call, event.kind, event.at); break;
    case Kind::progress: progress(event); break;
    case Kind::refused: refused(call, event.at); break;
    case Kind::end:
    case Kind::end_failed:
    case Kind::end_broken: end(call, event.kind, event.at); break;
    case Kind::restart: restart(event.at); break;
    case Kind::remember: remember(event.at); break;
    case Kind::sample:
      check(event.at);
      if (!events_.empty()) schedule(event.at + kSampleEvery, Kind::sample, 0);
      break;
    case Kind::step: step_limits(call, event.at); break;
    case Kind::latency: latency_.change(scenario_.latency_steps[call].latency); break;
    case Kind::network: net_ = scenario_.network_steps[call].network; break;
    case Kind::other: let_others_come(event.at); break;
    case Kind::queue:
      if (event.at == queue_look_) advance_queue(event.at);
      break;
  }
}

// ---- client side

void World::arrive(std::uint32_t index, Instant now) {
  const Arrival& arrival = arrivals_[index];
  if (index + 1 < arrivals_.size()) schedule(arrivals_[index + 1].at, Kind::arrive, index + 1);
  Call call;
  call.leaf = NodeId(1 + arrival.tenant);
  call.profile = ProfileId(0);
  call.traffic_class = ClassId(0);
  call.demand.input_bytes = arrival.input_bytes;
  call.demand.max_output_tokens = arrival.max_output_tokens;
  call.demand.streaming = arrival.streaming;
  call.cookie = index;
  CallState& state = calls_[index];
  state.attempt = 1;
  const governor::Outcome outcome = port_->submit(call, now);
  if (const auto* refused = std::get_if<governor::Refused>(&outcome)) {
    refuse(index, refused->refusal, now);
    return;
  }
  if (arrival.gone_after) schedule(saturating_add(now, *arrival.gone_after), Kind::gone, index, 1);
  ++open_.waiting;
  state.state = State::waiting;
  if (const auto* admitted = std::get_if<governor::Admitted>(&outcome)) {
    state.id = admitted->call;
    grant(index, now);
  } else {
    state.id = std::get<governor::Queued>(outcome).call;
  }
}

void World::leave(std::uint32_t index, Instant now) {
  CallState& call = calls_[index];
  switch (call.state) {
    case State::coming:
    case State::done: return;
    case State::waiting:
      port_->cancel(call.id, now);
      --open_.waiting;
      break;
    case State::granted:
      port_->cancel(call.id, now);
      --open_.granted;
      break;
    case State::sent: {
      Settlement settlement;
      settlement.ending = Ending::client_gone;
      settlement.output_events = call.heard;
      settlement.response_started = call.heard > 0;
      port_->settle(call.id, settlement, now);
      --open_.granted;
      // The reset cannot overtake the request it cancels.
      schedule(std::max(now + way(), call.reached + Duration(1)), Kind::cut, index, call.attempt);
      break;
    }
  }
  mix("gone", index, now);
  end_call(call);
  ++report_.books.gone;
}

// ---- gateway

void World::on_event(const governor::Event& event, Instant now) {
  const auto index = static_cast<std::uint32_t>(event.cookie);
  if (event.cookie >= calls_.size() || calls_[index].state != State::waiting ||
      calls_[index].id != event.call) {
    report_.violations.add("protocol", now,
                           fmt::format("an event for call {}, which does not wait", event.cookie));
    return;
  }
  if (const auto* refusal = std::get_if<Refusal>(&event.what)) {
    --open_.waiting;
    refuse(index, *refusal, now);
    return;
  }
  grant(index, now);
}

void World::grant(std::uint32_t index, Instant now) {
  CallState& call = calls_[index];
  mix("grant", index, now);
  if (call.attempt == 1) {
    fifo_.granted(arrivals_[index].tenant, index, now, report_.violations);
  }
  if (call.attempt == 1 && now - arrivals_[index].at > scenario_.told.max_wait + late_) {
    report_.violations.add("late", now, fmt::format("call {} was granted after its time", index));
  }
  --open_.waiting;
  ++open_.granted;
  call.state = State::granted;
  call.granted = now;
  if (call.attempt == 1) call.first_granted = now;
  const double draw = handshakes_.uniform();
  const double length = handshakes_.uniform();
  if (draw >= net_.handshake_share) {
    depart(index, now);
    return;
  }
  const auto longest = static_cast<double>(net_.handshake.count());
  schedule(now + Duration(static_cast<std::int64_t>(length * longest)), Kind::depart, index,
           call.attempt);
}

void World::refuse(std::uint32_t index, const Refusal& refusal, Instant now) {
  mix(name(refusal.decision), index, now);
  end_call(calls_[index]);
  const Duration waited = now - arrivals_[index].at;
  if (calls_[index].attempt == 1 && waited > scenario_.told.max_wait + late_) {
    report_.violations.add("late", now, fmt::format("call {} was refused after its time", index));
  }
  if (refusal.decision == Decision::queue_timeout) {
    ++report_.books.timed_out;
  } else {
    ++report_.books.refused;
  }
}

void World::depart(std::uint32_t index, Instant now) {
  CallState& call = calls_[index];
  if (call.state != State::granted) return;
  call.state = State::sent;
  call.left = now;
  port_->sent(call.id, call.granted, now);
  ++report_.books.sent;
  call.reached = now + way();
  ++travelling_;
  call.heard = 0;
  schedule(call.reached, Kind::reach, index, call.attempt);
  if (call.attempt == 1) waits_.push_back(now - arrivals_[index].at);
}

void World::progress(const Event& event) {
  const std::uint32_t index = event.call;
  const Instant now = event.at;
  CallState& call = calls_[index];
  if (call.state != State::sent) return;
  const std::int64_t produced = produced_by(call, index, now - call.way_back);
  if (call.heard == 0 && scenario_.headers) tell_headers(index, now);
  if (call.heard == 0 && produced > 0) first_tokens_.push_back(now - call.left);
  call.heard = produced;
  port_->progress(call.id, produced, now);
  const Instant next = now + scenario_.progress_every;
  const Instant last = call.reached + call.timing.until(arrivals_[index].output_tokens);
  if (next < last + call.way_back) schedule_next(scenario_.progress_every, kReports, event);
}

Signal World::refusal_signal(const CallState& call) const {
  Signal signal;
  signal.kind = SignalClass::rate_limited;
  signal.status = 429;
  if (scenario_.retry_hints) signal.retry_after = call.retry_after;
  if (call.refused_by && scenario_.names_limits)
    signal.limiter = limiter_of(admitted_[*call.refused_by].rule());
  if (call.refused_for_growth) signal.limiter = Limiter::burst;
  if (call.overloaded) {
    signal = {};
    signal.kind = SignalClass::overloaded;
    signal.status = 503;
  }
  return signal;
}

void World::refused(std::uint32_t index, Instant now) {
  CallState& call = calls_[index];
  if (call.state != State::sent) return;
  const Signal signal = refusal_signal(call);
  report_.longest_pause = std::max(report_.longest_pause, signal.retry_after.value_or(Duration{0}));
  const governor::Verdict verdict = port_->rejected(call.id, signal, true, now);
  --open_.granted;
  if (std::holds_alternative<governor::Requeued>(verdict)) {
    mix("requeued", index, now);
    call.state = State::waiting;
    ++call.attempt;
    ++open_.waiting;
    if (arrivals_[index].gone_after) {
      schedule(std::max(now, saturating_add(arrivals_[index].at, *arrivals_[index].gone_after)),
               Kind::gone, index, call.attempt);
    }
    return;
  }
  mix("gave up", index, now);
  end_call(call);
  ++report_.books.gave_up;
}

void World::end(std::uint32_t index, Kind kind, Instant now) {
  CallState& call = calls_[index];
  if (call.state != State::sent) return;
  if (call.heard == 0 && scenario_.headers) tell_headers(index, now);
  Settlement settlement;
  settlement.output_events = call.heard;
  settlement.response_started = true;
  if (kind == Kind::end_failed) {
    settlement.ending = Ending::failed;
    settlement.output_events = 0;
    settlement.response_started = false;
    ++report_.books.failed;
  } else if (kind == Kind::end_broken) {
    settlement.ending = Ending::truncated;
    ++report_.books.failed;
  } else {
    settlement.ending = Ending::completed;
    settlement.output_events = arrivals_[index].streaming ? arrivals_[index].output_tokens : 0;
    if (call.fault.kind != model::FaultKind::malformed) {
      settlement.reported = Usage{};
      settlement.reported->input_tokens = arrivals_[index].input_tokens;
      settlement.reported->output_tokens = arrivals_[index].output_tokens;
    }
    ++report_.books.served;
    if (now < Instant(scenario_.horizon)) ++report_.answered_in_horizon;
  }
  if (port_->settle(call.id, settlement, now) == governor::Settled::already_settled) {
    report_.violations.add("protocol", now, fmt::format("call {} was settled already", index));
  }
  mix("end", index, now);
  --open_.granted;
  end_call(call);
}

void World::tell_headers(std::uint32_t index, Instant now) {
  const auto found = written_.find(index);
  if (found == written_.end()) return;
  Signal signal = found->second;
  written_.erase(found);
  signal.call = calls_[index].id;
  port_->signal(DeploymentId(0), signal, now);
}

void World::restart(Instant now) {
  check(now);
  for (std::uint32_t index = 0; index < calls_.size(); ++index) {
    CallState& call = calls_[index];
    if (call.state == State::coming || call.state == State::done) continue;
    if (call.state == State::sent) {
      schedule(std::max(now + way(), call.reached + Duration(1)), Kind::cut, index, call.attempt);
    }
    end_call(call);
    ++report_.books.lost;
  }
  open_ = {};
  fifo_ = FifoChecker(tenants_of(scenario_));
  port_.reset();
  port_ = make_port_(
      std::make_shared<const Policy>(make_policy(scenario_, scenario_.restart->start_level)),
      seed_ + 1, now);
  if (!scenario_.restart->memory) return;
  const Duration age = now - written_at_;
  port_->recall(written_memory_, {age, age, false, 2 * scenario_.restart->write_every}, now);
}

void World::remember(Instant now) {
  written_at_ = now;
  written_memory_ = port_->remember(now);
}

// ---- provider

std::int64_t World::produced_by(const CallState& call, std::uint32_t index, Instant now) const {
  const Duration since = now - call.reached;
  if (since < call.timing.first_token) return 0;
  const std::int64_t per_token = std::max<std::int64_t>(call.timing.per_token.count(), 1);
  const std::int64_t tokens = 1 + (since - call.timing.first_token).count() / per_token;
  return std::min(tokens, arrivals_[index].output_tokens);
}

void World::reach(std::uint32_t index, Instant now) {
  CallState& call = calls_[index];
  const Arrival& arrival = arrivals_[index];
  --travelling_;
  call.overloaded = latency_.full(provider_.counters().inflight);
  if (call.overloaded) ++report_.overloaded;
  call.refused_astray = call.overloaded || refused_on_the_way();
  if (call.refused_astray) {
    answer_at_door(index, {}, now);
    return;
  }
  const model::WaitQueue::Answer answer = queue_.submit(
      provider_, {arrival.input_tokens, arrival.max_output_tokens}, scenario_.wait.longest, now);
  if (answer.ticket == 0) {
    answer_at_door(index, answer.admission, now);
    return;
  }
  call.ticket = answer.ticket;
  queued_.emplace(answer.ticket, index);
  schedule_queue(now);
}

void World::answer_at_door(std::uint32_t index, const model::Admission& admission, Instant now) {
  CallState& call = calls_[index];
  if (scenario_.restart && now >= Instant(scenario_.restart->at)) {
    Duration longest{0};
    for (const WindowChecker& window : admitted_) {
      longest = std::max(longest, window.rule().window);
    }
    if (call.left < Instant(scenario_.restart->at)) {
      report_.rejected_in_transit += admission.admitted ? 0 : 1;
    } else if (now < Instant(scenario_.restart->at + 2 * longest)) {
      ++report_.attempts_after_restart;
      report_.rejected_after_restart += admission.admitted ? 0 : 1;
    }
  }
  if (!call.refused_astray) meter_door(index, now, admission.admitted);
  if (!admission.admitted) {
    ++report_.books.rejected;
    call.retry_after = admission.retry_after;
    call.refused_by = admission.rule;
    call.refused_for_growth = admission.growth.has_value();
    if (report_.first_429s.size() < 10) {
      const std::string_view unit = admission.rule ? name(admitted_[*admission.rule].rule().unit)
                                    : admission.growth ? std::string_view("growth")
                                                       : std::string_view("attempts");
      report_.first_429s.push_back(
          fmt::format("429 at {:.3f} s by {}", to_seconds(now.time_since_epoch()), unit));
    }
    schedule(now + way() + refusal_way(), Kind::refused, index, call.attempt);
    return;
  }
  ++report_.books.admitted;
  if (now < Instant(scenario_.horizon)) ++report_.admitted_in_horizon;
  call.provider = admission.attempt;
  call.admitted = now;
  call.metered = 0;
  if (scenario_.headers) {
    const std::optional<Signal> signal = headers_.tell(provider_, now);
    if (signal) written_.insert_or_assign(index, *signal);
  }
  plan_answer(index, now);
}

void World::plan_answer(std::uint32_t index, Instant now) {
  CallState& call = calls_[index];
  const Arrival& arrival = arrivals_[index];
  call.timing = latency_.plan(arrival.input_tokens, provider_.counters().inflight);
  call.fault = faults_.draw();
  call.way_back = way();
  const auto slower = [&](Duration by) {
    return Duration(static_cast<std::int64_t>(static_cast<double>(by.count()) * call.fault.factor));
  };
  call.timing.first_token = slower(call.timing.first_token);
  call.timing.per_token = slower(call.timing.per_token);
  switch (call.fault.kind) {
    case model::FaultKind::server_error:
    case model::FaultKind::reset_before:
      schedule(now + call.timing.first_token, Kind::fail, index, call.attempt);
      return;
    case model::FaultKind::reset_inside: {
      const double share = call.fault.where * static_cast<double>(arrival.output_tokens);
      const Duration until = call.timing.until(1 + static_cast<std::int64_t>(share));
      schedule(now + until, Kind::fail, index, call.attempt);
      break;
    }
    case model::FaultKind::none:
    case model::FaultKind::slow:
    case model::FaultKind::malformed:
      schedule(now + call.timing.until(arrival.output_tokens), Kind::finish, index, call.attempt);
      break;
  }
  const Instant first = now + call.timing.first_token;
  if (arrival.streaming) schedule(first + call.way_back, Kind::progress, index, call.attempt);
  if (meters_streams_) schedule(first, Kind::produce, index, call.attempt);
}

void World::produce(const Event& event) {
  const std::uint32_t index = event.call;
  const Instant now = event.at;
  CallState& call = calls_[index];
  if (call.provider == 0) return;
  const std::int64_t produced = produced_by(call, index, now);
  provider_.produced(call.provider, produced, now);
  meter_stream(index, produced, now);
  schedule_next(std::chrono::milliseconds(200), kLooks, event);
}

void World::close_at_provider(std::uint32_t index, Kind kind, Instant now) {
  CallState& call = calls_[index];
  if (call.ticket != 0) {
    queue_.cancel(call.ticket);
    queued_.erase(call.ticket);
    call.ticket = 0;
    ++left_queue_;
    schedule_queue(now);
  }
  if (call.provider == 0) return;
  const Arrival& arrival = arrivals_[index];
  const std::int64_t so_far = produced_by(call, index, now);
  const Instant heard = now + call.way_back;
  // A connection that breaks after the request arrived, before the answer or inside it: what was
  // read and produced is charged, and the gateway cannot know how much that is.
  const bool broken = call.fault.kind == model::FaultKind::reset_inside ||
                      call.fault.kind == model::FaultKind::reset_before;
  if (kind == Kind::finish) {
    provider_.finish(call.provider, arrival.input_tokens, arrival.output_tokens, now);
    meter_end(index, arrival.input_tokens, arrival.output_tokens, now);
    schedule(heard, Kind::end, index, call.attempt);
  } else if (kind == Kind::cut || broken) {
    provider_.abort(call.provider, so_far, now);
    meter_end(index, arrival.input_tokens, so_far, now);
    if (broken) schedule(heard, Kind::end_broken, index, call.attempt);
  } else {
    provider_.fail(call.provider, now);
    meter_end(index, 0, 0, now);
    schedule(heard, Kind::end_failed, index, call.attempt);
  }
  call.provider = 0;
  if (queue_.size() > 0) advance_queue(now);
}

// ---- checking

void World::meter_door(std::uint32_t index, Instant now, bool admitted) {
  for (std::size_t rule = 0; rule < admitted_.size(); ++rule) {
    const Rule& of = admitted_[rule].rule();
    const std::int64_t amount =
        door_charge(of, arrivals_[index], scenario_.provider.default_max_output);
    if (admitted && amount > 0) {
      admitted_[rule].charge(amount, now);
      note_charge(rule, amount, now);
    }
    if (of.unit == Unit::requests) offered_[rule].charge(amount, now);
  }
}

void World::meter_stream(std::uint32_t index, std::int64_t output, Instant now) {
  CallState& call = calls_[index];
  const std::int64_t more = output - call.metered;
  if (more <= 0) return;
  call.metered = output;
  for (std::size_t rule = 0; rule < admitted_.size(); ++rule) {
    const Rule& of = admitted_[rule].rule();
    if (of.count != Counting::realtime) continue;
    if (of.unit != Unit::output_tokens && of.unit != Unit::total_tokens) continue;
    admitted_[rule].charge(more, now);
    note_charge(rule, more, now);
  }
}

void World::meter_end(std::uint32_t index, std::int64_t input, std::int64_t output, Instant now) {
  for (std::size_t rule = 0; rule < admitted_.size(); ++rule) {
    WindowChecker& window = admitted_[rule];
    std::int64_t amount = end_charge(window.rule(), arrivals_[index],
                                     scenario_.provider.default_max_output, input, output);
    if (window.rule().count == Counting::realtime && amount > 0) {
      amount = std::max<std::int64_t>(0, amount - calls_[index].metered);
    }
    if (amount > 0) window.charge(amount, now);
    if (amount < 0 && window.rule().count == Counting::reserve_refund) {
      window.give_back(-amount, calls_[index].reached, now);
    }
    if (amount > 0 || window.rule().count == Counting::reserve_refund) {
      note_charge(rule, amount, now);
    }
  }
}

void World::note_charge(std::size_t rule, std::int64_t amount, Instant now) {
  if (now < Instant(scenario_.measure_from) || now >= Instant(scenario_.horizon)) return;
  charged_[rule] += amount;
}

void World::check_mirrors(const governor::DeploymentView& view, Instant now) {
  Duration trip = scenario_.network.delay + scenario_.network.jitter;
  for (const NetworkStep& step : scenario_.network_steps) {
    trip = std::max(trip, step.network.delay + step.network.jitter);
  }
  for (const WindowChecker& window : admitted_) {
    const Rule& rule = window.rule();
    if (rule.unit == Unit::concurrency || refills(rule.enforce)) continue;
    // Output that is charged while it is produced is known to the gateway only later.
    if (rule.unit != Unit::requests && rule.count == Counting::realtime) continue;
    const auto meter =
        std::find_if(view.meters.begin(), view.meters.end(), [&](const governor::MeterView& one) {
          return one.rule.unit == rule.unit && one.rule.window == rule.window &&
                 one.rule.amount == rule.amount && one.rule.count == rule.count;
        });
    if (meter == view.meters.end()) continue;
    const std::int64_t sure = window.charged_between(now - rule.window + 2 * trip, now - trip, now);
    // Tokens are estimated until a response says what they were; requests are counted.
    const std::int64_t tolerance = rule.unit == Unit::requests ? 0 : rule.amount / 50;
    check_mirror(*meter, sure, tolerance, now, report_.violations);
  }
}

void World::check(Instant now) {
  snapshot_ = {};
  port_->snapshot(snapshot_, now);
  check_open(open_, snapshot_, now, report_.violations);
  Books books = report_.books;
  books.open = unfinished_;
  books.sent -= travelling_ + left_queue_ + static_cast<std::int64_t>(queued_.size());
  check_books(books, now, report_.violations);
  const bool told_the_rules =
      scenario_.told.mode == Mode::enforce && scenario_.told.strategy != Strategy::passthrough;
  // When an attempt left the provider's queue, and so began to count, is not told to anybody.
  // A clock that jumps ahead forgets what the provider still counts, and cannot know better.
  const bool stamps_bound = scenario_.wait.longest <= Duration{0} && scenario_.clock_steps.empty();
  if (told_the_rules && stamps_bound && !snapshot_.deployments.empty()) {
    check_mirrors(snapshot_.deployments.front(), now);
  }
}

std::vector<Turn> World::turns() const {
  std::vector<Turn> turns;
  turns.reserve(calls_.size());
  for (const CallState& call : calls_)
    turns.push_back({call.first_granted, call.attempt, call.admitted});
  return turns;
}

void World::finish_report(Instant now) {
  const std::vector<Rule> means = mean_rules(scenario_.provider.rules, scenario_.steps,
                                             scenario_.measure_from, scenario_.horizon);
  for (std::size_t rule = 0; rule < admitted_.size(); ++rule) {
    report_.worst_window = std::max(report_.worst_window, admitted_[rule].worst());
    report_.worst_offered = std::max(report_.worst_offered, offered_[rule].worst());
    report_.use =
        std::max(report_.use, share_of_limit(means[rule], static_cast<double>(charged_[rule]),
                                             scenario_.horizon - scenario_.measure_from));
  }
  if (provider_.counters().inflight != 0) {
    report_.violations.add(
        "slots", now,
        fmt::format("{} attempts are still open at the provider", provider_.counters().inflight));
  }
  report_.waits = sum_up(waits_);
  report_.p95_first_token = percentile(first_tokens_, 0.95);
  if (snapshot_.deployments.empty()) return;
  report_.holds = snapshot_.deployments.front().congestion_holds;
  report_.congestion_refuted = snapshot_.deployments.front().congestion_refuted;
  for (const governor::MeterView& meter : snapshot_.deployments.front().meters) {
    if (meter.guessed) report_.learned.push_back(meter.rule);
  }
}

}  // namespace weir::sim
