// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "governor/congestion.h"
#include "governor/estimator.h"
#include "governor/rule_meter.h"
#include "weir/decision.h"
#include "weir/memory.h"
#include "weir/policy.h"

namespace weir::governor {

/// Rules of a deployment whose limits are learned, told and guessed; further ones are kept as told.
inline constexpr std::size_t kLearnedRules = 24;
inline constexpr std::uint32_t kNoIndex = 0xffffffffU;

/// A list of lanes that wait for one meter, oldest head first; the lanes hold the links.
struct Waiters {
  std::uint32_t head = kNoIndex;
  std::uint32_t tail = kNoIndex;
};

/// What speaks for a rule being one that the provider keeps, where that is learned.
struct Belief {
  bool guessed = false;        ///< nobody told it
  std::int64_t amount = 0;     ///< of a guess: with another it is another guess
  bool active = true;          ///< it is kept; a guess that is not only counts
  double score = 0;            ///< logarithm of how much better refusals fit it than chance
  double met = 0.5;            ///< share of the calls that went through at its limit
  Instant refused_at = kDawn;  ///< the last refusal that it explains
  Duration trusted = std::chrono::minutes(30);  ///< a guess is dropped when it has none for this
};

/// A meter with what belongs to it but not to its arithmetic.
struct Metered {
  Metered(const MeterSettings& settings, Instant now) : meter(settings, now) {}
  RuleMeter meter;
  std::string name;           ///< "deployment|chat-1|requests|60s", the same in every process
  std::int64_t noted = 0;     ///< the limit as it was last told of; 0: as the rule has it
  bool noted_active = false;  ///< of a guess
  bool recalled = false;      ///< what is known of its limit, a predecessor has learned
  /// Where something is only observed: the same rule as it would stand if it were enforced, without
  /// the observed calls that it would have refused. What is said of an observed call is read here,
  /// so that one which got through beyond the limit says nothing of those after it. Once made it
  /// stays as long as the meter.
  std::unique_ptr<RuleMeter> as_enforced;
  Waiters waiters;
  Belief belief;
};

/// One rule under the terms of one policy. The meter may be shared with other policies' terms.
struct MeterRef {
  std::shared_ptr<Metered> shared;
  Claim claim;
  bool gates = true;        ///< false: it only accounts
  bool watched = false;     ///< observe mode: it would gate
  bool congestion = false;  ///< its amount is what `DeploymentState::congestion` says
  LimitRef limit;           ///< how this limit is named to a caller
  [[nodiscard]] RuleMeter& meter() const { return shared->meter; }
  /// Does the same to the meter and, if the call counts there, to the one that stands as enforced.
  template <class Act>
  void book(bool as_enforced, Act&& act) const {
    act(shared->meter);
    if (as_enforced && shared->as_enforced) act(*shared->as_enforced);
  }
  /// Whether it stops calls, as far as is known now.
  [[nodiscard]] bool stands() const { return gates && shared->belief.active; }
};

/// The spread of the network delay: the range of round trips over the last one to two minutes.
class Jitter {
 public:
  void sample(Duration round_trip, Instant now);
  [[nodiscard]] Duration spread() const;
  void remember(RememberedDeployment& deployment) const;
  void recall(const RememberedDeployment& deployment, Instant now);

