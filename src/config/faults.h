// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace weir::config {

/// What is wrong with one value, before it is known where it stands.
struct Problem {
  std::string message;
  std::string fix;
};

/// Where a value stands in the file. Lines and columns from 1; 0: nowhere in particular.
struct Place {
  std::int32_t line = 0;
  std::int32_t column = 0;
};

/// Collects the faults of one file. Bounded: beyond `kMaxFaults` only their number is kept.
class Faults {
 public:
  static constexpr std::size_t kMaxFaults = 200;
  explicit Faults(std::string file) : file_(std::move(file)) {}

  void add(Place place, std::string_view path, std::string message, std::string fix);
  void add(Place place, std::string_view path, Problem problem) {
    add(place, path, std::move(problem.message), std::move(problem.fix));
  }
  [[nodiscard]] bool empty() const { return list_.empty(); }
  [[nodiscard]] const std::string& file() const { return file_; }
  /// The faults in the order of the file, and one more that counts those left out.
  [[nodiscard]] std::vector<Diagnostic> take();

 private:
  std::string file_;
  std::vector<Diagnostic> list_;
  std::size_t left_out_ = 0;
};

/// `text` fit for a terminal: control characters escaped, cut to 60 bytes, in double quotes.
std::string quoted(std::string_view text);
/// `text` with control characters escaped, whole.
std::string printable(std::string_view text);

/// `path` with one more key; a key that holds a dot or other unusual characters is quoted.
std::string join(std::string_view path, std::string_view key);
/// `path` with an index, from 0.
std::string join(std::string_view path, std::size_t index);

/// The candidate most like `word`, or empty if none is near enough to be a slip of the pen.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);
/// "did you mean X?" if something is near, else "one of: a, b, c".
std::string suggest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace weir::config
