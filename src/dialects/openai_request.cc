// SPDX-License-Identifier: Apache-2.0
#include "dialects/openai_request.h"

#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "dialects/json_cursor.h"
#include "dialects/text.h"
#include "http/exchange.h"
#include "weir/units.h"

namespace weir::dialects {
namespace {

namespace ondemand = simdjson::ondemand;
using simdjson::error_code;

static_assert(http::kBodyPadding >= simdjson::SIMDJSON_PADDING);

constexpr std::size_t kMaxModelLength = 512;
constexpr std::size_t kMaxEndUserLength = 256;
/// A parser keeps memory in proportion to the largest body it saw; a body above this gets its own.
constexpr std::size_t kKeptParserCapacity = std::size_t{1} << 20U;
/// What a prompt given as token numbers counts for where bytes are asked.
constexpr std::int64_t kBytesPerGivenToken = 4;

/// The members that decide something; a second one of the same name is refused, since the provider
/// might take the other (the names in `kNames`, in this order).
enum class Param : std::uint8_t {
  model,
  stream,
  stream_options,
  max_tokens,
  max_completion_tokens,
  n,
  best_of,
};
constexpr std::string_view kNames[] = {
    "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n", "best_of"};

/// What a list of prompts or inputs came to.
struct Inputs {
  std::int64_t tokens = 0;  ///< given as numbers
  std::int64_t items = 0;   ///< prompts, each of which gets its own choices
  bool text = false;        ///< some of it is text
};

class Reader {
 public:
  Reader(Operation operation, std::string_view body) : body_(body) { facts_.operation = operation; }

  std::expected<RequestFacts, RequestFault> run(ondemand::parser& parser);

 private:
  bool read_member(std::string_view key, ondemand::value value);
  bool read_content(std::string_view key, ondemand::value value);
  bool read_model(ondemand::value value);
  bool read_stream(ondemand::value value);
  bool read_stream_options(ondemand::value value);
  bool read_include_usage(ondemand::value value);
  bool read_count(std::string_view param, ondemand::value value, std::int64_t least,
                  std::optional<std::int64_t>& into);
  bool read_inputs(ondemand::value value);
  bool read_input_item(ondemand::value value, Inputs& inputs);
  bool count_messages(ondemand::value value);
  bool count_message(ondemand::object message);
  bool count_parts(ondemand::array parts);
  bool count_part(ondemand::object part);
  bool count_value(ondemand::value value, int depth);
  bool count_raw(ondemand::value value, std::int64_t divisor);
  void read_end_user(ondemand::value value);
  void finish();
  void ask_for_usage();
  void note_null_cap(ondemand::value& value);

  bool seen(Param param);
  bool broken(error_code error);
  bool refuse(std::string_view param, std::string text);
  void add_bytes(std::int64_t bytes) {
    facts_.demand.input_bytes = saturating_add(facts_.demand.input_bytes, bytes);
  }
  [[nodiscard]] std::size_t offset_of(std::string_view token) const {
    return static_cast<std::size_t>(token.data() - body_.data());
  }

