// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/signal.h"

namespace weir::dialects {

/// An error as a provider's body describes it, whatever the envelope.
struct ProviderError {
  bool found = false;        ///< the body is an error by its own shape, whatever the status
  std::string code;          ///< lower case; of a numeric code its digits
  std::string type;          ///< lower case; Google's `status` too
  std::string text;          ///< lower case, bounded: every message there is
  std::uint16_t status = 0;  ///< 400 to 599 if the body names one
  std::optional<Duration> retry_delay;  ///< google.rpc.RetryInfo
};

/// Finds the error object: {"error": {…}}, {"error": "…"}, the flat forms with "object": "error" or
/// "type": "error", {"detail": …}, Google's one-element array, and one level into a message that is
/// itself JSON. A body that is not JSON (HTML, plain text) becomes the text.
ProviderError find_error(std::string_view body);

/// Class and limiter of an error from code, type, text and status; `oversize` too. What only the
/// headers can tell is left `unknown`.
Signal classify(const ProviderError& error, std::uint16_t status);

}  // namespace weir::dialects
