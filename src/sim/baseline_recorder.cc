// SPDX-License-Identifier: Apache-2.0
#include "sim/baseline_recorder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace weir::sim {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);

std::size_t second_of(Instant at) {
  return static_cast<std::size_t>(std::max<std::int64_t>(at.time_since_epoch() / kSecond, 0));
}

/// The largest sum over the last window in each second, as a share of the limit.
std::vector<double> window_shares(const Rule& rule, const std::vector<double>& charged) {
  const double window = std::max(to_seconds(rule.window), 1e-9);
  const auto seconds = static_cast<std::size_t>(std::max(1.0, std::ceil(window)));
  const double limit = static_cast<double>(rule.amount) * static_cast<double>(seconds) / window;
  std::vector<double> shares(charged.size());
  double sum = 0;
  for (std::size_t at = 0; at < charged.size(); ++at) {
    sum += charged[at];
    if (at >= seconds) sum -= charged[at - seconds];
    shares[at] = limit > 0 ? std::max(sum, 0.0) / limit : 0;
  }
  return shares;
}

}  // namespace

Recording::Recording(const Scenario& scenario)
    : rules_(scenario.provider.rules),
      default_max_output_(scenario.provider.default_max_output),
      horizon_(scenario.horizon) {
  const auto whole = static_cast<std::size_t>(std::ceil(to_seconds(scenario.horizon)));
  const std::size_t seconds = std::min(whole, kMaxSeconds);
  accepted_.resize(seconds);
  refused_.resize(seconds);
  charged_.assign(rules_.size(), std::vector<double>(seconds));
}

void Recording::add(std::vector<double>& to, Instant at, double amount) const {
  const std::size_t second = second_of(at);
  if (second < to.size()) to[second] += amount;
}

void Recording::spread(std::vector<double>& to, Instant from, Instant until, double amount) const {
  const std::size_t first = second_of(from);
  const std::size_t last = std::max(second_of(until), first);
  const double each = amount / static_cast<double>(last - first + 1);
  for (std::size_t at = first; at <= last && at < to.size(); ++at) to[at] += each;
}

void Recording::charge(std::size_t index, const Track& track, const Usage& usage, Instant now) {
  const Rule& rule = rules_[index];
  std::vector<double>& to = charged_[index];
  if (rule.unit == Unit::concurrency) return;
  if (rule.unit == Unit::requests) return add(to, track.left, 1);
  const auto input =
      rule.unit == Unit::output_tokens ? 0.0 : static_cast<double>(usage.input_tokens);
  const auto output =
      rule.unit == Unit::input_tokens ? 0.0 : static_cast<double>(usage.output_tokens);
  switch (rule.count) {
    case Counting::reserve: {
      const double most =
          rule.unit == Unit::input_tokens ? 0 : static_cast<double>(track.max_output);
      return add(to, track.left, input + most);
    }
    case Counting::reserve_refund: return add(to, track.left, input + output);
    case Counting::settle: add(to, track.left, input); return add(to, now, output);
    case Counting::input: return add(to, track.left, input);
    case Counting::realtime:
      add(to, track.left, input);
      spread(to, track.left, now, output);
      return;
  }
}

void Recording::answered(const Track& track, const Usage& usage, Instant now) {
  waits_.push_back(track.left - track.arrived);
  if (track.attempts > 1) ++retries_answered_;
  if (now < horizon_) tokens_ += usage.input_tokens + usage.output_tokens;
  add(accepted_, track.left, 1);
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) charge(rule, track, usage, now);
}

std::vector<SeriesPoint> Recording::series() const {
  // The scarcest rule is the one that was used most.
  std::vector<double> shares(accepted_.size());
  double most = -1;
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    if (rules_[rule].unit == Unit::concurrency) continue;
    std::vector<double> of = window_shares(rules_[rule], charged_[rule]);
    const double sum = std::accumulate(of.begin(), of.end(), 0.0);
    if (sum <= most) continue;
    most = sum;
    shares = std::move(of);
  }
  std::vector<SeriesPoint> points;
  if (accepted_.empty()) return points;
  const std::size_t step = (accepted_.size() + kMaxPoints - 1) / kMaxPoints;
  for (std::size_t from = 0; from < accepted_.size(); from += step) {
    const std::size_t until = std::min(from + step, accepted_.size());
    SeriesPoint point;
    point.at_s = static_cast<double>(from);
    for (std::size_t at = from; at < until; ++at) {
      point.accepted_per_s += accepted_[at] / static_cast<double>(until - from);
      point.refused_per_s += refused_[at] / static_cast<double>(until - from);
      point.window_share = std::max(point.window_share, shares[at]);
    }
    points.push_back(point);
  }
  return points;
}

/// Forwards every call and takes notes.
class RecordingPort final : public GovernorPort {
 public:
  RecordingPort(std::unique_ptr<GovernorPort> inner, Recording& recording)
      : inner_(std::move(inner)), recording_(recording) {}

  governor::Outcome submit(const Call& call, Instant now) override {
    const governor::Outcome outcome = inner_->submit(call, now);
    CallId id;
    if (const auto* admitted = std::get_if<governor::Admitted>(&outcome)) id = admitted->call;
    if (const auto* queued = std::get_if<governor::Queued>(&outcome)) id = queued->call;
    if (!id.valid()) return outcome;
    if (id.slot >= recording_.tracks_.size()) recording_.tracks_.resize(id.slot + 1);
    recording_.tracks_[id.slot] = {
        now, now, 0, call.demand.max_output_tokens.value_or(recording_.default_max_output_)};
    return outcome;
  }
  bool advance(Instant now, std::vector<governor::Event>& events) override {
    return inner_->advance(now, events);
  }
  [[nodiscard]] Instant next_deadline() const override { return inner_->next_deadline(); }
  void sent(CallId call, Instant granted, Instant now) override {
    if (call.slot < recording_.tracks_.size()) {
      Recording::Track& track = recording_.tracks_[call.slot];
      track.left = now;
      if (++track.attempts > 1) ++recording_.retries_;
    }
    inner_->sent(call, granted, now);
  }
  void progress(CallId call, std::int64_t output_events, Instant now) override {
    inner_->progress(call, output_events, now);
  }
  void signal(DeploymentId deployment, const Signal& signal, Instant now) override {
    inner_->signal(deployment, signal, now);
  }
  governor::Verdict rejected(CallId call, const Signal& signal, bool replayable,
                             Instant now) override {
    recording_.add(recording_.refused_, now, 1);
    return inner_->rejected(call, signal, replayable, now);
  }
  governor::Settled settle(CallId call, const Settlement& settlement, Instant now) override {
    if (settlement.ending == Ending::completed && call.slot < recording_.tracks_.size()) {
      recording_.answered(recording_.tracks_[call.slot], settlement.reported.value_or(Usage{}),
                          now);
    }
    return inner_->settle(call, settlement, now);
  }
  void cancel(CallId call, Instant now) override { inner_->cancel(call, now); }
  void snapshot(governor::Snapshot& into, Instant now) const override {
    inner_->snapshot(into, now);
  }

 private:
  std::unique_ptr<GovernorPort> inner_;
  Recording& recording_;
};

MakePort recorded(MakePort inner, Recording& recording) {
  return [inner = std::move(inner), &recording](std::shared_ptr<const Policy> policy,
                                                std::uint64_t seed, Instant now) {
    return std::make_unique<RecordingPort>(inner(std::move(policy), seed, now), recording);
  };
}

}  // namespace weir::sim
