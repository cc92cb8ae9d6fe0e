// SPDX-License-Identifier: Apache-2.0
#include "sim/ablations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace weir::sim {
namespace {

/// Takes the provider's reports away, so that the governor books what it estimated or saw.
class DeafPort final : public DirectPort {
 public:
  using DirectPort::DirectPort;
  governor::Settled settle(CallId call, const Settlement& settlement, Instant now) override {
    Settlement deaf = settlement;
    deaf.reported.reset();
    return DirectPort::settle(call, deaf, now);
  }
};

/// Puts everybody into one line.
class OneLinePort final : public DirectPort {
 public:
  using DirectPort::DirectPort;
  governor::Outcome submit(const Call& call, Instant now) override {
    Call in_line = call;
    in_line.leaf = NodeId(1);
    return DirectPort::submit(in_line, now);
  }
};

/// Moves the amounts of the deployments' rules as Aimd says.
class AimdPort final : public DirectPort {
 public:
  AimdPort(std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant now)
      : DirectPort(policy, seed, now), told_(std::move(policy)), rises_(now + Aimd::kEpoch) {}

  bool advance(Instant now, std::vector<governor::Event>& events) override {
    if (now >= rises_) {
      rises_ = now + Aimd::kEpoch;
      if (share_ < 1) set(std::min(1.0, share_ + Aimd::kStep), now);
    }
    return DirectPort::advance(now, events);
  }
  [[nodiscard]] Instant next_deadline() const override {
    const Instant next = DirectPort::next_deadline();
    return share_ < 1 ? std::min(next, rises_) : next;
  }
  governor::Verdict rejected(CallId call, const Signal& signal, bool replayable,
                             Instant now) override {
    const governor::Verdict verdict = DirectPort::rejected(call, signal, replayable, now);
    if (now >= cut_again_) {
      cut_again_ = now + Aimd::kEpoch;
      rises_ = now + Aimd::kEpoch;
      set(std::max(Aimd::kLeast, share_ * (1 - Aimd::kCut)), now);
    }
    return verdict;
  }

 private:
  void set(double share, Instant now) {
    share_ = share;
    auto changed = std::make_shared<Policy>(*told_);
    for (DeploymentPolicy& deployment : changed->deployments) {
      for (Rule& rule : deployment.rules) {
        const double amount = std::floor(static_cast<double>(rule.amount) * share);
        rule.amount = std::max<std::int64_t>(1, static_cast<std::int64_t>(amount));
      }
    }
    governor().apply(std::move(changed), now);
  }

  std::shared_ptr<const Policy> told_;
  double share_ = 1;
  Instant cut_again_ = kDawn;
  Instant rises_;
};

template <class Port>
MakePort made() {
  return [](std::shared_ptr<const Policy> policy, std::uint64_t seed, Instant now) {
    return std::make_unique<Port>(std::move(policy), seed, now);
  };
}

/// Changes the policy before the port sees it.
template <class Port = DirectPort>
MakePort with_policy(std::function<void(Policy&)> change) {
  return [change = std::move(change)](const std::shared_ptr<const Policy>& policy,
                                      std::uint64_t seed, Instant now) {
    auto changed = std::make_shared<Policy>(*policy);
    change(*changed);
    return std::make_unique<Port>(std::move(changed), seed, now);
  };
}

template <class Port = DirectPort>
MakePort with_deployments(void (*change)(DeploymentPolicy&)) {
  return with_policy<Port>([change](Policy& policy) {
    for (DeploymentPolicy& one : policy.deployments) change(one);
  });
}

MakePort with_output(OutputEstimate output) {
  return with_policy([output](Policy& policy) {
    for (ProfilePolicy& one : policy.profiles) one.output = output;
  });
}

MakePort no_pacing() {
  return with_deployments([](DeploymentPolicy& one) { one.burst_percent = 100; });
}
MakePort no_mirror() {
  return with_deployments([](DeploymentPolicy& one) {
    for (Rule& rule : one.rules) {
      if (rule.unit != Unit::concurrency) rule.enforce = Enforcement::bucket;
    }
  });
}
MakePort no_settlement() { return made<DeafPort>(); }
MakePort max_reservation() { return with_output(OutputEstimate::max_tokens); }
MakePort p95_reservation() { return with_output(OutputEstimate::p95); }
MakePort no_margin() {
  return with_deployments([](DeploymentPolicy& one) { one.margin = 0; });
}
MakePort no_guard() {
  return with_deployments([](DeploymentPolicy& one) { one.guard = Duration{0}; });
}
MakePort fifo() { return made<OneLinePort>(); }
MakePort aimd() {
  return with_deployments<AimdPort>(
      [](DeploymentPolicy& one) { one.strategy = Strategy::shaping; });
}

constexpr std::array kAblations = {
    Ablation{"no-pacing", "weir without pacing: a burst may take the whole limit", no_pacing},
    Ablation{"no-mirror",
             "weir without the mirror of the provider's window: a bucket of the same size",
             no_mirror},
    Ablation{"no-settlement", "weir without settlement: estimates stand", no_settlement},
    Ablation{"max-reservation", "weir that reserves max_tokens instead of the learned mean",
             max_reservation},
    Ablation{"p95-reservation",
             "weir that reserves each tenant's 95 % quantile instead of the mean", p95_reservation},
    Ablation{"no-margin", "weir without the margin of token quotas", no_margin},
    Ablation{"no-guard", "weir without the guard for the network's jitter", no_guard},
    Ablation{"fifo", "weir with one line for everybody, without fair shares or filling in", fifo},
    Ablation{"aimd", "weir whose limits fall by 30 % at a refusal and rise by 2 % in 10 s", aimd}};

}  // namespace

const Ablation* find_ablation(std::string_view name) {
  const auto* const found = std::find_if(kAblations.begin(), kAblations.end(),
                                         [&](const Ablation& one) { return one.name == name; });
  return found == kAblations.end() ? nullptr : found;
}

std::string ablation_names() {
  std::string names;
  for (const Ablation& one : kAblations) {
    if (!names.empty()) names += ", ";
    names += one.name;
  }
  return names;
}

}  // namespace weir::sim
