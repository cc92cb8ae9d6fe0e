// SPDX-License-Identifier: Apache-2.0
#include "sim/harness.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/clock_port.h"
#include "sim/oracle.h"
#include "sim/starvation.h"
#include "sim/world.h"

namespace weir::sim {
namespace {

/// How many waiting requests the oracle with backfill looks at.
constexpr std::size_t kBackfillAhead = 16;

/// How many requests of this mean cost the rules let through in the horizon.
double allowed_by(const std::vector<Rule>& rules, const std::vector<Arrival>& arrivals,
                  Duration horizon) {
  double allowed = static_cast<double>(arrivals.size());
  bool limited = false;
  for (const Rule& rule : rules) {
    if (rule.unit == Unit::concurrency || rule.window.count() <= 0) continue;
    double cost = 0;
    for (const Arrival& arrival : arrivals) cost += static_cast<double>(whole_cost(rule, arrival));
    if (!(cost > 0)) continue;
    cost /= static_cast<double>(arrivals.size());
    const double windows = to_seconds(horizon) / to_seconds(rule.window);
    const double fits = static_cast<double>(rule.amount) * windows / cost;
    allowed = limited ? std::min(allowed, fits) : fits;
    limited = true;
  }
  return allowed;
}

/// What the scarcest rule charges for these starts in the time that is measured.
double use_of(const Scenario& scenario, const std::vector<Arrival>& arrivals,
              const std::vector<OracleStart>& starts) {
  double use = 0;
  for (const Rule& rule : scenario.provider.rules) {
    double charged = 0;
    for (std::size_t index = 0; index < starts.size(); ++index) {
      const auto& at = starts[index].at;
      if (!at || *at < Instant(scenario.measure_from) || *at >= Instant(scenario.horizon)) continue;
      charged += static_cast<double>(whole_cost(rule, arrivals[index]));
    }
    use = std::max(use, share_of_limit(rule, charged, scenario.horizon - scenario.measure_from));
  }
  return use;
}

void ask_oracle(const Scenario& scenario, const std::vector<Arrival>& arrivals, Report& report) {
  std::vector<Duration> running;
  running.reserve(arrivals.size());
  emulator::model::LatencySettings latency = scenario.latency;
  latency.noise = 0;
  emulator::model::LatencyModel model(latency, 1);
  for (const Arrival& arrival : arrivals) {
    running.push_back(model.plan(arrival.input_tokens, 0).until(arrival.output_tokens));
  }
  const std::vector<Rule>& rules = scenario.provider.rules;
  const Duration max_wait = scenario.told.max_wait;
  const std::vector<OracleStart> starts = clairvoyant_fifo(arrivals, rules, max_wait, running);
  std::vector<Duration> waits;
  for (std::size_t index = 0; index < starts.size(); ++index) {
    if (!starts[index].at) continue;
    waits.push_back(*starts[index].at - arrivals[index].at);
  }
  report.oracle_served = static_cast<std::int64_t>(waits.size());
  report.oracle = sum_up(std::move(waits));
  report.fifo_use = use_of(scenario, arrivals, starts);
  report.backfill_use = use_of(
      scenario, arrivals, clairvoyant_backfill(arrivals, rules, max_wait, running, kBackfillAhead));
}

/// Tries how many calls in flight answer the most where that many are told and kept.
void try_fixed(const Scenario& scenario, std::uint64_t seed, Report& report) {
  const std::int64_t knee = std::max(scenario.latency.knee, scenario.latency.depth);
  if (knee <= 0) return;
  Scenario fixed = scenario;
  fixed.goals = {};
  fixed.told.strategy = Strategy::shaping;
  Rule rule;
  rule.unit = Unit::concurrency;
  rule.window = Duration{0};
  fixed.told.rules.push_back(rule);
  for (const double share : {0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0}) {
    fixed.told.rules.back().amount =
        std::max<std::int64_t>(1, std::llround(share * static_cast<double>(knee)));
    const std::int64_t answered = World(fixed, seed, direct_port()).play().answered_in_horizon;
    if (answered <= report.best_fixed_answered) continue;
    report.best_fixed_answered = answered;
    report.best_fixed = fixed.told.rules.back().amount;
  }
}

void judge_congestion(const Goals& goals, Report& report) {
  const auto judged = [&](std::string goal, double wanted, double reached, bool held) {
    report.judgements.push_back({std::move(goal), wanted, reached, held});
  };
  const auto holds = static_cast<double>(report.holds);
  if (goals.max_holds) {
    const auto most = static_cast<double>(*goals.max_holds);
    judged("holds", most, holds, holds <= most);
  }
  if (goals.min_holds) {
    const auto least = static_cast<double>(*goals.min_holds);
    judged("holds_at_least", least, holds, holds >= least);
  }
  if (goals.max_p95_first_token) {
    const double most = to_seconds(*goals.max_p95_first_token);
    const double reached = to_seconds(report.p95_first_token);
    judged("p95_first_token_s", most, reached, reached <= most);
  }
  if (goals.max_503_share) {
    const double share = static_cast<double>(report.overloaded) /
                         static_cast<double>(std::max<std::int64_t>(report.books.sent, 1));
    judged("503_share", *goals.max_503_share, share, share <= *goals.max_503_share);
  }
  if (goals.min_of_best_fixed) {
    const double share = static_cast<double>(report.answered_in_horizon) /
                         static_cast<double>(std::max<std::int64_t>(report.best_fixed_answered, 1));
    judged("of_best_fixed", *goals.min_of_best_fixed, share, share >= *goals.min_of_best_fixed);
  }
}

void judge(const Scenario& scenario, Report& report) {
  const Goals& goals = scenario.goals;
  const auto at_most = [&](std::string goal, double wanted, double reached) {
    report.judgements.push_back({std::move(goal), wanted, reached, reached <= wanted});
  };
  const auto at_least = [&](std::string goal, double wanted, double reached) {
    report.judgements.push_back({std::move(goal), wanted, reached, reached >= wanted});
  };
  if (goals.max_429_share) at_most("429_share", *goals.max_429_share, report.share_429());
  if (goals.min_window_share) {
    at_least("window_share", *goals.min_window_share,
             static_cast<double>(report.admitted_in_horizon) / std::max(report.allowed, 1.0));
  }
  if (goals.min_use) at_least("use", *goals.min_use, report.use);
  if (goals.min_use_of_fifo) {
    at_least("use_of_fifo", *goals.min_use_of_fifo, report.use / std::max(report.fifo_use, 1e-9));
  }
  if (goals.max_429s) {
    at_most("refusals", static_cast<double>(*goals.max_429s),
            static_cast<double>(report.books.rejected - report.overloaded));
  }
  if (goals.learned) {
    const auto same = [](const Rule& left, const Rule& right) {
      return left.unit == right.unit && left.window == right.window;
    };
    const auto among = [&](const Rule& rule, const std::vector<Rule>& rules) {
      return std::any_of(rules.begin(), rules.end(),
                         [&](const Rule& other) { return same(rule, other); });
    };
    double wrong = 0;
    for (const Rule& rule : *goals.learned) wrong += among(rule, report.learned) ? 0 : 1;
    for (const Rule& rule : report.learned) wrong += among(rule, *goals.learned) ? 0 : 1;
    at_most("wrongly_learned", 0, wrong);
  }
  if (goals.all_served) {
    at_least("served", static_cast<double>(report.books.arrivals),
             static_cast<double>(report.books.served));
  }
  if (goals.max_p99_over_oracle) {
    at_most("p99_over_oracle_s", to_seconds(*goals.max_p99_over_oracle),
            to_seconds(report.waits.p99 - report.oracle.p99));
  }
  if (goals.max_429_share_restart) {
    const auto attempts = static_cast<double>(report.attempts_after_restart);
    at_most("429_share_after_restart", *goals.max_429_share_restart,
            static_cast<double>(report.rejected_after_restart) / std::max(attempts, 1.0));
  }
  if (goals.max_429_share_transit) {
    at_most("429_share_in_transit", *goals.max_429_share_transit, report.share_429_transit());
  }
  if (goals.min_share) at_least("min_share", *goals.min_share, report.fairness.least);
  if (goals.min_jain) at_least("jain", *goals.min_jain, report.fairness.jain);
  if (goals.min_served) {
    at_least("served_share", *goals.min_served,
             static_cast<double>(report.books.served) /
                 static_cast<double>(std::max<std::int64_t>(report.books.arrivals, 1)));
  }
  if (goals.max_p99)
    at_most("p99_wait_s", to_seconds(*goals.max_p99), to_seconds(report.waits.p99));
  judge_congestion(goals, report);
  at_most("window_ratio", goals.max_window_ratio, report.worst_window);
  at_most("violations", 0, static_cast<double>(report.violations.count()));
}

}  // namespace

Duration percentile(std::vector<Duration> durations, double share) {
  if (durations.empty()) return Duration{0};
  const auto index = static_cast<std::size_t>(share * static_cast<double>(durations.size()));
  const std::size_t rank = std::min(index, durations.size() - 1);
  const auto at = durations.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(durations.begin(), at, durations.end());
  return *at;
}

Waits sum_up(std::vector<Duration> waits) {
  Waits result;
  if (waits.empty()) return result;
  std::sort(waits.begin(), waits.end());
  const auto rank = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(waits.size()));
    return waits[std::min(index, waits.size() - 1)];
  };
  result.p50 = rank(0.50);
  result.p99 = rank(0.99);
  result.longest = waits.back();
  return result;
}

