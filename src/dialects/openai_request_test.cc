// SPDX-License-Identifier: Apache-2.0
#include "dialects/openai_request.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <string>
#include <vector>

#include "http/exchange.h"

namespace weir::dialects {
namespace {

/// A body with the padding that the connection gives it, filled with bytes that would be noticed.
class Padded {
 public:
  explicit Padded(std::string_view body) : size_(body.size()), bytes_(body) {
    bytes_.append(http::kBodyPadding, '"');
  }
  [[nodiscard]] std::string_view view() const { return std::string_view(bytes_).substr(0, size_); }

 private:
  std::size_t size_;
  std::string bytes_;
};

std::expected<RequestFacts, RequestFault> read(std::string_view body,
                                               Operation operation = Operation::chat) {
  const Padded padded(body);
  return openai().read_request(operation, padded.view());
}

RequestFacts good(std::string_view body, Operation operation = Operation::chat) {
  auto facts = read(body, operation);
  EXPECT_TRUE(facts.has_value()) << body.substr(0, 200) << ": "
                                 << (facts ? "" : facts.error().text);
  return facts ? std::move(*facts) : RequestFacts();
}

/// The fault's parameter, or "accepted".
std::string param_of(std::string_view body, Operation operation = Operation::chat) {
  const auto facts = read(body, operation);
  if (facts) return "accepted";
  EXPECT_EQ(facts.error().code, ErrorCode::malformed);
  EXPECT_EQ(facts.error().origin, Origin::client);
  EXPECT_FALSE(facts.error().text.empty());
  return facts.error().param;
}

std::string with(std::string_view member) {
  return std::string(R"({"model":"m",)").append(member).append(R"(,"messages":[]})");
}

std::string splice(std::string_view body, const Splice& splice) {
  return std::string(body.substr(0, splice.offset)) + splice.with +
         std::string(body.substr(splice.offset + splice.length));
}

TEST(OpenAiRequest, FindsEverythingWhateverTheOrderOfKeys) {
  const std::vector<std::string> members = {R"("model": "gpt-4o")", R"("stream":true)",
                                            R"("max_tokens" : 64)", R"("n":2)",
                                            R"("messages":[{"role":"user","content":"hello"}])"};
  std::vector<std::size_t> order = {0, 1, 2, 3, 4};
  do {
    std::string body = "{";
    for (const std::size_t index : order) {
      if (body.size() > 1) body += ", ";
      body += members[index];
    }
    body += "}";
    const RequestFacts facts = good(body);
    EXPECT_EQ(facts.model, "gpt-4o");
    EXPECT_EQ(body.substr(facts.model_offset, facts.model_length), "\"gpt-4o\"");
    EXPECT_TRUE(facts.demand.streaming);
    EXPECT_EQ(facts.demand.max_output_tokens, 64);
    EXPECT_EQ(facts.demand.choices, 2);
    EXPECT_EQ(facts.demand.input_bytes, kMessageBytes + 5);
    ASSERT_TRUE(facts.ask_usage);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(OpenAiRequest, ResolvesEscapesInTheModelName) {
  const std::string body = R"({"model":"gpt\u002d4\/x","messages":[]})";
  const RequestFacts facts = good(body);
  EXPECT_EQ(facts.model, "gpt-4/x");
  EXPECT_EQ(body.substr(facts.model_offset, facts.model_length), R"("gpt\u002d4\/x")");
  EXPECT_EQ(param_of(R"({"model":"\ud83d"})"), "model");
  EXPECT_EQ(param_of(R"({"model":""})"), "model");
  EXPECT_EQ(param_of("{\"model\":\"" + std::string(513, 'a') + "\"}"), "model");
}

TEST(OpenAiRequest, MaxCompletionTokensWins) {
  EXPECT_EQ(good(with(R"("max_tokens":5,"max_completion_tokens":7)")).demand.max_output_tokens, 7);
  EXPECT_EQ(good(with(R"("max_completion_tokens":7,"max_tokens":50)")).demand.max_output_tokens, 7);
  EXPECT_EQ(good(with(R"("max_completion_tokens":null,"max_tokens":9)")).demand.max_output_tokens,
            9);
}

TEST(OpenAiRequest, T087_DuplicateKeysAreRefused) {
  EXPECT_EQ(param_of(R"({"model":"mini","messages":[],"model":"big"})"), "model");
  EXPECT_EQ(param_of(R"({"model":"mini","\u006dodel":"big"})"), "model");
  EXPECT_EQ(param_of(R"({"\u006dodel":"mini","messages":[],"model":"big"})"), "model");
  EXPECT_EQ(param_of(with(R"("max_tokens":1,"max_tokens":2)")), "max_tokens");
  EXPECT_EQ(param_of(with(R"("max_completion_tokens":1,"max_completion_token\u0073":2)")),
            "max_completion_tokens");
  EXPECT_EQ(param_of(with(R"("stream":false,"stream":true)")), "stream");
  EXPECT_EQ(param_of(with(R"("stream_options":{},"stream_options":null)")), "stream_options");
  EXPECT_EQ(param_of(with(R"("n":1,"n":1)")), "n");
  EXPECT_EQ(param_of(with(R"("stream_options":{"include_usage":true,"include_usage":false})")),
            "stream_options.include_usage");
  // A name with a space is another name, and an escaped key is read like a plain one.
  EXPECT_EQ(good(R"({"model":" big"})").model, " big");
  EXPECT_EQ(good(R"({"\u006dodel":"mini"})").model, "mini");
  // Inside messages the same words mean nothing.
  EXPECT_EQ(good(R"({"messages":[{"model":"big"}],"model":"mini"})").model, "mini");
}

TEST(OpenAiRequest, T122_NumericFields) {
  EXPECT_EQ(good(with(R"("max_tokens":null)")).demand.max_output_tokens, std::nullopt);
  EXPECT_EQ(good(with(R"("max_tokens":100.0)")).demand.max_output_tokens, 100);
  EXPECT_EQ(good(with(R"("max_tokens":1e3)")).demand.max_output_tokens, 1000);
  EXPECT_EQ(good(with(R"("max_tokens":9223372036854775807)")).demand.max_output_tokens, INT64_MAX);
  for (const char* value : {"100.7", R"("100")", R"("abc")", "-1", "0", "1e400", "1e30",
                            "9223372036854775808", "true", "[5]", "{}", "-0.5", "1x"}) {
    EXPECT_EQ(param_of(with(std::string(R"("max_tokens":)") + value)), "max_tokens") << value;
    const auto fault = read(with(std::string(R"("max_completion_tokens":)") + value));
    ASSERT_FALSE(fault) << value;
    EXPECT_EQ(fault.error().param, "max_completion_tokens") << value;
    EXPECT_NE(fault.error().text.find("max_completion_tokens"), std::string::npos);
  }
  EXPECT_EQ(good(R"({"model":"m","prompt":"x","max_tokens":0})", Operation::completion)
                .demand.max_output_tokens,
            0);
}

TEST(OpenAiRequest, T031_ChoicesMultiplyOutput) {
  EXPECT_EQ(good(with(R"("n":5)")).demand.choices, 5);
  EXPECT_EQ(good(with(R"("n":null)")).demand.choices, 1);
  EXPECT_EQ(good(with(R"("n":1000000)")).demand.choices, 1'000'000);
  for (const char* value : {R"("5")", "0", "-1", "1.5", "[]", "true"}) {
    EXPECT_EQ(param_of(with(std::string(R"("n":)") + value)), "n") << value;
  }
  const char* many = R"({"model":"m","prompt":["a","b","c"],"n":2,"best_of":4})";
  EXPECT_EQ(good(many, Operation::completion).demand.choices, 12);
  const char* huge = R"({"model":"m","prompt":["a","b"],"n":9223372036854775807})";
  EXPECT_EQ(good(huge, Operation::completion).demand.choices, INT64_MAX);
  EXPECT_EQ(param_of(R"({"model":"m","prompt":"a","best_of":0})", Operation::completion),
            "best_of");
}

TEST(OpenAiRequest, T123_EmptyAndNullContent) {
  for (const char* messages :
       {"[]", "null", "{}", "[null]", R"([{"role":"user","content":null}])",
        R"([{"role":"user","content":""}])", R"([{"role":"user","content":[]}])",
        R"([{"role":"user","content":[{}]}])", R"([{"role":"user","content":[{"text":null}]}])"}) {
    const std::string body =
        std::string(R"({"model":"m","messages":)").append(messages).append("}");
    EXPECT_GE(good(body).demand.input_bytes, 0) << messages;
  }
  good(R"({"model":"m"})");
  EXPECT_GT(good(R"({"model":"m","messages":[{"role":"assistant","content":null,
      "tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}]})")
                .demand.input_bytes,
            kMessageBytes);
  for (const char* body : {"", "null", "[]", "1", " ", "\"x\"", "true", "{", "}", "{}x"}) {
    EXPECT_EQ(param_of(body), "") << body;
  }
  EXPECT_EQ(param_of("{}"), "model");
  EXPECT_EQ(param_of(R"({"model":null})"), "model");
  EXPECT_EQ(param_of(R"({"model":5})"), "model");
}

TEST(OpenAiRequest, RefusesWhatIsNotOneObject) {
  for (const char* body :
       {R"({"model":"m"} x)", R"({"model":"m"}{"model":"n"})", R"({"model":"m")", R"({"model")",
        R"({"model":"m)", R"({"model":"m" "stream":true})", R"({"model":"m"}])", R"({model:"m"})",
        "{\"model\":\"m\",\"user\":\"\xc3\x28\"}"}) {
    const auto facts = read(body);
    ASSERT_FALSE(facts) << body;
    EXPECT_EQ(facts.error().code, ErrorCode::malformed);
  }
  EXPECT_NE(param_of(R"({"model":"m","stream":1})"), "accepted");
  EXPECT_EQ(param_of(R"({"model":"m","stream":"true"})"), "stream");
  EXPECT_EQ(param_of(R"({"model":"m","stream_options":5})"), "stream_options");
  EXPECT_EQ(param_of(R"({"model":"m","stream_options":{"include_usage":1}})"),
            "stream_options.include_usage");
}

TEST(OpenAiRequest, T043_SurrogatesPassAndInvalidUtf8IsRefused) {
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":"\ud83d \u0000"}]})";
  EXPECT_EQ(good(body).demand.input_bytes, kMessageBytes + 3 + 1 + 1);
  const auto facts = read("{\"model\":\"m\",\"messages\":[{\"content\":\"\xc3\x28\"}]}");
  ASSERT_FALSE(facts);
  EXPECT_NE(facts.error().text.find("UTF-8"), std::string::npos);
  EXPECT_EQ(param_of(R"({"model":"m","\ud83d":1})"), "accepted");
}

TEST(OpenAiRequest, T124_ByteOrderMark) {
  const std::string body = "\xef\xbb\xbf{\"model\":\"m\",\"stream\":true,\"messages\":[]}";
  const RequestFacts facts = good(body);
  EXPECT_EQ(body.substr(facts.model_offset, facts.model_length), "\"m\"");
  ASSERT_TRUE(facts.ask_usage);
  EXPECT_EQ(splice(body, *facts.ask_usage),
            "\xef\xbb\xbf{\"stream_options\":{\"include_usage\":true},\"model\":\"m\","
            "\"stream\":true,\"messages\":[]}");
  const auto utf16 = read(std::string_view("\xff\xfe{\0}\0", 6));
  ASSERT_FALSE(utf16);
  EXPECT_NE(utf16.error().text.find("UTF-16"), std::string::npos);
}

TEST(OpenAiRequest, T121_DepthIsBounded) {
  const auto nested = [](std::size_t depth, const char* open, const char* close) {
    std::string text;
    for (std::size_t at = 0; at < depth; ++at) text += open;
    text += "1";
    for (std::size_t at = 0; at < depth; ++at) text += close;
    return text;
  };
  for (const std::size_t depth : {10'000U, 1'000'000U}) {
    const std::string lists = nested(depth, "[", "]");
    const std::string objects = nested(depth, "{\"a\":", "}");
    for (const std::string& deep : {lists, objects}) {
      // Passed over without recursion, or refused: never a crash.
      static_cast<void>(read(R"({"model":"m","ignored":)" + deep + "}"));
      static_cast<void>(read(R"({"model":"m","tools":)" + deep + "}"));
      EXPECT_EQ(param_of(R"({"model":"m","messages":)" + deep + "}"), "");
      EXPECT_EQ(param_of(R"({"model":"m","messages":[{"content":)" + deep + "}]}"), "");
      EXPECT_NE(param_of(R"({"model":"m","input":)" + deep + "}", Operation::embedding),
                "accepted");
    }
  }
  EXPECT_EQ(param_of(R"({"model":"m","messages":[{"content":)" + nested(64, "[", "]") + "}]}"),
            "accepted");
  // Unclosed and closed too often.
  static_cast<void>(read(R"({"model":"m","messages":)" + std::string(100'000, '[')));
  static_cast<void>(read(R"({"model":"m","messages":)" + std::string(100'000, ']')));
}

TEST(OpenAiRequest, T030_TextIsCountedInUtf8BytesWithEscapesResolved) {
  const auto bytes = [](std::string_view content) {
    const std::string body =
        std::string(R"({"model":"m","messages":[{"role":"user","content":")").append(content) +
        "\"}]}";
    return good(body).demand.input_bytes - kMessageBytes;
  };
  EXPECT_EQ(bytes("plain"), 5);
  EXPECT_EQ(bytes("\xe4\xbd\xa0\xe5\xa5\xbd"), 6);  // two Chinese characters
  EXPECT_EQ(bytes(R"(\u4f60\u597d)"), 6);           // the same, escaped
  EXPECT_EQ(bytes(R"(\ud83d\ude00)"), 4);           // one emoji
  EXPECT_EQ(bytes(R"(\u00e9\n\t\"\\)"), 2 + 4);
}

TEST(OpenAiRequest, CountsEveryKindOfContent) {
  const auto bytes = [](std::string_view members) {
    return good(std::string(R"({"model":"m",)").append(members).append("}")).demand.input_bytes;
  };
  EXPECT_EQ(bytes(R"("messages":[{"role":"user","content":[{"type":"text","text":"abcd"}]}])"),
            kMessageBytes + 4);
  const std::string data_url(100'000, 'A');
  EXPECT_EQ(
      bytes(R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" +
            data_url + R"("}}]}])"),
      kMessageBytes + kImageBytes);
  const std::int64_t audio =
      bytes(R"("messages":[{"content":[{"type":"input_audio","input_audio":{"data":")" + data_url +
            R"("}}]}])");
  EXPECT_GT(audio, 100'000 / kAudioBytesPerTextByte);
  EXPECT_LT(audio, 1'000);
  EXPECT_GT(bytes(R"("messages":[{"content":[{"type":"new_kind","blob":"xyz"}]}])"), kMessageBytes);
  EXPECT_EQ(bytes(R"("messages":[{"role":"user","name":"bob","content":"hi"}])"),
            kMessageBytes + 5);
  const std::string tools = R"([{"type":"function","function":{"name":"f","parameters":{}}}])";
  EXPECT_EQ(bytes(R"("tools":)" + tools), static_cast<std::int64_t>(tools.size()) + 1);
  EXPECT_GT(bytes(R"("response_format":{"type":"json_object"})"), 20);
}

TEST(OpenAiRequest, EmbeddingInputs) {
  const auto facts = [](std::string_view input) {
    return good(std::string(R"({"model":"e","input":)").append(input).append("}"),
                Operation::embedding);
  };
  EXPECT_EQ(facts(R"("hello")").demand.input_bytes, 5);
  EXPECT_EQ(facts(R"(["ab","cde"])").demand.input_bytes, 5);
  EXPECT_EQ(facts("[1,2,3]").demand.input_tokens, 3);
  EXPECT_EQ(facts("[[1,2],[3,4,5]]").demand.input_tokens, 5);
  EXPECT_GT(facts("[[1,2],[3,4,5]]").demand.input_bytes, 0);
  EXPECT_EQ(facts(R"(["ab",[1,2]])").demand.input_tokens, std::nullopt);
  EXPECT_FALSE(facts(R"("hello")").demand.produces_output);
  EXPECT_FALSE(good(R"({"model":"e","input":"x","stream":true})", Operation::embedding).ask_usage);
}

TEST(OpenAiRequest, EndUserIsBounded) {
  EXPECT_EQ(good(with(R"("user":"u-1")")).end_user, "u-1");
  EXPECT_EQ(good(with(R"("user":7)")).end_user, "");
  std::string long_user;
  for (int at = 0; at < 200; ++at) long_user += "\xe4\xbd\xa0";
  const std::string kept = good(with("\"user\":\"" + long_user + "\"")).end_user;
  EXPECT_EQ(kept.size(), 255U);
  EXPECT_TRUE(long_user.starts_with(kept));
}

TEST(OpenAiRequest, LargeBodies) {
  for (const std::size_t size : {std::size_t{2} << 20U, std::size_t{31} << 20U}) {
    const std::string body = R"({"messages":[{"role":"user","content":")" + std::string(size, 'x') +
                             R"("}],"model":"m","stream":true})";
    const RequestFacts facts = good(body);
    EXPECT_EQ(facts.demand.input_bytes, kMessageBytes + static_cast<std::int64_t>(size));
    EXPECT_EQ(body.substr(facts.model_offset, facts.model_length), "\"m\"");
  }
}

