// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Server-sent events as the HTML standard has them: lines end in LF, CRLF or CR, also mixed and
/// cut between chunks; an event ends with a blank line. Nothing here copies or owns the stream.
/// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.6.
namespace weir::dialects {

/// Finds where the units of a stream end. A unit is an event with its blank line, a comment line
/// before an event (so that a keep-alive can go on at once), or a blank line of its own.
class SseSplitter {
 public:
  /// Starts on the next chunk.
  void begin(std::string_view chunk);
  /// The offset just past the current unit, or npos if it goes on in the next chunk. `from` is
  /// where the last unit of this chunk ended, or 0.
  std::size_t next(std::size_t from);
  /// Whether the last byte was a CR: an LF at the start of the next chunk still belongs to it.
  [[nodiscard]] bool after_cr() const { return after_cr_; }
  void forget_cr() { after_cr_ = false; }

 private:
  std::size_t line_end(std::size_t from);

  std::string_view chunk_;
  std::size_t next_lf_ = 0;  ///< the first LF at or after the last place looked at
  std::size_t next_cr_ = 0;
  bool line_has_bytes_ = false;
  bool line_is_comment_ = false;
  bool has_fields_ = false;
  bool after_cr_ = false;
};

/// One unit taken apart. Views point into the unit, or into `joined` for data of several lines.
struct SseEvent {
  bool has_data = false;
  std::string_view data;
  std::string_view name;  ///< of the event field

  /// The part of the unit that [from, to) of `data` is; none if it spans lines of the unit.
  [[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> place(std::size_t from,
                                                                         std::size_t to) const;

  struct Segment {
    std::size_t in_data = 0;
    std::size_t in_unit = 0;
    std::size_t length = 0;
  };
  std::vector<Segment> segments;
  std::string joined;
};

/// Takes a unit apart into `event`, whose memory is used again. A byte order mark is passed over.
void parse_sse(std::string_view unit, SseEvent& event);

}  // namespace weir::dialects
