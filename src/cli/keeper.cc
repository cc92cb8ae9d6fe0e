// SPDX-License-Identifier: Apache-2.0
#include "cli/keeper.h"

#include <ctime>
#include <fstream>
#include <string>
#include <utility>

namespace weir::cli {

stores::Moment machine_moment(WallTime wall) {
  stores::Moment moment;
  moment.wall = wall;
  timespec since{};
  if (clock_gettime(CLOCK_BOOTTIME, &since) != 0) return moment;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!std::getline(file, moment.boot)) moment.boot.clear();
  moment.since_boot = std::chrono::seconds(since.tv_sec) + Duration(since.tv_nsec);
  return moment;
}

Keeper::Keeper(Parts parts) : parts_(std::move(parts)) {}

Result<std::unique_ptr<Keeper>> Keeper::start(Parts parts) {
  std::unique_ptr<Keeper> keeper(new Keeper(std::move(parts)));
  // What a predecessor left complete is no longer so as soon as a request may be sent.
  if (auto written = keeper->write(false); !written) return fail(written.error());
  keeper->thread_ = std::thread([at = keeper.get()] { at->run(); });
  return keeper;
}

Keeper::~Keeper() { stop(); }

void Keeper::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakes_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Keeper::run() {
  std::unique_lock lock(mutex_);
  while (!wakes_.wait_for(lock, parts_.every, [this] { return stopping_; })) {
    lock.unlock();
    tell(write(false));
    lock.lock();
  }
}

void Keeper::finish(bool complete) {
  stop();
  revision_.reset();
  tell(write(complete));
}

Result<void> Keeper::write(bool complete) {
  stores::WrittenMemory memory;
  memory.memory = parts_.take();
  // The moment last: a charge is then held for a little longer, never for less.
  memory.written = parts_.moment();
  memory.complete = complete;
  if (revision_ == memory.memory.revision) return {};
  if (memory.memory.left_out > 0 && !std::exchange(told_left_out_, true)) {
    parts_.log.write(telemetry::LogLevel::warn, "state_left_out",
                     {{"meters", static_cast<std::int64_t>(memory.memory.left_out)},
                      {"kept", static_cast<std::int64_t>(memory.memory.meters.size())}});
  }
  auto written = parts_.file->write(memory);
  if (written) {
    revision_ = memory.memory.revision;
    parts_.written.add();
  } else {
    parts_.failed.add();
  }
  return written;
}

void Keeper::tell(const Result<void>& written) {
  const bool failed = !written;
  if (failed == failing_) return;
  failing_ = failed;
  if (failed) {
    parts_.log.write(telemetry::LogLevel::error, "state_not_written",
                     {{"file", std::string_view(parts_.file->path())},
                      {"reason", std::string_view(written.error().text)}});
  } else {
    parts_.log.write(telemetry::LogLevel::info, "state_written_again",
                     {{"file", std::string_view(parts_.file->path())}});
  }
}

}  // namespace weir::cli
