// SPDX-License-Identifier: Apache-2.0
#include "gateway/dispatcher.h"

#include <utility>

namespace weir::gateway {
namespace {

// A cookie is: 12 bits of mailbox, 24 bits of slot, 28 bits of generation.
constexpr unsigned kGenerationBits = 28;
constexpr unsigned kSlotBits = 24;
constexpr std::uint32_t kGenerationMask = (1U << kGenerationBits) - 1;
constexpr std::uint32_t kSlotMask = (1U << kSlotBits) - 1;

std::uint32_t slot_of(std::uint64_t cookie) {
  return static_cast<std::uint32_t>(cookie >> kGenerationBits) & kSlotMask;
}
std::uint32_t generation_of(std::uint64_t cookie) {
  return static_cast<std::uint32_t>(cookie) & kGenerationMask;
}
std::uint32_t mailbox_of(std::uint64_t cookie) {
  return static_cast<std::uint32_t>(cookie >> (kGenerationBits + kSlotBits));
}

}  // namespace

std::uint64_t Mailbox::open(Receiver& receiver) {
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[index];
  slot.receiver = &receiver;
  slot.generation = (slot.generation + 1) & kGenerationMask;
  return (std::uint64_t{number_} << (kGenerationBits + kSlotBits)) |
         (std::uint64_t{index} << kGenerationBits) | slot.generation;
}

Receiver* Mailbox::find(std::uint64_t cookie) {
  const std::uint32_t index = slot_of(cookie);
  if (index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.generation == generation_of(cookie) ? slot.receiver : nullptr;
}

void Mailbox::close(std::uint64_t cookie) {
  if (find(cookie) == nullptr) return;
  slots_[slot_of(cookie)].receiver = nullptr;
  free_.push_back(slot_of(cookie));
}

void Mailbox::deliver(const governor::Event& event, const std::shared_ptr<const Plan>& plan) {
  // A receiver that died has cancelled its call; the governor knows and nothing is owed here.
  if (Receiver* receiver = find(event.cookie)) receiver->on_event(event, plan);
}

void Mailbox::drain(bool last) {
  // A receiver may end within the call and free its slot; slots are never removed meanwhile.
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (Receiver* receiver = slots_[i].receiver) receiver->on_drain(last);
  }
}

Dispatcher::Core::Core(std::shared_ptr<const Plan> first, std::uint64_t seed, Instant now)
    : plan(std::move(first)), governor(plan->shared_policy(), seed, now) {}

Dispatcher::Dispatcher(std::shared_ptr<const Plan> plan, std::uint64_t seed, Instant now, Wake wake)
    : core_(std::move(plan), seed, now), wake_(std::move(wake)) {}

std::shared_ptr<Mailbox> Dispatcher::make_mailbox(http::Loop& loop) {
  return mailboxes_.with([&](auto& mailboxes) {
    auto mailbox = std::make_shared<Mailbox>(static_cast<std::uint32_t>(mailboxes.size()), loop);
    mailboxes.push_back(mailbox);
    return mailbox;
  });
}

void Dispatcher::collect(Core& core, Instant now, Due& due) {
  due.learned = core.governor.has_learned();
  Instant next = core.governor.next_deadline();
  if (next <= now) {
    core.governor.advance(now, core.events);
    if (!core.events.empty()) {
      due.events.swap(core.events);
      core.events.clear();
      due.plan = core.plan;
    }
    next = core.governor.next_deadline();
  }
  if (next < core.armed) {
    core.armed = next;
    due.wake = next;
  }
}

void Dispatcher::deliver(Due& due) {
  if (due.learned) learned_.store(true, std::memory_order_relaxed);
  if (!due.events.empty()) {
    // One task for each mailbox, with all its events, in order.
    std::vector<std::pair<std::uint32_t, std::vector<governor::Event>>> batches;
    for (const auto& event : due.events) {
      const std::uint32_t number = mailbox_of(event.cookie);
      auto batch = batches.begin();
      while (batch != batches.end() && batch->first != number) ++batch;
      if (batch == batches.end()) batch = batches.insert(batch, {number, {}});
      batch->second.push_back(event);
    }
    for (auto& [number, batch] : batches) {
      auto mailbox = mailboxes_.with([at = number](auto& mailboxes) {
        return at < mailboxes.size() ? mailboxes[at] : std::shared_ptr<Mailbox>();
      });
      if (!mailbox) continue;
      http::Loop& loop = mailbox->loop();
      loop.post([mailbox = std::move(mailbox), events = std::move(batch), plan = due.plan] {
        for (const auto& event : events) mailbox->deliver(event, plan);
      });
    }
  }
  if (due.wake && wake_) wake_(*due.wake);
}

std::optional<Dispatcher::Submission> Dispatcher::submit(const Call& call, const Plan& plan,
                                                         Instant now) {
  Due due;
  auto submission = core_.with([&](Core& core) -> std::optional<Submission> {
    if (core.plan.get() != &plan) return std::nullopt;
    Submission made{core.governor.submit(call, now), {}};
    made.limits = core.governor.caller_limits(call.leaf, call.profile, now);
    collect(core, now, due);
    return made;
  });
  deliver(due);
  return submission;
}

std::optional<governor::CallerLimits> Dispatcher::caller_limits(NodeId leaf, ProfileId profile,
                                                                const Plan& plan, Instant now) {
  return core_.with([&](Core& core) -> std::optional<governor::CallerLimits> {
    if (core.plan.get() != &plan) return std::nullopt;
    return core.governor.caller_limits(leaf, profile, now);
  });
}

void Dispatcher::sent(CallId call, Instant now) {
  Due due;
  core_.with([&](Core& core) {
    core.governor.sent(call, now);
    collect(core, now, due);
  });
  deliver(due);
}

void Dispatcher::progress(CallId call, std::int64_t output_events, Instant now) {
  Due due;
  core_.with([&](Core& core) {
    core.governor.progress(call, output_events, now);
    collect(core, now, due);
  });
  deliver(due);
}

void Dispatcher::signal(DeploymentId deployment, const Plan& plan, const Signal& signal,
                        Instant now) {
  Due due;
  core_.with([&](Core& core) {
    // After a reload the id may name another deployment; the name still tells which.
    auto current = std::optional(deployment);
    if (core.plan.get() != &plan) {
      current = core.plan->find_deployment(plan.deployment(deployment).name);
    }
    if (!current) return;
    core.governor.signal(*current, signal, now);
    collect(core, now, due);
  });
  deliver(due);
}

governor::Verdict Dispatcher::rejected(CallId call, const Signal& signal, bool replayable,
                                       Instant now) {
  Due due;
  auto verdict = core_.with([&](Core& core) {
    auto answer = core.governor.rejected(call, signal, replayable, now);
    collect(core, now, due);
    return answer;
  });
  deliver(due);
  return verdict;
}

governor::Settled Dispatcher::settle(CallId call, const Settlement& settlement, Instant now,
                                     Usage* charged) {
  Due due;
  const auto settled = core_.with([&](Core& core) {
    const auto answer = core.governor.settle(call, settlement, now, charged);
    if (core.governor.has_debt_alarms()) debt_alarms_.store(true, std::memory_order_relaxed);
    if (core.governor.has_congestion_notes()) {
      congestion_notes_.store(true, std::memory_order_relaxed);
    }
    collect(core, now, due);
    return answer;
  });
  deliver(due);
  return settled;
}

std::vector<governor::DebtAlarm> Dispatcher::take_debt_alarms() {
  return core_.with([&](Core& core) {
    debt_alarms_.store(false, std::memory_order_relaxed);
    return core.governor.take_debt_alarms();
  });
}

std::vector<governor::LearnedNote> Dispatcher::take_learned() {
  return core_.with([&](Core& core) {
    learned_.store(false, std::memory_order_relaxed);
    return core.governor.take_learned();
  });
}

std::vector<governor::CongestionNote> Dispatcher::take_congestion_notes() {
  return core_.with([&](Core& core) {
    congestion_notes_.store(false, std::memory_order_relaxed);
    return core.governor.take_congestion_notes();
  });
}

void Dispatcher::cancel(CallId call, Instant now) {
  Due due;
  core_.with([&](Core& core) {
    core.governor.cancel(call, now);
    collect(core, now, due);
  });
  deliver(due);
}

Instant Dispatcher::poll(Instant now) {
  for (;;) {
    Due due;
    const Instant next = core_.with([&](Core& core) {
      // The pacer is awake: whatever it is told here is what it is set to next.
      core.armed = kDawn;
      collect(core, now, due);
      core.armed = core.governor.next_deadline();
      return core.armed;
    });
    const bool more = !due.events.empty() && next <= now;
    deliver(due);
    if (!more) return next;
  }
}

void Dispatcher::apply(std::shared_ptr<const Plan> plan, Instant now) {
  Due due;
  core_.with([&](Core& core) {
    core.plan = std::move(plan);
    core.governor.apply(core.plan->shared_policy(), now);
    collect(core, now, due);
  });
  deliver(due);
}

std::shared_ptr<const Plan> Dispatcher::plan() {
  return core_.with([](Core& core) { return core.plan; });
}

void Dispatcher::snapshot(governor::Snapshot& into, Instant now) {
  core_.with([&](Core& core) { core.governor.snapshot(into, now); });
}

Memory Dispatcher::remember(Instant now) {
  constexpr std::size_t kRoom = 256;
  Memory memory;
  MemoryCursor at;
  memory.callers.reserve(Memory::kCallers);
  bool more = true;
  while (more) {
    // Room is made without the lock: to move thousands of meters takes a millisecond.
    if (memory.meters.capacity() - memory.meters.size() < kRoom) {
      memory.meters.reserve(2 * memory.meters.size() + 2 * kRoom);
    }
    more = core_.with([&](Core& core) { return core.governor.remember(memory, at, now); });
  }
  return memory;
}

void Dispatcher::recall(const Memory& memory, const MemoryAge& age, Instant now) {
  core_.with([&](Core& core) { core.governor.recall(memory, age, now); });
}

void Dispatcher::drain(bool last) {
  const auto mailboxes = mailboxes_.with([](auto& all) { return all; });
  for (const auto& mailbox : mailboxes) {
    mailbox->loop().post([mailbox, last] { mailbox->drain(last); });
  }
}

}  // namespace weir::gateway
