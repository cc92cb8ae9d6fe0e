// SPDX-License-Identifier: Apache-2.0
// Any bytes are a configuration or a list of faults, never a crash; what is valid prints a
// configuration that is valid too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"

namespace {

std::optional<std::string> environment(std::string_view name) {
  if (name == "A") return "60";
  if (name == "B") return "";
  return std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLongest = std::size_t{16} << 10U;
  if (size > kLongest) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const weir::config::Loaded loaded = weir::config::load(text, "fuzz.yaml", environment);
  if ((loaded.config == nullptr) == loaded.faults.empty()) std::abort();
  for (const weir::config::Diagnostic& fault : loaded.faults) {
    for (const char byte : weir::config::render(fault)) {
      if (static_cast<unsigned char>(byte) < 0x20) std::abort();
    }
  }
  if (loaded.config != nullptr) {
    const weir::config::Loaded again =
        weir::config::load(loaded.effective, "fuzz.yaml", environment);
    if (again.config == nullptr) std::abort();
    if (again.config->policy.nodes.size() != loaded.config->policy.nodes.size()) std::abort();
  }
  return 0;
}
