// SPDX-License-Identifier: Apache-2.0
#include "cli/serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/admin.h"
#include "cli/keeper.h"
#include "cli/main_cli.h"
#include "cli/pacer.h"
#include "cli/restart.h"
#include "cli/version.h"
#include "config/config.h"
#include "emulator/server.h"
#include "gateway/gateway.h"
#include "gateway/models.h"
#include "net/runtime.h"
#include "stores/file/state_file.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace weir::cli {

namespace {

/// The machine's clocks, as the gateway reads them.
class MachineClock final : public gateway::Clock {
 public:
  [[nodiscard]] Instant now() const override { return net::monotonic_now(); }
  [[nodiscard]] WallTime wall() const override {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return WallTime(std::chrono::duration_cast<Duration>(since_epoch));
  }
};

std::uint64_t random_word() {
  std::uint64_t word = 0;
  // getrandom gives up to 256 bytes whole once the system's pool is ready, which it waits for.
  while (getrandom(&word, sizeof word, 0) != static_cast<ssize_t>(sizeof word)) {
  }
  return word;
}

/// The signals that steer the process. They are blocked in every thread and taken one by one.
sigset_t steering_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGHUP, SIGTERM, SIGINT}) sigaddset(&set, number);
  return set;
}

/// The next signal, or 0 after `at_most`.
int next_signal(const sigset_t& set, Duration at_most) {
  timespec wait{};
  wait.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(at_most).count();
  wait.tv_nsec = (at_most % std::chrono::seconds(1)).count();
  const int number = sigtimedwait(&set, nullptr, &wait);
  return number > 0 ? number : 0;
}

/// How often a drain looks whether everything has ended.
constexpr Duration kLook = std::chrono::milliseconds(20);

net::Address net_address(const config::ListenAddress& address) {
  return {address.host, address.port, address.unix_path};
}

bool is_loopback(const net::Address& address) {
  return !address.unix_path.empty() || address.host == "localhost" || address.host == "::1" ||
         address.host.starts_with("127.");
}

/// Everything that runs, in the order in which it must be built; it ends in the reverse order.
class Service {
 public:
  Service(const ServeOptions& options, std::ostream& out, std::ostream& err, telemetry::Log& log)
      : options_(options), out_(out), err_(err), log_(log) {}

  /// Builds and starts everything. Errors: invalid_config (told already), io.
  Result<void> start();
  /// Takes signals until the process shall end. Returns the exit code.
  int run();

 private:
  struct Emulated {
    std::unique_ptr<emulator::Server> server;
  };

  Result<std::shared_ptr<config::Config>> load();
  Result<void> start_emulators(config::Config& config);
  Result<void> listen(const config::Config& config);
  Result<std::string> reload();
  /// Reads what a predecessor left, before there is a gateway.
  Result<void> keep_state(config::Config& config);
  /// Gives it to the gateway, and writes down what is learned from here on.
  Result<void> start_keeper();
  void announce(const config::Config& config);
  int drain();
  std::string admin_token(const config::Config& config);

  const ServeOptions& options_;
  std::ostream& out_;
  std::ostream& err_;
  telemetry::Log& log_;
  MachineClock clock_;
  telemetry::Registry registry_;
  sigset_t signals_ = steering_signals();
  std::map<std::string, Emulated> emulators_;  ///< by the file that describes them
  std::unique_ptr<gateway::Gateway> gateway_;
  std::unique_ptr<Pacer> pacer_;
  std::unique_ptr<stores::StateFile> state_file_;  ///< until the keeper has it
  stores::FoundMemory state_;
  std::unique_ptr<Keeper> keeper_;
  std::mutex reload_mutex_;
  std::string token_;
  bool token_made_ = false;
  std::shared_ptr<admin::Token> admin_token_;
  std::unique_ptr<admin::AdminParts> admin_parts_;
  std::vector<net::Address> data_addresses_, admin_addresses_;
  std::unique_ptr<net::Runtime> data_;
  std::unique_ptr<net::Runtime> admin_;
};

