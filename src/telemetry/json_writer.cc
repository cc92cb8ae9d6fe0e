// SPDX-License-Identifier: Apache-2.0
#include "telemetry/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace weir::telemetry {
namespace {

/// Length of the valid UTF-8 sequence at the start of `text`; 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const auto follows = [&](std::size_t at, unsigned low = 0x80, unsigned high = 0xbf) {
    return at < text.size() && byte(at) >= low && byte(at) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const unsigned low = lead == 0xe0 ? 0xa0 : 0x80;
    const unsigned high = lead == 0xed ? 0x9f : 0xbf;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const unsigned low = lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xf4 ? 0x8f : 0xbf;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

bool plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\';
}

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = at;
    while (end < text.size() && plain(text[end])) ++end;
    out.append(text, at, end - at);
    if (end == text.size()) return;
    at = end;
    const char c = text[at];
    if (const auto byte = static_cast<unsigned char>(c); byte >= 0x80) {
      const std::size_t length = utf8_length(text.substr(at));
      if (length == 0) {
        out += "\\ufffd";
        ++at;
      } else {
        out.append(text, at, length);
        at += length;
      }
      continue;
    }
    ++at;
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        fmt::format_to(std::back_inserter(out), "\\u{:04x}",
                       static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
}

void JsonWriter::comma() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  const std::uint32_t bit = 1U << (depth_ & 31U);
  if ((started_ & bit) != 0 && depth_ > 0) out_ += ',';
  started_ |= bit;
}

JsonWriter& JsonWriter::open(char bracket) {
  comma();
  out_ += bracket;
  ++depth_;
  started_ &= ~(1U << (depth_ & 31U));
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  --depth_;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  comma();
  out_ += '"';
  append_json_escaped(out_, name);
  out_ += "\":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  comma();
  out_ += '"';
  append_json_escaped(out_, value);
  out_ += '"';
  return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t value) {
  comma();
  const fmt::format_int digits(value);
  out_.append(digits.data(), digits.size());
  return *this;
}

JsonWriter& JsonWriter::real(double value) {
  if (!std::isfinite(value)) return null();
  comma();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
  comma();
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::null() {
  comma();
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view value) {
  comma();
  out_ += value;
  return *this;
}

}  // namespace weir::telemetry
