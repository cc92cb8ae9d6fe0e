// SPDX-License-Identifier: Apache-2.0
#include "http/parser.h"

#include <cstring>

#include "http/text.h"

namespace weir::http {
namespace {

constexpr std::size_t kMaxMethod = 32;
constexpr std::size_t kMaxLengthDigits = 18;

/// What the fields say about framing and the connection.
struct Framing {
  bool has_length = false;
  bool has_coding = false;
  bool close = false;
  bool keep_alive = false;
  std::uint64_t length = 0;
  std::size_t hosts = 0;
  std::string_view expect;
};

bool parse_length(std::string_view text, std::uint64_t& length) {
  if (text.empty() || text.size() > kMaxLengthDigits) return false;
  std::uint64_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return false;
    value = value * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  length = value;
  return true;
}

/// Notes what a field means for framing. Returns why it is refused, or nothing.
std::string_view note_field(const Field& field, Framing& framing) {
  switch (field.name.size()) {
    case 4:
      if (same_word(field.name, "host")) ++framing.hosts;
      break;
    case 6:
      if (same_word(field.name, "expect")) framing.expect = field.value;
      break;
    case 10:
      if (same_word(field.name, "connection")) {
        for_each_word(field.value, [&](std::string_view word) {
          if (same_word(word, "close")) framing.close = true;
          if (same_word(word, "keep-alive")) framing.keep_alive = true;
        });
      }
      break;
    case 14:
      if (same_word(field.name, "content-length")) {
        if (framing.has_length) return "content-length is given more than once";
        if (!parse_length(field.value, framing.length)) {
          return "content-length is not a plain decimal number";
        }
        framing.has_length = true;
      }
      break;
    case 17:
      if (same_word(field.name, "transfer-encoding")) {
        if (framing.has_coding) return "transfer-encoding is given more than once";
        if (!same_word(field.value, "chunked")) {
          return "transfer-encoding is not exactly \"chunked\"; no other coding is understood";
        }
        framing.has_coding = true;
      }
      break;
    default: break;
  }
  if (framing.has_length && framing.has_coding) {
    return "content-length and transfer-encoding exclude each other";
  }
  return {};
}

/// Reads the one field line `line` (without its line end). Returns why it is refused, or nothing.
std::string_view read_field(std::string_view line, Field& field) {
  std::size_t colon = 0;
  while (colon < line.size() && is_token_byte(line[colon])) ++colon;
  if (colon == line.size() || line[colon] != ':') {
    if (line.front() == ' ' || line.front() == '\t') return "a header field is folded over lines";
    if (colon < line.size() && (line[colon] == ' ' || line[colon] == '\t')) {
      return "a header field has white space before its colon";
    }
    return "a header field has no colon or an invalid character in its name";
  }
  if (colon == 0) return "a header field has no name";
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (find_control(value) != value.size()) return "a header field contains a control character";
  field = {line.substr(0, colon), value};
  return {};
}

/// Reads all field lines of `bytes`, which ends with the empty line. Returns why they are refused.
std::string_view read_fields(std::string_view bytes, Fields& fields, Framing& framing) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at < end) {
    const auto* feed =
        static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    const std::string_view line(at, static_cast<std::size_t>(feed - at) - 1);
    at = feed + 1;
    if (line.empty()) break;
    Field field;
    std::string_view why = read_field(line, field);
    if (why.empty()) why = note_field(field, framing);
    if (!why.empty()) return why;
    fields.add(field);
  }
  return {};
}

bool too_many_fields(std::string_view bytes, std::size_t limit) {
  std::size_t lines = 0;
  for (const char byte : bytes) lines += byte == '\n' ? 1U : 0U;
  return lines > limit + 2;  // the first line and the empty one are not fields
}

}  // namespace

Progress HeadScanner::scan(std::string_view bytes, std::size_t limit) {
  while (seen_ < bytes.size()) {
    const auto* feed =
        static_cast<const char*>(std::memchr(bytes.data() + seen_, '\n', bytes.size() - seen_));
    if (feed == nullptr) {
      seen_ = bytes.size();
      break;
    }
    const auto at = static_cast<std::size_t>(feed - bytes.data());
    if (at >= limit) return Progress::refused;
    seen_ = at + 1;
    if (at == line_ || bytes[at - 1] != '\r') {
      bare_ = true;
      return Progress::refused;
    }
    const bool empty = at == line_ + 1;
    line_ = at + 1;
    if (empty) return Progress::done;
  }
  return bytes.size() >= limit ? Progress::refused : Progress::more;
}

