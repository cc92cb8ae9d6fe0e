// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/usage.h"

namespace weir::dialects {

/// Counts as a provider gave them; what it left out, or gave as no whole number, is absent.
struct Counts {
  std::optional<std::int64_t> input;
  std::optional<std::int64_t> output;
  std::optional<std::int64_t> cached;     ///< part of `input`
  std::optional<std::int64_t> reasoning;  ///< part of `output`
};

/// Reads a `usage` object: of chat and completions (prompt_tokens, completion_tokens), embeddings,
/// and the input_tokens/output_tokens spelling; cached and reasoning tokens where OpenAI, DeepSeek,
/// xAI, SGLang and DashScope put them. Where total = prompt + completion + reasoning, reasoning
/// stands outside the completion and is added to it (xAI; providers.md section 2).
Counts parse_usage(std::string_view object);

/// As values for settlement: none if neither side was given; a missing side counts 0, and a part is
/// held at its whole.
std::optional<Usage> to_usage(const Counts& counts);

}  // namespace weir::dialects
