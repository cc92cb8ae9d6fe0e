// SPDX-License-Identifier: Apache-2.0
// The collected answers of providers in tests/data, read through this dialect.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <set>
#include <string>
#include <vector>

#include "dialects/dialect.h"

namespace weir::dialects {
namespace {

namespace dom = simdjson::dom;

std::string text_of(dom::element object, const char* key) {
  std::string_view text;
  return object[key].get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

std::optional<std::int64_t> number_of(dom::element object, const char* key) {
  std::int64_t number = 0;
  if (object[key].get(number) == simdjson::SUCCESS) return number;
  return std::nullopt;
}

/// A body is a JSON value, or a string that stands for raw bytes.
std::string body_of(dom::element vector) {
  std::string_view raw;
  if (vector["body"].get(raw) == simdjson::SUCCESS) return std::string(raw);
  return simdjson::minify(vector["body"]);
}

struct Loaded {
  dom::parser parser;
  dom::array vectors;
};

void load(const char* file, Loaded& loaded) {
  const std::string path = std::string(WEIR_SOURCE_DIR "/tests/data/") + file;
  dom::element root;
  ASSERT_EQ(loaded.parser.load(path).get(root), simdjson::SUCCESS) << path;
  ASSERT_EQ(root.get(loaded.vectors), simdjson::SUCCESS);
}

bool is_stream(dom::element vector) {
  return text_of(vector["headers"], "content-type") == "text/event-stream" ||
         text_of(vector, "api") == "chat_stream";
}

/// Answers of operations that are not served here (Responses, native NDJSON), and those that only a
/// provider's own rules or headers decide: this dialect does not know which provider it reads.
const std::set<std::string>& other_dialects() {
  static const std::set<std::string> kIds = {"openai-responses-sse-error-nested",
                                             "ollama-ndjson-error", "mistral-limit-zero", "nim-429",
                                             "fireworks-headers"};
  return kIds;
}

Signal read(dom::element vector) {
  http::Fields fields;
  for (const auto member : dom::object(vector["headers"])) {
    fields.add({member.key, std::string_view(member.value)});
  }
  const auto status = static_cast<std::uint16_t>(*number_of(vector, "status"));
  const std::string body = body_of(vector);
  const WallTime now(std::chrono::milliseconds(*number_of(vector, "now_ms")));
  if (status != 200 || !is_stream(vector)) {
    return openai().read_signal(status, fields, body, now);
  }
  const auto meter = openai().meter(Operation::chat, true, false);
  std::vector<std::string_view> relay;
  meter->feed(body, relay);
  meter->finish(relay);
  bool committed = false;
  if (vector["stream_committed"].get(committed) == simdjson::SUCCESS && committed) {
    EXPECT_FALSE(meter->error_before_content());
    EXPECT_FALSE(meter->terminated());
    Signal signal;
    signal.kind = SignalClass::server_error;
    return signal;
  }
  return meter->error_before_content().value_or(Signal());
}

bool allowed(dom::element vector, const char* key, std::string_view got) {
  dom::array alternatives;
  if (vector[key].get(alternatives) != simdjson::SUCCESS) return false;
  for (const auto alternative : alternatives) {
    if (std::string_view(alternative) == got) return true;
  }
  return false;
}

void expect_reading(dom::element expect, const char* key, const LimitReading& reading) {
  EXPECT_EQ(reading.remaining, number_of(expect["remaining"], key)) << key;
  std::optional<std::int64_t> reset_ms;
  if (reading.reset) reset_ms = reading.reset->count() / 1'000'000;
  EXPECT_EQ(reset_ms, number_of(expect["reset_ms"], key)) << key;
}

TEST(OpenAiVectors, ProviderAnswers) {
  Loaded loaded;
  load("provider_vectors.json", loaded);
  std::size_t read_count = 0;
  for (const auto vector : loaded.vectors) {
    const std::string id = text_of(vector, "id");
    if (other_dialects().contains(id)) continue;
    SCOPED_TRACE(id);
    ++read_count;
    const Signal signal = read(vector);
    const dom::element expect = vector["expect"];
    const std::string_view kind = name(signal.kind);
    if (!allowed(vector, "class_alternatives", kind)) {
      EXPECT_EQ(kind, text_of(expect, "class"));
    }
    const std::string_view limiter = name(signal.limiter);
    if (!allowed(vector, "limiter_alternatives", limiter)) {
      EXPECT_EQ(limiter, text_of(expect, "limiter"));
    }
    std::optional<std::int64_t> retry_after_ms;
    if (signal.retry_after) retry_after_ms = signal.retry_after->count() / 1'000'000;
    EXPECT_EQ(retry_after_ms, number_of(expect, "retry_after_ms"));
    bool oversize = false;
    if (expect["oversize"].get(oversize) != simdjson::SUCCESS) oversize = false;
    EXPECT_EQ(signal.oversize, oversize);
    expect_reading(expect, "requests", signal.requests);
    expect_reading(expect, "total_tokens", signal.tokens);
    expect_reading(expect, "input_tokens", signal.input_tokens);
    expect_reading(expect, "output_tokens", signal.output_tokens);
  }
  EXPECT_GE(read_count, 80U);
}

TEST(OpenAiVectors, Usage) {
  Loaded loaded;
  load("usage_vectors.json", loaded);
  for (const auto vector : loaded.vectors) {
    const std::string id = text_of(vector, "id");
    if (other_dialects().contains(id)) continue;
    SCOPED_TRACE(id);
    const std::string body = body_of(vector);
    const auto meter = openai().meter(Operation::chat, is_stream(vector), false);
    std::vector<std::string_view> relay;
    meter->feed(body, relay);
    meter->finish(relay);
    const auto usage = meter->usage();
    const dom::element expect = vector["expect"];
    const auto input = number_of(expect, "input_tokens");
    const auto output = number_of(expect, "output_tokens");
    ASSERT_EQ(usage.has_value(), input || output);
    if (!usage) continue;
    EXPECT_EQ(usage->input_tokens, input.value_or(0));
    EXPECT_EQ(usage->output_tokens, output.value_or(0));
    EXPECT_EQ(usage->cached_input_tokens, number_of(expect, "cached_input_tokens"));
    EXPECT_EQ(usage->reasoning_tokens, number_of(expect, "reasoning_tokens"));
  }
}

}  // namespace
}  // namespace weir::dialects