  std::string_view body_;  ///< with its byte order mark, so that offsets are the caller's
  RequestFacts facts_;
  RequestFault fault_;
  std::uint32_t seen_ = 0;
  std::size_t opening_ = 0;  ///< offset of the body's first brace
  std::int64_t prompts_ = 1;
  std::optional<std::int64_t> max_tokens_, max_completion_tokens_, n_, best_of_;
  std::optional<Splice> null_cap_;          ///< a cap that is given as null
  std::optional<Splice> include_usage_at_;  ///< inside an existing stream_options
};

/// The value's own bytes; simdjson's token runs on to the next one.
std::string_view token_of(ondemand::value& value) { return trim(value.raw_json_token()); }

bool Reader::refuse(std::string_view param, std::string text) {
  fault_.code = ErrorCode::malformed;
  fault_.origin = Origin::client;
  fault_.retry = Retry::never;
  fault_.param = std::string(param);
  fault_.text = std::move(text);
  return false;
}

bool Reader::broken(error_code error) {
  if (error == simdjson::UTF8_ERROR) {
    return refuse("", "The request body is not valid UTF-8. Send the JSON object as UTF-8.");
  }
  return refuse("", fmt::format("The request body is not valid JSON ({}). Send one JSON object.",
                                simdjson::error_message(error)));
}

bool Reader::seen(Param param) {
  const std::uint32_t bit = 1U << static_cast<unsigned>(param);
  if ((seen_ & bit) != 0) {
    const std::string_view name = kNames[static_cast<std::size_t>(param)];
    return refuse(name, fmt::format("{0} stands twice in the request body. Send {0} once.", name));
  }
  seen_ |= bit;
  return true;
}

std::expected<RequestFacts, RequestFault> Reader::run(ondemand::parser& parser) {
  // Older simdjson does not know the mark (and newer ones would shift the offsets).
  const std::size_t mark = body_.starts_with("\xef\xbb\xbf") ? 3 : 0;
  const std::string_view text = body_.substr(mark);
  const std::string_view first = trim(text);
  const auto failed = [this] { return std::unexpected(std::move(fault_)); };
  if (first.empty() || first.front() != '{') {
    const bool utf16 = body_.starts_with("\xff\xfe") || body_.starts_with("\xfe\xff");
    refuse("", utf16 ? "The request body is UTF-16. Send the JSON object as UTF-8."
               : first.empty()
                   ? "The request body is empty. Send a JSON object."
                   : "The request body must be one JSON object, such as {\"model\": …}.");
    return failed();
  }
  opening_ = offset_of(first);
  ondemand::document document;
  ondemand::object root;
  error_code error =
      parser.iterate(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING)
          .get(document);
  if (error == simdjson::SUCCESS) error = document.get_object().get(root);
  if (error != simdjson::SUCCESS) {
    broken(error);
    return failed();
  }
  for (auto field : root) {
    ondemand::value value;
    if (error = field.value().get(value); error != simdjson::SUCCESS) {
      broken(error);
      return failed();
    }
    // A key that cannot be unescaped is none of ours.
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) key = "\xff";
    if (!read_member(key, value)) return failed();
  }
  // simdjson 3.0 says "out of bounds" where nothing stands after the object.
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
    refuse("", "The request body goes on after its JSON object. Send one object only.");
    return failed();
  }
  if ((seen_ & (1U << static_cast<unsigned>(Param::model))) == 0) {
    refuse("model", "model is missing. Name a model, for example \"model\": \"gpt-4o\".");
    return failed();
  }
  finish();
  return std::move(facts_);
}

bool Reader::read_member(std::string_view key, ondemand::value value) {
  const std::int64_t least = facts_.operation == Operation::completion ? 0 : 1;
  const auto* const name = std::find(std::begin(kNames), std::end(kNames), key);
  if (name == std::end(kNames)) return read_content(key, value);
  const auto param = static_cast<Param>(name - std::begin(kNames));
  if (!seen(param)) return false;
  switch (param) {
    case Param::model: return read_model(value);
    case Param::stream: return read_stream(value);
    case Param::stream_options: return read_stream_options(value);
    case Param::max_tokens: note_null_cap(value); return read_count(key, value, least, max_tokens_);
    case Param::max_completion_tokens:
      note_null_cap(value);
      return read_count(key, value, least, max_completion_tokens_);
    case Param::n: return read_count(key, value, 1, n_);
    case Param::best_of: return read_count(key, value, 1, best_of_);
  }
  return true;
}

bool Reader::read_content(std::string_view key, ondemand::value value) {
  if (key == "messages") return count_messages(value);
  if (key == "prompt" || key == "input") return read_inputs(value);
  if (key == "suffix") return count_value(value, 1);
  if (key == "tools" || key == "functions" || key == "response_format" || key == "prediction") {
    return count_raw(value, 1);
  }
  if (key == "user") read_end_user(value);
  return true;
}

