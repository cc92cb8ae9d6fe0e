// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "http/head.h"
#include "weir/result.h"

/// Strict, incremental readers of HTTP/1.1 heads. What two readers could frame differently is
/// refused: both framing headers, repeated or odd lengths, codings other than exactly `chunked`,
/// folded lines, white space before a colon, bare CR or LF, control characters.
/// Source: RFC 9112 (https://www.rfc-editor.org/rfc/rfc9112, read 2026-11-30).
namespace weir::http {

/// How far a reader came.
enum class Progress : std::uint8_t { more, done, refused };

/// Bounds of a head. Units: bytes, fields.
struct HeadLimits {
  std::size_t bytes = std::size_t{32} << 10U;
  std::size_t fields = Fields::kMaxFields;
};

/// Why a message was refused: the status to answer with, and the error.
struct Fault {
  std::uint16_t status = 0;
  Error error;
};

/// Finds the end of a head in bytes that arrive in pieces, looking at each byte once.
class HeadScanner {
 public:
  /// `bytes` starts at the head's first byte and may only grow between calls.
  /// done: `length()` is the head's size, the empty line included.
  Progress scan(std::string_view bytes, std::size_t limit);
  [[nodiscard]] std::size_t length() const { return line_; }
  [[nodiscard]] bool first_line_seen() const { return line_ > 0; }
  [[nodiscard]] bool bare_line_feed() const { return bare_; }
  void reset() { *this = HeadScanner(); }

 private:
  std::size_t seen_ = 0;  ///< bytes already looked at
  std::size_t line_ = 0;  ///< where the current line starts
  bool bare_ = false;
};

/// Reads request heads. Reusable: `reset` between requests; nothing is allocated once the fields'
/// vector has grown. Threads: one owner.
class RequestParser {
 public:
  /// `bytes` starts at the head and may only grow between calls until done or refused. On done,
  /// `head`'s views point into `bytes`. Errors (`fault()`): 400, 414, 417, 431, 505.
  Progress parse(std::string_view bytes, RequestHead& head, const HeadLimits& limits);
  /// Size of the head read last, the empty line included. Units: bytes.
  [[nodiscard]] std::size_t length() const { return length_; }
  [[nodiscard]] const Fault& fault() const { return fault_; }
  void reset();

 private:
  Progress refuse(std::uint16_t status, ErrorCode code, std::string_view text);
  Progress read(std::string_view bytes, RequestHead& head, const HeadLimits& limits);
  bool read_request_line(std::string_view line, RequestHead& head);
  bool read_target(std::string_view target, RequestHead& head);

  HeadScanner scanner_;
  std::size_t skipped_ = 0;  ///< an empty line before the request line
  std::size_t length_ = 0;
  Fault fault_;
};

/// Reads response heads, the same way.
class ResponseParser {
 public:
  /// `to_head`: the request's method was HEAD, so there is no body. Errors: 502 in `fault()`.
  Progress parse(std::string_view bytes, ResponseHead& head, const HeadLimits& limits,
                 bool to_head = false);
  [[nodiscard]] std::size_t length() const { return scanner_.length(); }
  [[nodiscard]] const Fault& fault() const { return fault_; }
  void reset();

 private:
  Progress refuse(std::string_view text);
  bool read_status_line(std::string_view line, ResponseHead& head);

  HeadScanner scanner_;
  Fault fault_;
};

}  // namespace weir::http