TEST(OpenAiRequest, T048_AskForUsageChangesOnlyThat) {
  const char* plain = "\"include_usage\":true";
  struct Case {
    const char* body;
    const char* spliced;
  };
  const Case cases[] = {
      {R"({"model":"m","stream":true})",
       R"({"stream_options":{"include_usage":true},"model":"m","stream":true})"},
      {R"( {  "model":"m","stream":true})",
       R"( {"stream_options":{"include_usage":true},  "model":"m","stream":true})"},
      {R"({"stream_options":null,"model":"m","stream":true})",
       R"({"stream_options":{"include_usage":true},"model":"m","stream":true})"},
      {R"({"stream_options":{},"model":"m","stream":true})",
       R"({"stream_options":{"include_usage":true},"model":"m","stream":true})"},
      {R"({"stream_options":{"include_obfuscation":false},"model":"m","stream":true})",
       R"({"stream_options":{"include_usage":true,"include_obfuscation":false},)"
       R"("model":"m","stream":true})"},
      {R"({"stream_options":{"a":1,"include_usage":false},"model":"m","stream":true})",
       R"({"stream_options":{"a":1,"include_usage":true},"model":"m","stream":true})"},
      {R"({"stream_options":{"include_usage": null },"model":"m","stream":true})",
       R"({"stream_options":{"include_usage": true },"model":"m","stream":true})"},
  };
  for (const Case& one : cases) {
    const RequestFacts facts = good(one.body);
    EXPECT_FALSE(facts.include_usage_asked);
    ASSERT_TRUE(facts.ask_usage) << one.body;
    const std::string spliced = splice(one.body, *facts.ask_usage);
    EXPECT_EQ(spliced, one.spliced);
    const RequestFacts again = good(spliced);
    EXPECT_TRUE(again.include_usage_asked) << plain;
    EXPECT_FALSE(again.ask_usage);
  }
  const RequestFacts asked =
      good(R"({"model":"m","stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_TRUE(asked.include_usage_asked);
  EXPECT_FALSE(asked.ask_usage);
  EXPECT_FALSE(good(R"({"model":"m","stream":false})").ask_usage);
  EXPECT_FALSE(good(R"({"model":"m"})").ask_usage);
  EXPECT_TRUE(good(R"({"model":"m","prompt":"x","stream":true})", Operation::completion).ask_usage);
}

TEST(OpenAiRequest, T027_NeedsNoParsingOfToolArguments) {
  // This dialect passes arguments on unread, whatever they hold.
  good(R"({"model":"m","messages":[{"role":"assistant","tool_calls":[
      {"id":"a","type":"function","function":{"name":"f","arguments":"{not json"}}]}]})");
}