bool Reader::read_model(ondemand::value value) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return broken(error);
  const std::string_view token = token_of(value);
  if (type != ondemand::json_type::string) {
    return refuse("model", "model must be a string that names a model.");
  }
  std::string_view name;
  if (value.get_string().get(name) != simdjson::SUCCESS) {
    return refuse("model", "model is not a valid JSON string. Check its escapes.");
  }
  if (name.empty() || name.size() > kMaxModelLength) {
    return refuse("model", fmt::format("model must have 1 to {} bytes.", kMaxModelLength));
  }
  facts_.model = std::string(name);
  facts_.model_offset = offset_of(token);
  facts_.model_length = token.size();
  return true;
}

bool Reader::read_stream(ondemand::value value) {
  const std::string_view token = token_of(value);
  if (token == "true") {
    facts_.demand.streaming = true;
  } else if (token != "false" && token != "null") {
    return refuse("stream", "stream must be true or false.");
  }
  return true;
}

bool Reader::read_stream_options(ondemand::value value) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return broken(error);
  const std::string_view token = token_of(value);
  if (token == "null") {
    include_usage_at_ = Splice{offset_of(token), token.size(), "{\"include_usage\":true}"};
    return true;
  }
  if (type != ondemand::json_type::object) {
    return refuse("stream_options",
                  "stream_options must be an object, such as {\"include_usage\": true}.");
  }
  const std::size_t inside = offset_of(token) + 1;
  ondemand::object options;
  if (const auto error = value.get_object().get(options)) return broken(error);
  bool any = false;
  bool named = false;
  for (auto field : options) {
    ondemand::value option;
    if (const auto error = field.value().get(option)) return broken(error);
    any = true;
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS || key != "include_usage") continue;
    if (named) {
      return refuse("stream_options.include_usage",
                    "include_usage stands twice in stream_options. Send it once.");
    }
    named = true;
    if (!read_include_usage(option)) return false;
  }
  if (!named) {
    include_usage_at_ =
        Splice{inside, 0, any ? "\"include_usage\":true," : "\"include_usage\":true"};
  }
  return true;
}

bool Reader::read_include_usage(ondemand::value value) {
  const std::string_view token = token_of(value);
  if (token == "true") {
    facts_.include_usage_asked = true;
  } else if (token == "false" || token == "null") {
    include_usage_at_ = Splice{offset_of(token), token.size(), "true"};
  } else {
    return refuse("stream_options.include_usage",
                  "stream_options.include_usage must be true or false.");
  }
  return true;
}

bool Reader::read_count(std::string_view param, ondemand::value value, std::int64_t least,
                        std::optional<std::int64_t>& into) {
  const std::string_view token = token_of(value);
  if (token == "null") return true;
  const char* const end = token.data() + token.size();
  const bool number = !token.empty() && (is_digit(token.front()) || token.front() == '-');
  std::int64_t whole = 0;
  const auto integer = std::from_chars(token.data(), end, whole);
  bool good = number && integer.ec == std::errc() && integer.ptr == end;
  if (number && !good && token.find_first_of(".eE") != std::string_view::npos) {
    constexpr double kLimit = 9.2e18;
    double real = 0;
    const auto parsed = std::from_chars(token.data(), end, real);
    good = parsed.ec == std::errc() && parsed.ptr == end && real == std::floor(real) &&
           std::fabs(real) < kLimit;
    if (good) whole = static_cast<std::int64_t>(real);
  }
  if (!good || whole < least) {
    return refuse(param, fmt::format("{} must be a whole number of at least {} that fits 64 bits; "
                                     "correct it or leave it out.",
                                     param, least));
  }
  into = whole;
  return true;
}

void Reader::note_null_cap(ondemand::value& value) {
  const std::string_view token = token_of(value);
  if (token == "null") null_cap_ = Splice{offset_of(token), token.size(), {}};
}

