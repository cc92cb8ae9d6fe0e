// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "weir/decision.h"
#include "weir/demand.h"
#include "weir/ids.h"
#include "weir/memory.h"
#include "weir/policy.h"
#include "weir/rng.h"
#include "weir/signal.h"
#include "weir/time.h"
#include "weir/usage.h"

namespace weir::governor {

/// The call may be sent now. Nothing is charged to the provider's mirror until `sent`.
struct Admitted {
  CallId call;
  Grant grant;
};

/// The call waits; an Event of `advance` will answer it.
struct Queued {
  CallId call;
  Duration expected_wait{0};
};

/// The call will not be sent. There is no CallId: nothing is held.
struct Refused {
  Refusal refusal;
};

using Outcome = std::variant<Admitted, Queued, Refused>;

/// An answer to a call that had been queued. After a Refusal the CallId is dead.
struct Event {
  CallId call;
  std::uint64_t cookie = 0;
  std::variant<Grant, Refusal> what;
};

/// What to do after a provider refused an attempt.
struct Requeued {
  Duration expected_wait{0};
};
/// Final: the call is settled and its CallId dead; the refusal carries the advice for the caller.
struct GaveUp {
  Refusal refusal;
};
using Verdict = std::variant<Requeued, GaveUp>;

/// How a settlement ended.
enum class Settled : std::uint8_t {
  settled,          ///< booked
  booked_late,      ///< the lease had expired; the real usage was booked once
  already_settled,  ///< a second settlement, or an unknown call: nothing changed
};

/// One meter in numbers, for metrics and the admin page. Units: of the rule.
struct MeterView {
  Rule rule;
  std::int64_t used = 0;      ///< in the provider's window, as mirrored
  std::int64_t reserved = 0;  ///< held by calls granted and not settled
  std::int64_t pending = 0;   ///< the part of `reserved` that is not in `used` yet
  std::int64_t remaining = 0;
  Duration refill{0};  ///< until the whole of it is free
  // Where limits are learned (strategy adaptive):
  std::int64_t kept = 0;  ///< the limit as it is kept; `rule` is as it was told, or guessed
  bool guessed = false;   ///< nobody told this rule; refusals speak for it
  double evidence = 0;    ///< logarithm of how much better refusals fit it than chance, -6..6
  Duration refused_ago = kForever;  ///< since the last refusal that it explains
  bool recalled = false;            ///< it was learned before the start (Governor::recall)
};

struct DeploymentView {
  DeploymentId deployment;
  std::vector<MeterView> meters;
  std::int64_t inflight = 0;  ///< granted and not settled
  std::int64_t attempts = 0;
  std::int64_t rejections = 0;  ///< provider 429s
  double bytes_per_token = 0;
  double mean_output_tokens = 0;
  double p95_output_tokens = 0;
  double estimate_error_ratio = 0;  ///< moving mean of (estimated - actual) / actual, total tokens
  double output_bias_ratio = 0;     ///< (mean estimates - outputs) / outputs of some 1000 answers
  double p95_coverage_ratio = 0;    ///< share of them within their estimated 95 % quantile; 0: none
  double cached_input_ratio = 0;    ///< share of the input that came from the provider's cache
  Duration guard{0};
  // What its answers say about congestion (strategy adaptive):
  std::int64_t congestion_limit = 0;      ///< calls that may be in flight for it; 0: any number
  bool congested = false;                 ///< the limit has proven to help; else it is on trial
  std::int64_t congestion_holds = 0;      ///< times that congestion set in
  std::int64_t congestion_refuted = 0;    ///< limits that did not help and were lifted
  double normal_first_token_seconds = 0;  ///< of a stream with a mean prompt; 0: unknown
  double normal_token_seconds = 0;        ///< between two tokens of a stream; 0: unknown
};

struct ClassView {
  ClassId traffic_class;
  std::int64_t depth = 0;
  Duration oldest{0};
};

struct Snapshot {
  std::vector<DeploymentView> deployments;
  std::vector<ClassView> classes;
  std::int64_t queued = 0;
  std::int64_t inflight = 0;
};

/// One limit of the caller's own. Units: of its rule.
struct CallerLimit {
  std::int64_t limit = 0;
  std::int64_t remaining = 0;  ///< >= 0
  Duration reset{0};           ///< until the whole of it is free
  Duration window{0};
};
/// The tightest of them: those with the least remaining share.
struct CallerLimits {
  std::optional<CallerLimit> requests;
  std::optional<CallerLimit> tokens;
};

/// A tenant whose calls are settled at more than they were charged, again and again: over about its
/// last hundred calls with reported usage half as much again, told once until it falls below a
/// fifth more. Units: tokens, of those calls, older ones counted for less.
struct DebtAlarm {
  std::string tenant;
  std::string deployment;
  Unit unit = Unit::output_tokens;  ///< input_tokens or output_tokens
  double charged = 0;
  double settled = 0;
};

/// What was learned of a limit has changed: a guess is taken for true or dropped, or the limit that
/// is kept moved by 3 % or more, told when it has settled. Units: of the rule.
struct LearnedNote {
  std::string deployment;
  Rule rule;  ///< as it was told, or guessed
  bool guessed = false;
  bool active = true;  ///< false: the guess is dropped
  std::int64_t before = 0;
  std::int64_t after = 0;
  double evidence = 0;  ///< as in MeterView
};

/// Congestion set in at a deployment, or ended: strategy adaptive.
struct CongestionNote {
  std::string deployment;
  std::int64_t limit = 0;  ///< calls that may be in flight; 0: it ended
};

/// Decides who may send what, when, and on whose quota.
///
/// Pure and single-threaded: no I/O, no clock, no thread. Every operation is handed `now`, which
/// must not go back (an earlier `now` is treated as the latest seen). The shell guards it with one
/// mutex; a decision takes about a microsecond and allocates nothing in the steady state.
///
/// Life of a call:
///   submit -> Admitted | Queued | Refused;  Queued -> (advance) Event with Grant or Refusal
///   granted -> sent -> progress* -> settle;  or rejected -> Requeued (waits again) | GaveUp
///   cancel ends a call in any state and is idempotent.
///
/// Invariants (property tests): no meter ever passes its limit in any window on what it mirrors;
/// charged = settled + open for every meter; an ended call holds nothing.
class Governor {
 public:
  Governor(std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant now);
  ~Governor();
  Governor(const Governor&) = delete;
  Governor& operator=(const Governor&) = delete;

