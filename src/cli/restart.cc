// SPDX-License-Identifier: Apache-2.0
#include "cli/restart.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace weir::cli {
namespace {

bool same(const config::ListenAddress& left, const config::ListenAddress& right) {
  return left.host == right.host && left.port == right.port && left.unix_path == right.unix_path;
}

bool same(const std::vector<config::ListenAddress>& left,
          const std::vector<config::ListenAddress>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const auto& one, const auto& other) { return same(one, other); });
}

template <class Value>
bool same(const Value& left, const Value& right) {
  return left == right;
}

}  // namespace

std::string keep_until_restart(const config::Config& in_force, config::Config& wanted) {
  std::string names;
  const auto named = [&](std::string_view key) {
    if (!names.empty()) names += ", ";
    names += key;
  };
  const auto keep = [&](std::string_view key, const auto& from, auto& to) {
    if (same(from, to)) return;
    named(key);
    to = from;
  };
  const config::Server& from = in_force.server;
  config::Server& to = wanted.server;
  keep("server.listen", from.listen, to.listen);
  keep("server.threads", from.threads, to.threads);
  keep("server.limits.body", from.body_limit, to.body_limit);
  keep("server.limits.header", from.header_limit, to.header_limit);
  keep("server.limits.header_timeout", from.header_timeout, to.header_timeout);
  keep("server.limits.idle_timeout", from.idle_timeout, to.idle_timeout);
  keep("server.limits.connections", from.connections, to.connections);
  keep("server.limits.buffered", from.buffered, to.buffered);
  keep("admin.listen", in_force.admin.listen, wanted.admin.listen);
  keep("stores.state", in_force.state_file, wanted.state_file);
  // A configured token that is taken out stays valid: without it nobody could be told a new one.
  if (wanted.admin.token.empty() && !in_force.admin.token.empty()) {
    named("admin.token");
    wanted.admin.token = in_force.admin.token;
  }
  return names;
}

}  // namespace weir::cli
