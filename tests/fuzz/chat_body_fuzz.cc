// SPDX-License-Identifier: Apache-2.0
// Any bytes as a request body: no crash, and what is accepted is spliced into what asks for usage
// and says otherwise the same.
#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "dialects/dialect.h"
#include "http/exchange.h"

namespace {

using weir::dialects::Operation;
using weir::dialects::RequestFacts;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Reads with exactly the promised padding, so that the sanitizer sees a byte too many.
auto read(Operation operation, std::string_view body) {
  std::string padded(body);
  padded.append(weir::http::kBodyPadding, '\0');
  return weir::dialects::openai().read_request(operation,
                                               std::string_view(padded).substr(0, body.size()));
}

void check(Operation operation, std::string_view body) {
  const auto facts = read(operation, body);
  if (!facts) {
    require(!facts.error().text.empty());
    return;
  }
  require(!facts->model.empty());
  require(facts->model_offset + facts->model_length <= body.size());
  const std::string_view model = body.substr(facts->model_offset, facts->model_length);
  require(model.size() >= 2 && model.front() == '"' && model.back() == '"');
  require(facts->demand.input_bytes >= 0 && facts->demand.choices >= 1);
  require(facts->demand.max_output_tokens.value_or(0) >= 0);
  require(facts->end_user.size() <= 256);
  if (!facts->ask_usage) return;
  const auto& splice = *facts->ask_usage;
  require(splice.offset + splice.length <= body.size());
  const std::string spliced = std::string(body.substr(0, splice.offset)) + splice.with +
                              std::string(body.substr(splice.offset + splice.length));
  const auto again = read(operation, spliced);
  require(again.has_value());
  require(again->include_usage_asked && !again->ask_usage);
  require(again->model == facts->model);
  require(again->demand.input_bytes == facts->demand.input_bytes);
  require(again->demand.max_output_tokens == facts->demand.max_output_tokens);
  require(again->demand.choices == facts->demand.choices);
  // A strict reader that took the body takes the spliced one. (The one pass does not check what it
  // passes over, so that it also accepts bodies that the provider will refuse.)
  simdjson::dom::parser parser;
  if (parser.parse(body.data(), body.size()).error() == simdjson::SUCCESS) {
    require(parser.parse(spliced).error() == simdjson::SUCCESS);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  check(Operation::chat, body);
  check(Operation::completion, body);
  check(Operation::embedding, body);
  return 0;
}
