// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weir/governor.h"
#include "weir/policy.h"

namespace weir::sim {

/// The governor as the harness drives it: one function for each of the shell's calls. Tests put
/// faults between the two here, so that production code needs no hooks for them.
class GovernorPort {
 public:
  virtual ~GovernorPort() = default;
  virtual governor::Outcome submit(const Call& call, Instant now) = 0;
  virtual bool advance(Instant now, std::vector<governor::Event>& events) = 0;
  [[nodiscard]] virtual Instant next_deadline() const = 0;
  /// `granted`: when leave was given; `now`: when the request really left.
  virtual void sent(CallId call, Instant granted, Instant now) = 0;
  virtual void progress(CallId call, std::int64_t output_events, Instant now) = 0;
  virtual void signal(DeploymentId deployment, const Signal& signal, Instant now) = 0;
  virtual governor::Verdict rejected(CallId call, const Signal& signal, bool replayable,
                                     Instant now) = 0;
  virtual governor::Settled settle(CallId call, const Settlement& settlement, Instant now) = 0;
  virtual void cancel(CallId call, Instant now) = 0;
  virtual void snapshot(governor::Snapshot& into, Instant now) const = 0;
};

/// Makes the governor of a run, and again after a restart.
using MakePort = std::function<std::unique_ptr<GovernorPort>(std::shared_ptr<const Policy> policy,
                                                             std::uint64_t seed, Instant now)>;

/// The real governor, called straight.
class DirectPort : public GovernorPort {
 public:
  DirectPort(std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant now);
  governor::Outcome submit(const Call& call, Instant now) override;
  bool advance(Instant now, std::vector<governor::Event>& events) override;
  [[nodiscard]] Instant next_deadline() const override;
  void sent(CallId call, Instant granted, Instant now) override;
  void progress(CallId call, std::int64_t output_events, Instant now) override;
  void signal(DeploymentId deployment, const Signal& signal, Instant now) override;
  governor::Verdict rejected(CallId call, const Signal& signal, bool replayable,
                             Instant now) override;
  governor::Settled settle(CallId call, const Settlement& settlement, Instant now) override;
  void cancel(CallId call, Instant now) override;
  void snapshot(governor::Snapshot& into, Instant now) const override;

 protected:
  [[nodiscard]] governor::Governor& governor() { return governor_; }

 private:
  governor::Governor governor_;
};

/// Makes a DirectPort.
MakePort direct_port();

}  // namespace weir::sim
