// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "http/exchange.h"
#include "load/report.h"
#include "load/workload.h"
#include "weir/rng.h"
#include "weir/time.h"

namespace weir::load {

/// Runs tasks on the loop's thread at a time. Implemented by the shell.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual void at(Instant when, std::function<void()> task) = 0;
};

/// Where the calls go.
struct Target {
  http::Endpoint endpoint;
  std::string host;  ///< the Host field
  std::string path;  ///< in front of /chat/completions, "/v1"
};

class Call;

/// Sends a workload's calls when they are due, whatever became of those before (open loop), and
/// keeps a record of each. Threads: the loop's, but for the constructor.
class Driver {
 public:
  Driver(const Workload& workload, Target target, http::Loop& loop, http::Connector& connector,
         Scheduler& scheduler, std::function<void()> done);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// Begins now; `done` is called when the last call has ended.
  void start();
  [[nodiscard]] const std::vector<CallRecord>& records() const { return records_; }

 private:
  friend class Call;
  void schedule_next();
  void arrive(const Arrival& arrival);
  void ended(std::uint64_t number, const CallRecord& record);
  void note_reason(CallRecord& record);
  void finish_if_over();

  const Workload& workload_;
  const Target target_;
  http::Loop& loop_;
  http::Connector& connector_;
  Scheduler& scheduler_;
  std::function<void()> done_;
  Arrivals arrivals_;
  Rng jitter_;
  Instant begun_;
  bool all_arrived_ = false;
  std::unordered_map<std::uint64_t, std::unique_ptr<Call>> calls_;
  std::vector<CallRecord> records_;
  /// The kinds of failure seen, whose message one record keeps.
  std::set<std::pair<std::uint16_t, std::string>> reasons_;
};

}  // namespace weir::load
