// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "weir/governor.h"
#include "weir/time.h"

namespace weir::gateway {

/// The caller's own tightest limits as header fields; nothing for a caller without any.
///
/// `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` are what clients of OpenAI read; a
/// reset is written as a duration like `120ms`, `1.2s` or `6m0s`, rounded up to milliseconds.
/// `RateLimit-Policy` and `RateLimit` say the same by the IETF's draft, in whole seconds: the
/// policies are named "requests" and "tokens"; a window that is no whole number of seconds is left
/// out. `wait` is what the answer's Retry-After stands for, absent on an answer without one: `t`
/// is then never later than it, and left out where the true wait is more than Retry-After may say.
/// Source: draft-ietf-httpapi-ratelimit-headers-10, and the provider's published headers, read
/// 2026-11-30.
void append_limit_fields(std::string& out, const governor::CallerLimits& limits,
                         std::optional<Duration> wait = {});

/// `1h0m0s`, `6m0s`, `1.2s`, `120ms`, `0s`: rounded up to milliseconds; never negative.
void append_reset(std::string& out, Duration reset);

}  // namespace weir::gateway
