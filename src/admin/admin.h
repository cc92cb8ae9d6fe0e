// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "config/config.h"
#include "gateway/gateway.h"
#include "http/exchange.h"
#include "telemetry/metrics.h"
#include "weir/result.h"

namespace weir::admin {

/// The admin token in force, which a reload may replace. Threads: any.
class Token {
 public:
  explicit Token(config::Secret secret) : secret_(std::move(secret)) {}
  void replace(config::Secret secret);
  /// Whether `presented` is it; an empty token is nobody's.
  [[nodiscard]] bool is(std::string_view presented) const;

 private:
  mutable std::mutex mutex_;
  config::Secret secret_;
};

/// What the admin plane is given. Everything outlives it.
struct AdminParts {
  gateway::Gateway& gateway;
  telemetry::Registry& registry;
  /// The token in force; the program makes one where the configuration has none.
  std::shared_ptr<Token> token;
  /// Reads the configuration's file anew and puts it in force. Errors: invalid_config, io; then
  /// nothing has changed.
  std::function<Result<std::string>()> reload;
  std::string version, commit;
};

/// Serves the admin plane: `/metrics`, `/healthz`, `/livez`, `/readyz`, `/admin/v1/…` and the
/// dashboard page. On loopback it answers only to loopback names in Host, so that a page of
/// another origin cannot reach it by rebinding its name; elsewhere every path but health and the
/// page's own files needs the token.
/// Threads: its loop's.
class Handler final : public http::Handler {
 public:
  explicit Handler(const AdminParts& parts) : parts_(parts) {}
  std::optional<std::string> on_head(const http::RequestHead& head) override;
  std::unique_ptr<http::Session> on_request(const http::Request& request,
                                            http::Responder& responder) override;

 private:
  /// The whole answer to a request that `on_head` let pass.
  std::string answer(const http::Request& request);
  [[nodiscard]] bool authorized(const http::RequestHead& head) const;
  [[nodiscard]] bool host_allowed(const http::RequestHead& head) const;

  const AdminParts& parts_;
};

/// Whether every address of the admin plane is loopback or a Unix socket.
bool on_loopback(const config::Admin& admin);

/// Whether two secrets are the same, in a time that depends on their lengths only.
bool same_secret(std::string_view left, std::string_view right);

/// A file of the dashboard, embedded at build time.
struct PageFile {
  std::string_view path;
  std::string_view content_type;
  std::string_view bytes;
};
/// The file served under `path`; null: none.
const PageFile* find_page_file(std::string_view path);

}  // namespace weir::admin