void RequestParser::reset() {
  scanner_.reset();
  skipped_ = 0;
  length_ = 0;
  if (fault_.status != 0) fault_ = Fault();
}

Progress RequestParser::refuse(std::uint16_t status, ErrorCode code, std::string_view text) {
  fault_.status = status;
  fault_.error.code = code;
  fault_.error.origin = Origin::client;
  fault_.error.text = text;
  return Progress::refused;
}

Progress RequestParser::parse(std::string_view bytes, RequestHead& head, const HeadLimits& limits) {
  if (skipped_ == 0 && bytes.size() >= 2 && bytes[0] == '\r' && bytes[1] == '\n') skipped_ = 2;
  bytes.remove_prefix(skipped_);
  if (bytes.empty() || (bytes.size() == 1 && bytes[0] == '\r' && skipped_ == 0)) {
    return Progress::more;
  }
  if (!is_token_byte(bytes[0])) {
    return bytes[0] == '\x16'
               ? refuse(400, ErrorCode::malformed, "a TLS handshake came to a plain HTTP port")
               : refuse(400, ErrorCode::malformed, "the request does not start with a method");
  }
  switch (scanner_.scan(bytes, limits.bytes)) {
    case Progress::more: return Progress::more;
    case Progress::refused:
      if (scanner_.bare_line_feed()) {
        return refuse(400, ErrorCode::malformed, "a line of the head does not end with CR LF");
      }
      return scanner_.first_line_seen()
                 ? refuse(431, ErrorCode::too_large, "the request's head is too large")
                 : refuse(414, ErrorCode::too_large, "the request's target is too long");
    case Progress::done: break;
  }
  length_ = scanner_.length() + skipped_;
  return read(bytes.substr(0, scanner_.length()), head, limits);
}

Progress RequestParser::read(std::string_view bytes, RequestHead& head, const HeadLimits& limits) {
  head.fields.clear();
  head.body = BodyKind::none;
  head.content_length = 0;
  head.expect_continue = false;
  if (bytes.size() > limits.fields && too_many_fields(bytes, limits.fields)) {
    return refuse(431, ErrorCode::too_large, "the request has too many header fields");
  }
  const std::size_t line_end = bytes.find('\n') - 1;
  if (!read_request_line(bytes.substr(0, line_end), head)) return Progress::refused;
  Framing framing;
  const std::string_view why = read_fields(bytes.substr(line_end + 2), head.fields, framing);
  if (!why.empty()) return refuse(400, ErrorCode::malformed, why);
  if (head.minor_version >= 1 && framing.hosts != 1) {
    return refuse(400, ErrorCode::malformed, "a request needs exactly one host field");
  }
  if (framing.has_coding) {
    if (head.minor_version == 0) {
      return refuse(400, ErrorCode::malformed, "HTTP/1.0 has no transfer-encoding");
    }
    head.body = BodyKind::chunked;
  } else if (framing.has_length) {
    head.body = BodyKind::length;
    head.content_length = framing.length;
  }
  head.keep_alive = !framing.close && (head.minor_version >= 1 || framing.keep_alive);
  if (!framing.expect.empty() && head.minor_version >= 1) {
    if (!same_word(framing.expect, "100-continue")) {
      return refuse(417, ErrorCode::unsupported, "the only expectation understood is 100-continue");
    }
    head.expect_continue = true;
  }
  return Progress::done;
}

bool RequestParser::read_request_line(std::string_view line, RequestHead& head) {
  std::size_t at = 0;
  while (at < line.size() && at <= kMaxMethod && is_token_byte(line[at])) ++at;
  if (at == 0 || at > kMaxMethod || at == line.size() || line[at] != ' ') {
    refuse(400, ErrorCode::malformed, "the request line has no valid method");
    return false;
  }
  head.method = line.substr(0, at);
  line.remove_prefix(at + 1);
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) {
    refuse(400, ErrorCode::malformed, "the request line is not method, target and version");
    return false;
  }
  if (!read_target(line.substr(0, space), head)) return false;
  const std::string_view version = line.substr(space + 1);
  if (version == "HTTP/1.1" || version == "HTTP/1.0") {
    head.minor_version = version.back() == '1' ? 1 : 0;
    return true;
  }
  if (version.size() == 8 && version.starts_with("HTTP/") && version[6] == '.') {
    refuse(505, ErrorCode::unsupported, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  } else {
    refuse(400, ErrorCode::malformed, "the request line does not end with an HTTP version");
  }
  return false;
}

