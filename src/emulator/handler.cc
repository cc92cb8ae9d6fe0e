// SPDX-License-Identifier: Apache-2.0
#include "emulator/handler.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
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

void write_answer(bool keep_alive, http::Responder& responder, std::uint16_t status,
                  std::string_view body, std::string_view fields) {
  std::string head;
  http::append_status_line(head, status);
  http::append_field(head, "content-type", "application/json");
  http::append_field(head, "content-length", static_cast<std::uint64_t>(body.size()));
  head += fields;
  if (!keep_alive) http::append_field(head, "connection", "close");
  http::end_head(head);
  const std::array<std::string_view, 2> pieces = {head, body};
  responder.write(pieces);
  responder.finish(keep_alive);
}

std::unique_ptr<http::Session> answer(const http::Request& request, http::Responder& responder,
                                      std::uint16_t status, std::string_view body,
                                      std::string_view fields = {}) {
  write_answer(request.head.keep_alive, responder, status, body, fields);
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

void write_refusal(bool keep_alive, http::Responder& responder, const Turned& turned,
                   const std::string& limit_fields);

/// A request in the provider's wait queue; once it is its turn, the session that answers it.
class WaitingSession final : public http::Session {
 public:
  WaitingSession(http::Loop& loop, Provider& provider, http::Responder& responder,
                 ModelRequest request, const Waits& waits, const http::RequestHead& head)
      : loop_(loop),
        provider_(provider),
        responder_(responder),
        request_(std::move(request)),
        waits_(waits) {
    head_.keep_alive = head.keep_alive;
    head_.minor_version = head.minor_version;
    responder_.set_timer(saturating_add(loop_.now(), kKnock));
  }
  ~WaitingSession() override { leave(); }
  WaitingSession(const WaitingSession&) = delete;
  WaitingSession& operator=(const WaitingSession&) = delete;

  void on_peer_gone() override {
    if (model_) return model_->on_peer_gone();
    leave();
  }
  void on_writable() override {
    if (model_) model_->on_writable();
  }
  void on_timer() override {
    if (model_) return model_->on_timer();
    if (over_) return;
    Begun begun = provider_.knock(waits_, request_, loop_.now());
    if (const auto* again = std::get_if<Waits>(&begun.what)) {
      waits_ = *again;
      responder_.set_timer(saturating_add(loop_.now(), kKnock));
      return;
    }
    over_ = true;
    if (const auto* turned = std::get_if<Turned>(&begun.what)) {
      return write_refusal(head_.keep_alive, responder_, *turned, begun.fields);
    }
    const auto& attempt = std::get<Attempt>(begun.what);
    model_ =
        std::make_unique<ModelSession>(loop_, provider_, responder_, std::move(request_), attempt,
                                       common_fields(attempt.serial) + begun.fields, head_);
  }

 private:
  /// Sessions on all loops share the queue, so each asks for itself.
  static constexpr Duration kKnock = std::chrono::milliseconds(10);
  void leave() {
    if (!std::exchange(over_, true)) provider_.leave(waits_, loop_.now());
  }

  http::Loop& loop_;
  Provider& provider_;
  http::Responder& responder_;
  ModelRequest request_;
  Waits waits_;
  http::RequestHead head_;  ///< only how to end the answer
  bool over_ = false;
  std::unique_ptr<ModelSession> model_;
};

void write_refusal(bool keep_alive, http::Responder& responder, const Turned& turned,
                   const std::string& limit_fields) {
  std::string fields = common_fields(turned.serial) + limit_fields;
  append_retry_fields(fields, turned.refusal);
  write_answer(keep_alive, responder, refusal_status(turned.refusal), refusal_body(turned.refusal),
               fields);
}

/// Whole seconds of X-DashScope-Wait-Timeout; anything else counts as not said.
std::optional<Duration> patience_of(const http::RequestHead& head) {
  const std::string_view text = head.fields.find("x-dashscope-wait-timeout");
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (seconds < 0 || seconds > 86'400) return std::nullopt;
  return std::chrono::seconds(seconds);
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
  Begun begun = provider_->begin(*read, patience_of(request.head), loop_.now());
  if (const auto* turned = std::get_if<Turned>(&begun.what)) {
    write_refusal(request.head.keep_alive, responder, *turned, begun.fields);
    return std::make_unique<Answered>();
  }
  if (const auto* waits = std::get_if<Waits>(&begun.what)) {
    return std::make_unique<WaitingSession>(loop_, *provider_, responder, std::move(*read), *waits,
                                            request.head);
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
