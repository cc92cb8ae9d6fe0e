// SPDX-License-Identifier: Apache-2.0
#include "admin/admin.h"

#include <algorithm>
#include <array>

#include "admin/overview.h"
#include "gateway/route.h"
#include "http/text.h"
#include "http/writer.h"
#include "telemetry/json_writer.h"

namespace weir::admin {
namespace {

/// An answer that was complete when it was made.
class Answered final : public http::Session {
 public:
  void on_peer_gone() override {}
};

constexpr std::string_view kJson = "application/json";
/// Nothing from elsewhere, nothing inline, no frame around it.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

enum class Resource : std::uint8_t {
  metrics,
  health,
  ready,
  overview,
  deployments,
  classes,
  queues,
  reload,
  page,
  unknown,
};

Resource resource_of(std::string_view path) {
  if (path == "/metrics") return Resource::metrics;
  if (path == "/healthz" || path == "/livez") return Resource::health;
  if (path == "/readyz") return Resource::ready;
  if (path == "/admin/v1/overview") return Resource::overview;
  if (path == "/admin/v1/deployments") return Resource::deployments;
  if (path == "/admin/v1/classes") return Resource::classes;
  if (path == "/admin/v1/queues") return Resource::queues;
  if (path == "/admin/v1/config/reload") return Resource::reload;
  if (find_page_file(path) != nullptr) return Resource::page;
  return Resource::unknown;
}

std::string_view method_of(Resource resource) {
  return resource == Resource::reload ? "POST" : "GET";
}

std::string respond(std::uint16_t status, std::string_view type, std::string_view body,
                    bool keep_alive, std::string_view extra = {}) {
  std::string out;
  http::append_status_line(out, status);
  http::append_field(out, "content-type", type);
  http::append_field(out, "content-length", body.size());
  http::append_field(out, "cache-control", "no-store");
  http::append_field(out, "x-content-type-options", "nosniff");
  http::append_field(out, "referrer-policy", "no-referrer");
  http::append_field(out, "content-security-policy", kPolicy);
  out += extra;
  if (!keep_alive) http::append_field(out, "connection", "close");
  http::end_head(out);
  out += body;
  return out;
}

std::string refuse(std::uint16_t status, std::string_view code, std::string_view message,
                   bool keep_alive, std::string_view extra = {}) {
  std::string body;
  telemetry::JsonWriter json(body);
  json.begin_object().key("error").begin_object();
  json.member("message", message).member("type", "admin_error").member("code", code);
  json.end_object().end_object();
  return respond(status, kJson, body, keep_alive, extra);
}

bool loopback_host(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

/// The host of a Host field, without its port.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.rfind(':'));
}

/// Only digits and dots after "127.": a name such as 127.example.org is not an address.
bool loopback_name(std::string_view host) {
  if (http::same_word(host, "localhost") || host == "[::1]") return true;
  return host.starts_with("127.") && std::all_of(host.begin(), host.end(), [](char c) {
           return c == '.' || (c >= '0' && c <= '9');
         });
}

}  // namespace

bool on_loopback(const config::Admin& admin) {
  return std::all_of(admin.listen.begin(), admin.listen.end(), [](const auto& address) {
    return !address.unix_path.empty() || loopback_host(address.host);
  });
}

bool same_secret(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(left[i]) ^
                                        static_cast<unsigned char>(right[i]));
  }
  return difference == 0;
}

void Token::replace(config::Secret secret) {
  const std::lock_guard lock(mutex_);
  secret_ = std::move(secret);
}

bool Token::is(std::string_view presented) const {
  const std::lock_guard lock(mutex_);
  return !secret_.empty() && same_secret(presented, secret_.reveal());
}

bool Handler::authorized(const http::RequestHead& head) const {
  constexpr std::string_view kBearer = "bearer ";
  const auto value = head.fields.find("authorization");
  return value.size() > kBearer.size() &&
         http::same_word(value.substr(0, kBearer.size()), kBearer) &&
         parts_.token->is(http::trimmed(value.substr(kBearer.size())));
}