bool Reader::read_inputs(ondemand::value value) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return broken(error);
  if (type != ondemand::json_type::array) return count_value(value, 1);
  ondemand::array list;
  if (const auto error = value.get_array().get(list)) return broken(error);
  Inputs inputs;
  for (auto element : list) {
    ondemand::value item;
    if (const auto error = element.get(item)) return broken(error);
    if (!read_input_item(item, inputs)) return false;
  }
  add_bytes(saturating_multiply(inputs.tokens, kBytesPerGivenToken));
  if (inputs.tokens > 0 && !inputs.text) facts_.demand.input_tokens = inputs.tokens;
  prompts_ = std::max<std::int64_t>(inputs.items, 1);
  return true;
}

bool Reader::read_input_item(ondemand::value value, Inputs& inputs) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return broken(error);
  if (type == ondemand::json_type::number) {
    ++inputs.tokens;
    return true;
  }
  ++inputs.items;
  if (type != ondemand::json_type::array) {
    inputs.text = true;
    return count_value(value, 1);
  }
  ondemand::array list;
  if (const auto error = value.get_array().get(list)) return broken(error);
  for (auto element : list) {
    ondemand::value item;
    if (const auto error = element.get(item)) return broken(error);
    if (const auto error = item.type().get(type)) return broken(error);
    if (type == ondemand::json_type::number) {
      ++inputs.tokens;
      continue;
    }
    inputs.text = true;
    if (!count_value(item, 2)) return false;
  }
  return true;
}

bool Reader::count_messages(ondemand::value value) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return broken(error);
  if (type != ondemand::json_type::array) return count_value(value, 1);
  ondemand::array messages;
  if (const auto error = value.get_array().get(messages)) return broken(error);
  for (auto element : messages) {
    ondemand::value message;
    if (const auto error = element.get(message)) return broken(error);
    if (const auto error = message.type().get(type)) return broken(error);
    add_bytes(kMessageBytes);
    if (type != ondemand::json_type::object) {
      if (!count_value(message, 2)) return false;
      continue;
    }
    ondemand::object members;
    if (const auto error = message.get_object().get(members)) return broken(error);
    if (!count_message(members)) return false;
  }
  return true;
}

bool Reader::count_message(ondemand::object message) {
  for (auto field : message) {
    ondemand::value value;
    ondemand::raw_json_string key;
    if (const auto error = field.key().get(key)) return broken(error);
    if (const auto error = field.value().get(value)) return broken(error);
    if (key.unsafe_is_equal("role")) continue;
    ondemand::json_type type{};
    if (const auto error = value.type().get(type)) return broken(error);
    if (type == ondemand::json_type::array && key.unsafe_is_equal("content")) {
      ondemand::array parts;
      if (const auto error = value.get_array().get(parts)) return broken(error);
      if (!count_parts(parts)) return false;
    } else if (!count_value(value, 3)) {
      return false;
    }
  }
  return true;
}

bool Reader::count_parts(ondemand::array parts) {
  for (auto element : parts) {
    ondemand::value part;
    ondemand::json_type type{};
    if (const auto error = element.get(part)) return broken(error);
    if (const auto error = part.type().get(type)) return broken(error);
    if (type != ondemand::json_type::object) {
      if (!count_value(part, 4)) return false;
      continue;
    }
    ondemand::object members;
    if (const auto error = part.get_object().get(members)) return broken(error);
    if (!count_part(members)) return false;
  }
  return true;
}

bool Reader::count_part(ondemand::object part) {
  for (auto field : part) {
    ondemand::value value;
    ondemand::raw_json_string key;
    if (const auto error = field.key().get(key)) return broken(error);
    if (const auto error = field.value().get(value)) return broken(error);
    if (key.unsafe_is_equal("type")) continue;
    if (key.unsafe_is_equal("image_url") || key.unsafe_is_equal("image")) {
      add_bytes(kImageBytes);
    } else if (key.unsafe_is_equal("input_audio")) {
      if (!count_raw(value, kAudioBytesPerTextByte)) return false;
    } else if (key.unsafe_is_equal("file")) {
      if (!count_raw(value, kFileBytesPerTextByte)) return false;
    } else if (!count_value(value, 5)) {
      return false;
    }
  }
  return true;
}

