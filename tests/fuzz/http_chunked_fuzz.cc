// SPDX-License-Identifier: Apache-2.0
// Chunked bodies from outside: however the bytes are cut, the same body and the same verdict.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/chunked.h"

namespace {

using namespace weir::http;

struct Decoded {
  Progress progress = Progress::more;
  std::string body;
  std::size_t left = 0;
};

Decoded decode(std::string_view text, std::size_t step) {
  ChunkedDecoder decoder;
  Decoded result;
  while (!text.empty() && result.progress == Progress::more) {
    std::string_view piece = text.substr(0, step);
    text.remove_prefix(piece.size());
    while (!piece.empty() && result.progress == Progress::more) {
      std::string_view data;
      result.progress = decoder.next(piece, data);
      result.body += data;
    }
    result.left = piece.size() + text.size();
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Decoded whole = decode(bytes, bytes.size() + 1);
  const Decoded cut = decode(bytes, 1U + data[0] % 13U);
  const bool same = whole.progress == cut.progress && whole.body == cut.body;
  // Where a fault is noticed depends on nothing but the bytes before it.
  if (!same || (whole.progress == Progress::done && whole.left != cut.left)) std::abort();
  return 0;
}
