// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <expected>
#include <string_view>

#include "config/faults.h"
#include "config/yaml_tree.h"
#include "weir/time.h"
#include "weir/units.h"

namespace weir::config {

template <class T>
using Parsed = std::expected<T, Problem>;

/// Quantities as they stand in a configuration: decimal, exact, independent of the locale. The
/// message of a Problem is a predicate ("is negative"); `about` puts the subject in front of it,
/// and shows what the file says, never what a variable expanded to.

/// A whole number >= 0 with k, M or G (powers of 1000). Errors: text, negative, fraction, beyond
/// 2^63-1, not a number.
Parsed<std::int64_t> parse_count(std::string_view text);
/// Bytes: as a count, and with KiB, MiB, GiB (powers of 1024).
Parsed<std::int64_t> parse_bytes(std::string_view text);
/// A length of time >= 0 with ms, s, m, h or d. A bare 0 is zero; any other bare number is an
/// error, since its unit would be a guess.
Parsed<Duration> parse_duration(std::string_view text);
/// "25%" as 0.25. Errors: no percent sign, negative.
Parsed<double> parse_percent(std::string_view text);
/// A plain decimal number >= 0.
Parsed<double> parse_decimal(std::string_view text);
/// A factor or share per time, "2.0/m" or "10%/m". Units of the result: per second.
Parsed<double> parse_rate(std::string_view text);
/// US dollars, exact to the millionth. Errors: finer than that.
Parsed<MicroUsd> parse_money(std::string_view text);

/// What a limit allows in a window.
struct Allowance {
  std::int64_t amount = 0;
  Duration window{0};
};

/// A limit's amount per `window`. An amount between 0 and 1 is held exactly as one per a window
/// that is longer by the same factor (0.5 per minute: 1 per two minutes); from 1 on it must be
/// whole, since no window could say "1.5 requests" without allowing two at once somewhere.
/// `window` 0 (concurrency): whole numbers only.
Parsed<Allowance> parse_allowance(std::string_view text, Duration window);

/// The problem with the value's text in front.
Problem about(const Node& node, Problem problem);

/// The scalar's text if it may be a quantity: a bare number must not be in quotes, unless a
/// variable was expanded in it or a unit follows (JSON has no other way to write "1.5s").
Parsed<std::string_view> quantity_text(const Node& node);

/// The shortest exact text of a duration, "1.5s".
std::string show(Duration duration);
/// A count with k, M or G where that is exact.
std::string show_count(std::int64_t count);
/// Bytes with KiB, MiB or GiB where that is exact.
std::string show_bytes(std::int64_t bytes);
/// A share as a percentage.
std::string show_percent(double share);

}  // namespace weir::config
