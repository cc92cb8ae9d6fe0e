// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/model_request.h"
#include "weir/rng.h"

namespace weir::emulator {

/// The words of one choice of an answer, one token each, always the same for the same prompt,
/// seed and choice. For a tool call they are pieces of its arguments instead.
class Words {
 public:
  Words(const ModelRequest& request, std::uint64_t seed, std::int64_t choice);
  /// The next token's text, with the blank before it. Valid until the next call.
  std::string_view next();

 private:
  std::string_view arguments_;
  Rng rng_;
  bool first_ = true;
  std::string word_;
};

/// Tokens a tool call of this request takes: its arguments in pieces.
std::int64_t tool_call_tokens(const ModelRequest& request);

/// What names one answer.
struct AnswerName {
  std::string id;  ///< "chatcmpl-…"
  std::int64_t created = 0;
  std::uint64_t seed = 0;
};

/// How an answer ended: "stop", "length" or "tool_calls".
std::string_view finish_reason(const ModelRequest& request, bool cut);

/// The whole body of an answer that is not streamed.
std::string answer_body(const ModelRequest& request, const AnswerName& name,
                        std::int64_t output_tokens, bool cut);

/// Appends one server-sent event of a stream: what opens a choice, one token, what closes a
/// choice, the usage, and the end mark.
void append_opening(std::string& into, const ModelRequest& request, const AnswerName& name,
                    std::int64_t choice);
void append_token(std::string& into, const ModelRequest& request, const AnswerName& name,
                  std::int64_t choice, std::string_view text);
void append_closing(std::string& into, const ModelRequest& request, const AnswerName& name,
                    std::int64_t choice, bool cut);
void append_usage(std::string& into, const ModelRequest& request, const AnswerName& name,
                  std::int64_t output_tokens);
inline constexpr std::string_view kDone = "data: [DONE]\n\n";

/// The body of an answer to /v1/embeddings.
std::string embedding_body(const ModelRequest& request);

}  // namespace weir::emulator
