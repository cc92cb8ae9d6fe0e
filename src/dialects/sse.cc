// SPDX-License-Identifier: Apache-2.0
#include "dialects/sse.h"

#include <algorithm>

namespace weir::dialects {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

/// The value of a field's line after its colon and one space.
std::string_view field_value(std::string_view line, std::size_t name_length) {
  if (line.size() == name_length) return {};
  line.remove_prefix(name_length + 1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

bool is_field(std::string_view line, std::string_view name) {
  return line.starts_with(name) && (line.size() == name.size() || line[name.size()] == ':');
}

}  // namespace

void SseSplitter::begin(std::string_view chunk) {
  chunk_ = chunk;
  next_lf_ = chunk.find('\n');
  next_cr_ = chunk.find('\r');
}

std::size_t SseSplitter::line_end(std::size_t from) {
  // Each is looked for again only once it is behind, so that a stream with one kind of line end is
  // not searched to its end for the other with every line.
  if (next_lf_ < from) next_lf_ = chunk_.find('\n', from);
  if (next_cr_ < from) next_cr_ = chunk_.find('\r', from);
  return std::min(next_lf_, next_cr_);
}

std::size_t SseSplitter::next(std::size_t from) {
  std::size_t at = from;
  while (at < chunk_.size()) {
    if (after_cr_) {
      after_cr_ = false;
      if (chunk_[at] == '\n') {
        ++at;
        continue;
      }
    }
    const std::size_t end = line_end(at);
    if (!line_has_bytes_ && end != at) {
      line_has_bytes_ = true;
      line_is_comment_ = chunk_[at] == ':';
    }
    if (end == kNone) return kNone;
    at = end + 1;
    if (chunk_[end] == '\r') {
      if (at == chunk_.size()) {
        after_cr_ = true;
      } else if (chunk_[at] == '\n') {
        ++at;
      }
    }
    const bool blank = !line_has_bytes_;
    const bool lone_comment = !blank && line_is_comment_ && !has_fields_;
    line_has_bytes_ = false;
    if (blank) has_fields_ = false;
    if (blank || lone_comment) return at;
    has_fields_ = true;
  }
  return kNone;
}

std::optional<std::pair<std::size_t, std::size_t>> SseEvent::place(std::size_t from,
                                                                   std::size_t to) const {
  for (const Segment& segment : segments) {
    if (from < segment.in_data || to > segment.in_data + segment.length) continue;
    return std::pair(from - segment.in_data + segment.in_unit,
                     to - segment.in_data + segment.in_unit);
  }
  return std::nullopt;
}

void parse_sse(std::string_view unit, SseEvent& event) {
  event.has_data = false;
  event.data = {};
  event.name = {};
  event.segments.clear();
  const char* const start = unit.data();
  if (unit.starts_with("\xef\xbb\xbf")) unit.remove_prefix(3);
  while (!unit.empty()) {
    std::size_t end = std::min(unit.find('\n'), unit.size());
    end = std::min(unit.substr(0, end).find('\r'), end);
    const std::string_view line = unit.substr(0, end);
    unit.remove_prefix(std::min(end + 1, unit.size()));
    if (is_field(line, "data")) {
      const std::string_view value = field_value(line, 4);
      const auto in_unit = static_cast<std::size_t>(value.data() - start);
      if (!event.has_data) {
        event.has_data = true;
        event.data = value;
        event.segments.push_back({0, value.empty() ? 0 : in_unit, value.size()});
        continue;
      }
      if (event.segments.size() == 1) event.joined.assign(event.data);
      event.joined.push_back('\n');
      event.segments.push_back({event.joined.size(), value.empty() ? 0 : in_unit, value.size()});
      event.joined.append(value);
      event.data = event.joined;
    } else if (is_field(line, "event")) {
      event.name = field_value(line, 5);
    }
  }
}

}  // namespace weir::dialects
