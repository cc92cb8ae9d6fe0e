// SPDX-License-Identifier: Apache-2.0
#include "config/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace weir::config {

namespace {

std::unexpected<Problem> wrong(std::string message, std::string fix) {
  return std::unexpected(Problem{std::move(message), std::move(fix)});
}

std::optional<std::int64_t> whole(std::string_view digits, std::int64_t most) {
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  if (digits.empty() || digits.front() == '-' || read.ec != std::errc() || read.ptr != end ||
      value > most) {
    return std::nullopt;
  }
  return value;
}

bool host_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '_';
}

bool host_name(std::string_view host) {
  return !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), host_byte);
}

bool v6_literal(std::string_view host) {
  return host.size() >= 2 && host.size() <= 64 && host.find(':') != std::string_view::npos &&
         std::all_of(host.begin(), host.end(), [](char byte) {
           return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
                  (byte >= 'A' && byte <= 'F') || byte == ':' || byte == '.' || byte == '%';
         });
}

struct HostPort {
  std::string_view host;
  std::optional<std::string_view> port;
};

/// Splits "host:port" or "[v6]:port"; none if the brackets or colons do not fit.
std::optional<HostPort> split_host(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos || !v6_literal(text.substr(1, end - 1))) return std::nullopt;
    const std::string_view rest = text.substr(end + 1);
    if (rest.empty()) return HostPort{text.substr(1, end - 1), std::nullopt};
    if (!rest.starts_with(':')) return std::nullopt;
    return HostPort{text.substr(1, end - 1), rest.substr(1)};
  }
  const std::size_t colon = text.find(':');
  if (!host_name(text.substr(0, colon))) return std::nullopt;
  if (colon == std::string_view::npos) return HostPort{text, std::nullopt};
  return HostPort{text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace

Parsed<ListenAddress> parse_listen(std::string_view text) {
  constexpr std::size_t kUnixPathMost = 107;  // sun_path of Linux, less the final zero
  constexpr std::string_view kFix = "write 127.0.0.1:8080, \"[::1]:8080\" or unix:/path";
  ListenAddress address;
  if (text.starts_with("unix:")) {
    address.unix_path = std::string(text.substr(5));
    if (!address.unix_path.starts_with('/') || address.unix_path.size() > kUnixPathMost) {
      return wrong("is not a socket's absolute path of at most 107 bytes", std::string(kFix));
    }
    return address;
  }
  const std::optional<HostPort> parts = split_host(text);
  if (!parts) return wrong("is not an address", std::string(kFix));
  const bool digits =
      !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  if (!parts->port && digits) {
    return wrong(
        "is a port without an address",
        fmt::format("write 127.0.0.1:{0}, or 0.0.0.0:{0} to be reached from outside", text));
  }
  if (!parts->port) return wrong("has no port", std::string(kFix));
  const std::optional<std::int64_t> port = whole(*parts->port, 65535);
  if (!port) return wrong("has a port that is not 0 to 65535", std::string(kFix));
  address.host = std::string(parts->host);
  address.port = static_cast<std::uint16_t>(*port);
  return address;
}

Parsed<BaseUrl> parse_base_url(std::string_view text) {
  constexpr std::string_view kFix = "write it as https://host/path, such as https://host/v1";
  BaseUrl url;
  const std::size_t mark = text.find("://");
  url.scheme = std::string(text.substr(0, mark));
  std::transform(url.scheme.begin(), url.scheme.end(), url.scheme.begin(),
                 [](char byte) { return byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte; });
  if (mark == std::string_view::npos || (url.scheme != "http" && url.scheme != "https")) {
    return wrong("the URL does not begin with http:// or https://", std::string(kFix));
  }
  std::string_view rest = text.substr(mark + 3);
  if (rest.find_first_of("?#") != std::string_view::npos) {
    return wrong("the URL has a query or a fragment", "remove everything from ? or # on");
  }
  const std::size_t slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  std::string_view path = slash == std::string_view::npos ? "" : rest.substr(slash);
  if (authority.find('@') != std::string_view::npos) {
    return wrong("the URL holds a user or a password", "remove it; use api_key or headers");
  }
  const std::optional<HostPort> parts = split_host(authority);
  if (!parts) return wrong("the URL has no valid host", std::string(kFix));
  std::int64_t port = url.scheme == "https" ? 443 : 80;
  if (parts->port) {
    const std::optional<std::int64_t> given = whole(*parts->port, 65535);
    if (!given || *given == 0) return wrong("the URL's port is not 1 to 65535", std::string(kFix));
    port = *given;
  }
  const bool visible =
      std::all_of(path.begin(), path.end(), [](char byte) { return byte > ' ' && byte < 0x7f; });
  if (!visible) return wrong("the URL's path holds a blank or special byte", "encode it as %XX");
  while (path.ends_with('/')) path.remove_suffix(1);
  url.host = std::string(parts->host);
  url.port = static_cast<std::uint16_t>(port);
  url.path = std::string(path);
  return url;
}

Parsed<WallTime> parse_date(std::string_view text) {
  constexpr std::string_view kFix = "write 2027-01-31 or 2027-01-31T12:00:00Z";
  const auto number = [text](std::size_t at, std::size_t length, std::int64_t most) {
    const std::string_view part = text.substr(std::min(at, text.size()), length);
    return part.size() == length && part.front() != '+' ? whole(part, most) : std::nullopt;
  };
  const auto year = number(0, 4, 2200);
  const auto month = number(5, 2, 12);
  const auto day = number(8, 2, 31);
  if (!year || !month || !day || *year < 1970 || text.size() < 10 || text[4] != '-' ||
      text[7] != '-') {
    return wrong("is not a date", std::string(kFix));
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return wrong("is not a day of the calendar", std::string(kFix));
  const Duration midnight = std::chrono::sys_days(date).time_since_epoch();
  if (text.size() == 10) return WallTime(midnight + std::chrono::hours(24));
  const auto hour = number(11, 2, 23);
  const auto minute = number(14, 2, 59);
  const auto second = number(17, 2, 59);
  if (!hour || !minute || !second || text.size() != 20 || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':' || text[19] != 'Z') {
    return wrong("is not a date", std::string(kFix));
  }
  return WallTime(midnight + std::chrono::hours(*hour) + std::chrono::minutes(*minute) +
                  std::chrono::seconds(*second));
}

std::string show(WallTime at) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at.time_since_epoch());
  const auto days = std::chrono::floor<std::chrono::days>(seconds);
  const std::chrono::year_month_day date{std::chrono::sys_days(days)};
  const std::chrono::hh_mm_ss time(seconds - days);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

Parsed<std::array<std::uint8_t, 32>> parse_key_hash(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256:";
  constexpr std::string_view kFix = "write \"sha256:\" and 64 hex digits, as weir keys hash prints";
  if (!text.starts_with(kPrefix)) {
    return wrong("this is not a hash; a key itself must never stand here", std::string(kFix));
  }
  text.remove_prefix(kPrefix.size());
  std::array<std::uint8_t, 32> hash{};
  if (text.size() != 2 * hash.size()) {
    return wrong(fmt::format("the hash has {} digits, not 64", text.size()), std::string(kFix));
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char byte = text[i];
    int nibble = -1;
    if (byte >= '0' && byte <= '9') nibble = byte - '0';
    if (byte >= 'a' && byte <= 'f') nibble = byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') nibble = byte - 'A' + 10;
    if (nibble < 0) return wrong("the hash holds something not a hex digit", std::string(kFix));
    hash[i / 2] = static_cast<std::uint8_t>((hash[i / 2] << 4) | nibble);
  }
  return hash;
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  if (!host.starts_with("127.")) return false;
  return std::all_of(host.begin(), host.end(),
                     [](char byte) { return byte == '.' || (byte >= '0' && byte <= '9'); });
}

bool is_loopback(const ListenAddress& address) {
  return !address.unix_path.empty() || is_loopback(address.host);
}

std::string show(const ListenAddress& address) {
  if (!address.unix_path.empty()) return "unix:" + address.unix_path;
  if (address.host.find(':') != std::string::npos) {
    return fmt::format("[{}]:{}", address.host, address.port);
  }
  return fmt::format("{}:{}", address.host, address.port);
}

}  // namespace weir::config
