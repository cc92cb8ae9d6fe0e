// SPDX-License-Identifier: Apache-2.0
#include "dialects/openai_meter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::dialects {
namespace {

/// What came of feeding a body cut into pieces of `step` bytes.
struct Outcome {
  std::string relayed;
  std::optional<Usage> usage;
  std::int64_t events = 0;
  bool terminated = false;
  std::optional<Signal> error;
};

Outcome run(ResponseMeter& meter, std::string_view body, std::size_t step) {
  Outcome outcome;
  std::vector<std::string_view> relay;
  const auto take = [&outcome, &relay] {
    for (const std::string_view piece : relay) outcome.relayed += piece;
    relay.clear();
  };
  for (std::size_t at = 0; at < body.size(); at += step) {
    // A copy on the heap, so that views kept past the call are caught by the sanitizer.
    const std::string piece(body.substr(at, step));
    meter.feed(piece, relay);
    take();
  }
  meter.finish(relay);
  take();
  outcome.usage = meter.usage();
  outcome.events = meter.output_events();
  outcome.terminated = meter.terminated();
  outcome.error = meter.error_before_content();
  return outcome;
}

/// Runs with many cuts and expects the same from each.
Outcome run_every_way(bool streaming, bool strip, std::string_view body) {
  const auto whole_meter = openai().meter(Operation::chat, streaming, strip);
  Outcome whole = run(*whole_meter, body, body.size() + 1);
  for (const std::size_t step : {1U, 2U, 3U, 5U, 7U, 16U, 61U, 200U}) {
    const auto meter = openai().meter(Operation::chat, streaming, strip);
    const Outcome cut = run(*meter, body, step);
    EXPECT_EQ(cut.relayed, whole.relayed) << step;
    EXPECT_EQ(cut.usage, whole.usage) << step;
    EXPECT_EQ(cut.events, whole.events) << step;
    EXPECT_EQ(cut.terminated, whole.terminated) << step;
    EXPECT_EQ(cut.error.has_value(), whole.error.has_value()) << step;
  }
  return whole;
}

Outcome stream(std::string_view body, bool strip = false) {
  Outcome outcome = run_every_way(true, strip, body);
  if (!strip) {
    EXPECT_EQ(outcome.relayed, body);
  }
  return outcome;
}

Outcome plain(std::string_view body) {
  Outcome outcome = run_every_way(false, false, body);
  EXPECT_EQ(outcome.relayed, body);
  return outcome;
}

std::string delta(std::string_view content, std::string_view more = "") {
  return std::string(R"(data: {"id":"c1","choices":[{"index":0,"delta":{"content":")")
      .append(content)
      .append(R"("},"finish_reason":null}])")
      .append(more)
      .append("}\n\n");
}

const std::string kFinish =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const std::string kUsage =
    "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2,"
    "\"total_tokens\":6}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

Usage usage(std::int64_t input, std::int64_t output) {
  Usage value;
  value.input_tokens = input;
  value.output_tokens = output;
  return value;
}

TEST(StreamMeter, CountsAndReadsUsage) {
  const Outcome outcome = stream(delta("a") + delta("b") + kFinish + kUsage + kDone);
  EXPECT_EQ(outcome.usage, usage(4, 2));
  EXPECT_EQ(outcome.events, 2);
  EXPECT_TRUE(outcome.terminated);
  EXPECT_FALSE(outcome.error);
}