  /// Asks for leave to send. Errors: none; what cannot be is `Refused`.
  Outcome submit(const Call& call, Instant now);

  /// Appends what fell due (at most 64 events) to `events`. Returns true if more is due at `now`.
  bool advance(Instant now, std::vector<Event>& events);

  /// When `advance` has something to do next; kNever if only outside events can change anything.
  [[nodiscard]] Instant next_deadline() const;

  /// The request's last byte was handed to the kernel: stamps the provider's mirror.
  void sent(CallId call, Instant now);

  /// Bytes of the response came: renews the lease; `output_events` is the count so far.
  void progress(CallId call, std::int64_t output_events, Instant now);

  /// Headers of any answer of a deployment (success too).
  void signal(DeploymentId deployment, const Signal& signal, Instant now);

  /// The provider refused the attempt (429 and the like). `replayable`: nothing of a response was
  /// relayed and the request can be sent again.
  Verdict rejected(CallId call, const Signal& signal, bool replayable, Instant now);

  /// Ends a granted call. `charged`, if given, is set to what it was booked with: what was reported
  /// or, without a report, the larger of what was seen and what was estimated; zeros for a call
  /// that changed nothing or costs no tokens.
  Settled settle(CallId call, const Settlement& settlement, Instant now, Usage* charged = nullptr);

  /// Ends a call in any state: leaves the queue, or settles as `never_sent`/`client_gone`.
  void cancel(CallId call, Instant now);

  /// Takes a new policy. Meters with the same (name, unit, window) keep their state; calls in
  /// flight keep the terms they started under; queued calls whose profile is gone are refused by
  /// the next `advance`.
  void apply(std::shared_ptr<const Policy> policy, Instant now);

  /// What the call is waiting for or holds, in plain values. Empty for an unknown call.
  [[nodiscard]] std::optional<Grant> grant_of(CallId call) const;

  /// What `demand` would be charged on a deployment.
  [[nodiscard]] Estimate estimate(DeploymentId deployment, const Demand& demand) const;

  /// The caller's own tightest limits: those of the nodes from `leaf` to the root and of the
  /// profile's node, never a deployment's. Allocates nothing.
  [[nodiscard]] CallerLimits caller_limits(NodeId leaf, ProfileId profile, Instant now) const;

  void snapshot(Snapshot& into, Instant now) const;

  /// Appends a piece of what a successor should know to `into`, from `at` on, and moves `at` on:
  /// at most 64 meters, deployments or callers, so that a lock around it is held for a short time.
  /// Returns true if there is more. Between two pieces anything may happen to the governor.
  bool remember(Memory& into, MemoryCursor& at, Instant now) const;

  /// Takes what a predecessor knew, before the first call; after it nothing happens. Whatever does
  /// not fit the policy is left out, and what cannot be is held in range. Limits that were learned
  /// hold as long as the amount they were told with is the same, and for thirty days; after an hour
  /// they are asked about again soon. Windows of an hour and longer, and those of providers after a
  /// complete end, hold what was charged.
  void recall(const Memory& memory, const MemoryAge& age, Instant now);

  /// Whether `take_debt_alarms` has something. Allocates nothing.
  [[nodiscard]] bool has_debt_alarms() const;
  /// The alarms since the last call, at most 64: further ones are left out.
  std::vector<DebtAlarm> take_debt_alarms();

  /// Whether `take_learned` has something. Allocates nothing.
  [[nodiscard]] bool has_learned() const;
  /// What was learned since the last call, at most 64 changes: further ones are left out.
  std::vector<LearnedNote> take_learned();
  /// Whether `take_congestion_notes` has something. Allocates nothing.
  [[nodiscard]] bool has_congestion_notes() const;
  /// What changed since the last call, in order, at most 64: further ones are left out.
  std::vector<CongestionNote> take_congestion_notes();
  [[nodiscard]] const Policy& policy() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::governor
