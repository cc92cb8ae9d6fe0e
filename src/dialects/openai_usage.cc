// SPDX-License-Identifier: Apache-2.0
#include "dialects/openai_usage.h"

#include <algorithm>

#include "dialects/json_cursor.h"

namespace weir::dialects {
namespace {

/// `key` of the object at the cursor, which may be null or anything else.
std::optional<std::int64_t> count_within(JsonCursor& at, std::string_view wanted) {
  if (at.peek() != '{') {
    at.skip();
    return std::nullopt;
  }
  std::optional<std::int64_t> found;
  at.enter_object();
  for (std::string_view key; at.next_member(key);) {
    if (key == wanted) {
      found = at.count_if();
    } else {
      at.skip();
    }
  }
  return found;
}

}  // namespace

Counts parse_usage(std::string_view object) {
  Counts counts;
  std::optional<std::int64_t> total;
  const auto keep = [](std::optional<std::int64_t>& into, std::optional<std::int64_t> count) {
    if (count) into = count;
  };
  JsonCursor at(object);
  if (at.peek() != '{' || !at.enter_object()) return counts;
  for (std::string_view key; at.next_member(key);) {
    if (key == "prompt_tokens" || key == "input_tokens") {
      keep(counts.input, at.count_if());
    } else if (key == "completion_tokens" || key == "output_tokens") {
      keep(counts.output, at.count_if());
    } else if (key == "total_tokens") {
      total = at.count_if();
    } else if (key == "prompt_tokens_details" || key == "input_tokens_details") {
      keep(counts.cached, count_within(at, "cached_tokens"));
    } else if (key == "completion_tokens_details" || key == "output_tokens_details") {
      keep(counts.reasoning, count_within(at, "reasoning_tokens"));
    } else if (key == "prompt_cache_hit_tokens" || key == "cached_tokens") {
      keep(counts.cached, at.count_if());
    } else if (key == "reasoning_tokens") {
      keep(counts.reasoning, at.count_if());
    } else {
      at.skip();
    }
  }
  if (counts.input && counts.output && counts.reasoning && total && *counts.reasoning > 0 &&
      *total == *counts.input + *counts.output + *counts.reasoning) {
    *counts.output += *counts.reasoning;
  }
  return counts;
}

std::optional<Usage> to_usage(const Counts& counts) {
  if (!counts.input && !counts.output) return std::nullopt;
  Usage usage;
  usage.input_tokens = counts.input.value_or(0);
  usage.output_tokens = counts.output.value_or(0);
  // Parts are never more than their whole, whatever was sent.
  if (counts.cached) usage.cached_input_tokens = std::min(*counts.cached, usage.input_tokens);
  if (counts.reasoning) usage.reasoning_tokens = std::min(*counts.reasoning, usage.output_tokens);
  return usage;
}

}  // namespace weir::dialects