TEST(OpenAi, Operations) {
  EXPECT_EQ(openai().operation("POST", "/v1/chat/completions"), Operation::chat);
  EXPECT_EQ(openai().operation("POST", "/v1/completions"), Operation::completion);
  EXPECT_EQ(openai().operation("POST", "/v1/embeddings"), Operation::embedding);
  EXPECT_EQ(openai().operation("GET", "/v1/models"), Operation::list_models);
  EXPECT_FALSE(openai().operation("GET", "/v1/chat/completions"));
  EXPECT_FALSE(openai().operation("POST", "/v1/chat/completions/"));
  EXPECT_FALSE(openai().operation("POST", "/v1/audio/speech"));
}

TEST(OpenAiRequest, SaysWhereAProposedCapGoes) {
  const std::string_view none = R"({"model":"m","messages":[]})";
  auto facts = good(none);
  ASSERT_TRUE(facts.propose_cap);
  EXPECT_EQ(facts.propose_cap->offset, 1U);
  EXPECT_EQ(facts.propose_cap->length, 0U);
  EXPECT_EQ(facts.propose_cap->with, "max_tokens");
  const std::string_view null = R"({"model":"m", "max_tokens": null ,"messages":[]})";
  facts = good(null);
  ASSERT_TRUE(facts.propose_cap) << "null is as good as absent";
  EXPECT_EQ(null.substr(facts.propose_cap->offset, facts.propose_cap->length), "null");
  EXPECT_EQ(facts.propose_cap->with, "");
  EXPECT_FALSE(good(R"({"model":"m","max_tokens":5})").propose_cap);
  EXPECT_FALSE(good(R"({"model":"m","max_tokens":null,"max_completion_tokens":5})").propose_cap);
  EXPECT_FALSE(good(R"({"model":"e","input":"x"})", Operation::embedding).propose_cap);
}

}  // namespace
}  // namespace weir::dialects
