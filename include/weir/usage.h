// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace weir {

/// What a provider says it counted. Units: tokens.
struct Usage {
  std::int64_t input_tokens = 0;                    ///< cached ones included
  std::int64_t output_tokens = 0;                   ///< reasoning included
  std::optional<std::int64_t> cached_input_tokens;  ///< part of input_tokens
  std::optional<std::int64_t> reasoning_tokens;     ///< part of output_tokens
  bool operator==(const Usage&) const = default;
};

/// How an attempt ended.
enum class Ending : std::uint8_t {
  completed,    ///< the response came to its end
  truncated,    ///< the provider broke off after bytes had come
  client_gone,  ///< the caller left; the provider was cancelled
  failed,       ///< an error answer or no answer; the provider charged nothing
  never_sent,   ///< no byte of the request left us
};

/// What is known at the end of an attempt. Where `reported` is absent the charge is the larger of
/// what was seen and what was estimated (never zero once output was seen), except for `failed` and
/// `never_sent`, which charge no tokens.
struct Settlement {
  Ending ending = Ending::completed;
  std::optional<Usage> reported;
  std::int64_t output_events = 0;  ///< stream events that carried output
  bool response_started = false;   ///< any byte of a success response came
};

}  // namespace weir
