// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "weir/weir.h"

namespace weir::capi {

/// The size of each struct in the first version of the library. A program compiled against it stays
/// welcome: when a struct grows, its old size goes here.
template <class Struct>
inline constexpr std::size_t kFirstSize = sizeof(Struct);

/// No struct will ever be larger. Units: bytes.
inline constexpr std::size_t kMostSize = 4096;

/// Whether a program's struct of this size can be read or written.
template <class Struct>
constexpr bool size_known(std::size_t size) {
  return size >= kFirstSize<Struct> && size <= kMostSize;
}

/// The `struct_size` of the caller, read alone: the rest may be shorter than our struct.
template <class Struct>
std::size_t size_of(const Struct* theirs) {
  std::size_t size = 0;
  std::memcpy(&size, theirs, sizeof size);
  return size;
}

/// Copies the caller's struct over `ours`, which holds the defaults of what the caller is too old
/// to know. Errors: NULL; SIZE, also where a newer caller asks for what we do not know.
template <class Struct>
std::int32_t read(const Struct* theirs, Struct& ours) {
  if (theirs == nullptr) return WEIR_ERROR_NULL;
  const std::size_t size = size_of(theirs);
  if (!size_known<Struct>(size)) return WEIR_ERROR_SIZE;
  const auto* bytes = reinterpret_cast<const unsigned char*>(theirs);
  for (std::size_t at = sizeof(Struct); at < size; ++at) {
    if (bytes[at] != 0) return WEIR_ERROR_SIZE;
  }
  std::memcpy(&ours, theirs, std::min(size, sizeof(Struct)));
  ours.struct_size = sizeof(Struct);
  return WEIR_OK;
}

/// Whether `theirs` can be written to. Asked before anything is changed. Errors: NULL, SIZE.
template <class Struct>
std::int32_t writable(const Struct* theirs) {
  if (theirs == nullptr) return WEIR_ERROR_NULL;
  return size_known<Struct>(size_of(theirs)) ? WEIR_OK : WEIR_ERROR_SIZE;
}

/// Writes `ours` into `size` bytes of the caller's: cut for an older one, zeros behind for a newer.
template <class Struct>
void write(const Struct& ours, void* theirs, std::size_t size) {
  std::memcpy(theirs, &ours, std::min(size, sizeof(Struct)));
  if (size > sizeof(Struct)) {
    std::memset(static_cast<unsigned char*>(theirs) + sizeof(Struct), 0, size - sizeof(Struct));
  }
  std::memcpy(theirs, &size, sizeof size);
}

/// `write` with the size that the caller's struct names.
template <class Struct>
void write(const Struct& ours, Struct* theirs) {
  write(ours, theirs, size_of(theirs));
}

/// The body of the `…_init` functions. Errors: NULL, SIZE.
template <class Struct>
std::int32_t fill(const Struct& defaults, Struct* theirs, std::size_t size) {
  if (theirs == nullptr) return WEIR_ERROR_NULL;
  if (!size_known<Struct>(size)) return WEIR_ERROR_SIZE;
  write(defaults, theirs, size);
  return WEIR_OK;
}

/// What the `…_init` functions set; taken from the C++ interface's own defaults.
weir_rule default_rule();
weir_deployment default_deployment();
weir_class default_class();
weir_request default_request();
weir_signal default_signal();
weir_settlement default_settlement();

/// The larger part of every count of tokens that makes sense. Units: tokens.
inline constexpr std::int64_t kMostTokens = 1'000'000'000'000;
/// Units: nanoseconds.
inline constexpr std::int64_t kMostWindow = std::int64_t{366} * 24 * 3600 * 1'000'000'000;

constexpr bool within(std::int64_t value, std::int64_t least, std::int64_t most) {
  return value >= least && value <= most;
}
/// Whether it is WEIR_UNKNOWN or in the range.
constexpr bool unknown_or_within(std::int64_t value, std::int64_t least, std::int64_t most) {
  return value == WEIR_UNKNOWN || within(value, least, most);
}

}  // namespace weir::capi
