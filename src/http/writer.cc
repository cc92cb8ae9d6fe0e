// SPDX-License-Identifier: Apache-2.0
#include "http/writer.h"

#include <charconv>

#include "http/exchange.h"
#include "http/text.h"

namespace weir::http {

std::string_view reason_phrase(std::uint16_t status) {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 402: return "Payment Required";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 529: return "Overloaded";
    default: return "Unknown";
  }
}

void append_status_line(std::string& into, std::uint16_t status) {
  const char digits[3] = {static_cast<char>('0' + status / 100 % 10),
                          static_cast<char>('0' + status / 10 % 10),
                          static_cast<char>('0' + status % 10)};
  into += "HTTP/1.1 ";
  into.append(digits, sizeof digits);
  into += ' ';
  into += reason_phrase(status);
  into += "\r\n";
}

void append_request_line(std::string& into, std::string_view method, std::string_view target) {
  into += method;
  into += ' ';
  into += target;
  into += " HTTP/1.1\r\n";
}

void append_field(std::string& into, std::string_view name, std::string_view value) {
  into += name;
  into += ": ";
  while (true) {
    const std::size_t control = find_control(value);
    into += value.substr(0, control);
    if (control == value.size()) break;
    into += ' ';
    value.remove_prefix(control + 1);
  }
  into += "\r\n";
}

void append_field(std::string& into, std::string_view name, std::uint64_t value) {
  char digits[20];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, value);
  append_field(into, name, std::string_view(digits, static_cast<std::size_t>(end.ptr - digits)));
}

void append_json_text(std::string& into, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if (byte == '"' || byte == '\\') {
      into += '\\';
      into += byte;
    } else if (value < 0x20U) {
      into += "\\u00";
      into += kDigits[value >> 4U];
      into += kDigits[value & 15U];
    } else {
      into += byte;
    }
  }
}

std::string Handler::on_refusal(std::uint16_t status, const Error& error) {
  return refusal_response(status, error);
}

std::string refusal_response(std::uint16_t status, const Error& error) {
  std::string body = R"({"error":{"message":")";
  append_json_text(body, error.text);
  body += R"(","type":")";
  body += name(error.code);
  body += R"(","code":")";
  body += name(error.code);
  body += R"(","param":null}})";
  std::string answer;
  append_status_line(answer, status);
  append_field(answer, "content-type", "application/json");
  append_field(answer, "content-length", body.size());
  if (status == 503) append_field(answer, "retry-after", "1");
  append_field(answer, "connection", "close");
  end_head(answer);
  answer += body;
  return answer;
}

}  // namespace weir::http
