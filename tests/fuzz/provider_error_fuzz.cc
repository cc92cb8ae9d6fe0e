// SPDX-License-Identifier: Apache-2.0
// Any bytes as status, headers and body of an answer: no crash, and every hint within its bounds.
// Input: two bytes of status, then lines "name: value", a blank line, and the body.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dialects/dialect.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void require_reading(const weir::LimitReading& reading) {
  require(reading.limit.value_or(0) >= 0 && reading.remaining.value_or(0) >= 0);
  const weir::Duration reset = reading.reset.value_or(weir::Duration(0));
  require(reset >= weir::Duration(0) && reset <= std::chrono::hours(24));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto status = static_cast<std::uint16_t>(100 + (data[0] * 256U + data[1]) % 500U);
  std::string_view rest(reinterpret_cast<const char*>(data + 2), size - 2);
  weir::http::Fields fields;
  while (fields.all().size() < weir::http::Fields::kMaxFields) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos || end == 0) break;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      fields.add({line.substr(0, colon), line.substr(colon + 1)});
    }
  }
  const weir::WallTime now{std::chrono::seconds(1'796'126'400)};
  const weir::Signal signal = weir::dialects::openai().read_signal(status, fields, rest, now);
  const weir::Duration hint = signal.retry_after.value_or(weir::Duration(0));
  require(hint >= weir::Duration(0) && hint <= std::chrono::hours(24));
  require(status < 300 || signal.kind != weir::SignalClass::ok);
  require_reading(signal.requests);
  require_reading(signal.tokens);
  require_reading(signal.input_tokens);
  require_reading(signal.output_tokens);
  return 0;
}