bool Reader::count_value(ondemand::value value, int depth) {
  if (depth > kMaxDepth) {
    return refuse("", fmt::format("The request body nests deeper than {} levels.", kMaxDepth));
  }
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return broken(error);
  switch (type) {
    case ondemand::json_type::string: {
      const std::string_view token = token_of(value);
      if (token.size() >= 2) add_bytes(unescaped_size(token.substr(1, token.size() - 2)));
      return true;
    }
    case ondemand::json_type::array: {
      ondemand::array list;
      if (const auto error = value.get_array().get(list)) return broken(error);
      for (auto element : list) {
        ondemand::value item;
        if (const auto error = element.get(item)) return broken(error);
        if (!count_value(item, depth + 1)) return false;
      }
      return true;
    }
    case ondemand::json_type::object: {
      ondemand::object members;
      if (const auto error = value.get_object().get(members)) return broken(error);
      for (auto field : members) {
        ondemand::value member;
        if (const auto error = field.value().get(member)) return broken(error);
        if (!count_value(member, depth + 1)) return false;
      }
      return true;
    }
    case ondemand::json_type::number:
    case ondemand::json_type::boolean:
      add_bytes(static_cast<std::int64_t>(token_of(value).size()));
      return true;
    case ondemand::json_type::null: return true;
  }
  return true;
}

bool Reader::count_raw(ondemand::value value, std::int64_t divisor) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return broken(error);
  std::string_view raw;
  if (type == ondemand::json_type::object) {
    ondemand::object object;
    if (const auto error = value.get_object().get(object)) return broken(error);
    if (const auto error = object.raw_json().get(raw)) return broken(error);
  } else if (type == ondemand::json_type::array) {
    ondemand::array array;
    if (const auto error = value.get_array().get(array)) return broken(error);
    if (const auto error = array.raw_json().get(raw)) return broken(error);
  } else {
    raw = token_of(value);
  }
  if (raw != "null") add_bytes(static_cast<std::int64_t>(raw.size()) / divisor + 1);
  return true;
}

void Reader::read_end_user(ondemand::value value) {
  std::string_view user;
  if (value.get_string().get(user) != simdjson::SUCCESS) return;
  std::size_t length = std::min(user.size(), kMaxEndUserLength);
  // Not through the middle of a UTF-8 character.
  while (length > 0 && length < user.size() &&
         (static_cast<unsigned char>(user[length]) & 0xc0U) == 0x80U) {
    --length;
  }
  facts_.end_user = std::string(user.substr(0, length));
}

void Reader::finish() {
  Demand& demand = facts_.demand;
  if (facts_.operation == Operation::embedding) {
    demand.produces_output = false;
    demand.streaming = false;
    return;
  }
  demand.max_output_tokens = max_completion_tokens_ ? max_completion_tokens_ : max_tokens_;
  if (!demand.max_output_tokens) {
    // A second member of the name would leave it to the provider which of them holds.
    facts_.propose_cap = null_cap_ ? null_cap_ : Splice{opening_ + 1, 0, "max_tokens"};
  }
  demand.choices = saturating_multiply(std::max(n_.value_or(1), best_of_.value_or(1)), prompts_);
  if (demand.streaming && !facts_.include_usage_asked) ask_for_usage();
}

void Reader::ask_for_usage() {
  facts_.ask_usage = include_usage_at_
                         ? std::move(include_usage_at_)
                         : Splice{opening_ + 1, 0, "\"stream_options\":{\"include_usage\":true},"};
}

}  // namespace

std::expected<RequestFacts, RequestFault> read_openai_request(Operation operation,
                                                              std::string_view body) {
  if (operation == Operation::list_models) {
    RequestFacts facts;
    facts.operation = operation;
    facts.demand.produces_output = false;
    return facts;
  }
  Reader reader(operation, body);
  if (body.size() > kKeptParserCapacity) {
    ondemand::parser parser;
    return reader.run(parser);
  }
  static thread_local ondemand::parser parser;
  return reader.run(parser);
}

}  // namespace weir::dialects
