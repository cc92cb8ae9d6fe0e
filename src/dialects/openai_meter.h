// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/dialect.h"
#include "dialects/json_members.h"
#include "dialects/openai_usage.h"
#include "dialects/sse.h"

namespace weir::dialects {

/// Bytes held back while an answer may still turn out to be an error.
inline constexpr std::size_t kMaxHeld = std::size_t{64} << 10U;
/// The longest event that is kept whole; a longer one is relayed as it comes and scanned in
/// passing.
inline constexpr std::size_t kMaxEvent = std::size_t{1} << 20U;
/// Keep-alive comments held back before the first event; with the next one the answer is passed on,
/// since the client needs them.
inline constexpr int kMaxHeldComments = 4;

/// What one chunk of a stream says.
struct Chunk {
  bool output = false;
  bool finish = false;
  bool error = false;
  bool choices_empty = false;  ///< "choices": []
  bool usage_given = false;    ///< "usage" is an object
  std::optional<Usage> usage;
  /// The member "usage": null with its comma, in the chunk's text; 0, 0: there is none.
  std::size_t null_from = 0;
  std::size_t null_to = 0;
};

/// A stream repeats nearly the same chunk thousands of times: only the piece of text in its delta
/// differs (and, from OpenAI, a string of noise after it). This keeps the last chunk that was read
/// in full, with holes where those strings stood. A chunk that equals it outside the holes, and has
/// whole JSON strings in them, says the same, and is known at the price of comparing bytes.
///
/// Example: after {"choices":[{"delta":{"content":"Hel"}}]} the chunk
/// {"choices":[{"delta":{"content":"lo"}}]} is not parsed again.
class ChunkTemplate {
 public:
  static constexpr std::size_t kMaxHoles = 2;
  static constexpr std::size_t kMaxText = 2048;
  /// The bytes between the quotes of a string, as offsets into the chunk.
  struct Hole {
    std::size_t from = 0;
    std::size_t to = 0;
  };
  struct Holes {
    std::size_t count = 0;
    std::array<Hole, kMaxHoles> at;
    void add(Hole hole) {
      if (count < kMaxHoles) at[count++] = hole;
    }
  };

  /// Keeps `text`, which was read as `chunk`. The first hole is the delta's text.
  void learn(std::string_view text, const Chunk& chunk, const Holes& holes);
  /// Whether `text` is the kept chunk but for its holes; `chunk` is then what it says.
  bool match(std::string_view text, Chunk& chunk) const;

 private:
  std::size_t count_ = 0;  ///< of holes; 0: nothing is kept
  std::array<std::string, kMaxHoles + 1> fixed_;
  Chunk chunk_;
  std::size_t null_part_ = 0;  ///< which of `fixed_` holds "usage": null, and where
  std::size_t null_from_ = 0;
};

/// Where an answer's pieces go while it is not known whether it is an error: kept first, then out.
class HoldBack {
 public:
  /// To be called at the start of each feed: what was released is no longer needed.
  void begin() {
    if (released_) held_.clear();
  }
  void emit(std::string_view piece, std::vector<std::string_view>& relay);
  void release(std::vector<std::string_view>& relay);
  [[nodiscard]] bool released() const { return released_; }
  [[nodiscard]] std::size_t size() const { return held_.size(); }
  [[nodiscard]] const std::string& held() const { return held_; }

 private:
  bool released_ = false;
  std::string held_;
};

/// Meters an answer that is one JSON object. Bytes are relayed as they are and never kept, but for
/// those before the first content.
class JsonMeter final : public ResponseMeter {
 public:
  void feed(std::string_view bytes, std::vector<std::string_view>& relay) override;
  void finish(std::vector<std::string_view>& relay) override;
  [[nodiscard]] std::optional<Usage> usage() const override;
  [[nodiscard]] std::int64_t output_events() const override { return 0; }
  [[nodiscard]] bool terminated() const override { return members_.complete(); }
  [[nodiscard]] std::optional<Signal> error_before_content() const override { return error_; }
  [[nodiscard]] bool undecided() const override { return !hold_.released(); }

 private:
  [[nodiscard]] bool decided() const;

  JsonMembers members_;
  HoldBack hold_;
  std::optional<Signal> error_;
};

/// Meters an event stream and, with `strip_usage`, takes out what asking for usage put in: the
/// chunk with `"choices": []` and usage, and the members `"usage": null` of the others.
class StreamMeter final : public ResponseMeter {
 public:
  explicit StreamMeter(bool strip_usage) : strip_(strip_usage) {}
  void feed(std::string_view bytes, std::vector<std::string_view>& relay) override;
  void finish(std::vector<std::string_view>& relay) override;
  [[nodiscard]] std::optional<Usage> usage() const override { return usage_; }
  [[nodiscard]] std::int64_t output_events() const override { return output_events_; }
  /// A stream in which an error stood has not come to its end, even if [DONE] follows.
  [[nodiscard]] bool terminated() const override { return (done_ || finish_seen_) && !failed_; }
  [[nodiscard]] std::optional<Signal> error_before_content() const override { return error_; }
  [[nodiscard]] bool undecided() const override { return !hold_.released() && !decided_; }

 private:
  /// What becomes of a unit: it is relayed without [cut_from, cut_to), which may be all of it.
  struct Fate {
    std::size_t cut_from = 0;
    std::size_t cut_to = 0;
    [[nodiscard]] bool whole() const { return cut_from == cut_to; }
  };

  Fate read_unit(std::string_view unit);
  Fate read_chunk(std::string_view unit);
  void read_failure();
  void emit(std::string_view piece, std::vector<std::string_view>& relay);
  void emit_cut(std::string_view unit, Fate fate, std::vector<std::string_view>& relay);
  void keep_tail(std::string_view tail, std::vector<std::string_view>& relay);
  void end_partial(std::string_view rest, std::vector<std::string_view>& relay);
  void end_long_unit();

  bool strip_;
  bool decided_ = false;
  bool done_ = false;
  bool finish_seen_ = false;
  bool failed_ = false;
  bool drop_lf_ = false;  ///< the unit that was taken out ended in a CR whose LF may still come
  bool in_unit_ = false;  ///< the last chunk ended inside a unit
  int comments_ = 0;
  std::int64_t output_events_ = 0;
  std::optional<Usage> usage_;
  std::optional<Signal> error_;
  SseSplitter splitter_;
  SseEvent event_;
  ChunkTemplate template_;
  HoldBack hold_;
  std::string partial_;                ///< the bytes so far of a unit that is not at its end
  std::string carry_;                  ///< the unit before, while views of it are out
  std::unique_ptr<JsonMembers> long_;  ///< reads a unit beyond kMaxEvent
};

}  // namespace weir::dialects