Result<std::shared_ptr<config::Config>> Service::load() {
  auto loaded = config::load_file(options_.config, config::process_environment);
  if (!loaded) return fail(loaded.error());
  if (!loaded->faults.empty() || loaded->config == nullptr) {
    std::string text;
    for (const auto& fault : loaded->faults) {
      if (!text.empty()) text += '\n';
      text += config::render(fault);
    }
    return fail(ErrorCode::invalid_config, std::move(text));
  }
  auto config = std::make_shared<config::Config>(*loaded->config);
  for (const auto& notice : config->notices) {
    log_.write(telemetry::LogLevel::info, "notice", {{"message", std::string_view(notice)}});
  }
  if (auto started = start_emulators(*config); !started) return fail(started.error());
  return config;
}

Result<void> Service::start_emulators(config::Config& config) {
  for (auto& provider : config.providers) {
    if (provider.kind != "emulated" || provider.off) continue;
    Emulated& emulated = emulators_[provider.emulator_config];
    if (emulated.server == nullptr) {
      auto server = emulator::Server::start(provider.emulator_config, {"127.0.0.1", 0, {}}, 1.0);
      if (!server) return fail(server.error());
      emulated.server = std::move(*server);
    }
    provider.scheme = "http";
    provider.host = emulated.server->address().host;
    provider.port = emulated.server->address().port;
    provider.path = "/v1";
  }
  return {};
}

std::string Service::admin_token(const config::Config& config) {
  if (!config.admin.token.empty()) return config.admin.token.reveal();
  token_made_ = true;
  return fmt::format("{:016x}{:016x}", random_word(), random_word());
}

Result<void> Service::listen(const config::Config& config) {
  net::ServerLimits limits;
  limits.body = static_cast<std::size_t>(config.server.body_limit);
  limits.header = static_cast<std::size_t>(config.server.header_limit);
  limits.header_timeout = config.server.header_timeout;
  limits.idle_timeout = config.server.idle_timeout;
  limits.connections = static_cast<std::size_t>(config.server.connections);
  limits.buffered = static_cast<std::size_t>(config.server.buffered);
  for (const auto& address : config.server.listen) {
    auto bound = data_->listen(net_address(address), limits,
                               [this](http::Loop& loop, http::Connector& connector) {
                                 return gateway_->make_handler(loop, connector);
                               });
    if (!bound) return fail(bound.error());
    data_addresses_.push_back(*bound);
  }
  net::ServerLimits admin_limits;
  admin_limits.body = std::size_t{1} << 20U;
  admin_limits.connections = 256;
  for (const auto& address : config.admin.listen) {
    const auto wanted = net_address(address);
    if (token_made_ && !is_loopback(wanted)) {
      return fail(ErrorCode::invalid_config,
                  fmt::format("admin.listen {} is reachable from outside and admin.token is not "
                              "set; set admin.token or admin.token_file",
                              wanted.text()));
    }
    auto bound = admin_->listen(wanted, admin_limits, [this](http::Loop&, http::Connector&) {
      return std::make_unique<admin::Handler>(*admin_parts_);
    });
    if (!bound) return fail(bound.error());
    admin_addresses_.push_back(*bound);
  }
  return {};
}

Result<void> Service::keep_state(config::Config& config) {
  if (config.state_file.empty()) return {};
  auto file = stores::StateFile::open(config.state_file);
  if (!file) return fail(file.error());
  auto found = (*file)->read(machine_moment(clock_.wall()));
  if (!found) return fail(found.error());
  if (!found->trouble.empty()) {
    log_.write(telemetry::LogLevel::warn, found->put_aside ? "state_unreadable" : "state_odd",
               {{"message", std::string_view(found->trouble)}});
    config.notices.push_back(found->trouble);
  }
  state_file_ = std::move(*file);
  state_ = std::move(*found);
  return {};
}

