// SPDX-License-Identifier: Apache-2.0
#include "emulator/answer_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <vector>

#include "http/writer.h"

namespace weir::emulator {
namespace {

constexpr std::array<std::string_view, 64> kVocabulary = {
    "water", "gate",  "river", "stone",  "level", "flow",    "bank",  "mill",   "a",     "the",
    "of",    "and",   "rises", "falls",  "keeps", "turns",   "slow",  "clear",  "under", "over",
    "past",  "along", "early", "late",   "field", "tree",    "road",  "bridge", "rain",  "spring",
    "north", "south", "light", "shade",  "old",   "new",     "small", "wide",   "deep",  "quiet",
    "runs",  "waits", "opens", "closes", "holds", "carries", "with",  "from",   "into",  "until",
    "each",  "one",   "other", "second", "day",   "night",   "boat",  "wheel",  "grain", "path",
    "here",  "there", "again", "still"};

constexpr std::size_t kPiece = 8;  ///< bytes of a tool call's arguments in one token

std::string escaped(std::string_view text) {
  std::string out;
  http::append_json_text(out, text);
  return out;
}

std::string usage_json(const ModelRequest& request, std::int64_t output_tokens) {
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                     R"("prompt_tokens_details":{{"cached_tokens":0,"audio_tokens":0}},)"
                     R"("completion_tokens_details":{{"reasoning_tokens":0,"audio_tokens":0,)"
                     R"("accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}})",
                     request.input_tokens, output_tokens, request.input_tokens + output_tokens);
}

std::string tool_call_id(const ModelRequest& request, std::int64_t choice) {
  return fmt::format("call_{:016x}{:02x}", request.digest, choice);
}

std::string whole_text(const ModelRequest& request, const AnswerName& name, std::int64_t choice,
                       std::int64_t tokens) {
  Words words(request, name.seed, choice);
  std::string text;
  for (std::int64_t count = 0; count < tokens; ++count) text += words.next();
  return text;
}

std::string choice_json(const ModelRequest& request, const AnswerName& name, std::int64_t choice,
                        std::int64_t tokens, bool cut) {
  const std::string_view reason = finish_reason(request, cut);
  if (!request.tool.empty()) {
    return fmt::format(
        R"({{"index":{},"message":{{"role":"assistant","content":null,"tool_calls":[{{"id":"{}",)"
        R"("type":"function","function":{{"name":"{}","arguments":"{}"}}}}],"refusal":null}},)"
        R"("logprobs":null,"finish_reason":"{}"}})",
        choice, tool_call_id(request, choice), escaped(request.tool),
        escaped(request.tool_arguments), reason);
  }
  const std::string text = escaped(whole_text(request, name, choice, tokens));
  if (request.operation == Operation::completion) {
    return fmt::format(R"({{"text":"{}","index":{},"logprobs":null,"finish_reason":"{}"}})", text,
                       choice, reason);
  }
  return fmt::format(R"({{"index":{},"message":{{"role":"assistant","content":"{}","refusal":null,)"
                     R"("annotations":[]}},"logprobs":null,"finish_reason":"{}"}})",
                     choice, text, reason);
}

/// The head of every object of an answer, up to its choices.
std::string opening_members(const ModelRequest& request, const AnswerName& name, bool chunk) {
  const std::string_view object = request.operation == Operation::completion ? "text_completion"
                                  : chunk ? "chat.completion.chunk"
                                          : "chat.completion";
  return fmt::format(R"({{"id":"{}","object":"{}","created":{},"model":"{}",)", name.id, object,
                     name.created, escaped(request.model));
}

void append_chunk(std::string& into, const ModelRequest& request, const AnswerName& name,
                  std::string_view choices, std::string_view usage) {
  fmt::format_to(std::back_inserter(into),
                 R"(data: {}"system_fingerprint":"fp_emulated","choices":[{}])",
                 opening_members(request, name, true), choices);
  if (request.include_usage) fmt::format_to(std::back_inserter(into), R"(,"usage":{})", usage);
  into += "}\n\n";
}

void append_delta(std::string& into, const ModelRequest& request, const AnswerName& name,
                  std::int64_t choice, std::string_view delta, std::string_view reason) {
  append_chunk(into, request, name,
               fmt::format(R"({{"index":{},"delta":{},"logprobs":null,"finish_reason":{}}})",
                           choice, delta, reason),
               "null");
}

std::string base64(const std::vector<float>& numbers) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> bytes;
  for (const float number : numbers) {
    const auto bits = std::bit_cast<std::uint32_t>(number);
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<std::uint8_t>(bits >> shift));
    }
  }
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = static_cast<std::uint32_t>(bytes[at]) << 16U;
    if (left > 1) group |= static_cast<std::uint32_t>(bytes[at + 1]) << 8U;
    if (left > 2) group |= bytes[at + 2];
    text += kLetters[group >> 18U];
    text += kLetters[(group >> 12U) & 63U];
    text += left > 1 ? kLetters[(group >> 6U) & 63U] : '=';
    text += left > 2 ? kLetters[group & 63U] : '=';
  }
  return text;
}

