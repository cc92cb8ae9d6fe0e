// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::gateway {

/// What a provider said, as one JSON value for `provider_error`: its `error` member where the
/// body is valid JSON and small, else its status alone (HTML and other pages are not echoed).
/// A body in which `secret` occurs is not shown at all, because providers echo keys.
std::string provider_error_json(std::uint16_t status, std::string_view body,
                                std::string_view secret);

/// The text of the top-level member `name` of a JSON object, as it stands; empty if `body` is not
/// one valid JSON object, is nested deeper than 64, or has no such member.
std::string_view json_member(std::string_view body, std::string_view name);

}  // namespace weir::gateway