double Report::share_429() const {
  if (books.sent == 0) return 0;
  const auto rejected = static_cast<double>(books.rejected - rejected_in_transit - overloaded);
  return rejected / static_cast<double>(books.sent);
}

double Report::share_429_transit() const {
  if (books.sent == 0) return 0;
  return static_cast<double>(rejected_in_transit) / static_cast<double>(books.sent);
}

bool Report::held() const {
  return std::all_of(judgements.begin(), judgements.end(),
                     [](const Judgement& one) { return one.held; });
}

Policy make_policy(const Scenario& scenario, double start_level) {
  Policy policy;
  NodePolicy organization;
  organization.name = "sim";
  organization.kind = NodeKind::organization;
  organization.limits = scenario.told.organization_limits;
  policy.nodes.push_back(organization);
  const std::uint32_t tenants = tenants_of(scenario);
  for (std::uint32_t tenant = 0; tenant < tenants; ++tenant) {
    NodePolicy node;
    node.name = fmt::format("tenant-{}", tenant);
    node.parent = NodeId(0);
    policy.nodes.push_back(node);
  }
  NodePolicy profile_node;
  profile_node.name = "model:chat";
  profile_node.kind = NodeKind::profile;
  policy.nodes.push_back(profile_node);

  ProfilePolicy profile;
  profile.name = "chat";
  profile.node = NodeId(1 + tenants);
  profile.candidates.push_back({DeploymentId(0), 0, 1});
  policy.profiles.push_back(profile);

  ClassPolicy standard;
  standard.name = "standard";
  standard.max_wait = scenario.told.max_wait;
  standard.depth = scenario.told.depth;
  policy.classes.push_back(standard);

  DeploymentPolicy deployment;
  deployment.name = "chat-1";
  deployment.provider = ProviderId(0);
  deployment.rules = scenario.told.rules;
  if (scenario.told.growth) {
    for (const emulator::model::GrowthSettings& rule : scenario.provider.growth) {
      deployment.growth.push_back({rule.of, rule.ratio, rule.per, rule.floor, rule.look_back});
    }
  }
  deployment.rejected_counted = scenario.provider.rejected_counted;
  deployment.strategy = scenario.told.strategy;
  deployment.mode = scenario.told.mode;
  deployment.start_level = start_level;
  deployment.guard = scenario.told.guard;
  deployment.margin = scenario.told.margin;
  policy.deployments.push_back(deployment);
  return policy;
}

Report run(const Scenario& scenario, std::uint64_t seed) {
  return run(scenario, seed, direct_port());
}

Report run(const Scenario& scenario, std::uint64_t seed, const MakePort& make_port) {
  const MakePort port = stepped_clock(scenario.clock_steps, make_port);
  World world(scenario, seed, port);
  Report report = world.play();
  const std::vector<Rule> means =
      mean_rules(scenario.provider.rules, scenario.steps, Duration{0}, scenario.horizon);
  report.allowed = allowed_by(means, world.arrivals(), scenario.horizon);
  ask_oracle(scenario, world.arrivals(), report);
  const std::vector<Turn> turns = world.turns();
  report.starvation =
      check_starvation(scenario, world.arrivals(), turns, report.books,
                       {report.longest_pause, report.worst_window}, report.violations);
  report.fairness = fairness_of(scenario, means, world.arrivals(), turns);
  if (scenario.goals.min_of_best_fixed) try_fixed(scenario, seed, report);
  judge(scenario, report);
  return report;
}

}  // namespace weir::sim
