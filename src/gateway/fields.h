// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/head.h"

/// Which header fields cross the gateway. What is not named here passes as it stands.
namespace weir::gateway {

/// Appends to `out` the client's fields that may reach a provider. Left out: hop-by-hop fields and
/// those that `Connection` names, cookies, every form of client credential, forwarding claims,
/// the account choosers of OpenAI, our own `x-weir-*`, and what the gateway writes itself (host,
/// length, encodings).
void append_request_fields(std::string& out, const http::Fields& fields);

/// Appends the lines of `passed` (as written by `append_request_fields`) but for those that the
/// provider's configured fields replace.
void append_unconfigured(std::string& out, std::string_view passed,
                         const std::vector<std::pair<std::string, std::string>>& configured);

/// Appends to `out` the provider's fields that may reach a client. Left out: hop-by-hop fields,
/// cookies, `Alt-Svc` and transport promises, lengths (written anew), the provider's rate-limit
/// fields (they describe the account, not the caller), and anything named like our own.
void append_response_fields(std::string& out, const http::Fields& fields);

/// Whether `list`, a comma-separated header value, names `word`.
bool names_word(std::string_view list, std::string_view word);

}  // namespace weir::gateway
