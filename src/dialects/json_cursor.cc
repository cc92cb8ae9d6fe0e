// SPDX-License-Identifier: Apache-2.0
#include "dialects/json_cursor.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace weir::dialects {
namespace {

/// The value of four hexadecimal digits, or -1.
int hex4(const char* at, const char* end) {
  if (end - at < 4) return -1;
  unsigned value = 0;
  const auto [stop, error] = std::from_chars(at, at + 4, value, 16);
  return error == std::errc() && stop == at + 4 ? static_cast<int>(value) : -1;
}

void append_utf8(std::string& out, std::uint32_t point) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | (point >> 6U));
    put(0x80 | (point & 0x3fU));
  } else if (point < 0x10000) {
    put(0xe0 | (point >> 12U));
    put(0x80 | ((point >> 6U) & 0x3fU));
    put(0x80 | (point & 0x3fU));
  } else {
    put(0xf0 | (point >> 18U));
    put(0x80 | ((point >> 12U) & 0x3fU));
    put(0x80 | ((point >> 6U) & 0x3fU));
    put(0x80 | (point & 0x3fU));
  }
}

struct Escape {
  std::uint32_t point = 0xfffd;
  const char* next = nullptr;
};

/// Reads the escape whose backslash is at `at`.
Escape read_escape(const char* at, const char* end) {
  if (end - at < 2) return {0xfffd, end};
  switch (at[1]) {
    case 'n': return {'\n', at + 2};
    case 't': return {'\t', at + 2};
    case 'r': return {'\r', at + 2};
    case 'b': return {'\b', at + 2};
    case 'f': return {'\f', at + 2};
    case 'u': break;
    default: return {static_cast<unsigned char>(at[1]), at + 2};
  }
  const int high = hex4(at + 2, end);
  if (high < 0) return {0xfffd, at + 2};
  const char* next = at + 6;
  if (high < 0xd800 || high > 0xdfff) return {static_cast<std::uint32_t>(high), next};
  if (high < 0xdc00 && end - next >= 6 && next[0] == '\\' && next[1] == 'u') {
    const int low = hex4(next + 2, end);
    if (low >= 0xdc00 && low <= 0xdfff) {
      const int point = 0x10000 + (((high - 0xd800) << 10) | (low - 0xdc00));
      return {static_cast<std::uint32_t>(point), next + 6};
    }
  }
  return {0xfffd, next};
}

}  // namespace

std::optional<std::int64_t> JsonCursor::count_if() {
  const char first = peek();
  const std::string_view text = skip();
  if (first < '0' || first > '9') return std::nullopt;
  return parse_count(text);
}

std::string_view JsonCursor::skip() {
  const char first = peek();
  const char* start = at_;
  if (first == '"') {
    skip_string();
  } else if (first == '{' || first == '[') {
    std::size_t depth = 0;
    do {
      at_ = find_structural(at_, end_);
      if (at_ == end_) {
        fail();
        break;
      }
      if (*at_ == '"') {
        skip_string();
        continue;
      }
      depth = (*at_ == '{' || *at_ == '[') ? depth + 1 : depth - 1;
      ++at_;
    } while (depth != 0 && !failed_);
  } else {
    while (at_ != end_ && *at_ != ',' && *at_ != '}' && *at_ != ']' && !is_json_space(*at_)) ++at_;
    if (at_ == start) fail();
  }
  return failed_ ? std::string_view()
                 : std::string_view(start, static_cast<std::size_t>(at_ - start));
}

std::string unescape(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  const char* at = raw.data();
  const char* end = at + raw.size();
  while (at != end) {
    const void* hit = std::memchr(at, '\\', static_cast<std::size_t>(end - at));
    const char* slash = hit == nullptr ? end : static_cast<const char*>(hit);
    out.append(at, slash);
    if (slash == end) break;
    const Escape escape = read_escape(slash, end);
    append_utf8(out, escape.point);
    at = escape.next;
  }
  return out;
}

std::int64_t unescaped_size(std::string_view raw) {
  auto size = static_cast<std::int64_t>(raw.size());
  const char* at = raw.data();
  const char* end = at + raw.size();
  while (at != end) {
    const void* hit = std::memchr(at, '\\', static_cast<std::size_t>(end - at));
    if (hit == nullptr) break;
    const char* slash = static_cast<const char*>(hit);
    const Escape escape = read_escape(slash, end);
    const int bytes = escape.point < 0x80      ? 1
                      : escape.point < 0x800   ? 2
                      : escape.point < 0x10000 ? 3
                                               : 4;
    size += bytes - (escape.next - slash);
    at = escape.next;
  }
  return size;
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  constexpr double kLargest = 9007199254740992.0;
  constexpr std::size_t kPlainDigits = 15;
  if (text.empty()) return std::nullopt;
  if (text.size() <= kPlainDigits) {
    std::int64_t whole = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (error == std::errc() && stop == text.data() + text.size() && whole >= 0) return whole;
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  if (!(value >= 0) || value > kLargest || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace weir::dialects