bool Handler::host_allowed(const http::RequestHead& head) const {
  const auto& admin = parts_.gateway.plan()->config().admin;
  if (!on_loopback(admin)) return true;
  return loopback_name(without_port(head.fields.find("host")));
}

std::optional<std::string> Handler::on_head(const http::RequestHead& head) {
  if (!host_allowed(head)) {
    return refuse(403, "host_not_allowed",
                  "The admin plane on loopback answers to localhost and loopback addresses only.",
                  false);
  }
  const Resource resource = resource_of(head.path());
  if (resource == Resource::unknown) {
    return refuse(404, "unknown_path", "There is no such admin path.", false);
  }
  const auto& admin = parts_.gateway.plan()->config().admin;
  const bool open = resource == Resource::health || resource == Resource::ready ||
                    resource == Resource::page ||
                    (resource == Resource::metrics && !admin.metrics_token && on_loopback(admin));
  if (!open && !authorized(head)) {
    return refuse(401, "unauthorized", "Send the admin token as Authorization: Bearer.", false,
                  "www-authenticate: Bearer\r\n");
  }
  const auto method = method_of(resource);
  if (head.method != method) {
    return refuse(405, "method_not_allowed", "This path is served with another method; see Allow.",
                  false, method == "GET" ? "allow: GET\r\n" : "allow: POST\r\n");
  }
  return std::nullopt;
}

std::string Handler::answer(const http::Request& request) {
  const bool keep = request.head.keep_alive;
  auto& gateway = parts_.gateway;
  const Resource resource = resource_of(request.head.path());
  const auto state = [&] {
    return State{.snapshot = gateway.observe(gateway.clock().now()),
                 .plan = gateway.plan(),
                 .meters = &gateway.meters(),
                 .draining = gateway.draining(),
                 .version = parts_.version,
                 .commit = parts_.commit};
  };
  switch (resource) {
    case Resource::metrics: {
      gateway.observe(gateway.clock().now());
      gateway.meters().build_info.with({parts_.version, parts_.commit}).set(1);
      std::string text;
      parts_.registry.render(text);
      return respond(200, "text/plain; version=0.0.4; charset=utf-8", text, keep);
    }
    case Resource::health: return respond(200, "text/plain", "ok\n", keep);
    case Resource::ready:
      if (gateway.draining()) return respond(503, "text/plain", "draining\n", keep);
      return respond(200, "text/plain", "ready\n", keep);
    case Resource::overview: return respond(200, kJson, overview_json(state()), keep);
    case Resource::deployments: return respond(200, kJson, deployments_json(state()), keep);
    case Resource::classes: return respond(200, kJson, classes_json(state()), keep);
    case Resource::queues: return respond(200, kJson, queues_json(state()), keep);
    case Resource::reload: {
      if (!parts_.reload) return refuse(501, "not_built", "Reloading is not available.", keep);
      const auto reloaded = parts_.reload();
      if (!reloaded) return refuse(422, "invalid_config", reloaded.error().describe(), keep);
      std::string body;
      telemetry::JsonWriter(body).begin_object().member("reloaded", *reloaded).end_object();
      return respond(200, kJson, body, keep);
    }
    case Resource::page: {
      const PageFile* file = find_page_file(request.head.path());
      return respond(200, file->content_type, file->bytes, keep);
    }
    case Resource::unknown: break;
  }
  return refuse(404, "unknown_path", "There is no such admin path.", keep);
}

std::unique_ptr<http::Session> Handler::on_request(const http::Request& request,
                                                   http::Responder& responder) {
  const std::string out = answer(request);
  const std::string_view piece = out;
  responder.write({&piece, 1});
  responder.finish(request.head.keep_alive);
  return std::make_unique<Answered>();
}

}  // namespace weir::admin