TEST(StreamMeter, AChunkLikeTheLastOneSaysWhatItWouldAlone) {
  const auto chunk = [](std::string_view delta_object, std::string_view finish,
                        std::string_view rest) {
    return std::string(R"(data: {"id":"c1","choices":[{"index":0,"delta":)")
        .append(delta_object)
        .append(R"(,"finish_reason":)")
        .append(finish)
        .append("}]")
        .append(rest)
        .append("}\n\n");
  };
  std::vector<std::string> chunks;
  for (const char* delta_object :
       {R"({"content":"Hel"})", R"({"content":"lo \"x\" \\"})", R"({"content":""})",
        R"({"content":"a","tool_calls":[{"index":0}]})", R"({"content":"}]}"})",
        R"({"reasoning_content":"hm"})", R"({"content":"\u4f60"})", R"({"content":"a"})"}) {
    for (const char* finish : {"null", "\"stop\""}) {
      for (const char* rest :
           {"", R"(,"usage":null)", R"(,"usage":null,"obfuscation":"x1")",
            R"(,"usage":null,"obfuscation":"")", R"(,"obfuscation":"abc","usage":null)",
            R"(,"usage":{"prompt_tokens":3,"completion_tokens":1})", R"(,"error":{"code":500})"}) {
        chunks.push_back(chunk(delta_object, finish, rest));
        chunks.push_back(chunk(R"({"content":"again"})", finish, rest));
      }
    }
  }
  // Every order of two: the second must count as it does alone.
  for (const std::string& first : chunks) {
    for (const std::string& second : chunks) {
      const auto alone = openai().meter(Operation::chat, true, true);
      const auto both = openai().meter(Operation::chat, true, true);
      const Outcome one = run(*alone, second, second.size());
      const auto before = openai().meter(Operation::chat, true, true);
      const Outcome zero = run(*before, first, first.size());
      const Outcome two = run(*both, first + second, first.size());
      ASSERT_EQ(two.events, zero.events + one.events) << first << second;
      ASSERT_EQ(two.relayed, zero.relayed + one.relayed) << first << second;
      ASSERT_EQ(two.usage, one.usage ? one.usage : zero.usage) << first << second;
    }
  }
}

TEST(StreamMeter, CountsEventsThatCarryOutput) {
  const auto events = [](std::string_view delta_object) {
    return stream(std::string("data: {\"choices\":[{\"delta\":").append(delta_object) + "}]}\n\n")
        .events;
  };
  EXPECT_EQ(events(R"({"role":"assistant","content":""})"), 0);
  EXPECT_EQ(events(R"({"role":"assistant"})"), 0);
  EXPECT_EQ(events(R"({"content":null})"), 0);
  EXPECT_EQ(events(R"({"content":"x"})"), 1);
  EXPECT_EQ(events(R"({"reasoning_content":"x"})"), 1);
  EXPECT_EQ(events(R"({"tool_calls":[{"index":0,"function":{"arguments":"{"}}]})"), 1);
  EXPECT_EQ(events(R"({"refusal":"no"})"), 1);
  EXPECT_EQ(stream("data: {\"choices\":[{\"text\":\"x\"}]}\n\n").events, 1);
  EXPECT_EQ(stream("data: {\"choices\":[{\"text\":\"\"}]}\n\n").events, 0);
}

TEST(StreamMeter, T048_TakesOutWhatAskingPutIn) {
  const std::string with_null = delta("a", ",\"usage\":null");
  const Outcome outcome = stream(with_null + delta("b") + kFinish + kUsage + kDone, true);
  EXPECT_EQ(outcome.relayed, delta("a") + delta("b") + kFinish + kDone);
  EXPECT_EQ(outcome.usage, usage(4, 2));
  EXPECT_TRUE(outcome.terminated);
  // In other places and with spaces.
  const auto stripped = [](std::string_view json) {
    const std::string body = std::string("data: ").append(json) + "\n\n";
    const std::string relayed = stream(body, true).relayed;
    return relayed.size() < 8 ? relayed : relayed.substr(6, relayed.size() - 8);
  };
  EXPECT_EQ(stripped(R"({"usage":null,"choices":[{}]})"), R"({"choices":[{}]})");
  EXPECT_EQ(stripped(R"({"usage" : null , "choices":[{}]})"), R"({ "choices":[{}]})");
  EXPECT_EQ(stripped(R"({"usage":null})"), "{}");
  EXPECT_EQ(stripped(R"({"id":"a", "usage": null, "choices":[{}]})"),
            R"({"id":"a", "choices":[{}]})");
  EXPECT_EQ(stripped(R"({"choices":[{}],"usage":null})"), R"({"choices":[{}]})");
  // Not ours to take: usage beside choices, a chunk without choices, words in the model's text,
  // Azure's first chunk.
  for (const char* json : {R"({"choices":[{"delta":{"content":""},"finish_reason":"stop"}],)"
                           R"("usage":{"prompt_tokens":1}})",
                           R"({"usage":{"prompt_tokens":1,"completion_tokens":1}})",
                           R"({"choices":[{"delta":{"content":",\"usage\":null"}}]})",
                           R"({"choices":[{"delta":{"content":"a"},"usage":null}]})",
                           R"({"choices":[],"prompt_filter_results":[]})",
                           // A member twice, and texts that are not JSON to their end.
                           R"({"choices":[{"delta":{"content":"a"}}],"choices":[],)"
                           R"("usage":{"prompt_tokens":1,"completion_tokens":1}})",
                           R"({"choices":[],"usage":{"prompt_tokens":1}}, {"choices":[{}]})",
                           R"({"usage":null,"choices":[{}])"}) {
    EXPECT_EQ(stripped(json), json);
  }
}

