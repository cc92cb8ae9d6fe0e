// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "weir/governor.h"

namespace weir::governor {

/// A small world for tests: one organisation, one tenant, one key, one profile, one deployment and
/// one class, all without limits until a test sets them; and a clock in seconds.
class World {
 public:
  World() {
    policy.nodes = {{"org", NodeKind::organization, NodeId(), {}, Mode::enforce},
                    {"acme", NodeKind::tenant, NodeId(0), {}, Mode::enforce},
                    {"acme/one", NodeKind::key, NodeId(1), {}, Mode::enforce},
                    {"chat", NodeKind::profile, NodeId(), {}, Mode::enforce}};
    DeploymentPolicy deployment;
    deployment.name = "main";
    deployment.start_level = 1;
    deployment.guard = Duration{0};
    deployment.margin = 0.0;
    deployment.bytes_per_token = 1;
    deployment.mean_output_tokens = 0;
    policy.deployments.push_back(deployment);
    ProfilePolicy profile;
    profile.name = "chat";
    profile.node = NodeId(3);
    profile.candidates = {{DeploymentId(0), 0, 1}};
    profile.output = OutputEstimate::max_tokens;
    policy.profiles.push_back(profile);
    ClassPolicy traffic_class;
    traffic_class.name = "standard";
    policy.classes.push_back(traffic_class);
  }

  static Rule rule(Unit unit, std::int64_t amount, Duration window,
                   Enforcement enforce = Enforcement::sliding,
                   Counting count = Counting::reserve_refund) {
    Rule made;
    made.unit = unit;
    made.amount = amount;
    made.window = window;
    made.enforce = enforce;
    made.count = count;
    return made;
  }

  static Instant at(double seconds) { return Instant(from_seconds(seconds)); }
  [[nodiscard]] Instant now() const { return at(time); }

  Governor& governor() {
    if (!made_) made_ = std::make_unique<Governor>(std::make_shared<Policy>(policy), 1, now());
    return *made_;
  }
  void reload() { governor().apply(std::make_shared<Policy>(policy), now()); }
  void restart() { made_.reset(); }

  Call call(std::int64_t input = 0, std::int64_t max_output = 0) const {
    Call made;
    made.leaf = NodeId(2);
    made.profile = ProfileId(0);
    made.traffic_class = ClassId(0);
    made.demand.input_tokens = input;
    made.demand.max_output_tokens = max_output;
    return made;
  }

  Outcome submit(const Call& made) { return governor().submit(made, now()); }
  /// The id of a call that must be admitted at once.
  CallId admit(const Call& made) {
    const Outcome outcome = submit(made);
    const auto* admitted = std::get_if<Admitted>(&outcome);
    EXPECT_NE(admitted, nullptr) << "refused or queued at " << time;
    return admitted == nullptr ? CallId{} : admitted->call;
  }
  CallId send(const Call& made) {
    const CallId id = admit(made);
    governor().sent(id, now());
    return id;
  }
  CallId queue(const Call& made) {
    const Outcome outcome = submit(made);
    const auto* queued = std::get_if<Queued>(&outcome);
    EXPECT_NE(queued, nullptr) << "not queued at " << time;
    return queued == nullptr ? CallId{} : queued->call;
  }
  Refusal refuse(const Call& made) {
    const Outcome outcome = submit(made);
    const auto* refused = std::get_if<Refused>(&outcome);
    EXPECT_NE(refused, nullptr) << "not refused at " << time;
    return refused == nullptr ? Refusal{} : refused->refusal;
  }
  void settle(CallId id, std::int64_t input, std::int64_t output) {
    Settlement settlement;
    settlement.reported = Usage{input, output, std::nullopt, std::nullopt};
    settlement.response_started = true;
    EXPECT_EQ(governor().settle(id, settlement, now()), Settled::settled);
  }
  Settled end(CallId id, Ending ending) {
    Settlement settlement;
    settlement.ending = ending;
    return governor().settle(id, settlement, now());
  }

  /// Everything that falls due up to `until`, each event with the time at which it came.
  std::vector<std::pair<double, Event>> run_to(double until) {
    std::vector<std::pair<double, Event>> all;
    for (int rounds = 0; rounds < 2'000'000; ++rounds) {
      const Instant due = governor().next_deadline();
      if (due > at(until)) break;
      time = std::max(time, to_seconds(due.time_since_epoch()));
      std::vector<Event> events;
      governor().advance(std::max(due, now()), events);
      for (const Event& event : events) {
        all.emplace_back(time, event);
        if (send_granted && std::holds_alternative<Grant>(event.what)) {
          governor().sent(event.call, now());
        }
      }
    }
    time = until;
    std::vector<Event> events;
    governor().advance(now(), events);
    for (const Event& event : events) all.emplace_back(time, event);
    return all;
  }

  MeterView meter(std::size_t rule = 0, std::size_t deployment = 0) {
    Snapshot view;
    governor().snapshot(view, now());
    return view.deployments[deployment].meters[rule];
  }
  Snapshot view() {
    Snapshot made;
    governor().snapshot(made, now());
    return made;
  }

  Policy policy;
  double time = 1000;
  bool send_granted = false;  ///< run_to stamps what it grants

 private:
  std::unique_ptr<Governor> made_;
};

}  // namespace weir::governor
