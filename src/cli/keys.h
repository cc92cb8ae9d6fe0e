// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

namespace weir::cli {

/// Fills the span with random bytes that nobody can guess; false if there are none to be had.
using RandomBytes = std::function<bool(std::span<unsigned char>)>;

/// The kernel's random bytes.
bool kernel_random(std::span<unsigned char> into);

/// A virtual key: "weir-" and 43 letters and digits, 256 random bits. Empty if there is no
/// randomness to be had.
std::string make_key(const RandomBytes& random);

/// `weir keys new`: prints a fresh key once, and the line with its hash for the configuration.
int keys_new(const std::string& name, const RandomBytes& random, std::ostream& out,
             std::ostream& err);

/// `weir keys hash`: reads a key from `in` and prints its hash. The key is not echoed.
int keys_hash(std::istream& in, std::ostream& out, std::ostream& err);

/// `weir keys list`: the keys of a configuration, one on a line; hashes cut to twelve digits.
int keys_list(const std::string& config_file, std::ostream& out, std::ostream& err);

/// `weir keys revoke`: not in this version; says what to do instead.
int keys_revoke(std::ostream& err);

}  // namespace weir::cli
