// SPDX-License-Identifier: Apache-2.0
#include "emulator/model_request.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <array>

namespace weir::emulator {
namespace {

using simdjson::dom::element;

constexpr std::uint64_t kDigestStart = 0xcbf29ce484222325ULL;

/// FNV-1a. Source: http://www.isthe.com/chongo/tech/comp/fnv/ (public domain).
std::uint64_t digest(std::uint64_t seed, std::string_view text) {
  for (const char letter : text) {
    seed ^= static_cast<unsigned char>(letter);
    seed *= 0x100000001b3ULL;
  }
  return seed;
}

std::unexpected<Error> wrong(std::string_view parameter, std::string_view what) {
  return fail(ErrorCode::malformed, fmt::format("Invalid '{}': {}.", parameter, what),
              Origin::client);
}

void read_text(ModelRequest& request, std::string_view text) {
  request.input_tokens += tokens_of(text);
  request.digest = digest(request.digest, text);
}

/// A message's content: text, a list of parts of which the texts count, or null.
bool read_content(ModelRequest& request, const element& content, std::string& text) {
  std::string_view plain;
  if (content.get(plain) == simdjson::SUCCESS) {
    read_text(request, plain);
    text += plain;
    return true;
  }
  simdjson::dom::array parts;
  if (content.get(parts) != simdjson::SUCCESS) return content.is_null();
  for (const element part : parts) {
    if (part["text"].get(plain) == simdjson::SUCCESS) {
      read_text(request, plain);
      text += plain;
    }
  }
  return true;
}

/// What the decision about tools needs to know of the messages.
struct LastMessage {
  std::string role;
  std::string text;
};

Result<LastMessage> read_messages(ModelRequest& request, const element& top) {
  simdjson::dom::array messages;
  if (top["messages"].get(messages) != simdjson::SUCCESS) {
    return wrong("messages", "give an array of messages");
  }
  if (messages.size() == 0) return wrong("messages", "give at least one message");
  LastMessage last;
  for (const element message : messages) {
    std::string_view role;
    if (message["role"].get(role) != simdjson::SUCCESS) {
      return wrong("messages", "each message has a role");
    }
    request.input_tokens += 4;
    request.digest = digest(request.digest, role);
    last.role = role;
    last.text.clear();
    element content;
    if (message["content"].get(content) == simdjson::SUCCESS &&
        !read_content(request, content, last.text)) {
      return wrong("messages", "a message's content is text or an array of parts");
    }
    simdjson::dom::array calls;
    if (message["tool_calls"].get(calls) == simdjson::SUCCESS) {
      read_text(request, simdjson::minify(calls));
    }
  }
  return last;
}

Result<LastMessage> read_prompt(ModelRequest& request, const element& top) {
  LastMessage last{.role = "user", .text = {}};
  element prompt;
  if (top["prompt"].get(prompt) != simdjson::SUCCESS) return wrong("prompt", "give a prompt");
  std::string_view plain;
  if (prompt.get(plain) == simdjson::SUCCESS) {
    read_text(request, plain);
    return last;
  }
  simdjson::dom::array several;
  if (prompt.get(several) != simdjson::SUCCESS || several.size() == 0) {
    return wrong("prompt", "give a text or an array of texts");
  }
  for (const element each : several) {
    if (each.get(plain) != simdjson::SUCCESS) return wrong("prompt", "give texts");
    read_text(request, plain);
  }
  return last;
}

Result<void> read_inputs(ModelRequest& request, const element& top) {
  element input;
  if (top["input"].get(input) != simdjson::SUCCESS) return wrong("input", "give an input");
  std::string_view plain;
  if (input.get(plain) == simdjson::SUCCESS) {
    read_text(request, plain);
    request.inputs.push_back(digest(kDigestStart, plain));
    return {};
  }
  simdjson::dom::array several;
  if (input.get(several) != simdjson::SUCCESS || several.size() == 0 ||
      several.size() > kMaxInputs) {
    return wrong("input", "give a text or an array of 1 to 2048 texts");
  }
  for (const element each : several) {
    if (each.get(plain) != simdjson::SUCCESS) return wrong("input", "give texts");
    read_text(request, plain);
    request.inputs.push_back(digest(kDigestStart, plain));
  }
  return {};
}

/// A value of the type a tool's parameter asks for; always the same one.
std::string value_for(const element& parameter) {
  simdjson::dom::array choices;
  if (parameter["enum"].get(choices) == simdjson::SUCCESS && choices.size() > 0) {
    return simdjson::minify(choices.at(0).value_unsafe());
  }
  std::string_view type;
  if (parameter["type"].get(type) != simdjson::SUCCESS) return "null";
  if (type == "string") return "\"Madrid\"";
  if (type == "integer" || type == "number") return "7";
  if (type == "boolean") return "true";
  if (type == "array") return "[]";
  if (type == "object") return "{}";
  return "null";
}

std::string arguments_for(const element& function) {
  std::string arguments = "{";
  simdjson::dom::object properties;
  if (function["parameters"]["properties"].get(properties) == simdjson::SUCCESS) {
    for (const auto [key, parameter] : properties) {
      if (arguments.size() > 1) arguments += ',';
      // minify of a string element quotes it; a key is only text, so the key is written by hand.
      arguments += '"';
      for (const char letter : key) {
        if (letter == '"' || letter == '\\') arguments += '\\';
        arguments += letter;
      }
      arguments += "\":" + value_for(parameter);
    }
  }
  return arguments + "}";
}

/// The name a `tool_choice` demands; empty where it leaves the choice.
std::string_view demanded_tool(const element& top) {
  std::string_view demanded;
  if (top["tool_choice"]["function"]["name"].get(demanded) != simdjson::SUCCESS) return {};
  return demanded;
}

/// The first tool is called if `tool_choice` is "required", the named one if it names one, and
/// otherwise the one whose name, or the word "tool", stands in the user's last message.
void read_tools(ModelRequest& request, const element& top, const LastMessage& last) {
  simdjson::dom::array tools;
  if (top["tools"].get(tools) != simdjson::SUCCESS || tools.size() == 0) return;
  request.input_tokens += tokens_of(simdjson::minify(tools));
  std::string_view choice;
  if (top["tool_choice"].get(choice) != simdjson::SUCCESS) choice = "auto";
  if (choice == "none") return;
  const std::string_view demanded = demanded_tool(top);
  for (const element tool : tools) {
    element function;
    std::string_view name;
    if (tool["function"].get(function) != simdjson::SUCCESS ||
        function["name"].get(name) != simdjson::SUCCESS || name.empty()) {
      continue;
    }
    const bool asked = last.role == "user" && (last.text.find(name) != std::string::npos ||
                                               last.text.find("tool") != std::string::npos);
    if (demanded.empty() ? (choice == "required" || asked) : demanded == name) {
      request.tool = name;
      request.tool_arguments = arguments_for(function);
      return;
    }
  }
}

Result<void> read_sizes(ModelRequest& request, const element& top) {
  for (const char* key : {"max_tokens", "max_completion_tokens"}) {
    element value;
    if (top[key].get(value) != simdjson::SUCCESS || value.is_null()) continue;
    std::int64_t tokens = 0;
    if (value.get(tokens) != simdjson::SUCCESS || tokens < 0 || tokens > kMaxOutput) {
      return wrong(key, "give a whole number from 0 to 100000000");
    }
    request.max_output_tokens = tokens;
  }
  element choices;
  if (top["n"].get(choices) == simdjson::SUCCESS && !choices.is_null()) {
    if (choices.get(request.choices) != simdjson::SUCCESS || request.choices < 1 ||
        request.choices > kMaxChoices) {
      return wrong("n", "give a whole number from 1 to 16");
    }
  }
  return {};
}

Result<void> read_embedding(ModelRequest& request, const element& top) {
  const auto inputs = read_inputs(request, top);
  if (!inputs) return inputs;
  std::string_view format;
  if (top["encoding_format"].get(format) == simdjson::SUCCESS) request.base64 = format == "base64";
  element dimensions;
  if (top["dimensions"].get(dimensions) == simdjson::SUCCESS &&
      (dimensions.get(request.dimensions) != simdjson::SUCCESS || request.dimensions < 1 ||
       request.dimensions > 4096)) {
    return wrong("dimensions", "give a whole number from 1 to 4096");
  }
  return {};
}

}  // namespace

Result<ModelRequest> read_model_request(Operation operation, std::string_view body) {
  simdjson::dom::parser parser;
  element top;
  // The body stands in front of the padding that simdjson needs, so it is parsed in place.
  const auto failed = parser.parse(body.data(), body.size(), false).get(top);
  if (failed != simdjson::SUCCESS || !top.is_object()) {
    return fail(ErrorCode::malformed, "We could not parse the JSON body of your request.",
                Origin::client);
  }
  ModelRequest request;
  request.operation = operation;
  request.digest = kDigestStart;
  std::string_view model;
  if (top["model"].get(model) != simdjson::SUCCESS || model.empty()) {
    return wrong("model", "give a model");
  }
  request.model = model;
  if (operation == Operation::embedding) {
    const auto read = read_embedding(request, top);
    if (!read) return fail(read.error());
    return request;
  }
  const auto last =
      operation == Operation::chat ? read_messages(request, top) : read_prompt(request, top);
  if (!last) return fail(last.error());
  const auto sizes = read_sizes(request, top);
  if (!sizes) return fail(sizes.error());
  if (operation == Operation::chat) read_tools(request, top, *last);
  bool flag = false;
  if (top["stream"].get(flag) == simdjson::SUCCESS) request.stream = flag;
  if (top["stream_options"]["include_usage"].get(flag) == simdjson::SUCCESS) {
    request.include_usage = flag;
  }
  return request;
}

}  // namespace weir::emulator
