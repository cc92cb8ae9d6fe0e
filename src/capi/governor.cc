// SPDX-License-Identifier: Apache-2.0
// The governor of the C interface: values in, the same operation of weir::governor::Governor,
// values out. Nothing is decided here.
#include <optional>
#include <variant>

#include "capi/handles.h"
#include "capi/structs.h"

namespace weir::capi {
namespace {

// 0 is no call, so slots count from 1 here.
weir_call to_c(CallId id) { return (std::uint64_t{id.generation} << 32U) | (id.slot + 1U); }
CallId from_c(weir_call call) {
  return {static_cast<std::uint32_t>(call) - 1U, static_cast<std::uint32_t>(call >> 32U)};
}

bool good_time(std::int64_t now_ns) { return now_ns >= 0 && now_ns < WEIR_NEVER; }
Instant at(std::int64_t now_ns) { return Instant(Duration(now_ns)); }

std::int32_t plain(weir_governor& on, std::int32_t status) {
  return on.fail(status, weir_status_text(status));
}
std::int32_t range(weir_governor& on, const char* member, const char* what) {
  return on.fail(WEIR_ERROR_RANGE, std::string(member) + " is out of range; it is " + what);
}
std::int32_t bad_time(weir_governor& on) {
  return range(on, "now_ns", "at least 0 and less than WEIR_NEVER");
}

std::optional<std::int64_t> told(std::int64_t value) {
  if (value == WEIR_UNKNOWN) return std::nullopt;
  return value;
}
std::optional<Duration> told_time(std::int64_t value) {
  if (value == WEIR_UNKNOWN) return std::nullopt;
  return Duration(value);
}

// The program's own nodes stand first, the models' behind them.
std::size_t own_nodes(const weir_governor& on) {
  const Policy& policy = on.governor.policy();
  return policy.nodes.size() - policy.profiles.size();
}

weir_decision blank() {
  weir_decision made{};
  made.deployment = WEIR_NONE;
  made.would_have = WEIR_UNKNOWN;
  made.wait_ns = WEIR_UNKNOWN;
  made.limit_node = made.limit_model = made.limit_class = made.limit_deployment = WEIR_NONE;
  return made;
}

void put_limit(const weir_governor& on, const LimitRef& limit, weir_decision& into) {
  if (limit.node.valid()) {
    const std::size_t own = own_nodes(on);
    if (limit.node.value() < own) {
      into.limit_node = limit.node.value();
    } else {
      into.limit_model = static_cast<std::uint32_t>(limit.node.value() - own);
    }
  }
  if (limit.traffic_class.valid()) into.limit_class = limit.traffic_class.value();
  if (limit.deployment.valid()) into.limit_deployment = limit.deployment.value();
  into.limit_unit = static_cast<std::int32_t>(limit.unit);
  into.limit_window_ns = limit.window.count();
}

weir_decision granted(const weir_governor& on, CallId id, const Grant& grant) {
  weir_decision made = blank();
  made.kind = WEIR_GRANTED;
  made.reason = static_cast<std::int32_t>(grant.decision);
  made.call = to_c(id);
  made.deployment = grant.deployment.value();
  made.attempt = grant.attempt;
  made.input_tokens = grant.reserved.input_tokens;
  made.output_tokens = grant.reserved.output_tokens;
  made.queued_ns = grant.queued.count();
  made.wait_ns = 0;
  if (grant.would_have) made.would_have = static_cast<std::int32_t>(*grant.would_have);
  put_limit(on, grant.limit, made);
  return made;
}

weir_decision queued(const weir_governor& on, CallId id, Duration expected) {
  const Grant waiting = on.governor.grant_of(id).value_or(Grant{});
  weir_decision made = granted(on, id, waiting);
  made.kind = WEIR_QUEUED;
  made.reason = WEIR_REASON_QUEUED;
  made.wait_ns = expected.count();
  return made;
}

weir_decision refused(const weir_governor& on, CallId id, const Refusal& refusal) {
  weir_decision made = blank();
  made.kind = WEIR_REFUSED;
  made.reason = static_cast<std::int32_t>(refusal.decision);
  if (id.valid()) made.call = to_c(id);
  made.attempt = refusal.attempts;
  made.input_tokens = refusal.estimate.input_tokens;
  made.output_tokens = refusal.estimate.output_tokens;
  made.queued_ns = refusal.queued.count();
  if (refusal.retry_after) made.wait_ns = refusal.retry_after->count();
  put_limit(on, refusal.limit, made);
  return made;
}

std::int32_t to_call(weir_governor& on, const weir_request& from, Call& made) {
  const Policy& policy = on.governor.policy();
  if (from.node >= own_nodes(on) || from.model >= policy.profiles.size() ||
      from.traffic_class >= policy.classes.size()) {
    return plain(on, WEIR_ERROR_NOT_FOUND);
  }
  if (!within(from.choices, 1, 1'000'000)) return range(on, "choices", "1 to 1000000");
  if (!within(from.input_bytes, 0, kMostTokens)) return range(on, "input_bytes", "0 to 10^12");
  if (!unknown_or_within(from.input_tokens, 0, kMostTokens)) {
    return range(on, "input_tokens", "0 to 10^12, or WEIR_UNKNOWN");
  }
  if (!unknown_or_within(from.max_output_tokens, 0, kMostTokens)) {
    return range(on, "max_output_tokens", "0 to 10^12, or WEIR_UNKNOWN");
  }
  if (from.max_wait_ns < WEIR_UNKNOWN) {
    return range(on, "max_wait_ns", "at least 0, or WEIR_UNKNOWN");
  }
  if (from.deadline_ns < 0) return range(on, "deadline_ns", "at least 0; WEIR_NEVER for none");
  made.leaf = NodeId(from.node);
  made.profile = ProfileId(from.model);
  made.traffic_class = ClassId(from.traffic_class);
  made.deadline = at(from.deadline_ns);
  made.max_wait = told_time(from.max_wait_ns);
  made.demand.input_bytes = from.input_bytes;
  made.demand.input_tokens = told(from.input_tokens);
  made.demand.max_output_tokens = told(from.max_output_tokens);
  made.demand.choices = from.choices;
  made.demand.produces_output = from.no_output == 0;
  made.demand.streaming = from.streaming != 0;
  made.cookie = from.cookie;
  return WEIR_OK;
}

bool good_reading(const weir_reading& from) {
  return from.limit >= WEIR_UNKNOWN && from.remaining >= WEIR_UNKNOWN &&
         from.reset_ns >= WEIR_UNKNOWN;
}
LimitReading to_reading(const weir_reading& from) {
  return {told(from.limit), told(from.remaining), told_time(from.reset_ns)};
}

SignalClass to_kind(std::int32_t kind) {
  switch (kind) {
    case WEIR_SIGNAL_OK: return SignalClass::ok;
    case WEIR_SIGNAL_RATE_LIMITED: return SignalClass::rate_limited;
    case WEIR_SIGNAL_QUOTA_EXHAUSTED: return SignalClass::quota_exhausted;
    case WEIR_SIGNAL_OVERLOADED: return SignalClass::overloaded;
    default: return SignalClass::server_error;
  }
}

Limiter to_limiter(std::int32_t unit) {
  switch (unit) {
    case WEIR_REQUESTS: return Limiter::rpm;
    case WEIR_INPUT_TOKENS: return Limiter::input_tpm;
    case WEIR_OUTPUT_TOKENS: return Limiter::output_tpm;
    case WEIR_TOTAL_TOKENS: return Limiter::total_tpm;
    case WEIR_CONCURRENCY: return Limiter::concurrency;
    default: return Limiter::unknown;
  }
}

std::int32_t to_signal(weir_governor& on, const weir_signal* theirs, Signal& made) {
  weir_signal from = default_signal();
  if (const std::int32_t bad = read(theirs, from); bad != WEIR_OK) return plain(on, bad);
  if (!within(from.kind, WEIR_SIGNAL_OK, WEIR_SIGNAL_OTHER)) {
    return range(on, "kind", "WEIR_SIGNAL_OK to WEIR_SIGNAL_OTHER");
  }
  if (!unknown_or_within(from.limited_unit, WEIR_REQUESTS, WEIR_CONCURRENCY)) {
    return range(on, "limited_unit", "a unit, or WEIR_UNKNOWN");
  }
  if (from.retry_after_ns < WEIR_UNKNOWN || from.round_trip_ns < WEIR_UNKNOWN) {
    return range(on, "a time of the signal", "at least 0, or WEIR_UNKNOWN");
  }
  for (const weir_reading* each :
       {&from.requests, &from.tokens, &from.input_tokens, &from.output_tokens}) {
    if (!good_reading(*each)) return range(on, "a reading", "at least 0, or WEIR_UNKNOWN");
  }
  made.kind = to_kind(from.kind);
  made.limiter = to_limiter(from.limited_unit);
  made.retry_after = told_time(from.retry_after_ns);
  made.round_trip = told_time(from.round_trip_ns);
  made.requests = to_reading(from.requests);
  made.tokens = to_reading(from.tokens);
  made.input_tokens = to_reading(from.input_tokens);
  made.output_tokens = to_reading(from.output_tokens);
  return WEIR_OK;
}

std::int32_t to_settlement(weir_governor& on, const weir_settlement* theirs, Settlement& made) {
  weir_settlement from = default_settlement();
  if (const std::int32_t bad = read(theirs, from); bad != WEIR_OK) return plain(on, bad);
  if (!within(from.ending, WEIR_COMPLETED, WEIR_NEVER_SENT)) {
    return range(on, "ending", "WEIR_COMPLETED to WEIR_NEVER_SENT");
  }
  for (const std::int64_t tokens :
       {from.input_tokens, from.output_tokens, from.cached_input_tokens}) {
    if (!unknown_or_within(tokens, 0, kMostTokens)) {
      return range(on, "a count of tokens", "0 to 10^12, or WEIR_UNKNOWN");
    }
  }
  if ((from.input_tokens == WEIR_UNKNOWN) != (from.output_tokens == WEIR_UNKNOWN)) {
    return range(on, "a report with one count only", "both counts or none; write 0 for none");
  }
  if (!within(from.output_events, 0, kMostTokens)) return range(on, "output_events", "0 to 10^12");
  made.ending = static_cast<Ending>(from.ending);
  made.response_started = from.response_started != 0;
  made.output_events = from.output_events;
  if (from.input_tokens != WEIR_UNKNOWN) {
    made.reported =
        Usage{from.input_tokens, from.output_tokens, told(from.cached_input_tokens), std::nullopt};
  }
  return WEIR_OK;
}

// OK for a call that was granted and has not ended.
std::int32_t check_granted(weir_governor& on, weir_call call) {
  const std::optional<Grant> grant = on.governor.grant_of(from_c(call));
  if (!grant) return plain(on, WEIR_ERROR_ENDED);
  // What waits has no deployment yet.
  return grant->deployment.valid() ? int32_t{WEIR_OK} : plain(on, WEIR_ERROR_NOT_GRANTED);
}

}  // namespace
}  // namespace weir::capi