bool RequestParser::read_target(std::string_view target, RequestHead& head) {
  for (const char byte : target) {
    if (byte <= ' ' || byte == '\x7f' || byte == '#') {  // signed: bytes above 0x7f are negative
      refuse(400, ErrorCode::malformed, "the request's target contains an invalid character");
      return false;
    }
  }
  if (target.front() != '/' && !(target == "*" && head.method == "OPTIONS")) {
    const std::size_t scheme = target.find("://");
    const std::size_t path =
        scheme == std::string_view::npos ? scheme : target.find('/', scheme + 3);
    if (path == std::string_view::npos) {
      refuse(400, ErrorCode::malformed, "the request's target is not a path");
      return false;
    }
    target.remove_prefix(path);
  }
  head.target = target;
  return true;
}

void ResponseParser::reset() {
  scanner_.reset();
  if (fault_.status != 0) fault_ = Fault();
}

Progress ResponseParser::refuse(std::string_view text) {
  fault_.status = 502;
  fault_.error.code = ErrorCode::bad_response;
  fault_.error.origin = Origin::provider;
  fault_.error.text = text;
  return Progress::refused;
}

Progress ResponseParser::parse(std::string_view bytes, ResponseHead& head, const HeadLimits& limits,
                               bool to_head) {
  constexpr std::string_view kStart = "HTTP/1.";
  const std::size_t compared = std::min(bytes.size(), kStart.size());
  if (bytes.substr(0, compared) != kStart.substr(0, compared)) {
    return refuse("the answer is not HTTP/1.1");
  }
  switch (scanner_.scan(bytes, limits.bytes)) {
    case Progress::more: return Progress::more;
    case Progress::refused:
      return scanner_.bare_line_feed() ? refuse("a line of the answer's head has no CR LF")
                                       : refuse("the answer's head is too large");
    case Progress::done: break;
  }
  bytes = bytes.substr(0, scanner_.length());
  head.fields.clear();
  if (bytes.size() > limits.fields && too_many_fields(bytes, limits.fields)) {
    return refuse("the answer has too many header fields");
  }
  const std::size_t line_end = bytes.find('\n') - 1;
  if (!read_status_line(bytes.substr(0, line_end), head)) return Progress::refused;
  Framing framing;
  const std::string_view why = read_fields(bytes.substr(line_end + 2), head.fields, framing);
  if (!why.empty()) return refuse(why);
  head.keep_alive = !framing.close && (head.minor_version >= 1 || framing.keep_alive);
  head.content_length = framing.length;
  if (to_head || head.status < 200 || head.status == 204 || head.status == 304) {
    head.body = BodyKind::none;
  } else if (framing.has_coding) {
    if (head.minor_version == 0) return refuse("HTTP/1.0 has no transfer-encoding");
    head.body = BodyKind::chunked;
  } else if (framing.has_length) {
    head.body = BodyKind::length;
  } else {
    head.body = BodyKind::until_close;
    head.keep_alive = false;
  }
  return Progress::done;
}

bool ResponseParser::read_status_line(std::string_view line, ResponseHead& head) {
  // "HTTP/1.1 200" is the least; a space and any reason may follow.
  const bool shaped = line.size() >= 12 && (line[7] == '0' || line[7] == '1') && line[8] == ' ' &&
                      (line.size() == 12 || line[12] == ' ');
  std::uint16_t status = 0;
  for (std::size_t at = 9; shaped && at < 12; ++at) {
    if (line[at] < '0' || line[at] > '9') {
      status = 0;
      break;
    }
    status = static_cast<std::uint16_t>(status * 10 + (line[at] - '0'));
  }
  if (status < 100 || status > 599 || find_control(line) != line.size()) {
    refuse("the answer's status line is not HTTP");
    return false;
  }
  head.status = status;
  head.minor_version = line[7] == '1' ? 1 : 0;
  head.reason = line.size() > 13 ? line.substr(13) : std::string_view();
  return true;
}

}  // namespace weir::http
