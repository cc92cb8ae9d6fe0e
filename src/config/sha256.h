// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::config {

using Sha256 = std::array<std::uint8_t, 32>;

/// SHA-256 of `bytes` (FIPS 180-4). It is our own, so that this folder needs no cryptographic
/// library for the one thing it hashes: virtual keys of 32 random bytes. It allocates nothing.
Sha256 sha256(std::string_view bytes);

/// Whether two hashes are equal, in a time that does not depend on where they differ.
bool equal_in_constant_time(const Sha256& left, const Sha256& right);

/// 64 lower-case hex digits.
std::string to_hex(const Sha256& hash);

}  // namespace weir::config
