// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <expected>
#include <string_view>

#include "dialects/dialect.h"

namespace weir::dialects {

/// What stands for the prompt text that a non-text part becomes. Units: bytes, to be divided by the
/// bytes per token of the model. They are first guesses; calibration by real usage corrects them.
/// An image: the 765 tokens of a 1024x1024 picture in high detail at 4 bytes a token.
/// Source: the vendor's vision guide, developers.openai.com/api/docs/guides/images-vision.
inline constexpr std::int64_t kImageBytes = 3060;
/// Base64 bytes of audio for one byte of text: 10 tokens a second against 10 to 60 KB a second.
inline constexpr std::int64_t kAudioBytesPerTextByte = 256;
/// Base64 bytes of a file (PDF and the like) for one byte of text.
inline constexpr std::int64_t kFileBytesPerTextByte = 8;
/// What a message's role and framing cost: 3 tokens at 4 bytes.
inline constexpr std::int64_t kMessageBytes = 12;
/// The deepest nesting weir reads within messages, prompt and input; deeper is malformed. What it
/// only passes over (tools, unknown members) may nest as deep as it likes.
inline constexpr int kMaxDepth = 128;

/// Reads a request body of the OpenAI dialect: see Dialect::read_request.
///
/// Documented choices: `max_completion_tokens` wins over `max_tokens`; a cap of 0 is allowed for
/// completions only (scoring a prompt with `echo`); 100.0 and 1e3 are whole numbers; a list of k
/// prompts makes k times n choices; a UTF-8 byte order mark is ignored, and offsets count it.
std::expected<RequestFacts, RequestFault> read_openai_request(Operation operation,
                                                              std::string_view body);

}  // namespace weir::dialects
