// SPDX-License-Identifier: Apache-2.0
#include "dialects/json_members.h"

#include <algorithm>

#include "dialects/json_cursor.h"

namespace weir::dialects {
namespace {

constexpr std::size_t kMaxKey = 32;

bool is_content_key(std::string_view key) {
  return key == "choices" || key == "data" || key == "output" || key == "content" ||
         key == "generated_text";
}

}  // namespace

void JsonMembers::feed(std::string_view bytes) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  capture_from_ = at;
  while (at != end && state_ != State::done && state_ != State::broken) at = step(at, end);
  if (kept_ != Kept::none) capture_until(end);
}

const char* JsonMembers::step(const char* at, const char* end) {
  switch (state_) {
    case State::before:
      if (*at == '{') {
        state_ = State::members;
      } else if (!is_json_space(*at) && *at != '\xef' && *at != '\xbb' && *at != '\xbf') {
        state_ = State::broken;
      }
      return at + 1;
    case State::members:
      if (*at == '"') {
        key_.clear();
        state_ = State::key;
      } else if (*at == '}') {
        state_ = State::done;
      } else if (*at != ',' && !is_json_space(*at)) {
        state_ = State::broken;
      }
      return at + 1;
    case State::key: return read_key(at, end);
    case State::colon:
      if (*at == ':') {
        state_ = State::value;
      } else if (!is_json_space(*at)) {
        state_ = State::broken;
      }
      return at + 1;
    case State::value: return is_json_space(*at) ? at + 1 : begin_value(at);
    case State::scalar:
      while (at != end && *at != ',' && *at != '}' && *at != ']' && !is_json_space(*at)) ++at;
      if (at != end) end_value(at);
      return at;
    case State::string: return pass_string(at, end);
    case State::container: return pass_container(at, end);
    case State::done:
    case State::broken: break;
  }
  return end;
}

const char* JsonMembers::read_key(const char* at, const char* end) {
  // An escaped byte is never a stop. Keys weir looks for have no escapes, so that a spelling with
  // some is another key to it, as it is passed on unchanged.
  const char* stop = escaped_ ? at + 1 : find_string_stop(at, end);
  key_.append(at, std::min(static_cast<std::size_t>(stop - at), kMaxKey - key_.size()));
  if (escaped_) {
    escaped_ = false;
    return stop;
  }
  if (stop == end) return end;
  if (*stop == '"') {
    state_ = State::colon;
  } else {
    escaped_ = true;
    // So that it differs from the key without the escape.
    if (key_.size() < kMaxKey) key_.push_back('\\');
  }
  return stop + 1;
}

const char* JsonMembers::begin_value(const char* at) {
  capture_from_ = at;
  capture_.clear();
  kept_ = key_ == "usage"     ? Kept::usage
          : key_ == "error"   ? Kept::error
          : key_ == "timings" ? Kept::timings
                              : Kept::none;
  const bool content = is_content_key(key_);
  if (*at == '"') {
    content_started_ = content_started_ || content;
    state_ = State::string;
    depth_ = 0;
    return at + 1;
  }
  if (*at == '{' || *at == '[') {
    watch_first_ = content;
    state_ = State::container;
    depth_ = 1;
    return at + 1;
  }
  state_ = State::scalar;
  return at;
}

const char* JsonMembers::pass_string(const char* at, const char* end) {
  if (escaped_) {
    escaped_ = false;
    return at + 1;
  }
  at = find_string_stop(at, end);
  if (at == end) return end;
  if (*at == '\\') {
    escaped_ = true;
  } else if (depth_ == 0) {
    end_value(at + 1);
  } else {
    state_ = State::container;
  }
  return at + 1;
}

const char* JsonMembers::pass_container(const char* at, const char* end) {
  if (watch_first_) {
    if (is_json_space(*at)) return at + 1;
    watch_first_ = false;
    if (*at != ']' && *at != '}') content_started_ = true;
  }
  at = find_structural(at, end);
  if (at == end) return end;
  if (*at == '"') {
    state_ = State::string;
  } else if (*at == '{' || *at == '[') {
    ++depth_;
  } else if (--depth_ == 0) {
    end_value(at + 1);
  }
  return at + 1;
}

void JsonMembers::end_value(const char* at) {
  state_ = State::members;
  if (kept_ == Kept::none) return;
  capture_until(at);
  switch (kept_) {
    case Kept::usage:
      if (capture_.starts_with('{')) usage_ = capture_;
      break;
    case Kept::timings: timings_ = capture_; break;
    case Kept::error:
      // Neither null nor false nor "" is an error.
      if (!content_started_ &&
          (capture_.starts_with('{') || (capture_.starts_with('"') && capture_.size() > 2))) {
        error_first_ = true;
      }
      break;
    case Kept::none: break;
  }
  kept_ = Kept::none;
}

void JsonMembers::capture_until(const char* at) {
  const auto size = static_cast<std::size_t>(at - capture_from_);
  capture_from_ = at;
  if (capture_.size() + size > kMaxCapture) {
    kept_ = Kept::none;
    capture_.clear();
    return;
  }
  capture_.append(at - size, size);
}

}  // namespace weir::dialects