TEST(StreamMeter, T048_StripsWithEveryLineEnd) {
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const auto event = [end](std::string_view json) {
      return std::string("data: ").append(json).append(end).append(end);
    };
    const std::string first = event(R"({"choices":[{"delta":{"content":"a"}}]})");
    const std::string with_null = event(R"({"choices":[{"delta":{"content":"a"}}],"usage":null})");
    const std::string last = event(R"({"choices":[],"usage":{"prompt_tokens":4}})");
    const std::string done = event("[DONE]");
    const Outcome outcome = stream(first + with_null + last + done, true);
    EXPECT_EQ(outcome.relayed, first + first + done);
    EXPECT_EQ(outcome.usage, usage(4, 0));
  }
}

TEST(StreamMeter, ACutLineEndFollowsItsOwnUnit) {
  const std::string last = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4}}\n\n";
  const std::string body = last + "data: {\"choices\":[{}]}\r\n\r\n" + last + "data: [DONE]\r\r\n";
  EXPECT_EQ(stream(body, true).relayed, "data: {\"choices\":[{}]}\r\n\r\ndata: [DONE]\r\r\n");
}

TEST(StreamMeter, KeepsTheClientsOwnUsageChunk) {
  const std::string body = delta("a", ",\"usage\":null") + kUsage + kDone;
  EXPECT_EQ(stream(body, false).relayed, body);
}

TEST(StreamMeter, T049_WhereUsageMayAppear) {
  const char* numbers = R"({"prompt_tokens":7,"completion_tokens":3,"total_tokens":10})";
  for (const std::string& chunk :
       {std::string(R"({"choices":[],"usage":)") + numbers + "}",
        std::string(R"({"choices":[{"delta":{}}],"usage":)") + numbers + "}",
        std::string(R"({"usage":)") + numbers +
            R"(,"choices":[{"delta":{},"finish_reason":"stop"}]})",
        std::string(R"({"choices":[{"delta":{}}],"x_groq":{"id":"r","usage":)") + numbers + "}}",
        std::string(R"({"object":"chat.completion.chunk","usage":)") + numbers + "}"}) {
    const std::string body = delta("a", ",\"usage\":null") + delta("b", ",\"usage\":null") +
                             "data: " + chunk + "\n\n" + kDone;
    EXPECT_EQ(stream(body).usage, usage(7, 3)) << chunk;
  }
  EXPECT_EQ(stream(delta("a", ",\"usage\":null") + kDone).usage, std::nullopt);
  EXPECT_EQ(stream(delta("a", ",\"usage\":\"x\"") + kDone).usage, std::nullopt);
}

TEST(StreamMeter, T050_CumulativeUsageIsNotSummed) {
  std::string body;
  for (int count = 1; count <= 120; ++count) {
    body += delta("t", ",\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":" +
                           std::to_string(count) + "}");
  }
  EXPECT_EQ(stream(body + kDone).usage, usage(8, 120));
}

TEST(StreamMeter, T033_ReasoningIsPartOfTheOutput) {
  const Outcome outcome =
      stream(delta("a") +
             R"(data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3131,)"
             R"("total_tokens":3141,"completion_tokens_details":{"reasoning_tokens":3072}}})"
             "\n\n" +
             kDone);
  ASSERT_TRUE(outcome.usage);
  EXPECT_EQ(outcome.usage->output_tokens, 3131);
  EXPECT_EQ(outcome.usage->reasoning_tokens, 3072);
}

