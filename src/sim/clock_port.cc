// SPDX-License-Identifier: Apache-2.0
#include "sim/clock_port.h"

#include <algorithm>
#include <utility>

namespace weir::sim {
namespace {

class ClockPort final : public GovernorPort {
 public:
  ClockPort(std::vector<ClockStep> steps, std::unique_ptr<GovernorPort> inner)
      : steps_(std::move(steps)), inner_(std::move(inner)) {}

  governor::Outcome submit(const Call& call, Instant now) override {
    return inner_->submit(call, shown(now));
  }
  bool advance(Instant now, std::vector<governor::Event>& events) override {
    return inner_->advance(shown(now), events);
  }
  [[nodiscard]] Instant next_deadline() const override {
    const Instant due = inner_->next_deadline();
    if (due == kNever) return kNever;
    // The first time from now on at which the clock shows it; a step on may show it early.
    Duration offset{0};
    for (const ClockStep& step : steps_) {
      const Instant at(step.at);
      if (at > latest_) {
        if (due - offset < at) return due - offset;
        if (due - offset - step.by <= at) return at;
      }
      offset += step.by;
    }
    return due - offset;
  }
  void sent(CallId call, Instant granted, Instant now) override {
    inner_->sent(call, shown(granted), shown(now));
  }
  void progress(CallId call, std::int64_t output_events, Instant now) override {
    inner_->progress(call, output_events, shown(now));
  }
  void signal(DeploymentId deployment, const Signal& signal, Instant now) override {
    inner_->signal(deployment, signal, shown(now));
  }
  governor::Verdict rejected(CallId call, const Signal& signal, bool replayable,
                             Instant now) override {
    return inner_->rejected(call, signal, replayable, shown(now));
  }
  governor::Settled settle(CallId call, const Settlement& settlement, Instant now) override {
    return inner_->settle(call, settlement, shown(now));
  }
  void cancel(CallId call, Instant now) override { inner_->cancel(call, shown(now)); }
  void snapshot(governor::Snapshot& into, Instant now) const override {
    inner_->snapshot(into, shown(now));
  }
  [[nodiscard]] Memory remember(Instant now) const override { return inner_->remember(shown(now)); }
  void recall(const Memory& memory, const MemoryAge& age, Instant now) override {
    inner_->recall(memory, age, shown(now));
  }

 private:
  [[nodiscard]] Instant shown(Instant now) const {
    Duration offset{0};
    for (const ClockStep& step : steps_) {
      if (Instant(step.at) <= now) offset += step.by;
    }
    latest_ = std::max(latest_, now);
    return now + offset;
  }

  std::vector<ClockStep> steps_;
  std::unique_ptr<GovernorPort> inner_;
  mutable Instant latest_{};  ///< of the world's time that was seen
};

}  // namespace

MakePort stepped_clock(std::vector<ClockStep> steps, MakePort inner) {
  if (steps.empty()) return inner;
  return [steps = std::move(steps), inner = std::move(inner)](
             std::shared_ptr<const Policy> policy, std::uint64_t seed,
             Instant now) -> std::unique_ptr<GovernorPort> {
    Duration offset{0};
    for (const ClockStep& step : steps) offset += Instant(step.at) <= now ? step.by : Duration{0};
    return std::make_unique<ClockPort>(steps, inner(std::move(policy), seed, now + offset));
  };
}

}  // namespace weir::sim
