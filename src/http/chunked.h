// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "http/parser.h"

namespace weir::http {

/// Takes the chunk framing off a body that arrives in pieces. Extensions and trailer fields are
/// passed over, within bounds. State is a few words; nothing is allocated.
/// Source: RFC 9112 section 7.1 (https://www.rfc-editor.org/rfc/rfc9112, read 2026-11-30).
class ChunkedDecoder {
 public:
  static constexpr std::size_t kMaxExtension = 1024;         ///< bytes, per chunk
  static constexpr std::size_t kMaxExtensions = 16U << 10U;  ///< bytes, per body
  static constexpr std::size_t kMaxTrailer = 32U << 10U;     ///< bytes, all trailer fields
  static constexpr std::uint64_t kMaxChunk = 1ULL << 60U;    ///< bytes

  /// Takes bytes off the front of `bytes` and sets `data` to the next run of body bytes among them
  /// (empty if there is none). Call until `bytes` is empty or the result is not `more`; on done
  /// what is left in `bytes` is not part of the body. refused: `why()` says why.
  Progress next(std::string_view& bytes, std::string_view& data);
  [[nodiscard]] std::string_view why() const { return why_; }
  void reset() { *this = ChunkedDecoder(); }

 private:
  enum class State : std::uint8_t {
    size_first,
    size,
    extension,
    size_feed,
    data,
    data_return,
    data_feed,
    trailer_start,
    trailer,
    trailer_feed,
    end_feed,
    done,
    refused,
  };
  Progress refuse(std::string_view why);
  bool step(char byte);
  bool step_size(char byte);
  bool step_trailer(char byte);

  State state_ = State::size_first;
  std::uint64_t left_ = 0;  ///< of the current chunk
  std::size_t extension_ = 0;
  std::size_t extensions_ = 0;
  std::size_t trailer_ = 0;
  std::string_view why_;
};

/// The line that opens a chunk of `size` bytes: hexadecimal, CR LF. Points into `into`.
std::string_view chunk_line(std::uint64_t size, std::array<char, 20>& into);
inline constexpr std::string_view kChunkEnd = "\r\n";
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace weir::http
