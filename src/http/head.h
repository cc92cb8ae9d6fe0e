// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "weir/result.h"

namespace weir::http {

/// One header field, as views into the head's bytes.
struct Field {
  std::string_view name;
  std::string_view value;  ///< optional white space at both ends taken off
};

enum class BodyKind : std::uint8_t { none, length, chunked, until_close };

/// The fields of a head, in order, with names compared without case. At most kMaxFields.
class Fields {
 public:
  static constexpr std::size_t kMaxFields = 256;
  [[nodiscard]] std::string_view find(std::string_view name) const;  ///< first value or empty
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] const std::vector<Field>& all() const { return fields_; }
  void clear() { fields_.clear(); }
  void add(Field field) { fields_.push_back(field); }

 private:
  std::vector<Field> fields_;
};

struct RequestHead {
  std::string_view method;
  std::string_view target;  ///< as sent, "/v1/chat/completions?x=1"
  std::uint8_t minor_version = 1;
  Fields fields;
  BodyKind body = BodyKind::none;
  std::uint64_t content_length = 0;
  bool keep_alive = true;
  bool expect_continue = false;
  [[nodiscard]] std::string_view path() const { return target.substr(0, target.find('?')); }
};

struct ResponseHead {
  std::uint16_t status = 0;
  std::string_view reason;
  std::uint8_t minor_version = 1;
  Fields fields;
  BodyKind body = BodyKind::none;
  std::uint64_t content_length = 0;
  bool keep_alive = true;
};

}  // namespace weir::http
