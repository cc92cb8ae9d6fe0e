// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::telemetry {

/// Appends `text` as the inside of a JSON string: quotes, backslashes and control characters are
/// escaped; bytes that are not UTF-8 become U+FFFD, so that the result is always valid.
void append_json_escaped(std::string& out, std::string_view text);

/// Writes one JSON value into a caller's buffer, without a tree. It places commas; whoever calls
/// it balances the brackets. At most 32 levels deep.
/// Threads: one owner.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& text(std::string_view value);
  JsonWriter& integer(std::int64_t value);
  /// Not finite: null, since JSON has no word for it.
  JsonWriter& real(double value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  /// `value` must be one valid JSON value.
  JsonWriter& raw(std::string_view value);

  JsonWriter& member(std::string_view name, std::string_view value) {
    return key(name).text(value);
  }
  JsonWriter& member(std::string_view name, const char* value) { return key(name).text(value); }
  JsonWriter& member(std::string_view name, std::int64_t value) { return key(name).integer(value); }
  JsonWriter& member(std::string_view name, double value) { return key(name).real(value); }
  JsonWriter& member(std::string_view name, bool value) { return key(name).boolean(value); }
  /// Empty: null.
  JsonWriter& member_or_null(std::string_view name, std::string_view value) {
    return value.empty() ? key(name).null() : key(name).text(value);
  }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void comma();

  std::string& out_;
  std::uint32_t started_ = 0;  ///< bit n: level n already holds a value
  std::uint32_t depth_ = 0;
  bool after_key_ = false;
};

}  // namespace weir::telemetry
