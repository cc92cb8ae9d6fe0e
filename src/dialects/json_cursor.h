// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::dialects {

/// The first `"` or `\` in [at, end), or `end`.
const char* find_string_stop(const char* at, const char* end);

/// The first `"`, `{`, `}`, `[` or `]` in [at, end), or `end`.
const char* find_structural(const char* at, const char* end);

/// Walks one JSON text that lies whole in memory, without copying, allocating or recursing. It is
/// for provider answers, where weir looks for a few members and must neither fail on nor pay for
/// the rest: it follows structure, and does not check what it skips. What is not JSON ends the walk
/// with `failed`.
///
///   JsonCursor at(text);
///   if (at.enter_object())
///     for (std::string_view key; at.next_member(key);) { …read or at.skip()… }
///
/// Every member or element must be consumed (read, entered to its end, or skipped). Keys and
/// strings come as they stand between their quotes, escapes unresolved.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text)
      : begin_(text.data()), at_(begin_), end_(text.data() + text.size()) {}

  [[nodiscard]] bool failed() const { return failed_; }
  /// Offset of the next unread byte.
  [[nodiscard]] std::size_t offset() const { return static_cast<std::size_t>(at_ - begin_); }
  /// The next byte that is not white space, unread; 0 at the end.
  char peek();
  bool enter_object() { return take('{'); }
  bool enter_array() { return take('['); }
  /// Goes to the next member's value; false at the object's end, which it passes.
  bool next_member(std::string_view& key);
  /// Goes to the next element; false at the array's end, which it passes.
  bool next_element();
  /// A string's bytes between the quotes. Fails on any other value.
  std::string_view string();
  /// A string's bytes, or nothing for any other value, which is skipped.
  std::optional<std::string_view> string_if();
  /// A number that is whole, not negative and at most 2^53 ("12.0" is 12); nothing for any other
  /// value, which is skipped.
  std::optional<std::int64_t> count_if();
  /// Passes any value; its bytes.
  std::string_view skip();

 private:
  bool take(char wanted);
  void skip_string();
  void fail() {
    failed_ = true;
    at_ = end_;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  bool failed_ = false;
};

/// The text that a raw JSON string stands for. Lone surrogates and broken escapes become U+FFFD.
std::string unescape(std::string_view raw);

/// How many UTF-8 bytes `unescape(raw)` has, counted without making it (a lone surrogate counts as
/// the three bytes of U+FFFD, a pair as four).
std::int64_t unescaped_size(std::string_view raw);

/// A number's text as a whole count: see JsonCursor::count_if.
std::optional<std::int64_t> parse_count(std::string_view text);

}  // namespace weir::dialects