TEST(StreamMeter, T034_CachedIsPartOfTheInput) {
  const Outcome outcome =
      plain(R"({"choices":[{}],"usage":{"prompt_tokens":10000,"completion_tokens":0,)"
            R"("prompt_tokens_details":{"cached_tokens":8000}}})");
  ASSERT_TRUE(outcome.usage);
  EXPECT_EQ(outcome.usage->input_tokens, 10'000);
  EXPECT_EQ(outcome.usage->cached_input_tokens, 8'000);
}

TEST(StreamMeter, T051_TerminalMarkDecides) {
  std::string ten;
  for (int count = 0; count < 10; ++count) ten += delta("x");
  EXPECT_FALSE(stream(ten).terminated);
  EXPECT_TRUE(stream(ten + kFinish).terminated);
  EXPECT_TRUE(stream(ten + kDone).terminated);
  EXPECT_TRUE(stream(ten + "data: [DONE]").terminated);
  EXPECT_FALSE(stream(delta("[DONE]")).terminated);
  // An error in the middle is no end, even with the mark behind it.
  EXPECT_FALSE(stream(ten + "data: {\"error\":{\"code\":500}}\n\n" + kDone).terminated);
}

TEST(StreamMeter, T107_CutsInsideCharactersChangeNothing) {
  const std::string body = delta("\xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80 e\xcc\x81") + kDone;
  EXPECT_EQ(stream(body).relayed, body);
  EXPECT_EQ(stream(body, true).relayed, body);
}

TEST(StreamMeter, T108_Dialects) {
  const std::string chunk = R"({"choices":[{"delta":{"content":"a"}}]})";
  const std::string last = R"({"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2}})";
  const std::string split_data =
      "data: {\"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":4,\n"
      "data: \"completion_tokens\":2}}\n\n";
  const std::vector<std::string> bodies = {
      "data: " + chunk + "\n\ndata: " + last + "\n\ndata: [DONE]\n\n",
      "data: " + chunk + "\r\n\r\ndata: " + last + "\r\n\r\ndata: [DONE]\r\n\r\n",
      "data: " + chunk + "\r\rdata: " + last + "\r\rdata: [DONE]\r\r",
      "data: " + chunk + "\r\n\ndata: " + last + "\n\r\ndata: [DONE]\r\r\n",
      "data:" + chunk + "\n\ndata:" + last + "\n\ndata:[DONE]\n\n",
      ": hello\n\ndata: " + chunk + "\n\n: ping\n\ndata: " + last + "\n\ndata: [DONE]\n\n",
      "\xef\xbb\xbf"
      "data: " +
          chunk + "\n\ndata: " + last + "\n\ndata: [DONE]\n\n",
      "id: 1\nevent: message\ndata: " + chunk + "\nretry: 10\n\ndata: " + last +
          "\n\ndata: [DONE]\n\n",
      "data: " + chunk + "\n\n" + split_data + "data: [DONE]\n\n",
      "data: " + chunk + "\n\n" + "data: " + last + "\n\ndata: [DONE]",
      "\n\n\ndata: " + chunk + "\n\n\n\ndata: " + last + "\n\n\ndata: [DONE]\n\n",
  };
  for (const std::string& body : bodies) {
    const Outcome outcome = stream(body);
    EXPECT_EQ(outcome.usage, usage(4, 2)) << body;
    EXPECT_EQ(outcome.events, 1) << body;
    EXPECT_TRUE(outcome.terminated) << body;
    const Outcome stripped = stream(body, true);
    EXPECT_EQ(stripped.relayed.find("usage"), std::string::npos) << body;
    EXPECT_NE(stripped.relayed.find(chunk), std::string::npos) << body;
    EXPECT_NE(stripped.relayed.find("[DONE]"), std::string::npos) << body;
    EXPECT_EQ(stripped.usage, usage(4, 2)) << body;
  }
}

TEST(StreamMeter, T108_CommentsGoOnAtOnce) {
  for (const bool strip : {false, true}) {
    const auto meter = openai().meter(Operation::chat, true, strip);
    std::vector<std::string_view> relay;
    const std::string first = delta("a");
    meter->feed(first, relay);
    relay.clear();
    const std::string comment = ": keep-alive\n";
    meter->feed(comment, relay);
    ASSERT_EQ(relay.size(), 1U);
    EXPECT_EQ(relay[0], comment);
  }
}

