// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "http/head.h"
#include "weir/signal.h"

namespace weir::dialects {

/// What an answer of an OpenAI-compatible provider says about limits; see Dialect::read_signal.
/// The class is decided in this order: content filter, context length, money, capacity, rate limit,
/// status. The limiter comes from code and text before headers. The delay comes from the headers,
/// else RetryInfo or the text, else (rate limits only) the reset of the exhausted dimension.
Signal read_openai_signal(std::uint16_t status, const http::Fields& fields,
                          std::string_view error_body, WallTime wall_now);

/// The Signal of an error object found in the body of a 200. Its status is the error's own numeric
/// code, or one that suits its class. `kind` is ok if `body` holds no error.
Signal read_error_in_success(std::string_view body);

/// Reads the rate-limit headers of any answer into `signal`'s readings. "-1" and what is not a
/// number mean unknown.
void read_limit_headers(const http::Fields& fields, WallTime wall_now, Signal& signal);

}  // namespace weir::dialects
