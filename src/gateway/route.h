// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dialects/dialect.h"
#include "gateway/problem.h"
#include "http/head.h"

namespace weir::gateway {

enum class RouteKind : std::uint8_t { call, list_models, get_model };

/// What a request line asks for. Views point into the head or into static storage.
struct Route {
  RouteKind kind = RouteKind::call;
  const dialects::Dialect* dialect = nullptr;
  dialects::Operation operation = dialects::Operation::chat;
  std::string_view suffix;  ///< the path below a provider's base, "/chat/completions"
  std::string_view query;   ///< with its '?', as sent; empty: none
  std::string_view model;   ///< get_model: the id in the path
};

/// A route, or why there is none.
struct Routed {
  std::optional<Route> route;
  Problem problem = Problem::unknown_path;
  std::string_view allow;    ///< method_not_allowed: the methods that would do
  std::string_view unbuilt;  ///< not_built: the path, or the start of it, that is known
};

/// Finds the route of a head. A path must match exactly: other spellings of it (a trailing slash,
/// a doubled one, other case, percent escapes) are unknown paths, so none can pass ungoverned.
Routed find_route(const http::RequestHead& head);

/// Whether the head asks to leave HTTP/1.1 (WebSocket, h2c).
bool asks_upgrade(const http::RequestHead& head);

/// Whether the body is compressed or otherwise coded.
bool body_encoded(const http::RequestHead& head);

/// The key a client presents, from the first of Authorization: Bearer, x-api-key, api-key,
/// x-goog-api-key and `?key=`; empty: none.
std::string_view presented_key(const http::RequestHead& head);

/// Appends the query without `key=`, which is a credential.
void append_query(std::string& out, std::string_view query);

}  // namespace weir::gateway
