// SPDX-License-Identifier: Apache-2.0
#include "config/sha256.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace weir::config {

namespace {

using Words = std::array<std::uint32_t, 8>;
constexpr std::size_t kBlock = 64;

// The fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// One round; the caller turns the names of the eight words instead of moving the words.
inline void round(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t& d,
                  std::uint32_t e, std::uint32_t f, std::uint32_t g, std::uint32_t& h,
                  std::uint32_t added) {
  const std::uint32_t big1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
  const std::uint32_t first = h + big1 + (g ^ (e & (f ^ g))) + added;
  const std::uint32_t big0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
  d += first;
  h = first + big0 + ((a & b) | (c & (a | b)));
}

void compress(Words& state, const std::uint8_t* block) {
  std::array<std::uint32_t, 64> w;  // every word is written below
  for (std::size_t t = 0; t < 16; ++t) {
    std::uint32_t word = 0;
    std::memcpy(&word, block + 4 * t, sizeof word);
    w[t] = std::endian::native == std::endian::little ? std::byteswap(word) : word;
  }
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t small0 =
        std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3U);
    const std::uint32_t small1 =
        std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10U);
    w[t] = w[t - 16] + small0 + w[t - 7] + small1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; t += 8) {
    round(a, b, c, d, e, f, g, h, kRound[t] + w[t]);
    round(h, a, b, c, d, e, f, g, kRound[t + 1] + w[t + 1]);
    round(g, h, a, b, c, d, e, f, kRound[t + 2] + w[t + 2]);
    round(f, g, h, a, b, c, d, e, kRound[t + 3] + w[t + 3]);
    round(e, f, g, h, a, b, c, d, kRound[t + 4] + w[t + 4]);
    round(d, e, f, g, h, a, b, c, kRound[t + 5] + w[t + 5]);
    round(c, d, e, f, g, h, a, b, kRound[t + 6] + w[t + 6]);
    round(b, c, d, e, f, g, h, a, kRound[t + 7] + w[t + 7]);
  }
  const Words added = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

Sha256 sha256(std::string_view bytes) {
  Words state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const std::uint64_t bits = static_cast<std::uint64_t>(bytes.size()) * 8;
  std::array<std::uint8_t, kBlock> block{};
  while (bytes.size() >= kBlock) {
    std::memcpy(block.data(), bytes.data(), kBlock);
    compress(state, block.data());
    bytes.remove_prefix(kBlock);
  }
  block.fill(0);
  if (!bytes.empty()) std::memcpy(block.data(), bytes.data(), bytes.size());
  block[bytes.size()] = 0x80;
  if (bytes.size() >= kBlock - 8) {
    compress(state, block.data());
    block.fill(0);
  }
  for (std::size_t i = 0; i < 8; ++i) {
    block[kBlock - 1 - i] = static_cast<std::uint8_t>(bits >> (8 * i));
  }
  compress(state, block.data());
  Sha256 hash{};
  for (std::size_t i = 0; i < hash.size(); ++i) {
    hash[i] = static_cast<std::uint8_t>(state[i / 4] >> (8 * (3 - i % 4)));
  }
  return hash;
}

bool equal_in_constant_time(const Sha256& left, const Sha256& right) {
  // The volatile keeps the compiler from leaving the loop at the first difference.
  volatile std::uint8_t difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    difference = static_cast<std::uint8_t>(difference | (left[i] ^ right[i]));
  }
  return difference == 0;
}

std::string to_hex(const Sha256& hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * hash.size());
  for (const std::uint8_t byte : hash) {
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

}  // namespace weir::config
