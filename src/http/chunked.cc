// SPDX-License-Identifier: Apache-2.0
#include "http/chunked.h"

#include <algorithm>

namespace weir::http {
namespace {

constexpr int hex_value(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

constexpr bool is_control(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return (value < 0x20U && value != '\t') || value == 0x7fU;
}

}  // namespace

Progress ChunkedDecoder::refuse(std::string_view why) {
  state_ = State::refused;
  why_ = why;
  return Progress::refused;
}

Progress ChunkedDecoder::next(std::string_view& bytes, std::string_view& data) {
  data = {};
  while (!bytes.empty()) {
    if (state_ == State::data) {
      const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
      data = bytes.substr(0, taken);
      bytes.remove_prefix(taken);
      left_ -= taken;
      if (left_ == 0) state_ = State::data_return;
      return Progress::more;
    }
    if (state_ == State::done) return Progress::done;
    if (state_ == State::refused || !step(bytes.front())) return Progress::refused;
    bytes.remove_prefix(1);
    if (state_ == State::done) return Progress::done;
  }
  return state_ == State::done      ? Progress::done
         : state_ == State::refused ? Progress::refused
                                    : Progress::more;
}

bool ChunkedDecoder::step(char byte) {
  switch (state_) {
    case State::size_first:
    case State::size:
    case State::extension:
    case State::size_feed: return step_size(byte);
    case State::data_return:
      if (byte != '\r') break;
      state_ = State::data_feed;
      return true;
    case State::data_feed:
      if (byte != '\n') break;
      state_ = State::size_first;
      return true;
    case State::trailer_start:
    case State::trailer:
    case State::trailer_feed:
    case State::end_feed: return step_trailer(byte);
    case State::data:
    case State::done:
    case State::refused: return true;
  }
  refuse("a chunk is longer than its size says");
  return false;
}

bool ChunkedDecoder::step_size(char byte) {
  if (state_ == State::size_feed) {
    if (byte != '\n') {
      refuse("a chunk's size line does not end with CR LF");
      return false;
    }
    state_ = left_ == 0 ? State::trailer_start : State::data;
    return true;
  }
  if (state_ == State::extension) {
    if (byte == '\r') {
      state_ = State::size_feed;
      return true;
    }
    if (is_control(byte) || ++extension_ > kMaxExtension || ++extensions_ > kMaxExtensions) {
      refuse("a chunk's extension is malformed or too long");
      return false;
    }
    return true;
  }
  const int value = hex_value(byte);
  if (value >= 0) {
    if (state_ == State::size_first) left_ = 0;
    if (left_ > kMaxChunk / 16) {
      refuse("a chunk's size is too large");
      return false;
    }
    left_ = left_ * 16 + static_cast<std::uint64_t>(value);
    state_ = State::size;
    // Leading zeros are counted as an extension, so that a size line stays bounded.
    if (left_ == 0 && ++extensions_ > kMaxExtensions) {
      refuse("a chunk's size has too many digits");
      return false;
    }
    return true;
  }
  if (state_ == State::size && (byte == ';' || byte == ' ' || byte == '\t')) {
    extension_ = 0;
    state_ = State::extension;
    return true;
  }
  if (state_ == State::size && byte == '\r') {
    state_ = State::size_feed;
    return true;
  }
  refuse("a chunk's size is not hexadecimal");
  return false;
}

bool ChunkedDecoder::step_trailer(char byte) {
  if (++trailer_ > kMaxTrailer) {
    refuse("the trailer after the last chunk is too large");
    return false;
  }
  if (state_ == State::end_feed || state_ == State::trailer_feed) {
    if (byte != '\n') {
      refuse("a trailer line does not end with CR LF");
      return false;
    }
    state_ = state_ == State::end_feed ? State::done : State::trailer_start;
    return true;
  }
  if (byte == '\r') {
    state_ = state_ == State::trailer_start ? State::end_feed : State::trailer_feed;
    return true;
  }
  if (is_control(byte)) {
    refuse("a trailer line contains a control character");
    return false;
  }
  state_ = State::trailer;
  return true;
}

std::string_view chunk_line(std::uint64_t size, std::array<char, 20>& into) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::size_t at = into.size();
  into[--at] = '\n';
  into[--at] = '\r';
  do {
    into[--at] = kDigits[size & 15U];
    size >>= 4U;
  } while (size != 0);
  return {into.data() + at, into.size() - at};
}

}  // namespace weir::http
