// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "emulator/model/behaviour.h"
#include "emulator/model/other_consumer.h"
#include "emulator/model/provider_rules.h"
#include "emulator/model/wait_queue.h"
#include "sim/checkers.h"
#include "sim/event_queue.h"
#include "sim/harness.h"
#include "sim/headers.h"
#include "sim/port.h"
#include "sim/scenario.h"
#include "sim/starvation.h"
#include "sim/workload.h"
#include "weir/rng.h"
#include "weir/signal.h"

namespace weir::sim {

/// One run: clients, gateway shell, network and provider around a governor, moved from event to
/// event on a virtual clock that starts at 0. Used by `run`; see there.
class World {
 public:
  World(const Scenario& scenario, std::uint64_t seed, const MakePort& make_port);
  /// Moves time to the end of the last call and fills in everything but oracle and judgements.
  Report play();
  [[nodiscard]] const std::vector<Arrival>& arrivals() const { return arrivals_; }
  /// What became of each arrival in the line, for the checkers of whole runs.
  [[nodiscard]] std::vector<Turn> turns() const;

 private:
  enum class Kind : std::uint8_t {
    arrive,      // client: a request comes
    gone,        // client: it leaves
    depart,      // gateway: the request leaves for the provider
    reach,       // provider: the request is at the door
    produce,     // provider: output since the last time is metered
    finish,      // provider: the answer is complete
    fail,        // provider: a fault ends the attempt
    cut,         // provider: the gateway has closed the connection
    progress,    // gateway: part of a stream came
    refused,     // gateway: the provider's 429 came
    end,         // gateway: the answer's end came
    end_failed,  // gateway: an error came instead of an answer
    end_broken,  // gateway: the connection broke before the answer or inside it
    restart,     // gateway: the process dies and starts anew
    remember,    // gateway: writes down what it knows
    sample,      // checkers look
    step,        // provider: its limits change
    other,       // provider: the other consumer of the account
    queue,       // provider: its wait queue
    latency,     // provider: its speed changes
    network,     // the way between gateway and provider changes
  };
  struct Event {
    Instant at;
    std::uint64_t number = 0;
    std::uint32_t call = 0;
    std::uint32_t attempt = 0;
    Kind kind = Kind::arrive;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  enum class State : std::uint8_t { coming, waiting, granted, sent, done };
  struct CallState {
    State state = State::coming;
    CallId id;
    std::uint32_t attempt = 0;
    Instant granted;
    std::optional<Instant> first_granted;
    std::optional<Instant> admitted;
    Instant left;
    Instant reached;
    emulator::model::AttemptId provider = 0;  ///< not 0: open at the provider
    emulator::model::Timing timing;
    emulator::model::Fault fault;
    Duration way_back{0};
    std::int64_t heard = 0;    ///< stream events that came to the gateway
    std::int64_t metered = 0;  ///< output the checkers have charged to rules that count as produced
    std::optional<Duration> retry_after;
    std::optional<std::size_t> refused_by;
    bool refused_for_growth = false;
    bool refused_astray = false;
    bool overloaded = false;                 ///< answered with 503
    emulator::model::WaitTicket ticket = 0;  ///< not 0: waits at the provider
  };

  void schedule(Instant at, Kind kind, std::uint32_t call, std::uint32_t attempt = 0);
  /// The same for a series whose next event is always made `after` ahead.
  void schedule_next(Duration after, std::size_t line, const Event& event);
  void end_call(CallState& call);
  void handle(const Event& event);
  /// Answers when the governor wants to be called again.
  Instant drive(Instant now);
  Duration way();

  // client side
  void arrive(std::uint32_t call, Instant now);
  void leave(std::uint32_t call, Instant now);
  // gateway
  void on_event(const governor::Event& event, Instant now);
  void grant(std::uint32_t call, Instant now);
  void refuse(std::uint32_t call, const Refusal& refusal, Instant now);
  void depart(std::uint32_t call, Instant now);
  void progress(const Event& event);
  void refused(std::uint32_t call, Instant now);
  /// What the gateway makes of the refusal.
  [[nodiscard]] Signal refusal_signal(const CallState& call) const;
  void end(std::uint32_t call, Kind kind, Instant now);
  void tell_headers(std::uint32_t call, Instant now);
  void restart(Instant now);
  void remember(Instant now);
  // provider
  void reach(std::uint32_t call, Instant now);
  void answer_at_door(std::uint32_t call, const emulator::model::Admission& admission, Instant now);
  void step_limits(std::size_t step, Instant now);
  [[nodiscard]] bool refused_on_the_way();
  [[nodiscard]] Duration refusal_way();
  void let_others_come(Instant now);
  void advance_queue(Instant now);
  void schedule_queue(Instant now);
  void plan_answer(std::uint32_t call, Instant now);
  void produce(const Event& event);
  void close_at_provider(std::uint32_t call, Kind kind, Instant now);
  [[nodiscard]] std::int64_t produced_by(const CallState& call, std::uint32_t index,
                                         Instant now) const;
  // checking
  void meter_door(std::uint32_t call, Instant now, bool admitted);
  void note_charge(std::size_t rule, std::int64_t amount, Instant now);
  void meter_stream(std::uint32_t call, std::int64_t output, Instant now);
  void meter_end(std::uint32_t call, std::int64_t input, std::int64_t output, Instant now);
  void check(Instant now);
  void check_mirrors(const governor::DeploymentView& view, Instant now);
  void mix(std::string_view what, std::uint32_t call, Instant now);
  void finish_report(Instant now);

  const Scenario& scenario_;
  const MakePort& make_port_;
  std::uint64_t seed_;
  Rng network_;
  Network net_;  ///< as it is now
  Rng refusals_;
  Rng handshakes_;
  std::vector<Arrival> arrivals_;
  std::vector<CallState> calls_;
  emulator::model::ProviderRules provider_;
  emulator::model::OtherConsumer other_;
  emulator::model::WaitQueue queue_;
  std::map<emulator::model::WaitTicket, std::uint32_t> queued_;  ///< calls by ticket
  Instant queue_look_ = kNever;                                  ///< of the next `queue` event
  std::int64_t left_queue_ = 0;  ///< attempts whose caller went while they waited there
  HeaderTeller headers_;
  /// The headers of answers that have not come yet: what they say was true at admission.
  std::map<std::uint32_t, Signal> written_;
  emulator::model::LatencyModel latency_;
  emulator::model::FaultModel faults_;
  std::unique_ptr<GovernorPort> port_;
  Memory written_memory_;  ///< what the gateway has written down before it dies
  Instant written_at_{};
  EventQueue<Event> events_;
  std::uint64_t next_number_ = 0;
  bool meters_streams_ = false;
  bool stuck_ = false;
  Duration late_{0};  ///< how much past its time a call may be answered
  int idle_ = 0;      ///< advances in a row that did nothing, without an event in between

  OpenCalls open_;
  // Counted as they change: a look at every call of a long run for every sample took most of it.
  std::int64_t unfinished_ = 0;  ///< calls that have not ended, those that will still come included
  std::int64_t travelling_ = 0;  ///< attempts between the gateway and the provider's door
  std::vector<WindowChecker> admitted_;  ///< one for each rule of the provider
  std::vector<WindowChecker> offered_;   ///< the same with refused attempts, request rules
  std::vector<std::int64_t> charged_;    ///< by each rule in the time that is measured
  FifoChecker fifo_;
  std::vector<Duration> waits_;
  std::vector<Duration> first_tokens_;  ///< of streams, from departure
  std::vector<governor::Event> due_;
  governor::Snapshot snapshot_;
  Report report_;
};

}  // namespace weir::sim