using namespace weir;
using namespace weir::capi;
using weir::governor::Admitted;
using weir::governor::GaveUp;
using weir::governor::Queued;
using weir::governor::Refused;
using weir::governor::Requeued;
using weir::governor::Settled;

extern "C" {

int32_t weir_governor_create(weir_policy* policy, uint64_t seed, int64_t now_ns,
                             weir_governor** governor) {
  if (governor == nullptr) return WEIR_ERROR_NULL;
  *governor = nullptr;
  return guarded(policy, [&](weir_policy& from) {
    if (!good_time(now_ns)) return from.fail(WEIR_ERROR_RANGE, "now_ns is out of range");
    std::shared_ptr<const Policy> made;
    if (const int32_t bad = complete(from, made); bad != WEIR_OK) return bad;
    *governor = std::make_unique<weir_governor>(std::move(made), seed, at(now_ns)).release();
    return int32_t{WEIR_OK};
  });
}

void weir_governor_destroy(weir_governor* governor) { delete governor; }

const char* weir_governor_error(const weir_governor* governor) {
  return governor == nullptr ? "" : governor->text();
}

int32_t weir_governor_apply(weir_governor* governor, weir_policy* policy, int64_t now_ns) {
  if (policy == nullptr) return WEIR_ERROR_NULL;
  std::shared_ptr<const Policy> made;
  return guarded(governor, [&](weir_governor& on) {
    const int32_t bad = guarded(policy, [&](weir_policy& from) {
      if (!good_time(now_ns)) return from.fail(WEIR_ERROR_RANGE, "now_ns is out of range");
      return complete(from, made);
    });
    if (bad != WEIR_OK) return bad;
    on.governor.apply(std::move(made), at(now_ns));
    return int32_t{WEIR_OK};
  });
}

int32_t weir_submit(weir_governor* governor, const weir_request* request, int64_t now_ns,
                    weir_decision* decision) {
  return guarded(governor, [&](weir_governor& on) {
    if (const int32_t bad = writable(decision); bad != WEIR_OK) return plain(on, bad);
    if (!good_time(now_ns)) return bad_time(on);
    weir_request from = default_request();
    if (const int32_t bad = read(request, from); bad != WEIR_OK) return plain(on, bad);
    Call call;
    if (const int32_t bad = to_call(on, from, call); bad != WEIR_OK) return bad;
    const governor::Outcome outcome = on.governor.submit(call, at(now_ns));
    weir_decision made{};
    if (const auto* admitted = std::get_if<Admitted>(&outcome)) {
      made = granted(on, admitted->call, admitted->grant);
    } else if (const auto* waits = std::get_if<Queued>(&outcome)) {
      made = queued(on, waits->call, waits->expected_wait);
    } else if (const auto* no = std::get_if<Refused>(&outcome)) {
      made = refused(on, CallId{}, no->refusal);
    }
    made.cookie = from.cookie;
    write(made, decision);
    return int32_t{WEIR_OK};
  });
}

int32_t weir_advance(weir_governor* governor, int64_t now_ns, weir_decision* events,
                     size_t event_size, size_t capacity, size_t* count, int32_t* more) {
  return guarded(governor, [&](weir_governor& on) {
    if (events == nullptr || count == nullptr || more == nullptr) {
      return plain(on, WEIR_ERROR_NULL);
    }
    if (!size_known<weir_decision>(event_size)) return plain(on, WEIR_ERROR_SIZE);
    if (capacity < WEIR_EVENTS_AT_ONCE) {
      return range(on, "capacity", "at least WEIR_EVENTS_AT_ONCE");
    }
    if (!good_time(now_ns)) return bad_time(on);
    on.events.clear();
    *more = on.governor.advance(at(now_ns), on.events) ? 1 : 0;
    if (on.events.size() > capacity) {
      on.broken = WEIR_ERROR_INTERNAL;
      return on.broken;
    }
    auto* to = reinterpret_cast<unsigned char*>(events);
    for (const governor::Event& event : on.events) {
      const auto* grant = std::get_if<Grant>(&event.what);
      weir_decision made = grant != nullptr
                               ? granted(on, event.call, *grant)
                               : refused(on, event.call, std::get<Refusal>(event.what));
      made.cookie = event.cookie;
      write(made, static_cast<void*>(to), event_size);
      to += event_size;
    }
    *count = on.events.size();
    return int32_t{WEIR_OK};
  });
}

int32_t weir_next_deadline(weir_governor* governor, int64_t* at_ns) {
  return guarded(governor, [&](weir_governor& on) {
    if (at_ns == nullptr) return plain(on, WEIR_ERROR_NULL);
    *at_ns = on.governor.next_deadline().time_since_epoch().count();
    return int32_t{WEIR_OK};
  });
}

int32_t weir_sent(weir_governor* governor, weir_call call, int64_t now_ns) {
  return guarded(governor, [&](weir_governor& on) {
    if (!good_time(now_ns)) return bad_time(on);
    const int32_t bad = check_granted(on, call);
    // What left after its lease had run out reaches the provider all the same: the governor books
    // it, and the caller is told that the call has ended.
    on.governor.sent(from_c(call), at(now_ns));
    return bad;
  });
}

int32_t weir_progress(weir_governor* governor, weir_call call, int64_t output_events,
                      int64_t now_ns) {
  return guarded(governor, [&](weir_governor& on) {
    if (!good_time(now_ns)) return bad_time(on);
    if (!within(output_events, 0, kMostTokens)) return range(on, "output_events", "0 to 10^12");
    if (const int32_t bad = check_granted(on, call); bad != WEIR_OK) return bad;
    on.governor.progress(from_c(call), output_events, at(now_ns));
    return int32_t{WEIR_OK};
  });
}

int32_t weir_observe(weir_governor* governor, uint32_t deployment, const weir_signal* signal,
                     int64_t now_ns) {
  return guarded(governor, [&](weir_governor& on) {
    if (!good_time(now_ns)) return bad_time(on);
    if (deployment >= on.governor.policy().deployments.size()) {
      return plain(on, WEIR_ERROR_NOT_FOUND);
    }
    Signal made;
    if (const int32_t bad = to_signal(on, signal, made); bad != WEIR_OK) return bad;
    on.governor.signal(DeploymentId(deployment), made, at(now_ns));
    return int32_t{WEIR_OK};
  });
}

int32_t weir_rejected(weir_governor* governor, weir_call call, const weir_signal* signal,
                      int32_t replayable, int64_t now_ns, weir_decision* decision) {
  return guarded(governor, [&](weir_governor& on) {
    if (const int32_t bad = writable(decision); bad != WEIR_OK) return plain(on, bad);
    if (!good_time(now_ns)) return bad_time(on);
    Signal made;
    if (const int32_t bad = to_signal(on, signal, made); bad != WEIR_OK) return bad;
    if (const int32_t bad = check_granted(on, call); bad != WEIR_OK) return bad;
    const CallId id = from_c(call);
    const governor::Verdict verdict = on.governor.rejected(id, made, replayable != 0, at(now_ns));
    if (const auto* again = std::get_if<Requeued>(&verdict)) {
      write(queued(on, id, again->expected_wait), decision);
    } else {
      write(refused(on, id, std::get<GaveUp>(verdict).refusal), decision);
    }
    return int32_t{WEIR_OK};
  });
}

int32_t weir_settle(weir_governor* governor, weir_call call, const weir_settlement* settlement,
                    int64_t now_ns, weir_usage* charged) {
  return guarded(governor, [&](weir_governor& on) {
    if (charged != nullptr) {
      if (const int32_t bad = writable(charged); bad != WEIR_OK) return plain(on, bad);
    }
    if (!good_time(now_ns)) return bad_time(on);
    Settlement made;
    if (const int32_t bad = to_settlement(on, settlement, made); bad != WEIR_OK) return bad;
    const int32_t before = check_granted(on, call);
    if (before == WEIR_ERROR_NOT_GRANTED) return before;
    Usage usage;
    const Settled settled = on.governor.settle(from_c(call), made, at(now_ns), &usage);
    if (settled == Settled::already_settled) return plain(on, WEIR_ERROR_ENDED);
    on.error.clear();  // of a lease that had run out, which is no error here
    if (charged != nullptr) {
      weir_usage out{};
      out.input_tokens = usage.input_tokens;
      out.output_tokens = usage.output_tokens;
      write(out, charged);
    }
    return int32_t{settled == Settled::booked_late ? WEIR_BOOKED_LATE : WEIR_OK};
  });
}

int32_t weir_cancel(weir_governor* governor, weir_call call, int64_t now_ns) {
  return guarded(governor, [&](weir_governor& on) {
    if (!good_time(now_ns)) return bad_time(on);
    on.governor.cancel(from_c(call), at(now_ns));
    return int32_t{WEIR_OK};
  });
}

int32_t weir_snapshot(weir_governor* governor, int64_t now_ns, weir_totals* totals) {
  return guarded(governor, [&](weir_governor& on) {
    if (const int32_t bad = writable(totals); bad != WEIR_OK) return plain(on, bad);
    if (!good_time(now_ns)) return bad_time(on);
    on.governor.snapshot(on.snapshot, at(now_ns));
    weir_totals made{};
    made.queued = on.snapshot.queued;
    made.inflight = on.snapshot.inflight;
    write(made, totals);
    return int32_t{WEIR_OK};
  });
}

int32_t weir_snapshot_deployment(weir_governor* governor, uint32_t deployment,
                                 weir_deployment_view* view) {
  return guarded(governor, [&](weir_governor& on) {
    if (const int32_t bad = writable(view); bad != WEIR_OK) return plain(on, bad);
    if (deployment >= on.snapshot.deployments.size()) return plain(on, WEIR_ERROR_NOT_FOUND);
    const governor::DeploymentView& from = on.snapshot.deployments[deployment];
    weir_deployment_view made{};
    made.inflight = from.inflight;
    made.attempts = from.attempts;
    made.rejections = from.rejections;
    made.guard_ns = from.guard.count();
    made.bytes_per_token = from.bytes_per_token;
    made.mean_output_tokens = from.mean_output_tokens;
    made.meters = static_cast<int64_t>(from.meters.size());
    write(made, view);
    return int32_t{WEIR_OK};
  });
}

int32_t weir_snapshot_meter(weir_governor* governor, uint32_t deployment, uint32_t rule,
                            weir_meter_view* view) {
  return guarded(governor, [&](weir_governor& on) {
    if (const int32_t bad = writable(view); bad != WEIR_OK) return plain(on, bad);
    if (deployment >= on.snapshot.deployments.size() ||
        rule >= on.snapshot.deployments[deployment].meters.size()) {
      return plain(on, WEIR_ERROR_NOT_FOUND);
    }
    const governor::MeterView& from = on.snapshot.deployments[deployment].meters[rule];
    weir_meter_view made{};
    made.used = from.used;
    made.reserved = from.reserved;
    made.remaining = from.remaining;
    made.refill_ns = from.refill.count();
    write(made, view);
    return int32_t{WEIR_OK};
  });
}

}  // extern "C"
