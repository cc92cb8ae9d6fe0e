// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::dialects {

/// Reads one JSON object as its bytes arrive, cut anywhere, and keeps only the few top-level
/// members that weir meters by. Memory: kMaxCapture, however long the object. It follows structure
/// and does not check what it passes over.
class JsonMembers {
 public:
  /// A kept member longer than this is forgotten.
  static constexpr std::size_t kMaxCapture = std::size_t{64} << 10U;

  void feed(std::string_view bytes);

  /// The object came to its end.
  [[nodiscard]] bool complete() const { return state_ == State::done; }
  /// The bytes are no JSON object; nothing more will be read.
  [[nodiscard]] bool broken() const { return state_ == State::broken; }
  /// A member that is content has begun: `choices` or `data` with an element, or another form of
  /// output that is not empty.
  [[nodiscard]] bool content_started() const { return content_started_; }
  /// An `error`, an object or a text, came to its end before any content.
  [[nodiscard]] bool error_first() const { return error_first_; }
  /// The last `usage` object, as it stood; empty: none.
  [[nodiscard]] const std::string& usage() const { return usage_; }
  /// llama.cpp's `timings` object, as it stood; empty: none.
  [[nodiscard]] const std::string& timings() const { return timings_; }

 private:
  enum class State : std::uint8_t {
    before,
    members,
    key,
    colon,
    value,
    scalar,
    string,
    container,
    done,
    broken
  };
  enum class Kept : std::uint8_t { none, usage, error, timings };

  const char* step(const char* at, const char* end);
  const char* read_key(const char* at, const char* end);
  const char* begin_value(const char* at);
  const char* pass_string(const char* at, const char* end);
  const char* pass_container(const char* at, const char* end);
  void end_value(const char* at);
  void capture_until(const char* at);

  State state_ = State::before;
  Kept kept_ = Kept::none;
  bool escaped_ = false;      ///< the last byte was a backslash inside a string
  bool watch_first_ = false;  ///< the array that just began is content if it has an element
  bool content_started_ = false;
  bool error_first_ = false;
  std::size_t depth_ = 0;  ///< of containers within the current member's value
  std::string key_;
  const char* capture_from_ = nullptr;
  std::string capture_;
  std::string usage_;
  std::string timings_;
};

}  // namespace weir::dialects
