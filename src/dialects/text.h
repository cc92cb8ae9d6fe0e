// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "http/text.h"

/// ASCII letters and white space, whatever the locale; beside http/text.h.
namespace weir::dialects {

constexpr bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
using http::lower;
using http::same_word;
constexpr bool is_letter(char byte) { return lower(byte) >= 'a' && lower(byte) <= 'z'; }

inline std::string lower(std::string_view text) {
  std::string lowered(text);
  for (char& byte : lowered) byte = lower(byte);
  return lowered;
}

constexpr bool starts_with_fold(std::string_view text, std::string_view start) {
  // Most senders write header names in lower case, which is the cheaper question.
  if (text.starts_with(start)) return true;
  return text.size() >= start.size() && same_word(text.substr(0, start.size()), start);
}

/// Without the white space at both ends.
constexpr std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t start = text.find_first_not_of(kSpace);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(kSpace) - start + 1);
}

}  // namespace weir::dialects