TEST(StreamMeter, T109_LongLines) {
  for (const std::size_t size : {70'000U, 1'200'000U, 8'000'000U}) {
    const std::string long_event =
        R"(data: {"choices":[{"delta":{"content":")" + std::string(size, 'x') +
        R"("}}],"usage":{"prompt_tokens":9,"completion_tokens":8}})" + "\n\n";
    const std::string body = delta("a") + long_event + kDone;
    for (const bool strip : {false, true}) {
      for (const std::size_t step : {4'096U, 65'536U, 10'000'000U}) {
        const auto meter = openai().meter(Operation::chat, true, strip);
        const Outcome outcome = run(*meter, body, step);
        EXPECT_TRUE(outcome.relayed == body) << size << " by " << step;
        EXPECT_EQ(outcome.usage, usage(9, 8));
        EXPECT_EQ(outcome.events, 2);
        EXPECT_TRUE(outcome.terminated);
      }
    }
  }
}

TEST(StreamMeter, ErrorAtTheStartIsAnError) {
  const std::string error =
      "data: {\"error\":{\"message\":\"Rate limit reached on requests per min (RPM). Please try "
      "again in 2s.\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}\n\n";
  for (const std::string& body : {error, ": ping\n\n" + error, error + kDone}) {
    const Outcome outcome = stream(body);
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->kind, SignalClass::rate_limited);
    EXPECT_EQ(outcome.error->limiter, Limiter::rpm);
    EXPECT_EQ(outcome.error->status, 429);
    EXPECT_EQ(outcome.error->retry_after, std::chrono::seconds(2));
    EXPECT_FALSE(outcome.terminated);
  }
  EXPECT_FALSE(stream(delta("a") + error).error);
}

TEST(StreamMeter, HoldsTheHeadBackUntilTheFirstEvent) {
  const auto meter = openai().meter(Operation::chat, true, false);
  std::vector<std::string_view> relay;
  const std::string first = delta("a");
  meter->feed(": ping\n\n", relay);
  meter->feed(std::string_view(first).substr(0, 20), relay);
  EXPECT_TRUE(relay.empty());
  EXPECT_TRUE(meter->undecided());
  meter->feed(std::string_view(first).substr(20), relay);
  EXPECT_FALSE(meter->undecided());
  std::string relayed;
  for (const std::string_view piece : relay) relayed += piece;
  EXPECT_EQ(relayed, ": ping\n\n" + first);
  // A stream of keep-alives alone is let through before the client gives up.
  const auto patient = openai().meter(Operation::chat, true, false);
  relay.clear();
  for (int count = 0; count <= kMaxHeldComments; ++count) patient->feed(": ping\n\n", relay);
  EXPECT_FALSE(patient->undecided());
  EXPECT_FALSE(relay.empty());
}

TEST(StreamMeter, PassesWholeEventsAsViewsOfTheInput) {
  for (const bool strip : {false, true}) {
    const auto meter = openai().meter(Operation::chat, true, strip);
    std::vector<std::string_view> relay;
    const std::string body = delta("a") + delta("b") + delta("c");
    meter->feed(body, relay);
    ASSERT_EQ(relay.size(), 1U);
    EXPECT_EQ(relay[0].data(), body.data());
    EXPECT_EQ(relay[0].size(), body.size());
  }
}

TEST(StreamMeter, WhatIsNoStreamIsRelayed) {
  for (const char* body :
       {"", "\n", "hello", "data", "data:", "data:\n\n", "data: {\n\n", "data: {\"choices\":[\n\n",
        "data: {\"usage\":{\"prompt_tokens\":\n\n", "data: []\n\n", "event: error\n\n", ":\n", "\r",
        "data: {\"a\":\"\\", "data: null\n\n", "data: {\"usage\":null\n\n"}) {
    stream(body);
    stream(body, true);
  }
  EXPECT_TRUE(stream("event: error\ndata: gone\n\n").error);
}

