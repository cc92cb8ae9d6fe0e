// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/parser.h"

/// Writing heads into a buffer the caller reuses.
namespace weir::http {

/// The usual phrase of a status, "Unknown" for one without.
std::string_view reason_phrase(std::uint16_t status);

/// Appends "HTTP/1.1 200 OK" and its line end.
void append_status_line(std::string& into, std::uint16_t status);

/// Appends "POST /path HTTP/1.1" and its line end.
void append_request_line(std::string& into, std::string_view method, std::string_view target);

/// Appends one field. Control characters of the value become spaces, so that no value can add a
/// field of its own.
void append_field(std::string& into, std::string_view name, std::string_view value);
void append_field(std::string& into, std::string_view name, std::uint64_t value);

/// Appends the empty line.
inline void end_head(std::string& into) { into += "\r\n"; }

/// A whole answer with the error as the JSON object of the data plane, and `connection: close`.
std::string refusal_response(std::uint16_t status, const Error& error);

/// Appends `text` as the inside of a JSON string.
void append_json_text(std::string& into, std::string_view text);

}  // namespace weir::http
