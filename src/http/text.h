// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// The characters HTTP/1.1 is made of, and comparing its words.
namespace weir::http {

/// Which bytes may stand in a token (method, field name).
/// Source: RFC 9110 section 5.6.2 (https://www.rfc-editor.org/rfc/rfc9110, read 2026-11-30).
inline constexpr std::array<bool, 256> kTokenBytes = [] {
  std::array<bool, 256> table{};
  for (unsigned byte = '0'; byte <= '9'; ++byte) table[byte] = true;
  for (unsigned byte = 'a'; byte <= 'z'; ++byte) table[byte] = true;
  for (unsigned byte = 'A'; byte <= 'Z'; ++byte) table[byte] = true;
  for (const char byte : std::string_view("!#$%&'*+-.^_`|~")) {
    table[static_cast<unsigned char>(byte)] = true;
  }
  return table;
}();

constexpr bool is_token_byte(char byte) { return kTokenBytes[static_cast<unsigned char>(byte)]; }

constexpr char lower(char byte) {
  return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + ('a' - 'A')) : byte;
}

/// Whether two words are the same but for the case of ASCII letters.
constexpr bool same_word(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  for (std::size_t at = 0; at < left.size(); ++at) {
    if (left[at] != right[at] && lower(left[at]) != lower(right[at])) return false;
  }
  return true;
}

/// The text without spaces and tabs at both ends.
constexpr std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Calls `visit(word)` for each element of a comma-separated list, without white space around it;
/// empty elements are passed over.
template <class Visit>
constexpr void for_each_word(std::string_view list, Visit visit) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view word = trimmed(list.substr(0, comma));
    if (!word.empty()) visit(word);
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

/// The position of the first byte that must not stand in a field value (control characters other
/// than tab), or the size.
std::size_t find_control(std::string_view text);

}  // namespace weir::http
