// SPDX-License-Identifier: Apache-2.0
#include "emulator/server.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "config/yaml_tree.h"
#include "emulator/handler.h"

namespace weir::emulator {
namespace {

Result<std::string> read_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(config::kMaxFileBytes + 1, '\0');
  if (in) in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (!in && !in.eof())) {
    return fail(ErrorCode::io, fmt::format("cannot read the emulator's file {}; check that it "
                                           "exists and may be read",
                                           file));
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

std::string described(const std::vector<config::Diagnostic>& faults) {
  std::string text;
  for (const auto& fault : faults) {
    if (!text.empty()) text += '\n';
    text += fmt::format("{}:{}:{}: {}: {}; {}", fault.file, fault.line, fault.column, fault.path,
                        fault.message, fault.fix);
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const std::string& file, const net::Address& address,
                                              double time_scale) {
  const auto text = read_file(file);
  if (!text) return fail(text.error());
  auto read = read_settings(*text, file);
  if (!read.settings) return fail(ErrorCode::invalid_config, described(read.faults));
  return start(std::move(*read.settings), address, time_scale);
}

Result<std::unique_ptr<Server>> Server::start(Settings settings, const net::Address& address,
                                              double time_scale) {
  constexpr double kSlowest = 0.001;
  constexpr double kFastest = 1000;
  if (!(time_scale >= kSlowest && time_scale <= kFastest)) {
    return fail(ErrorCode::invalid_config, fmt::format("time scale {} is not between {} and {}",
                                                       time_scale, kSlowest, kFastest));
  }
  auto runtime = net::Runtime::create(1);
  if (!runtime) return fail(runtime.error());
  const auto since_epoch =
      std::chrono::system_clock::now().time_since_epoch();  // tidy: allow clock (the shell's start)
  auto provider =
      std::make_shared<Provider>(std::move(settings), time_scale, net::monotonic_now(),
                                 WallTime(std::chrono::duration_cast<Duration>(since_epoch)));
  const auto bound = (*runtime)->listen(
      address, net::ServerLimits{},
      [provider](http::Loop& loop, http::Connector&) -> std::unique_ptr<http::Handler> {
        return std::make_unique<Handler>(loop, provider);
      });
  if (!bound) return fail(bound.error());
  if (const auto started = (*runtime)->start(); !started) return fail(started.error());
  return std::unique_ptr<Server>(new Server(std::move(provider), std::move(*runtime), *bound));
}

Server::Server(std::shared_ptr<Provider> provider, std::unique_ptr<net::Runtime> runtime,
               net::Address address)
    : provider_(std::move(provider)), runtime_(std::move(runtime)), address_(std::move(address)) {}

Server::~Server() { runtime_->stop(); }

}  // namespace weir::emulator