/// A vector of length 1 that only the text decides.
std::vector<float> embedding_of(std::uint64_t digest, std::int64_t dimensions) {
  Rng rng(digest);
  std::vector<double> drawn;
  double square = 0;
  for (std::int64_t index = 0; index < dimensions; ++index) {
    drawn.push_back(rng.normal());
    square += drawn.back() * drawn.back();
  }
  const double length = square > 0 ? std::sqrt(square) : 1;
  std::vector<float> numbers;
  for (const double each : drawn) numbers.push_back(static_cast<float>(each / length));
  return numbers;
}

}  // namespace

Words::Words(const ModelRequest& request, std::uint64_t seed, std::int64_t choice)
    : arguments_(request.tool_arguments),
      rng_(seed ^ request.digest ^ (static_cast<std::uint64_t>(choice) << 48U)) {}

std::string_view Words::next() {
  if (!arguments_.empty()) {
    const std::string_view piece = arguments_.substr(0, kPiece);
    arguments_.remove_prefix(piece.size());
    return piece;
  }
  word_.clear();
  if (!first_) word_ += ' ';
  first_ = false;
  word_ += kVocabulary[rng_.below(kVocabulary.size())];
  return word_;
}

std::int64_t tool_call_tokens(const ModelRequest& request) {
  return static_cast<std::int64_t>((request.tool_arguments.size() + kPiece - 1) / kPiece);
}

std::string_view finish_reason(const ModelRequest& request, bool cut) {
  if (!request.tool.empty()) return "tool_calls";
  return cut ? "length" : "stop";
}

std::string answer_body(const ModelRequest& request, const AnswerName& name,
                        std::int64_t output_tokens, bool cut) {
  std::string choices;
  for (std::int64_t choice = 0; choice < request.choices; ++choice) {
    if (choice > 0) choices += ',';
    choices += choice_json(request, name, choice, output_tokens, cut);
  }
  return fmt::format(R"({}"choices":[{}],"usage":{},"system_fingerprint":"fp_emulated"}})",
                     opening_members(request, name, false), choices,
                     usage_json(request, output_tokens * request.choices));
}

void append_opening(std::string& into, const ModelRequest& request, const AnswerName& name,
                    std::int64_t choice) {
  if (request.operation == Operation::completion) return;
  if (request.tool.empty()) {
    append_delta(into, request, name, choice, R"({"role":"assistant","content":"","refusal":null})",
                 "null");
    return;
  }
  append_delta(
      into, request, name, choice,
      fmt::format(R"({{"role":"assistant","content":null,"tool_calls":[{{"index":0,"id":"{}",)"
                  R"("type":"function","function":{{"name":"{}","arguments":""}}}}],)"
                  R"("refusal":null}})",
                  tool_call_id(request, choice), escaped(request.tool)),
      "null");
}

void append_token(std::string& into, const ModelRequest& request, const AnswerName& name,
                  std::int64_t choice, std::string_view text) {
  if (request.operation == Operation::completion) {
    append_chunk(into, request, name,
                 fmt::format(R"({{"text":"{}","index":{},"logprobs":null,"finish_reason":null}})",
                             escaped(text), choice),
                 "null");
    return;
  }
  const std::string delta =
      request.tool.empty()
          ? fmt::format(R"({{"content":"{}"}})", escaped(text))
          : fmt::format(R"({{"tool_calls":[{{"index":0,"function":{{"arguments":"{}"}}}}]}})",
                        escaped(text));
  append_delta(into, request, name, choice, delta, "null");
}

void append_closing(std::string& into, const ModelRequest& request, const AnswerName& name,
                    std::int64_t choice, bool cut) {
  const std::string reason = fmt::format("\"{}\"", finish_reason(request, cut));
  if (request.operation == Operation::completion) {
    append_chunk(into, request, name,
                 fmt::format(R"({{"text":"","index":{},"logprobs":null,"finish_reason":{}}})",
                             choice, reason),
                 "null");
    return;
  }
  append_delta(into, request, name, choice, "{}", reason);
}

void append_usage(std::string& into, const ModelRequest& request, const AnswerName& name,
                  std::int64_t output_tokens) {
  append_chunk(into, request, name, "", usage_json(request, output_tokens));
}

std::string embedding_body(const ModelRequest& request) {
  std::string data;
  for (std::size_t index = 0; index < request.inputs.size(); ++index) {
    const auto numbers = embedding_of(request.inputs[index], request.dimensions);
    std::string value;
    if (request.base64) {
      value = '"' + base64(numbers) + '"';
    } else {
      value = "[";
      for (const float number : numbers) {
        if (value.size() > 1) value += ',';
        fmt::format_to(std::back_inserter(value), "{}", number);
      }
      value += ']';
    }
    fmt::format_to(std::back_inserter(data),
                   R"({}{{"object":"embedding","index":{},"embedding":{}}})", index == 0 ? "" : ",",
                   index, value);
  }
  return fmt::format(R"({{"object":"list","data":[{}],"model":"{}","usage":{{"prompt_tokens":{},)"
                     R"("total_tokens":{}}}}})",
                     data, escaped(request.model), request.input_tokens, request.input_tokens);
}

}  // namespace weir::emulator
