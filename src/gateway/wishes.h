// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/head.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir::gateway {

/// What a caller says about waiting, in header fields.
struct Wishes {
  std::optional<Duration> max_wait;  ///< x-weir-max-wait, else X-DashScope-Wait-Timeout
  std::optional<Duration> timeout;   ///< x-stainless-timeout or X-Server-Timeout
  std::string_view traffic_class;    ///< x-weir-class; empty: none
};

/// Reads them. Errors: malformed, if x-weir-max-wait or X-DashScope-Wait-Timeout is no duration;
/// the time-outs that client libraries send by themselves are ignored where they make no sense.
Result<Wishes> read_wishes(const http::Fields& fields);

/// The first field that asks for something this version does not do (x-weir-route,
/// x-weir-callback, `Prefer: respond-async`); empty: none. Fields that only describe a request
/// (x-weir-customer, x-weir-tags, Idempotency-Key) are taken without effect, as HTTP has it.
std::string_view unbuilt_wish(const http::Fields& fields);

/// "1.5s", "300ms", "2m", "1h" or plain seconds "20". Absent: not a duration, negative, or more
/// than a day.
std::optional<Duration> parse_wait(std::string_view text);

}  // namespace weir::gateway
