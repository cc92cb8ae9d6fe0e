// SPDX-License-Identifier: Apache-2.0
// Any sequence of governor calls: it comes to rest, holds what it says, and ends with nothing.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "weir/governor.h"

namespace {

using namespace weir;
using namespace weir::governor;

void require(bool condition) {
  if (!condition) std::abort();
}

constexpr const char* kNames[] = {"p", "q", "r"};
constexpr std::int64_t kMaxCalls = 256;

/// Reads the input as small numbers; zeroes once it is used up.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  [[nodiscard]] bool empty() const { return at_ >= size_; }
  std::uint8_t next() { return at_ < size_ ? data_[at_++] : std::uint8_t{0}; }
  std::int64_t amount() {
    const std::uint8_t kind = next();
    if (kind == 255) return INT64_MAX;
    return kind % 8 == 0 ? 0 : std::int64_t{next()} << (kind % 24U);
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

Rule any_rule(Bytes& bytes) {
  Rule rule;
  rule.unit = kAllUnits[bytes.next() % kUnitCount];
  rule.amount = bytes.amount();
  const Duration windows[] = {std::chrono::seconds(1), std::chrono::seconds(10),
                              std::chrono::seconds(60), std::chrono::hours(24)};
  rule.window = rule.unit == Unit::concurrency ? Duration{0} : windows[bytes.next() % 4];
  rule.enforce = static_cast<Enforcement>(bytes.next() % 4);
  rule.count = static_cast<Counting>(bytes.next() % 5);
  if (bytes.next() % 4 == 0) rule.burst = std::max<std::int64_t>(1, bytes.amount());
  return rule;
}

std::shared_ptr<Policy> any_policy(Bytes& bytes) {
  auto policy = std::make_shared<Policy>();
  policy->nodes = {{"org", NodeKind::organization, NodeId(), {}, Mode::enforce},
                   {"a", NodeKind::tenant, NodeId(0), {}, Mode::enforce},
                   {"b", NodeKind::tenant, NodeId(0), {}, Mode::enforce}};
  for (auto& node : policy->nodes) {
    if (bytes.next() % 2 == 0) node.limits.push_back(any_rule(bytes));
    if (bytes.next() % 8 == 0) node.mode = Mode::observe;
  }
  for (const char* name : {"x", "y"}) {
    DeploymentPolicy deployment;
    deployment.name = name;
    for (int i = bytes.next() % 4; i > 0; --i) deployment.rules.push_back(any_rule(bytes));
    deployment.strategy = static_cast<Strategy>(bytes.next() % 4);
    deployment.mode = bytes.next() % 8 == 0 ? Mode::observe : Mode::enforce;
    deployment.start_level = bytes.next() % 2 == 0 ? 1 : 0;
    deployment.send_lease = std::chrono::seconds(bytes.next());
    deployment.warmup = std::chrono::seconds(bytes.next() % 8 == 0 ? 20 : 0);
    policy->deployments.push_back(deployment);
  }
  // A reload may take profiles and classes away, or put them in another order.
  const std::size_t profiles = 1 + bytes.next() % 3;
  const std::size_t turned = bytes.next() % 2;
  for (std::size_t i = 0; i < profiles; ++i) {
    ProfilePolicy profile;
    profile.name = kNames[(i + turned) % 3];
    profile.candidates = {{DeploymentId(0), 0, 2}, {DeploymentId(1), bytes.next() % 2, 1}};
    policy->profiles.push_back(profile);
  }
  const std::size_t classes = 1 + bytes.next() % 3;
  for (std::size_t i = 0; i < classes; ++i) {
    ClassPolicy traffic_class;
    traffic_class.name = kNames[(i + turned) % 3];
    traffic_class.depth = 100;
    policy->classes.push_back(traffic_class);
  }
  policy->max_calls = kMaxCalls;
  return policy;
}

class Drive {
 public:
  explicit Drive(Bytes& bytes) : bytes_(bytes), governor_(any_policy(bytes), 1, now_) {}

  void run() {
    while (!bytes_.empty()) {
      step();
      // What falls due is not always looked at between two steps.
      if (bytes_.next() % 2 == 0) rest();
      check();
    }
    for (const CallId id : calls_) governor_.cancel(id, now_);
    Snapshot view;
    governor_.snapshot(view, now_);
    require(view.inflight == 0 && view.queued == 0);
    for (const auto& deployment : view.deployments) {
      for (const auto& meter : deployment.meters) require(meter.reserved == 0);
    }
  }

 private:
  void rest() {
    for (int rounds = 0;; ++rounds) {
      require(rounds < 10000);
      std::vector<Event> events;
      const bool more = governor_.advance(now_, events);
      require(events.size() <= 64);
      if (!more && governor_.next_deadline() > now_) return;
    }
  }

  void check() {
    Snapshot view;
    governor_.snapshot(view, now_);
    require(view.inflight >= 0 && view.queued >= 0 && view.inflight + view.queued <= kMaxCalls);
    std::int64_t in_classes = 0;
    for (const auto& one : view.classes) {
      require(one.depth >= 0 && one.oldest >= Duration{0});
      in_classes += one.depth;
    }
    require(in_classes <= view.queued);
    for (const auto& deployment : view.deployments) {
      for (const auto& meter : deployment.meters) require(meter.reserved >= 0 && meter.used >= 0);
    }
  }

  CallId any_call() {
    return calls_.empty() ? CallId{} : calls_[(3U * bytes_.next()) % calls_.size()];
  }

  void submit() {
    Call call;
    call.leaf = NodeId(bytes_.next() % 4);
    call.profile = ProfileId(bytes_.next() % 4);
    call.traffic_class = ClassId(bytes_.next() % 4);
    call.demand.input_bytes = bytes_.amount();
    if (bytes_.next() % 2 == 0) call.demand.max_output_tokens = bytes_.amount();
    call.demand.choices = bytes_.amount();
    const Outcome outcome = governor_.submit(call, now_);
    if (const auto* admitted = std::get_if<Admitted>(&outcome)) calls_.push_back(admitted->call);
    if (const auto* queued = std::get_if<Queued>(&outcome)) calls_.push_back(queued->call);
    // A call that has ended is harmless to name, so the list only needs a bound.
    if (calls_.size() > 600) {
      for (std::size_t i = 0; i < 100; ++i) governor_.cancel(calls_[i], now_);
      calls_.erase(calls_.begin(), calls_.begin() + 100);
    }
  }

  void step() {
    const std::uint8_t kind = bytes_.next();
    switch (kind % 10) {
      case 0:
      case 1: submit(); break;
      case 2: {
        // More than one hold of the lock takes.
        for (int i = bytes_.next() % 80; i > 0; --i) submit();
        break;
      }
      case 3:
        now_ = saturating_add(now_, std::chrono::milliseconds(bytes_.amount() % 100000));
        break;
      case 4: governor_.sent(any_call(), now_); break;
      case 5: governor_.progress(any_call(), bytes_.amount(), now_); break;
      case 6: {
        Settlement settlement;
        settlement.ending = static_cast<Ending>(bytes_.next() % 5);
        if (bytes_.next() % 2 == 0) {
          settlement.reported = Usage{bytes_.amount(), bytes_.amount(), std::nullopt, std::nullopt};
        }
        governor_.settle(any_call(), settlement, now_);
        break;
      }
      case 7: {
        Signal signal;
        signal.kind = bytes_.next() % 2 == 0 ? SignalClass::rate_limited : SignalClass::overloaded;
        signal.limiter = static_cast<Limiter>(bytes_.next() % 16);
        if (bytes_.next() % 2 == 0) signal.retry_after = std::chrono::seconds(bytes_.next());
        governor_.rejected(any_call(), signal, bytes_.next() % 2 == 0, now_);
        break;
      }
      case 8: governor_.cancel(any_call(), now_); break;
      default: governor_.apply(any_policy(bytes_), now_); break;
    }
  }

  Bytes& bytes_;
  Instant now_{std::chrono::seconds(1000)};
  Governor governor_;
  std::vector<CallId> calls_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, std::min<std::size_t>(size, 4096));
  Drive(bytes).run();
  return 0;
}
