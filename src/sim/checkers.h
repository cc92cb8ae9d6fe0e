// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "weir/governor.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir::sim {

/// What a checker found. Bounded: the first kMaxKept are kept, all are counted.
class Violations {
 public:
  static constexpr std::size_t kMaxKept = 20;
  void add(std::string_view checker, Instant at, std::string_view what);
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const std::vector<std::string>& first() const { return first_; }
  /// Whether a checker of this name found anything.
  [[nodiscard]] bool by(std::string_view checker) const;

 private:
  std::int64_t count_ = 0;
  std::vector<std::string> first_;
  std::vector<std::string> who_;
};

/// Sums what the provider charged, from the harness's own record and not from ProviderRules or the
/// governor: the largest sum in any window (sliding), in any real window (fixed), the deepest fall
/// of the bucket (bucket, leaky) or the largest estimate of two windows (counter), as a share of
/// the limit. Example: 10 per 60 s, counter of phase 0: 8 at t = 50 s and 5 at t = 90 s are
/// estimated as 5 + 8 * 1/2 = 9, a share of 0.9, although no window of 60 s holds less than 13.
class WindowChecker {
 public:
  WindowChecker(const Rule& rule, Duration phase);
  /// `whose`: others' charges count in the windows, not in what the governor can know of.
  enum class Whose : std::uint8_t { ours, others };
  void charge(std::int64_t amount, Instant at, Whose whose = Whose::ours);
  /// Takes back what the provider gave back of a charge it made at `charged_at`.
  void give_back(std::int64_t amount, Instant charged_at, Instant at);
  /// The provider's limit is another one from now on. What it took before counts against the limit
  /// of then, for as long as it is counted.
  void set_limit(std::int64_t amount, Instant at);
  /// Largest share of the limit seen; 0 amount with a charge: very large.
  [[nodiscard]] double worst() const { return worst_; }
  /// The sum of the charges made in (since, until] that are still counted at `now`.
  [[nodiscard]] std::int64_t charged_between(Instant since, Instant until, Instant now) const;
  /// As it was at first.
  [[nodiscard]] const Rule& rule() const { return rule_; }

 private:
  struct Entry {
    Instant at;
    std::int64_t amount;
    Whose whose;
  };
  struct Limit {
    Instant counts_until;
    double amount;
  };
  void note(double used, Instant at);
  void refill(Instant at);
  [[nodiscard]] bool leaks() const;
  [[nodiscard]] double depth_of(std::int64_t amount) const;
  [[nodiscard]] std::int64_t window_of(Instant at) const;
  [[nodiscard]] double estimate(Instant at) const;
  [[nodiscard]] bool counts_at(Instant charged, Instant now) const;

  Rule rule_;
  Duration phase_;
  std::deque<Entry> entries_;
  std::int64_t sum_ = 0;
  std::int64_t amount_ = 0;     ///< of the limit now
  std::vector<Limit> earlier_;  ///< larger ones that still excuse what they let through
  double level_ = 0;
  Instant refilled_{};
  double worst_ = 0;
};

/// First-attempt grants of a lane must come in the order in which the lane's calls came.
class FifoChecker {
 public:
  explicit FifoChecker(std::size_t lanes) : last_(lanes, -1) {}
  void granted(std::size_t lane, std::int64_t number, Instant at, Violations& violations);

 private:
  std::vector<std::int64_t> last_;
};

/// What the harness knows is open, beside what the governor says is.
struct OpenCalls {
  std::int64_t waiting = 0;
  std::int64_t granted = 0;
};
void check_open(const OpenCalls& open, const governor::Snapshot& snapshot, Instant at,
                Violations& violations);

/// The governor's mirror of a rule must not say less than what the provider surely counts and the
/// governor has surely heard of. `tolerance`: what may be missing, in the rule's unit.
void check_mirror(const governor::MeterView& meter, std::int64_t surely_counted,
                  std::int64_t tolerance, Instant at, Violations& violations);

/// Where every call went. Each ends in exactly one way.
struct Books {
  std::int64_t arrivals = 0;
  std::int64_t served = 0;
  std::int64_t refused = 0;    ///< by the governor, at once
  std::int64_t timed_out = 0;  ///< by the governor, after waiting
  std::int64_t gave_up = 0;    ///< after the provider refused
  std::int64_t failed = 0;     ///< a fault of the provider or the network
  std::int64_t gone = 0;       ///< the client left
  std::int64_t lost = 0;       ///< with the governor's process
  std::int64_t open = 0;
  std::int64_t sent = 0;
  std::int64_t admitted = 0;
  std::int64_t rejected = 0;
};
void check_books(const Books& books, Instant at, Violations& violations);

}  // namespace weir::sim
