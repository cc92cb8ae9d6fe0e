// SPDX-License-Identifier: Apache-2.0
#include "emulator/handler.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>
#include <variant>

#include "emulator/limit_text.h"
#include "emulator/model_request.h"
#include "emulator/model_session.h"
#include "emulator/settings.h"
#include "http/writer.h"

namespace weir::emulator {
namespace {

constexpr std::string_view kControl = "/emulator/v1/";
constexpr std::string_view kModels = "/v1/models";

/// An exchange that was answered within the call.
class Answered final : public http::Session {
 public:
  void on_peer_gone() override {}
};

std::unique_ptr<http::Session> answer(const http::Request& request, http::Responder& responder,
                                      std::uint16_t status, std::string_view body,
                                      std::string_view fields = {}) {
  std::string head;
  http::append_status_line(head, status);
  http::append_field(head, "content-type", "application/json");
  http::append_field(head, "content-length", static_cast<std::uint64_t>(body.size()));
  head += fields;
  if (!request.head.keep_alive) http::append_field(head, "connection", "close");
  http::end_head(head);
  const std::array<std::string_view, 2> pieces = {head, body};
  responder.write(pieces);
  responder.finish(request.head.keep_alive);
  return std::make_unique<Answered>();
}

std::unique_ptr<http::Session> not_found(const http::Request& request, http::Responder& responder) {
  return answer(
      request, responder, 404,
      error_body(fmt::format("Invalid URL ({} {})", request.head.method, request.head.path()),
                 "invalid_request_error"));
}

std::unique_ptr<http::Session> not_allowed(const http::Request& request,
                                           http::Responder& responder) {
  return answer(
      request, responder, 405,
      error_body(fmt::format("Not allowed to {} on {}", request.head.method, request.head.path()),
                 "invalid_request_error"));
}

std::string common_fields(std::uint64_t serial) {
  Rng rng(serial);
  return fmt::format(
      "x-request-id: req_{:016x}{:016x}\r\nopenai-organization: org-emulator\r\n"
      "openai-version: 2020-10-01\r\n",
      rng.next(), serial);
}

std::optional<Operation> operation_of(std::string_view path) {
  if (path == "/v1/chat/completions") return Operation::chat;
  if (path == "/v1/completions") return Operation::completion;
  if (path == "/v1/embeddings") return Operation::embedding;
  return std::nullopt;
}

bool has_key(const http::RequestHead& head) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view given = head.fields.find("authorization");
  return given.size() > kBearer.size() && given.starts_with(kBearer);
}

std::string model_json(std::string_view name) {
  std::string escaped;
  http::append_json_text(escaped, name);
  return fmt::format(R"({{"id":"{}","object":"model","created":1686935002,"owned_by":"emulator"}})",
                     escaped);
}

}  // namespace

std::optional<std::string> Handler::on_head(const http::RequestHead& /*head*/) {
  return std::nullopt;
}

std::unique_ptr<http::Session> Handler::on_request(const http::Request& request,
                                                   http::Responder& responder) {
  const std::string_view path = request.head.path();
  if (path.starts_with(kControl)) {
    return control(path.substr(kControl.size()), request, responder);
  }
  if (provider_->require_key() && !has_key(request.head)) {
    return answer(request, responder, 401,
                  error_body("You didn't provide an API key. Send it in the header "
                             "`Authorization: Bearer KEY`.",
                             "invalid_request_error", "invalid_api_key"));
  }
  if (path == kModels || path.starts_with("/v1/models/")) return models(path, request, responder);
  const auto operation = operation_of(path);
  if (!operation) return not_found(request, responder);
  if (request.head.method != "POST") return not_allowed(request, responder);
  return model(*operation, request, responder);
}

std::unique_ptr<http::Session> Handler::models(std::string_view path, const http::Request& request,
                                               http::Responder& responder) {
  if (request.head.method != "GET") return not_allowed(request, responder);
  if (path != kModels) {
    return answer(request, responder, 200, model_json(path.substr(kModels.size() + 1)));
  }
  std::string body = R"({"object":"list","data":[)";
  for (const auto& name : provider_->models()) {
    if (body.back() == '}') body += ',';
    body += model_json(name);
  }
  return answer(request, responder, 200, body + "]}");
}

std::unique_ptr<http::Session> Handler::model(Operation operation, const http::Request& request,
                                              http::Responder& responder) {
  auto read = read_model_request(operation, request.body);
  if (!read) {
    return answer(request, responder, 400, error_body(read.error().text, "invalid_request_error"));
  }
  Begun begun = provider_->begin(*read, loop_.now());
  if (const auto* turned = std::get_if<Turned>(&begun.what)) {
    std::string fields = common_fields(turned->serial) + begun.fields;
    append_retry_fields(fields, turned->refusal);
    return answer(request, responder, 429, refusal_body(turned->refusal), fields);
  }
  const auto& attempt = std::get<Attempt>(begun.what);
  return std::make_unique<ModelSession>(loop_, *provider_, responder, std::move(*read), attempt,
                                        common_fields(attempt.serial) + begun.fields, request.head);
}

std::unique_ptr<http::Session> Handler::control(std::string_view what, const http::Request& request,
                                                http::Responder& responder) {
  const std::string_view method = request.head.method;
  const Instant now = loop_.now();
  const auto put = [&](auto read, auto set) {
    auto value = read(request.body);
    if (!value) {
      return answer(request, responder, 400,
                    error_body(value.error().text, "invalid_request_error"));
    }
    set(*value);
    return answer(request, responder, 200, "{}");
  };
  if (what == "counters") {
    if (method != "GET") return not_allowed(request, responder);
    return answer(request, responder, 200, provider_->counters(now));
  }
  if (what == "reset") {
    if (method != "POST" && method != "PUT") return not_allowed(request, responder);
    provider_->reset(now);
    return answer(request, responder, 200, "{}");
  }
  if (what != "rules" && what != "latency" && what != "faults") {
    return not_found(request, responder);
  }
  if (method == "GET") {
    return answer(request, responder, 200,
                  what == "rules"     ? provider_->rules()
                  : what == "latency" ? provider_->latency()
                                      : provider_->faults());
  }
  if (method != "PUT") return not_allowed(request, responder);
  if (what == "rules") {
    return put(&read_rules, [&](const auto& rules) { provider_->set_rules(rules, now); });
  }
  if (what == "latency") {
    return put(&read_latency, [&](const auto& latency) { provider_->set_latency(latency); });
  }
  return put(&read_faults, [&](const auto& faults) { provider_->set_faults(faults); });
}

}  // namespace weir::emulator