 private:
  struct Range {
    Duration least = Duration::max();
    Duration most = Duration::min();
  };
  Range present_, previous_;
  Instant turned_ = kDawn;
};

/// What is learned about a deployment and outlives a policy.
struct DeploymentState {
  DeploymentState(const DeploymentPolicy& policy, std::shared_ptr<EstimateTable> callers);
  Estimator estimator;
  Congestion congestion;
  bool congestion_told = false;  ///< that it set in, and not yet that it ended
  Jitter jitter;
  Instant hold_until = kDawn;    ///< the provider asked everybody to wait
  Instant decreased_at = kDawn;  ///< one decrease per epoch: older failures do not count again
  std::int32_t failures_in_row = 0;
  double unnamed =
      0;  ///< share of the verdicts of late that nothing explains and that name nothing
  std::int64_t inflight = 0;
  std::int64_t attempts = 0;
  std::int64_t rejections = 0;
  double mean_seconds = 1;  ///< how long a call holds its slot
  double produced = 0;      ///< output of a call, and the seconds it took: a mean of each
  double producing = 0;
  Duration lease{0};          ///< of a call that was sent
  Duration send_lease{0};     ///< of one that was not
  Duration refusals_take{0};  ///< from the departure of a request to the provider's 429, a mean
  // Calls by their last sign of life, oldest first: never sent, and sent.
  std::array<std::uint32_t, 2> lease_head{kNoIndex, kNoIndex};
  std::array<std::uint32_t, 2> lease_tail{kNoIndex, kNoIndex};
};

struct NodeTerms {
  std::uint32_t parent = kNoIndex;
  std::vector<MeterRef> rules;
  std::uint64_t identity = 0;  ///< a hash of its name, the same under every policy
  std::uint64_t tenant = 0;    ///< that of the tenant it belongs to, or is
  std::uint32_t tenant_node = kNoIndex;
  bool observe = false;  ///< calls of this leaf are only watched, whatever limits they pass
};

struct DeploymentTerms {
  std::shared_ptr<DeploymentState> state;
  std::vector<MeterRef> rules;
  bool observe = false;
  bool reserves_output = false;  ///< a rule of its provider charges the whole cap at admission
  bool cached_counts = true;
  bool learns = false;  ///< strategy adaptive: its limits may be others than it was told
  std::vector<std::uint32_t> profiles;  ///< those that may use it
  // Dispatch state of this policy.
  std::int64_t contending = 0;  ///< calls queued that could use it
  CallId pinned;                ///< a head that waited long: nobody takes what it needs
  Instant pinned_start = kDawn;
  double virtual_time = 0;  ///< of the classes that share it
  std::vector<double> class_finish;
};

struct CandidateTerms {
  std::uint32_t deployment = 0;
  std::int32_t priority = 0;
  std::int32_t weight = 1;
  std::int64_t current = 0;  ///< smooth weighted round robin
};

struct ProfileTerms {
  std::uint32_t node = kNoIndex;
  std::vector<CandidateTerms> candidates;  ///< by priority
  std::uint64_t identity = 0;              ///< a hash of its name
  OutputEstimate output = OutputEstimate::mean;
  OutputEstimate unknown = OutputEstimate::mean;
  bool propose = false;
  bool observe = false;  ///< every deployment of it only observes
};

/// A policy made ready for deciding, with the meters that carry its counts. Calls in flight keep
/// the terms they were granted under alive.
struct Terms {
  std::shared_ptr<const Policy> policy;
  std::vector<NodeTerms> nodes;
  std::vector<NodeTerms> classes;
  std::vector<DeploymentTerms> deployments;
  std::vector<ProfileTerms> profiles;
  bool any_watched = false;  ///< some limit is observed only; then every meter has an `as_enforced`

  /// Whose estimate a call on a deployment has.
  [[nodiscard]] Asked asked(const Call& call, std::uint32_t deployment) const;
  [[nodiscard]] Cost cost(const Call& call, std::uint32_t deployment) const;
};

/// Keeps meters and learned state by name across policies, as long as anything uses them.
class Registry {
 public:
  std::shared_ptr<Terms> build(std::shared_ptr<const Policy> policy, Instant now);
  /// The meter that follows in the order of the names, null after the last one; `after` becomes
  /// its name.
  [[nodiscard]] std::shared_ptr<Metered> next_meter(std::string& after) const;
  [[nodiscard]] EstimateTable& callers() const { return *callers_; }

 private:
  MeterRef bind(const std::string& owner, const MeterSettings& settings, Instant now,
                std::map<std::string, int>& taken);
  /// Sees to it that every meter of the terms has an `as_enforced`.
  static void watch(const Terms& terms, Instant now);
  void bind_guesses(const DeploymentPolicy& from, std::size_t index, DeploymentTerms& deployment,
                    Instant now);
  void bind_congestion(const DeploymentPolicy& from, std::size_t index, DeploymentTerms& deployment,
                       Instant now);
  void bind_deployments(const Policy& policy, Terms& terms, Instant now);
  void prune();

  std::map<std::string, std::weak_ptr<Metered>> meters_;
  std::map<std::string, std::weak_ptr<DeploymentState>> states_;
  std::shared_ptr<EstimateTable> callers_ = std::make_shared<EstimateTable>();
};

/// Whether a rule of a deployment with this strategy delays calls, or only accounts.
bool strategy_gates(Strategy strategy, Unit unit);

}  // namespace weir::governor
