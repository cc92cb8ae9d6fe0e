// SPDX-License-Identifier: Apache-2.0
#include "gateway/route.h"

#include "http/text.h"

namespace weir::gateway {
namespace {

constexpr std::string_view kPrefix = "/v1";
constexpr std::string_view kModels = "/v1/models";

Routed found(Route route) { return {route, Problem::unknown_path, {}, {}}; }

Routed refused(Problem problem, std::string_view allow = {}) {
  return {std::nullopt, problem, allow, {}};
}

/// Paths of the contract that are not built yet: each of them and all below it.
constexpr std::string_view kUnbuilt[] = {
    "/v1/responses", "/v1/images",    "/v1/audio",    "/v1/videos", "/v1/moderations",
    "/v1/files",     "/v1/batches",   "/v1/messages", "/anthropic", "/v1beta",
    "/v1/projects",  "/openai",       "/model",       "/v2/chat",   "/v2/embed",
    "/api/chat",     "/api/generate", "/api/v1",      "/v1/usage",  "/v1/jobs"};

std::string_view unbuilt_path(std::string_view path) {
  for (const std::string_view start : kUnbuilt) {
    if (path.starts_with(start) && (path.size() == start.size() || path[start.size()] == '/')) {
      return start;
    }
  }
  return {};
}

/// Calls `visit(name, value)` for each part of a query until it returns true.
template <class Visit>
void each_parameter(std::string_view query, Visit visit) {
  if (query.starts_with('?')) query.remove_prefix(1);
  while (!query.empty()) {
    const std::size_t end = query.find('&');
    const std::string_view part = query.substr(0, end);
    const std::size_t equals = part.find('=');
    const auto value =
        equals == std::string_view::npos ? std::string_view{} : part.substr(equals + 1);
    if (visit(part.substr(0, equals), value, part)) return;
    if (end == std::string_view::npos) return;
    query.remove_prefix(end + 1);
  }
}

}  // namespace

Routed find_route(const http::RequestHead& head) {
  const std::string_view path = head.path();
  Route route;
  route.query = head.target.substr(path.size());
  if (path == kModels || (path.starts_with(kModels) && path[kModels.size()] == '/')) {
    if (path.size() == kModels.size()) {
      route.kind = RouteKind::list_models;
    } else {
      route.kind = RouteKind::get_model;
      route.model = path.substr(kModels.size() + 1);
      if (route.model.empty()) return refused(Problem::unknown_path);
    }
    if (head.method != "GET") return refused(Problem::method_not_allowed, "GET");
    return found(route);
  }
  const dialects::Dialect& dialect = dialects::openai();
  const auto operation = dialect.operation(head.method, path);
  if (!operation || *operation == dialects::Operation::list_models) {
    if (head.method != "POST" && dialect.operation("POST", path)) {
      return refused(Problem::method_not_allowed, "POST");
    }
    if (const auto unbuilt = unbuilt_path(path); !unbuilt.empty()) {
      Routed routed = refused(Problem::not_built);
      routed.unbuilt = unbuilt;
      return routed;
    }
    return refused(Problem::unknown_path);
  }
  route.dialect = &dialect;
  route.operation = *operation;
  // Static text, because the head is gone by the time a queued request is sent.
  switch (*operation) {
    case dialects::Operation::chat: route.suffix = "/chat/completions"; break;
    case dialects::Operation::completion: route.suffix = "/completions"; break;
    case dialects::Operation::embedding: route.suffix = "/embeddings"; break;
    case dialects::Operation::list_models: route.suffix = "/models"; break;
  }
  if (!path.starts_with(kPrefix) || path.substr(kPrefix.size()) != route.suffix) {
    return refused(Problem::unknown_path);
  }
  return found(route);
}

bool asks_upgrade(const http::RequestHead& head) {
  return head.fields.has("upgrade") || head.method == "CONNECT";
}

bool body_encoded(const http::RequestHead& head) {
  const std::string_view coding = head.fields.find("content-encoding");
  return !coding.empty() && !http::same_word(coding, "identity");
}

std::string_view presented_key(const http::RequestHead& head) {
  constexpr std::string_view kBearer = "bearer ";
  const std::string_view authorization = head.fields.find("authorization");
  if (authorization.size() > kBearer.size() &&
      http::same_word(authorization.substr(0, kBearer.size()), kBearer)) {
    return http::trimmed(authorization.substr(kBearer.size()));
  }
  for (const std::string_view name : {"x-api-key", "api-key", "x-goog-api-key"}) {
    if (const auto value = head.fields.find(name); !value.empty()) return value;
  }
  std::string_view key;
  each_parameter(head.target.substr(head.path().size()),
                 [&](std::string_view name, std::string_view value, std::string_view) {
                   if (name != "key") return false;
                   key = value;
                   return true;
                 });
  return key;
}

void append_query(std::string& out, std::string_view query) {
  char separator = '?';
  each_parameter(query, [&](std::string_view name, std::string_view, std::string_view part) {
    if (name != "key" && !part.empty()) {
      out += separator;
      out += part;
      separator = '&';
    }
    return false;
  });
}

}  // namespace weir::gateway
