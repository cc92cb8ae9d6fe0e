// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/ids.h"
#include "weir/time.h"
#include "weir/units.h"

namespace weir {

/// What kind of answer a provider gave (interface.md §6).
enum class SignalClass : std::uint8_t {
  ok,
  rate_limited,
  quota_exhausted,
  overloaded,
  auth,
  bad_request,
  server_error,
  timeout,
  content_filter,
  context_length,
};
std::string_view name(SignalClass kind);

/// Which limit an error named (interface.md §6).
enum class Limiter : std::uint8_t {
  rpm,
  rps,
  input_tpm,
  output_tpm,
  total_tpm,
  tps,
  burst,
  concurrency,
  rpd,
  tpd,
  budget,
  images,
  audio_seconds,
  tasks,
  stream_seconds,
  unknown,
};
std::string_view name(Limiter limiter);

/// One dimension of a provider's rate-limit headers. Absent members were not sent, or were sent
/// as a value that means "unknown" (-1).
struct LimitReading {
  std::optional<std::int64_t> limit;
  std::optional<std::int64_t> remaining;
  std::optional<Duration> reset;
};

/// What one answer of a provider tells about its limits: the error's meaning and the headers.
struct Signal {
  SignalClass kind = SignalClass::ok;
  Limiter limiter = Limiter::unknown;
  std::uint16_t status = 0;
  bool oversize = false;                ///< this request can never fit; shrink it
  std::optional<Duration> retry_after;  ///< the provider's hint, already bounded to 24 h
  LimitReading requests;
  LimitReading tokens;
  LimitReading input_tokens;
  LimitReading output_tokens;
  std::optional<Duration> round_trip;  ///< network only, e.g. the socket's own estimate
  /// The call that this is the answer to. Known, its headers are held against what the mirrors said
  /// when it left, and an answer that is no error says that the provider let it in.
  std::optional<CallId> call;
};

}  // namespace weir
