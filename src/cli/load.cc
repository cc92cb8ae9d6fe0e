// SPDX-License-Identifier: Apache-2.0
#include "cli/load.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <ostream>
#include <utility>
#include <vector>

#include "cli/main_cli.h"
#include "config/address.h"
#include "load/driver.h"
#include "net/runtime.h"

namespace weir::cli {
namespace {

using Steady = std::chrono::steady_clock;

/// Hands tasks to a loop when they are due. The waiting is done by the thread that calls `run`.
class Clockwork final : public load::Scheduler {
 public:
  explicit Clockwork(http::Loop& loop) : loop_(loop) {}

  void at(Instant when, std::function<void()> task) override {
    const std::lock_guard lock(mutex_);
    due_.push_back({when, ++number_, std::move(task)});
    std::ranges::push_heap(due_, later);
    changed_.notify_one();
  }

  void end() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_one();
  }

  /// Until `end`. Tasks that are left then are dropped.
  void run(Duration watch_every, const std::function<void()>& watch) {
    Instant next_watch = net::monotonic_now();
    std::unique_lock lock(mutex_);
    while (!over_) {
      const Instant now = net::monotonic_now();
      while (!due_.empty() && due_.front().when <= now) {
        std::ranges::pop_heap(due_, later);
        loop_.post(std::move(due_.back().task));
        due_.pop_back();
      }
      if (watch && now >= next_watch) {
        next_watch = now + watch_every;
        lock.unlock();
        watch();
        lock.lock();
        continue;
      }
      Instant until = due_.empty() ? kNever : due_.front().when;
      if (watch) until = std::min(until, next_watch);
      if (until == kNever) {
        changed_.wait(lock);
      } else {
        changed_.wait_for(lock, until - now);
      }
    }
  }

 private:
  struct Task {
    Instant when;
    std::uint64_t number;
    std::function<void()> task;
  };
  static bool later(const Task& left, const Task& right) {
    return std::pair(left.when, left.number) > std::pair(right.when, right.number);
  }

  http::Loop& loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> due_;
  std::uint64_t number_ = 0;
  bool over_ = false;
};

/// Each call in flight is a socket; the usual soft limit of 1024 is too low for a load generator.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<std::string> read_file(const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored) && !std::filesystem::is_regular_file(name, ignored)) {
    return fail(ErrorCode::io, fmt::format("{} is no regular file", name));
  }
  std::ifstream in(name, std::ios::binary);
  if (!in) return fail(ErrorCode::io, fmt::format("cannot read {}", name));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Result<load::Target> target_of(const std::string& url, const load::Workload& workload) {
  const auto parsed = config::parse_base_url(url);
  if (!parsed) {
    return fail(ErrorCode::invalid_config,
                fmt::format("{}; {}", parsed.error().message, parsed.error().fix));
  }
  load::Target target;
  target.endpoint.name = "load";
  target.endpoint.tls = parsed->scheme == "https";
  target.endpoint.host = parsed->host;
  target.endpoint.port = parsed->port;
  target.endpoint.first_byte_timeout = workload.timeout;
  target.endpoint.idle_timeout = workload.timeout;
  target.endpoint.total_timeout = workload.timeout;
  target.host = fmt::format("{}:{}", parsed->host, parsed->port);
  target.path = parsed->path.empty() ? "/v1" : parsed->path;
  return target;
}

}  // namespace

Result<load::Workload> load_workload(const std::string& file) {
  const auto text = read_file(file);
  if (!text) return fail(text.error());
  auto read = load::read_workload(*text, file, &read_file);
  if (read.workload) return std::move(*read.workload);
  std::string faults;
  for (const auto& fault : read.faults) {
    if (!faults.empty()) faults += '\n';
    faults += config::render(fault);
  }
  return fail(ErrorCode::invalid_config, std::move(faults));
}

Result<load::Report> send_workload(const load::Workload& workload, const std::string& url,
                                   Duration watch_every, const std::function<void()>& watch) {
  raise_descriptor_limit();
  auto target = target_of(url, workload);
  if (!target) return fail(target.error());
  auto runtime = net::Runtime::create(1);
  if (!runtime) return fail(runtime.error());
  if (const auto started = (*runtime)->start(); !started) return fail(started.error());
  http::Loop& loop = (*runtime)->loop(0);
  Clockwork clockwork(loop);
  auto driver =
      std::make_unique<load::Driver>(workload, std::move(*target), loop, (*runtime)->connector(0),
                                     clockwork, [&clockwork] { clockwork.end(); });
  loop.post([&driver] { driver->start(); });
  clockwork.run(watch_every, watch);
  (*runtime)->stop();
  return load::sum_up(workload, driver->records());
}

std::string load_hint(const load::Workload& workload, const load::Report& report) {
  const bool keys = std::ranges::any_of(workload.clients,
                                        [](const load::Client& each) { return !each.key.empty(); });
  const bool refused = std::ranges::any_of(
      report.reasons, [](const load::Reason& reason) { return reason.status == 401; });
  if (refused) {
    return keys ? "a key was not accepted; compare clients[].key with the gateway's hashes "
                  "(weir keys hash)"
                : "the gateway asks for keys and the workload has none; give each of its clients "
                  "one as clients[].key (weir keys new makes them)";
  }
  if (keys || report.tenants.size() < 2) return {};
  return "the clients of this workload have no keys, so a gateway with auth: none takes all of "
         "them "
         "for its tenant \"default\"; the tenants of the table are told apart by weir load alone. "
         "To try limits and shares of tenants, set auth: required and give clients[].key";
}

int load(const LoadOptions& options, std::ostream& out, std::ostream& err) {
  const auto workload = load_workload(options.workload);
  if (!workload) {
    err << "weir load: " << workload.error().text << '\n';
    return workload.error().code == ErrorCode::invalid_config ? kInvalidConfig : kFailed;
  }
  const auto report = send_workload(*workload, options.url, std::chrono::seconds(1), {});
  if (!report) {
    err << "weir load: " << report.error().describe() << '\n';
    return report.error().code == ErrorCode::invalid_config ? kUsage : kFailed;
  }
  out << (options.json ? load::report_json(*report) + "\n" : load::report_text(*report));
  if (const std::string hint = load_hint(*workload, *report); !hint.empty()) {
    err << "weir load: " << hint << '\n';
  }
  return report->all.failed + report->all.not_sent == 0 ? kDone : kFailed;
}

}  // namespace weir::cli
