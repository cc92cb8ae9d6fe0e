// SPDX-License-Identifier: Apache-2.0
#include "http/text.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace weir::http {
namespace {

constexpr bool is_control(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return (value < 0x20U && value != '\t') || value == 0x7fU;
}

}  // namespace

std::size_t find_control(std::string_view text) {
  std::size_t at = 0;
#if defined(__SSE2__)
  const __m128i last_control = _mm_set1_epi8(0x1f);
  const __m128i tab = _mm_set1_epi8('\t');
  const __m128i del = _mm_set1_epi8(0x7f);
  for (; at + 16 <= text.size(); at += 16) {
    __m128i block;
    __builtin_memcpy(&block, text.data() + at, sizeof block);
    const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(block, last_control), block);
    const __m128i bad =
        _mm_or_si128(_mm_andnot_si128(_mm_cmpeq_epi8(block, tab), low), _mm_cmpeq_epi8(block, del));
    const int mask = _mm_movemask_epi8(bad);
    if (mask != 0) return at + static_cast<std::size_t>(__builtin_ctz(static_cast<unsigned>(mask)));
  }
#endif
  while (at < text.size() && !is_control(text[at])) ++at;
  return at;
}

}  // namespace weir::http
