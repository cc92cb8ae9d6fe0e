// SPDX-License-Identifier: Apache-2.0
#include "cli/emulate.h"

#include <fmt/format.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <ostream>

#include "cli/main_cli.h"
#include "config/address.h"
#include "emulator/server.h"
#include "emulator/settings.h"
#include "telemetry/log.h"

namespace weir::cli {

int emulate(const EmulateOptions& options, std::ostream& err) {
  const auto wanted = config::parse_listen(options.listen);
  if (!wanted) {
    err << fmt::format("weir emulate: --listen {}: {}; {}\n", options.listen,
                       wanted.error().message, wanted.error().fix);
    return kUsage;
  }
  std::error_code ignored;
  if (std::filesystem::is_fifo(options.config, ignored)) {
    err << fmt::format("weir emulate: {} is a pipe; name a file\n", options.config);
    return kFailed;
  }
  // Blocked before any thread starts, so that none of them takes the signal.
  sigset_t endings;
  sigemptyset(&endings);
  sigaddset(&endings, SIGTERM);
  sigaddset(&endings, SIGINT);
  pthread_sigmask(SIG_BLOCK, &endings, nullptr);

  const net::Address address{wanted->host, wanted->port, wanted->unix_path};
  auto server = options.config.empty()
                    ? emulator::Server::start(emulator::Settings{}, address, options.time_scale)
                    : emulator::Server::start(options.config, address, options.time_scale);
  if (!server) {
    err << fmt::format("weir emulate: {}\n", server.error().describe());
    return server.error().code == ErrorCode::invalid_config ? kInvalidConfig : kFailed;
  }
  const auto log = telemetry::Log::to_stderr(
      options.log_format == "text" ? telemetry::LogFormat::text : telemetry::LogFormat::json,
      telemetry::parse_log_level(options.log_level).value_or(telemetry::LogLevel::info));
  const std::string bound = (*server)->address().text();
  log->write(telemetry::LogLevel::info, "listening",
             {{"plane", std::string_view("emulator")},
              {"address", std::string_view(bound)},
              {"time_scale", options.time_scale}});
  log->flush();
  int signal = 0;
  while (sigwait(&endings, &signal) != 0) {
  }
  log->write(telemetry::LogLevel::info, "stopped", {{"signal", std::int64_t{signal}}});
  log->flush();
  return kDone;
}

}  // namespace weir::cli
