// SPDX-License-Identifier: Apache-2.0
#include "dialects/openai_meter.h"

#include <algorithm>
#include <cstring>

#include "dialects/json_cursor.h"
#include "dialects/openai_signal.h"
#include "dialects/text.h"

namespace weir::dialects {
namespace {

/// Whether a delta carries output: any member but the role that is not empty.
bool carries_output(JsonCursor& at, ChunkTemplate::Holes& holes) {
  if (at.peek() != '{') {
    at.skip();
    return false;
  }
  bool output = false;
  at.enter_object();
  for (std::string_view key; at.next_member(key);) {
    const char first = at.peek();
    const std::string_view raw = at.skip();
    const bool holds = (first == '"' || first == '[' || first == '{') && raw.size() > 2;
    if (!holds || key == "role") continue;
    if (!output && first == '"') holes.add({at.offset() - raw.size() + 1, at.offset() - 1});
    output = true;
  }
  return output;
}

void read_choice(JsonCursor& at, Chunk& chunk, ChunkTemplate::Holes& holes) {
  if (at.peek() != '{') {
    at.skip();
    return;
  }
  at.enter_object();
  for (std::string_view key; at.next_member(key);) {
    if (key == "delta" || key == "message") {
      if (carries_output(at, holes)) chunk.output = true;
    } else if (key == "text") {
      const auto text = at.string_if();
      if (!text || text->empty()) continue;
      chunk.output = true;
      holes.add({at.offset() - 1 - text->size(), at.offset() - 1});
    } else if (key == "finish_reason") {
      const auto reason = at.string_if();
      // DashScope writes the word null.
      if (reason && !reason->empty() && *reason != "null") chunk.finish = true;
    } else {
      at.skip();
    }
  }
}

void read_choices(JsonCursor& at, Chunk& chunk, ChunkTemplate::Holes& holes) {
  if (at.peek() != '[') {
    at.skip();
    return;
  }
  at.enter_array();
  bool any = false;
  while (at.next_element()) {
    any = true;
    read_choice(at, chunk, holes);
  }
  chunk.choices_empty = !any && !at.failed();
}

/// Groq's own place for usage.
void read_x_groq(JsonCursor& at, Chunk& chunk) {
  if (at.peek() != '{') {
    at.skip();
    return;
  }
  at.enter_object();
  for (std::string_view key; at.next_member(key);) {
    const std::string_view raw = at.skip();
    if (key == "usage" && !chunk.usage) chunk.usage = to_usage(parse_usage(raw));
  }
}

Chunk read_json(std::string_view text, ChunkTemplate::Holes& holes) {
  Chunk chunk;
  JsonCursor at(text);
  if (!at.enter_object()) return chunk;
  bool first = true;
  for (std::string_view key;;) {
    const std::size_t before = at.offset();
    if (!at.next_member(key)) break;
    if (key == "choices") {
      read_choices(at, chunk, holes);
    } else if (key == "usage") {
      const std::string_view raw = at.skip();
      if (raw.starts_with('{')) {
        chunk.usage_given = true;
        if (const auto usage = to_usage(parse_usage(raw))) chunk.usage = usage;
      } else if (raw == "null") {
        const auto key_at = static_cast<std::size_t>(key.data() - text.data()) - 1;
        chunk.null_from = first ? key_at : before;
        chunk.null_to = at.offset();
        // The first member takes the comma after it along, any other the one before it.
        if (first && at.peek() == ',') chunk.null_to = at.offset() + 1;
      }
    } else if (key == "error") {
      if (at.skip() != "null") chunk.error = true;
    } else if (key == "type") {
      if (at.string_if() == "error") chunk.error = true;
    } else if (key == "obfuscation" && holes.count > 0 && at.peek() == '"') {
      const std::size_t size = at.string().size();
      holes.add({at.offset() - 1 - size, at.offset() - 1});
    } else if (key == "x_groq") {
      read_x_groq(at, chunk);
    } else {
      at.skip();
    }
    first = false;
  }
  if (at.failed() || at.peek() != '\0') {
    // Nothing is cut from a text whose end is not where its members say, nor guessed from it.
    chunk.choices_empty = false;
    chunk.null_from = chunk.null_to = 0;
    holes.count = 0;
  }
  return chunk;
}

/// llama.cpp tells cached tokens only in its timings.
void add_timings(std::string_view timings, Usage& usage) {
  JsonCursor at(timings);
  if (timings.empty() || !at.enter_object()) return;
  for (std::string_view key; at.next_member(key);) {
    if (key != "cache_n") {
      at.skip();
      continue;
    }
    const auto cached = at.count_if();
    if (cached && !usage.cached_input_tokens) {
      usage.cached_input_tokens = std::min(*cached, usage.input_tokens);
    }
  }
}

}  // namespace

void ChunkTemplate::learn(std::string_view text, const Chunk& chunk, const Holes& holes) {
  count_ = 0;
  if (!chunk.output || chunk.finish || chunk.error || chunk.usage || chunk.usage_given ||
      holes.count == 0 || text.size() > kMaxText) {
    return;
  }
  std::size_t from = 0;
  bool null_kept = chunk.null_to == 0;
  for (std::size_t part = 0; part <= holes.count; ++part) {
    const std::size_t to = part < holes.count ? holes.at[part].from : text.size();
    if (to < from) return;
    fixed_[part].assign(text.substr(from, to - from));
    if (!null_kept && chunk.null_from >= from && chunk.null_to <= to) {
      null_kept = true;
      null_part_ = part;
      null_from_ = chunk.null_from - from;
    }
    if (part < holes.count) from = holes.at[part].to;
  }
  if (!null_kept) return;
  chunk_ = chunk;
  count_ = holes.count;
}

bool ChunkTemplate::match(std::string_view text, Chunk& chunk) const {
  if (count_ == 0) return false;
  const char* at = text.data();
  const char* const end = at + text.size();
  std::size_t null_from = 0;
  for (std::size_t part = 0; part <= count_; ++part) {
    const std::string& fixed = fixed_[part];
    if (static_cast<std::size_t>(end - at) < fixed.size() ||
        std::memcmp(at, fixed.data(), fixed.size()) != 0) {
      return false;
    }
    if (part == null_part_) null_from = static_cast<std::size_t>(at - text.data()) + null_from_;
    at += fixed.size();
    if (part == count_) break;
    const char* const hole = at;
    for (at = find_string_stop(at, end); at != end && *at == '\\'; at = find_string_stop(at, end)) {
      if (end - at < 2) return false;
      at += 2;
    }
    // The first hole must hold text: an empty delta is no output.
    if (at == end || (part == 0 && at == hole)) return false;
  }
  if (at != end) return false;
  chunk = chunk_;
  if (chunk_.null_to != 0) {
    chunk.null_from = null_from;
    chunk.null_to = null_from + (chunk_.null_to - chunk_.null_from);
  }
  return true;
}

void HoldBack::emit(std::string_view piece, std::vector<std::string_view>& relay) {
  if (piece.empty()) return;
  if (released_) {
    relay.push_back(piece);
  } else {
    held_.append(piece);
  }
}

void HoldBack::release(std::vector<std::string_view>& relay) {
  if (released_) return;
  released_ = true;
  if (!held_.empty()) relay.push_back(held_);
}

bool JsonMeter::decided() const {
  return members_.content_started() || members_.error_first() || members_.complete() ||
         members_.broken();
}

void JsonMeter::feed(std::string_view bytes, std::vector<std::string_view>& relay) {
  hold_.begin();
  members_.feed(bytes);
  if (!hold_.released()) {
    if (!decided() && hold_.size() + bytes.size() <= kMaxHeld) {
      hold_.emit(bytes, relay);
      return;
    }
    if (members_.error_first() || (members_.complete() && !members_.content_started())) {
      const Signal signal = hold_.size() == 0
                                ? read_error_in_success(bytes)
                                : read_error_in_success(std::string(hold_.held()).append(bytes));
      if (signal.kind != SignalClass::ok) error_ = signal;
    }
    hold_.release(relay);
  }
  hold_.emit(bytes, relay);
}

void JsonMeter::finish(std::vector<std::string_view>& relay) {
  hold_.begin();
  hold_.release(relay);
}

std::optional<Usage> JsonMeter::usage() const {
  if (members_.usage().empty()) return std::nullopt;
  auto usage = to_usage(parse_usage(members_.usage()));
  if (usage) add_timings(members_.timings(), *usage);
  return usage;
}

void StreamMeter::feed(std::string_view bytes, std::vector<std::string_view>& relay) {
  hold_.begin();
  carry_.clear();
  if (!in_unit_ && splitter_.after_cr() && !bytes.empty()) {
    // The LF of a CR LF that was cut shares the fate of the unit it ends.
    splitter_.forget_cr();
    if (bytes.front() == '\n') {
      if (!drop_lf_) emit(bytes.substr(0, 1), relay);
      bytes.remove_prefix(1);
    }
    drop_lf_ = false;
  }
  splitter_.begin(bytes);
  std::size_t at = 0;
  std::size_t run = 0;  // start of what is to be relayed as one piece
  for (;;) {
    const std::size_t end = splitter_.next(at);
    if (end == std::string_view::npos) break;
    const std::string_view unit = bytes.substr(at, end - at);
    drop_lf_ = false;
    if (in_unit_) {
      end_partial(unit, relay);
      in_unit_ = false;
      if (strip_) run = end;
    } else {
      const Fate fate = read_unit(unit);
      if (!fate.whole()) {
        emit(bytes.substr(run, at - run), relay);
        emit_cut(unit, fate, relay);
        run = end;
      }
    }
    at = end;
  }
  if (at == bytes.size()) {
    emit(bytes.substr(run), relay);
    return;
  }
  in_unit_ = true;
  if (strip_) {
    emit(bytes.substr(run, at - run), relay);
  } else {
    emit(bytes.substr(run), relay);
  }
  keep_tail(bytes.substr(at), relay);
}

/// Keeps the bytes of a unit that is not at its end. Without stripping they have gone out already.
void StreamMeter::keep_tail(std::string_view tail, std::vector<std::string_view>& relay) {
  if (long_ == nullptr && partial_.size() + tail.size() <= kMaxEvent) {
    partial_.append(tail);
    // A first event longer than what may be held back is no error.
    if (!hold_.released() && partial_.size() > kMaxHeld) decided_ = true;
    return;
  }
  if (long_ == nullptr) {
    decided_ = true;
    long_ = std::make_unique<JsonMembers>();
    const std::size_t data = std::min(partial_.find("data:"), partial_.size());
    const std::string_view kept = std::string_view(partial_).substr(data);
    long_->feed(kept.substr(std::min<std::size_t>(kept.size(), 5)));
    if (partial_.empty()) {
      const std::size_t start = tail.find("data:");
      if (start != std::string_view::npos) long_->feed(tail.substr(start + 5));
    } else {
      long_->feed(tail);
    }
    if (strip_) {
      carry_.swap(partial_);
      emit(carry_, relay);
    }
    partial_.clear();
  } else {
    long_->feed(tail);
  }
  if (strip_) emit(tail, relay);
}

/// A unit that began in an earlier chunk ends with `rest`.
void StreamMeter::end_partial(std::string_view rest, std::vector<std::string_view>& relay) {
  if (long_ != nullptr) {
    long_->feed(rest);
    end_long_unit();
    if (strip_) emit(rest, relay);
    return;
  }
  partial_.append(rest);
  const Fate fate = read_unit(partial_);
  if (strip_) {
    carry_.swap(partial_);
    emit_cut(carry_, fate, relay);
  }
  partial_.clear();
}

void StreamMeter::end_long_unit() {
  if (!long_->usage().empty()) {
    if (const auto usage = to_usage(parse_usage(long_->usage()))) usage_ = usage;
  }
  if (long_->content_started()) ++output_events_;
  long_.reset();
}

void StreamMeter::finish(std::vector<std::string_view>& relay) {
  hold_.begin();
  carry_.clear();
  if (in_unit_) {
    in_unit_ = false;
    end_partial({}, relay);
  }
  decided_ = true;
  emit({}, relay);
}

void StreamMeter::emit(std::string_view piece, std::vector<std::string_view>& relay) {
  if (!hold_.released()) {
    if (hold_.size() + piece.size() > kMaxHeld) decided_ = true;
    if (decided_) hold_.release(relay);
  }
  hold_.emit(piece, relay);
}

void StreamMeter::emit_cut(std::string_view unit, Fate fate, std::vector<std::string_view>& relay) {
  emit(unit.substr(0, fate.cut_from), relay);
  emit(unit.substr(fate.cut_to), relay);
  drop_lf_ = !fate.whole() && fate.cut_to == unit.size();
}

StreamMeter::Fate StreamMeter::read_unit(std::string_view unit) {
  parse_sse(unit, event_);
  if (!event_.has_data) {
    if (!decided_ && unit.starts_with(':') && ++comments_ > kMaxHeldComments) decided_ = true;
    return {};
  }
  const std::string_view data = trim(event_.data);
  if (data.starts_with('{')) return read_chunk(unit);
  if (data == "[DONE]") done_ = true;
  if (event_.name == "error") read_failure();
  decided_ = true;
  return {};
}

StreamMeter::Fate StreamMeter::read_chunk(std::string_view unit) {
  Chunk chunk;
  if (!template_.match(event_.data, chunk)) {
    ChunkTemplate::Holes holes;
    chunk = read_json(event_.data, holes);
    template_.learn(event_.data, chunk, holes);
  }
  if (chunk.usage) usage_ = chunk.usage;
  if (chunk.output) ++output_events_;
  if (chunk.finish) finish_seen_ = true;
  if (chunk.error || event_.name == "error") read_failure();
  decided_ = true;
  if (!strip_) return {};
  // A member may stand twice: what carried output stays, whatever its last "choices" says.
  const bool says_nothing = chunk.choices_empty && !chunk.output && !chunk.finish && !chunk.error;
  if (says_nothing && chunk.usage_given) return {0, unit.size()};
  if (chunk.null_to == 0) return {};
  const auto place = event_.place(chunk.null_from, chunk.null_to);
  return place ? Fate{place->first, place->second} : Fate{};
}

void StreamMeter::read_failure() {
  failed_ = true;
  if (decided_) return;
  Signal signal = read_error_in_success(event_.data);
  if (signal.kind == SignalClass::ok) {
    signal.kind = SignalClass::server_error;
    signal.status = 500;
  }
  error_ = signal;
}

}  // namespace weir::dialects
