// SPDX-License-Identifier: Apache-2.0
#include "weir/result.h"

namespace weir {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::malformed: return "malformed";
    case ErrorCode::too_large: return "too_large";
    case ErrorCode::unauthorized: return "unauthorized";
    case ErrorCode::not_allowed: return "not_allowed";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::invalid_config: return "invalid_config";
    case ErrorCode::rate_limited: return "rate_limited";
    case ErrorCode::never_fits: return "never_fits";
    case ErrorCode::connect_failed: return "connect_failed";
    case ErrorCode::tls_failed: return "tls_failed";
    case ErrorCode::connection_lost: return "connection_lost";
    case ErrorCode::timed_out: return "timed_out";
    case ErrorCode::bad_response: return "bad_response";
    case ErrorCode::overloaded: return "overloaded";
    case ErrorCode::draining: return "draining";
    case ErrorCode::io: return "io";
    case ErrorCode::internal: return "internal";
  }
  return "internal";
}

std::string_view name(Origin origin) {
  switch (origin) {
    case Origin::client: return "client";
    case Origin::provider: return "provider";
    case Origin::store: return "store";
    case Origin::gateway: return "gateway";
  }
  return "gateway";
}

std::string Error::describe() const {
  std::string whole = text;
  for (const Error* led = cause.get(); led != nullptr; led = led->cause.get()) {
    whole += ": ";
    whole += led->text;
  }
  return whole;
}

}  // namespace weir
