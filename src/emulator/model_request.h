// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/result.h"

namespace weir::emulator {

enum class Operation : std::uint8_t { chat, completion, embedding };

/// A request as the emulated provider understands it.
///
/// Tokens: a text is one token for every four bytes of UTF-8, rounded up, and a chat message four
/// more for its frame; the definitions of tools count as text of their JSON. The real tokenizers
/// differ by a few percent either way on English; what matters here is that both sides of a test
/// can reckon with it.
struct ModelRequest {
  Operation operation = Operation::chat;
  std::string model;
  bool stream = false;
  bool include_usage = false;
  std::int64_t input_tokens = 0;
  std::optional<std::int64_t> max_output_tokens;  ///< per choice
  std::int64_t choices = 1;
  /// Set where the answer is a call of this tool: its name and arguments, JSON.
  std::string tool;
  std::string tool_arguments;
  /// Of everything the model reads: equal prompts have equal answers.
  std::uint64_t digest = 0;
  /// Embeddings: a digest for each input.
  std::vector<std::uint64_t> inputs;
  std::int64_t dimensions = 8;
  bool base64 = false;
};

inline constexpr std::int64_t kMaxChoices = 16;
/// Far above any model's, and small enough that times and sums of it stay within 64 bits.
inline constexpr std::int64_t kMaxOutput = 100'000'000;
inline constexpr std::size_t kMaxInputs = 2048;

/// Tokens of a text, as above.
constexpr std::int64_t tokens_of(std::string_view text) {
  return static_cast<std::int64_t>((text.size() + 3) / 4);
}

/// Reads a request's body, which is followed by http::kBodyPadding readable bytes.
/// Errors: malformed, in OpenAI's manner: the text names the parameter.
Result<ModelRequest> read_model_request(Operation operation, std::string_view body);

}  // namespace weir::emulator
