// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weir/time.h"

namespace weir {

/// What went wrong, as a word that programs can match.
enum class ErrorCode {
  malformed,        ///< the input is not what its format says
  too_large,        ///< a stated bound was passed
  unauthorized,     ///< no or unknown credential
  not_allowed,      ///< known, but not permitted
  not_found,        ///< no such path, model, file or name
  unsupported,      ///< understood, but not built or not offered
  invalid_config,   ///< the configuration contradicts itself or the schema
  rate_limited,     ///< a limit says not now
  never_fits,       ///< more than a limit's whole capacity
  connect_failed,   ///< no connection to the peer
  tls_failed,       ///< the peer's certificate or handshake was refused
  connection_lost,  ///< a connection ended in the middle
  timed_out,        ///< a deadline passed
  bad_response,     ///< the peer answered something that is not HTTP or not its dialect
  overloaded,       ///< a bound of ours is full
  draining,         ///< we are shutting down
  io,               ///< a file or the operating system failed
  internal,         ///< our own fault
};

/// The code's word, as it stands in error bodies and the docs.
std::string_view name(ErrorCode code);

/// Whose doing an error is.
enum class Origin { client, provider, store, gateway };
std::string_view name(Origin origin);

/// Whether sending the same again can help.
enum class Retry {
  never,          ///< the same request fails again
  later,          ///< wait first (`retry_after` says how long where known)
  now_elsewhere,  ///< another connection or deployment can serve it now
};

/// An expected failure: what, whose, whether to retry, whether somebody may have been billed.
/// Errors: is one. Threads: a plain value.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::internal;
  Origin origin = Origin::gateway;
  Retry retry = Retry::never;
  bool may_have_been_billed = false;
  std::optional<Duration> retry_after;
  std::string text;                    ///< one sentence: the thing, the place, the fix
  std::shared_ptr<const Error> cause;  ///< what led to it, if another error did

  /// The text, followed by the causes' texts.
  [[nodiscard]] std::string describe() const;
};

/// A value or the Error that stands in its place.
template <class T>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
};

/// Shorthand: `return fail(ErrorCode::malformed, "…");`
inline std::unexpected<Error> fail(ErrorCode code, std::string text,
                                   Origin origin = Origin::gateway) {
  Error error;
  error.code = code;
  error.origin = origin;
  error.text = std::move(text);
  return std::unexpected<Error>(std::move(error));
}
inline std::unexpected<Error> fail(Error error) { return std::unexpected<Error>(std::move(error)); }

}  // namespace weir