Result<void> Service::start_keeper() {
  if (state_file_ == nullptr) return {};
  if (state_.memory) {
    gateway_->recall(*state_.memory, state_.age);
    const auto seconds = [](Duration age) {
      return std::chrono::duration_cast<std::chrono::seconds>(age).count();
    };
    log_.write(telemetry::LogLevel::info, "state_recalled",
               {{"file", std::string_view(state_file_->path())},
                {"age_s", static_cast<std::int64_t>(seconds(state_.age.at_least))},
                {"complete", state_.age.complete},
                {"limits", static_cast<std::int64_t>(state_.memory->meters.size())},
                {"deployments", static_cast<std::int64_t>(state_.memory->deployments.size())},
                {"callers", static_cast<std::int64_t>(state_.memory->callers.size())}});
    state_.memory.reset();
  }
  auto& writes = gateway_->meters().state_writes;
  auto keeper = Keeper::start({std::move(state_file_), [this] { return gateway_->remember(); },
                               [this] { return machine_moment(clock_.wall()); }, log_,
                               writes.with({"written"}), writes.with({"failed"})});
  if (!keeper) return fail(keeper.error());
  keeper_ = std::move(*keeper);
  return {};
}

Result<void> Service::start() {
  auto config = load();
  if (!config) return fail(config.error());
  if (auto kept = keep_state(**config); !kept) return fail(kept.error());
  token_ = admin_token(**config);
  admin_token_ = std::make_shared<admin::Token>(config::Secret(token_));
  auto runtime = net::Runtime::create(static_cast<std::size_t>((*config)->server.threads));
  if (!runtime) return fail(runtime.error());
  data_ = std::move(*runtime);
  auto admin_runtime = net::Runtime::create(1);
  if (!admin_runtime) return fail(admin_runtime.error());
  admin_ = std::move(*admin_runtime);
  gateway_ =
      std::make_unique<gateway::Gateway>(*config, gateway::GatewayParts{clock_, registry_, log_,
                                                                        [this](Instant at) {
                                                                          if (pacer_)
                                                                            pacer_->wake(at);
                                                                        },
                                                                        random_word()});
  auto pacer = Pacer::start([this](Instant now) { return gateway_->poll(now); },
                            [this](Duration late) { gateway_->note_pacer_lateness(late); });
  if (!pacer) return fail(pacer.error());
  pacer_ = std::move(*pacer);
  admin_parts_ = std::make_unique<admin::AdminParts>(admin::AdminParts{
      *gateway_, registry_, admin_token_, [this] { return reload(); }, version(), commit()});
  if (auto started = start_keeper(); !started) return fail(started.error());
  if (auto listening = listen(**config); !listening) return fail(listening.error());
  if (auto started = data_->start(); !started) return fail(started.error());
  if (auto started = admin_->start(); !started) return fail(started.error());
  announce(**config);
  return {};
}

/// A model that the ready-made call may name: one that a key of the file may use, if it asks for
/// one.
std::string model_to_try(const config::Config& config) {
  for (const auto& profile : config.policy.profiles) {
    if (profile.name == "*") continue;
    if (!config.auth_required) return profile.name;
    for (const auto& key : config.keys) {
      if (gateway::may_use(gateway::Identity{&key}, profile.name)) return profile.name;
    }
  }
  return "MODEL";
}

void Service::announce(const config::Config& config) {
  for (const auto& address : data_addresses_) {
    log_.write(
        telemetry::LogLevel::info, "listening",
        {{"plane", std::string_view("data")}, {"address", std::string_view(address.text())}});
  }
  for (const auto& address : admin_addresses_) {
    log_.write(
        telemetry::LogLevel::info, "listening",
        {{"plane", std::string_view("admin")}, {"address", std::string_view(address.text())}});
  }
  const std::string model = model_to_try(config);
  if (!data_addresses_.empty() && data_addresses_.front().unix_path.empty()) {
    const std::string key =
        config.auth_required ? " -H 'authorization: Bearer YOUR-WEIR-KEY'" : std::string();
    out_ << fmt::format(
        "weir is ready. Try it:\n\n"
        "  curl http://{}/v1/chat/completions -H 'content-type: application/json'{} -d "
        "'{{\"model\":\"{}\",\"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}]}}'\n\n",
        data_addresses_.front().text(), key, model);
  }
  if (!admin_addresses_.empty()) {
    out_ << fmt::format("Dashboard: http://{}/{}\n", admin_addresses_.front().text(),
                        token_made_ ? "#token=" + token_ : std::string());
  }
  out_.flush();
}

