// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "stores/file/state_file.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "weir/memory.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir::cli {

/// This moment on the machine's clocks; `wall` is read by the caller.
stores::Moment machine_moment(WallTime wall);

/// The thread that writes down what was learned: every `every` where something has changed, and at
/// the end. No request waits for it. What cannot be written is logged once, and tried again.
class Keeper {
 public:
  struct Parts {
    std::unique_ptr<stores::StateFile> file;
    std::function<Memory()> take;            ///< what there is to write
    std::function<stores::Moment()> moment;  ///< now
    telemetry::Log& log;
    telemetry::Counter& written;
    telemetry::Counter& failed;
    Duration every = std::chrono::seconds(10);
  };

  /// Writes for the first time, so that a file which cannot be written is known at once, and starts
  /// the thread. Errors: io.
  static Result<std::unique_ptr<Keeper>> start(Parts parts);
  /// Ends the thread.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// Ends the thread and writes for the last time. `complete`: nothing is on its way any more.
  void finish(bool complete);

 private:
  explicit Keeper(Parts parts);
  void run();
  void stop();
  /// Writes, unless what stands in the file is what there is to write.
  Result<void> write(bool complete);
  void tell(const Result<void>& written);

  Parts parts_;
  std::optional<std::uint64_t> revision_;  ///< of what stands in the file
  bool failing_ = false;
  bool told_left_out_ = false;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weir::cli