TEST(StreamMeter, T121_DeepDataIsPassed) {
  const std::string deep(200'000, '[');
  stream("data: {\"choices\":" + deep + "\n\n");
  stream("data: {\"a\":" + deep + std::string(200'000, ']') + ",\"choices\":[]}\n\n", true);
}

TEST(JsonMeter, ReadsUsageFromAnywhere) {
  const char* numbers = R"({"prompt_tokens":9,"completion_tokens":12,"total_tokens":21})";
  const std::string choices =
      R"("choices":[{"message":{"content":"a \"usage\": {\"prompt_tokens\":1} \\"},)"
      R"("usage":{"prompt_tokens":5}}])";
  for (const std::string& body : {"{" + choices + ",\"usage\":" + numbers + "}",
                                  std::string("{\"usage\":") + numbers + "," + choices + "}",
                                  "\n\n { " + choices + " , \"usage\" : " + numbers + " } \n"}) {
    const Outcome outcome = plain(body);
    EXPECT_EQ(outcome.usage, usage(9, 12)) << body;
    EXPECT_TRUE(outcome.terminated);
    EXPECT_FALSE(outcome.error);
  }
  EXPECT_FALSE(plain("{" + choices + ",\"usage\":null}").usage);
  EXPECT_FALSE(plain("{" + choices + "}").usage);
  EXPECT_FALSE(plain("{" + choices).terminated);
  EXPECT_FALSE(plain("{\"usa\\u0067e\":{\"prompt_tokens\":1}}").usage);
}

TEST(JsonMeter, T011_ErrorInsideA200) {
  for (const int code : {502, 429}) {
    const Outcome outcome = plain(
        "{\"id\":\"gen-1\",\"error\":{\"message\":\"Upstream failed\","
        "\"code\":" +
        std::to_string(code) + "},\"user_id\":\"u\"}");
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->status, code);
    EXPECT_EQ(outcome.error->kind,
              code == 429 ? SignalClass::rate_limited : SignalClass::server_error);
  }
  EXPECT_TRUE(plain(R"({"error":"quota gone"})").error);
  EXPECT_TRUE(plain(R"({"error":{"code":500},"choices":[{}]})").error);
  EXPECT_TRUE(plain(R"({"error":{"code":500}} garbage)").error);
  EXPECT_FALSE(plain(R"({"error":false,"choices":[{}]})").error);
  EXPECT_FALSE(plain(R"({"error":"","choices":[{}]})").error);
  EXPECT_TRUE(plain(R"({"choices":[],"error":{"code":500}})").error);
  EXPECT_TRUE(plain(R"({"object":"error","message":"no","code":500})").error);
  EXPECT_FALSE(plain(R"({"error":null,"choices":[{"message":{"content":"x"}}]})").error);
  EXPECT_FALSE(plain(R"({"choices":[{"message":{}}],"error":{"code":500}})").error);
  EXPECT_FALSE(plain(R"({"object":"list","data":[]})").error);
}

TEST(JsonMeter, HoldsBackUntilItKnows) {
  const auto meter = openai().meter(Operation::chat, false, false);
  std::vector<std::string_view> relay;
  meter->feed("{\"id\":\"x\",", relay);
  EXPECT_TRUE(meter->undecided());
  EXPECT_TRUE(relay.empty());
  meter->feed("\"choices\":[{", relay);
  EXPECT_FALSE(meter->undecided());
  std::string relayed;
  for (const std::string_view piece : relay) relayed += piece;
  EXPECT_EQ(relayed, "{\"id\":\"x\",\"choices\":[{");
  // Not longer than it may.
  const auto bounded = openai().meter(Operation::chat, false, false);
  relay.clear();
  const std::string long_member = "{\"id\":\"" + std::string(kMaxHeld, 'x');
  bounded->feed(long_member, relay);
  EXPECT_FALSE(bounded->undecided());
  EXPECT_EQ(relay.size(), 1U);
}

TEST(JsonMeter, LargeEmbeddings) {
  std::string body = R"({"object":"list","data":[{"embedding":[)";
  while (body.size() < (std::size_t{8} << 20U)) body += "-0.0123456789,";
  body += R"(0]}],"model":"e","usage":{"prompt_tokens":8,"total_tokens":8}})";
  const auto meter = openai().meter(Operation::embedding, false, false);
  const Outcome outcome = run(*meter, body, 65'536);
  EXPECT_EQ(outcome.usage, usage(8, 0));
  EXPECT_TRUE(outcome.terminated);
  EXPECT_TRUE(outcome.relayed == body);
}

TEST(JsonMeter, T121_DeepBodiesArePassed) {
  plain("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') +
        ",\"usage\":{\"prompt_tokens\":1}}");
  plain(std::string(100'000, '['));
  plain(std::string(100'000, '{'));
}

}  // namespace
}  // namespace weir::dialects