Result<std::string> Service::reload() {
  const std::lock_guard lock(reload_mutex_);
  auto config = load();
  if (!config) {
    gateway_->note_failed_reload(config.error().text);
    return fail(config.error());
  }
  std::string answer = "reloaded " + options_.config;
  const std::string waiting = keep_until_restart(gateway_->plan()->config(), **config);
  if (!waiting.empty()) {
    std::string notice = "needs a restart to change: " + waiting;
    log_.write(telemetry::LogLevel::warn, "notice", {{"message", std::string_view(notice)}});
    answer += "; " + notice;
    (*config)->notices.push_back(std::move(notice));
  }
  if (!(*config)->admin.token.empty()) admin_token_->replace((*config)->admin.token);
  gateway_->reload(*std::move(config));
  return answer;
}

int Service::run() {
  while (true) {
    const int number = next_signal(signals_, std::chrono::hours(1));
    if (number == SIGHUP) {
      // What a refused file's faults are is logged by the gateway and told by the admin API.
      if (auto reloaded = reload(); !reloaded) err_.flush();
    } else if (number == SIGTERM || number == SIGINT) {
      return drain();
    }
  }
}

int Service::drain() {
  const Duration allowed = gateway_->plan()->config().server.drain;
  gateway_->drain();
  data_->drain();
  const Instant end = saturating_add(clock_.now(), allowed);
  const auto ended_early = [this] {
    const int number = next_signal(signals_, kLook);
    return number == SIGTERM || number == SIGINT;
  };
  bool early = false;
  while (data_->active() > 0 && clock_.now() < end && !early) early = ended_early();
  if (data_->active() > 0) {
    gateway_->end_all();
    // The last bytes (error events) need a moment to leave; a slow reader does not get more.
    const Instant last = saturating_add(clock_.now(), std::chrono::seconds(early ? 0 : 2));
    while (data_->active() > 0 && clock_.now() < last && !early) early = ended_early();
  }
  data_->stop();
  admin_->stop();
  // Only the loops wake the pacer, and all of them have stopped.
  pacer_.reset();
  // A successor knows every window exactly, unless a call is still on its way.
  if (keeper_) keeper_->finish(gateway_->observe(clock_.now()).inflight == 0);
  log_.write(telemetry::LogLevel::info, "stopped", {{"early", early}});
  log_.flush();
  return early ? kFailed : kDone;
}

}  // namespace

int serve(const ServeOptions& options, std::ostream& out, std::ostream& err) {
  const auto format =
      options.log_format == "text" ? telemetry::LogFormat::text : telemetry::LogFormat::json;
  const auto level = telemetry::parse_log_level(options.log_level);
  if (!level) {
    err << "weir serve: --log-level " << options.log_level
        << " is not one of debug, info, warn, error, off\n";
    return kUsage;
  }
  // Blocked before any thread starts, the log's among them, so that every thread inherits it: a
  // signal that one thread leaves open would end the process.
  const sigset_t steering = steering_signals();
  pthread_sigmask(SIG_BLOCK, &steering, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const auto log = telemetry::Log::to_stderr(format, *level);
  Service service(options, out, err, *log);
  if (auto started = service.start(); !started) {
    log->flush();
    err << started.error().describe() << '\n';
    return started.error().code == ErrorCode::invalid_config ? kInvalidConfig : kFailed;
  }
  return service.run();
}

}  // namespace weir::cli
