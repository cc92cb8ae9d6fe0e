// SPDX-License-Identifier: Apache-2.0
#include "gateway/provider_error.h"

#include <fmt/format.h>

#include <array>

namespace weir::gateway {
namespace {

constexpr std::size_t kMaxShown = 4096;
constexpr std::size_t kMaxDepth = 64;

/// Checks JSON text without building anything; iterative, so that depth costs no stack.
class JsonChecker {
 public:
  explicit JsonChecker(std::string_view text) : text_(text) {}

  /// Whether one value, and nothing after it but white space, stands in the text.
  bool whole() {
    skip_space();
    if (!value()) return false;
    skip_space();
    return at_ == text_.size();
  }

  /// Reads one value from the current position.
  bool value() {
    std::array<char, kMaxDepth> open{};
    std::size_t depth = 0;
    for (;;) {
      skip_space();
      const char c = peek();
      if (c == '{' || c == '[') {
        if (depth == kMaxDepth) return false;
        open[depth++] = c;
        ++at_;
        skip_space();
        if (peek() == (c == '{' ? '}' : ']')) {
          --depth;
          ++at_;
        } else {
          if (c == '{' && !name()) return false;
          continue;
        }
      } else if (!scalar()) {
        return false;
      }
      // A value ended: close what it completes, or go on to the next one.
      for (;;) {
        if (depth == 0) return true;
        skip_space();
        const char closer = open[depth - 1] == '{' ? '}' : ']';
        if (peek() == closer) {
          --depth;
          ++at_;
          continue;
        }
        if (peek() != ',') return false;
        ++at_;
        skip_space();
        if (open[depth - 1] == '{' && !name()) return false;
        break;
      }
    }
  }

  /// Reads `"name":`.
  bool name() {
    if (!string()) return false;
    skip_space();
    if (peek() != ':') return false;
    ++at_;
    return true;
  }

  bool string() {
    if (peek() != '"') return false;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') continue;
      ++at_;
      if (peek() == 'u') {
        for (int digit = 0; digit < 4; ++digit) {
          ++at_;
          if (!is_hex(peek())) return false;
        }
      } else if (std::string_view("\"\\/bfnrt").find(peek()) == std::string_view::npos ||
                 peek() == '\0') {
        return false;
      }
    }
    return false;
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[nodiscard]] std::size_t position() const { return at_; }
  void advance() { ++at_; }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  }
  bool digits() {
    const std::size_t start = at_;
    while (is_digit(peek())) ++at_;
    return at_ > start;
  }
  bool scalar() {
    for (const std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return true;
      }
    }
    if (peek() == '"') return string();
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else if (!digits()) {
      return false;
    }
    if (peek() == '.') {
      ++at_;
      if (!digits()) return false;
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return false;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

}  // namespace

std::string_view json_member(std::string_view body, std::string_view name) {
  if (!JsonChecker(body).whole()) return {};
  JsonChecker reader(body);
  reader.skip_space();
  if (reader.peek() != '{') return {};
  reader.advance();
  for (;;) {
    reader.skip_space();
    if (reader.peek() == '}') return {};
    const std::size_t start = reader.position();
    if (!reader.string()) return {};
    const std::string_view key = body.substr(start + 1, reader.position() - start - 2);
    reader.skip_space();
    reader.advance();
    reader.skip_space();
    const std::size_t value = reader.position();
    if (!reader.value()) return {};
    if (key == name) return body.substr(value, reader.position() - value);
    reader.skip_space();
    if (reader.peek() != ',') return {};
    reader.advance();
  }
}

std::string provider_error_json(std::uint16_t status, std::string_view body,
                                std::string_view secret) {
  const bool echoes = secret.size() >= 4 && body.find(secret) != std::string_view::npos;
  if (!echoes) {
    const std::string_view error = json_member(body, "error");
    // Text beyond ASCII would have to be checked as UTF-8 too; no error of a limit needs it.
    if (!error.empty() && error.size() <= kMaxShown && is_ascii(error)) return std::string(error);
  }
  return fmt::format("{{\"status\":{}}}", status);
}

}  // namespace weir::gateway
