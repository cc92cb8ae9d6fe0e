// SPDX-License-Identifier: Apache-2.0
// Any bytes as an answer's body, cut in any places: what comes out does not depend on the cuts, and
// without stripping it is what went in. The first bytes of the input choose the mode and the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/dialect.h"

namespace {

using weir::dialects::ResponseMeter;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Outcome {
  std::string relayed;
  std::optional<weir::Usage> usage;
  std::int64_t events = 0;
  bool terminated = false;
  bool error = false;
  bool operator==(const Outcome&) const = default;
};

Outcome run(bool streaming, bool strip, std::string_view body, std::string_view cuts) {
  const auto meter =
      weir::dialects::openai().meter(weir::dialects::Operation::chat, streaming, strip);
  Outcome outcome;
  std::vector<std::string_view> relay;
  const auto take = [&outcome, &relay] {
    for (const std::string_view piece : relay) outcome.relayed += piece;
    relay.clear();
  };
  std::size_t cut = 0;
  while (!body.empty()) {
    std::size_t size = body.size();
    if (!cuts.empty()) {
      const auto step = static_cast<unsigned char>(cuts[cut++ % cuts.size()]);
      size = std::min<std::size_t>(size, step + std::size_t{1});
    }
    const std::string piece(body.substr(0, size));
    body.remove_prefix(size);
    meter->feed(piece, relay);
    take();
  }
  meter->finish(relay);
  take();
  outcome.usage = meter->usage();
  outcome.events = meter->output_events();
  outcome.terminated = meter->terminated();
  outcome.error = meter->error_before_content().has_value();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 5) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view cuts = input.substr(1, 4);
  const std::string_view body = input.substr(5);
  const bool streaming = (data[0] & 1U) != 0;
  const bool strip = (data[0] & 2U) != 0;
  const Outcome whole = run(streaming, strip, body, "");
  require(whole == run(streaming, strip, body, cuts));
  require(whole == run(streaming, strip, body, std::string_view("\0", 1)));
  if (!strip || !streaming) require(whole.relayed == body);
  require(whole.relayed.size() <= body.size());
  if (whole.usage) {
    require(whole.usage->input_tokens >= 0 && whole.usage->output_tokens >= 0);
    require(whole.usage->cached_input_tokens.value_or(0) <= whole.usage->input_tokens);
  }
  if (streaming && strip) {
    // Stripping twice is stripping once, and it hides no output.
    const Outcome again = run(true, true, whole.relayed, "");
    require(again.events == whole.events);
  }
  return 0;
}
