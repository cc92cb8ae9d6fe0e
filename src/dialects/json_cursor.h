// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace weir::dialects {

constexpr bool is_json_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/// The first `"` or `\` in [at, end), or `end`.
inline const char* find_string_stop(const char* at, const char* end) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i slash = _mm_set1_epi8('\\');
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const int hits =
        _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash)));
    if (hits != 0) return at + __builtin_ctz(static_cast<unsigned>(hits));
  }
#endif
  while (at != end && *at != '"' && *at != '\\') ++at;
  return at;
}

/// The first `"`, `{`, `}`, `[` or `]` in [at, end), or `end`.
inline const char* find_structural(const char* at, const char* end) {
#if defined(__SSE2__)
  // With bit 5 set, `[` becomes `{` and `]` becomes `}`, and nothing else becomes either.
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i open = _mm_set1_epi8('{');
  const __m128i close = _mm_set1_epi8('}');
  const __m128i bit = _mm_set1_epi8(0x20);
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i folded = _mm_or_si128(bytes, bit);
    const int hits = _mm_movemask_epi8(
        _mm_or_si128(_mm_cmpeq_epi8(bytes, quote),
                     _mm_or_si128(_mm_cmpeq_epi8(folded, open), _mm_cmpeq_epi8(folded, close))));
    if (hits != 0) return at + __builtin_ctz(static_cast<unsigned>(hits));
  }
#endif
  while (at != end && *at != '"' && *at != '{' && *at != '}' && *at != '[' && *at != ']') ++at;
  return at;
}

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

inline char JsonCursor::peek() {
  while (at_ != end_ && is_json_space(*at_)) ++at_;
  return at_ == end_ ? '\0' : *at_;
}

inline bool JsonCursor::take(char wanted) {
  if (peek() != wanted || at_ == end_) {
    fail();
    return false;
  }
  ++at_;
  return true;
}

inline bool JsonCursor::next_member(std::string_view& key) {
  char next = peek();
  if (next == ',') {
    ++at_;
    next = peek();
  }
  if (next == '}') {
    ++at_;
    return false;
  }
  key = string();
  if (failed_ || !take(':')) return false;
  return true;
}

inline bool JsonCursor::next_element() {
  char next = peek();
  if (next == ',') {
    ++at_;
    next = peek();
  }
  if (next == ']') {
    ++at_;
    return false;
  }
  if (at_ == end_ || next == '}' || next == ':' || next == ',') {
    fail();
    return false;
  }
  return true;
}

inline void JsonCursor::skip_string() {
  ++at_;
  for (;;) {
    at_ = find_string_stop(at_, end_);
    if (at_ == end_) return fail();
    if (*at_ == '"') {
      ++at_;
      return;
    }
    if (end_ - at_ < 2) return fail();
    at_ += 2;
  }
}

inline std::string_view JsonCursor::string() {
  if (peek() != '"') {
    fail();
    return {};
  }
  const char* start = at_ + 1;
  skip_string();
  if (failed_) return {};
  return {start, static_cast<std::size_t>(at_ - 1 - start)};
}

inline std::optional<std::string_view> JsonCursor::string_if() {
  if (peek() == '"') return string();
  skip();
  return std::nullopt;
}

}  // namespace weir::dialects
