// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkers.h"
#include "sim/scenario.h"
#include "sim/workload.h"
#include "weir/time.h"

namespace weir::sim {

/// What became of one arrival, as far as its place in the line is concerned.
struct Turn {
  std::optional<Instant> granted;  ///< its first attempt
  std::uint32_t attempts = 0;
  std::optional<Instant> admitted = std::nullopt;  ///< by the provider
};

/// What a run's stalls may come from beside its rules.
struct Pauses {
  Duration longest_hint{0};  ///< that a refusal asked for
  double worst_window = 1;   ///< largest sum that the provider counted, of its limit
};

/// How the waits of a run compare with the bound.
struct Starvation {
  std::string why_not;  ///< not empty: the bound says nothing about this run, and why
  double ratio = 0;     ///< largest (start - eligibility) / bound of any call; above 1 is a fault
  Duration waited{0};   ///< of that call, from its eligibility
  Duration bound{0};    ///< of that call
};

/// No call waits longer, counted from the time at which it is its turn, than the bound says.
///
/// The governor keeps one line: the calls of a class and a profile are served in the order in which
/// they came, whosever they are; where others wait, smaller ones pass a large head until it is
/// pinned. That is control.md 13.1 with one flow of weight 1, over the calls that were granted:
///   EAT_k = max(arrival_k, F_r of every rule r, D_k),  then  F_r = max(F_r, arrival_k) + c_k,r /
///   R_r start_k - EAT_k <= (c_k + 3 c_max) / R + pin + Delta R      a told rule's limit / (window
///   + guard) D_k    when so much had been granted as came before k: a line that is served below R
///   delays
///          everybody's turn, which is a matter of use and judged there. Whoever is passed gets
///          nothing from it: what others were granted meanwhile brings his turn nearer.
///   E      what the calls in flight may take beyond what they are expected to: three deviations of
///          their sum, on rules that count output later than at the door
///   pin    for how long others may pass: 10 s (the governor pins after 8), at most half the
///   longest wait; 0 with one tenant Delta  kStalls, in which a mirror that was filled by a burst
///   lets nobody go; the longest pause
///          that a refusal asked for; what a window came to hold above its limit, by output counted
///          late, which must leave first; a window, where the start or a restart assumes a full one
/// From EAT and not from the head of the line, so that a tenant's own queue is no starvation.
/// Worked example (also a test): 60 per 60 s, no guard, 120 arrivals at t = 0, one tenant. The last
/// one's turn is at 119 s and its bound 14 s: granted at 121 s it is well, at 140 s it starves.
///
/// Says nothing where nobody is delayed (observe, passthrough), where strategy adaptive learns
/// limits that differ from what was told or leaves a part to another consumer, about limits on
/// concurrency, whose rate is the length of calls, and where more than 1 % of the attempts were
/// refused, for the rate is then the refusals' making. Weights and guarantees would give each
/// tenant a clock of its own; the governor has neither, so a tenant that floods the line delays the
/// others by all it sent.
Starvation check_starvation(const Scenario& scenario, const std::vector<Arrival>& arrivals,
                            const std::vector<Turn>& turns, const Books& books,
                            const Pauses& pauses, Violations& violations);

}  // namespace weir::sim
