// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/config.h"
#include "config/quantity.h"

namespace weir::config {

/// A base URL taken apart; `path` has no slash at its end.
struct BaseUrl {
  std::string scheme, host, path;
  std::uint16_t port = 0;
};

/// "127.0.0.1:8080", "[::1]:8080", "localhost:8080" or "unix:/path".
Parsed<ListenAddress> parse_listen(std::string_view text);
/// http:// or https://, without user, query or fragment. The message never repeats the text, which
/// could hold a password.
Parsed<BaseUrl> parse_base_url(std::string_view text);
/// 2027-01-31 (the last day, UTC: ends at the next midnight) or 2027-01-31T12:00:00Z.
Parsed<WallTime> parse_date(std::string_view text);
/// A point of time as parse_date reads it.
std::string show(WallTime at);
/// "sha256:" and 64 hex digits. The message never repeats the text, which could be a key.
Parsed<std::array<std::uint8_t, 32>> parse_key_hash(std::string_view text);

/// Whether an address is reachable from this machine only.
bool is_loopback(const ListenAddress& address);
bool is_loopback(std::string_view host);
/// The text that parse_listen reads.
std::string show(const ListenAddress& address);

}  // namespace weir::config
