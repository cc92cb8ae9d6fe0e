// SPDX-License-Identifier: Apache-2.0
#include "gateway/handler.h"

#include <utility>

#include "gateway/answer.h"
#include "gateway/limit_fields.h"
#include "gateway/models.h"
#include "gateway/session.h"
#include "gateway/wishes.h"
#include "http/writer.h"

namespace weir::gateway {
namespace {

constexpr std::size_t kMaxSpareBuffers = 256;
constexpr std::size_t kMaxSpareCapacity = 16 << 10;

constexpr std::string_view kDrainingText = "The gateway is shutting down; send the request again.";
constexpr std::string_view kUnauthorizedText =
    "The key is missing or not valid; send it as Authorization: Bearer.";
constexpr std::string_view kUnknownPathText =
    "This path is not served; the base URL of an OpenAI client must end in /v1.";

/// An answer that was complete when it was made; nothing is left to do.
class Answered final : public http::Session {
 public:
  void on_peer_gone() override {}
};

std::string json_answer(std::string_view body, std::string_view trace_id, bool keep_alive,
                        const governor::CallerLimits& limits) {
  std::string out;
  http::append_status_line(out, 200);
  http::append_field(out, "content-type", "application/json");
  http::append_field(out, "content-length", body.size());
  http::append_field(out, "x-weir-trace-id", trace_id);
  http::append_field(out, "x-request-id", trace_id);
  append_limit_fields(out, limits);
  if (!keep_alive) http::append_field(out, "connection", "close");
  http::end_head(out);
  out += body;
  return out;
}

}  // namespace

void SessionBuffers::clear() {
  passed.clear();
  provider_head.clear();
  client_head.clear();
  relayed.clear();
  pieces.clear();
}

LoopContext::LoopContext(Gateway& gateway_in, http::Loop& loop_in, http::Connector& connector_in)
    : gateway(gateway_in),
      loop(loop_in),
      connector(connector_in),
      mailbox(gateway_in.dispatcher().make_mailbox(loop_in)),
      rng(gateway_in.next_seed()),
      series(gateway_in.meters()) {
  current_plan();
}

const std::shared_ptr<const Plan>& LoopContext::current_plan() {
  return plan_version_ == gateway.plan_version() ? plan_ : fetch_plan();
}

const std::shared_ptr<const Plan>& LoopContext::fetch_plan() {
  // The version is read first: should a reload come in between, the next call fetches again.
  plan_version_ = gateway.plan_version();
  keys.forget();
  plan_ = gateway.plan();
  series.reset(plan_.get());
  return plan_;
}

std::unique_ptr<SessionBuffers> LoopContext::take_buffers() {
  if (spare_.empty()) return std::make_unique<SessionBuffers>();
  auto buffers = std::move(spare_.back());
  spare_.pop_back();
  return buffers;
}

void LoopContext::give_back(std::unique_ptr<SessionBuffers> buffers) {
  if (!buffers || spare_.size() >= kMaxSpareBuffers) return;
  const std::size_t kept = buffers->passed.capacity() + buffers->provider_head.capacity() +
                           buffers->client_head.capacity();
  if (kept > kMaxSpareCapacity) return;
  buffers->clear();
  spare_.push_back(std::move(buffers));
}

void KeyMemory::forget() {
  if (plan_ == nullptr) return;
  for (auto& entry : entries_) entry = Entry{};
  plan_ = nullptr;
}

const config::VirtualKey* KeyMemory::find(const Plan& plan, std::string_view presented) {
  if (plan_ != &plan) {
    forget();
    plan_ = &plan;
  }
  // The slot depends on what was presented and on no secret.
  std::uint32_t hash = 2166136261U;
  for (const char c : presented) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  Entry& entry = entries_[(hash ^ (hash >> 16U)) % entries_.size()];
  if (entry.key != nullptr && entry.presented.size() == presented.size()) {
    unsigned difference = 0;
    for (std::size_t i = 0; i < presented.size(); ++i) {
      difference |= static_cast<unsigned>(static_cast<unsigned char>(presented[i]) ^
                                          static_cast<unsigned char>(entry.presented[i]));
    }
    if (difference == 0) return entry.key;
  }
  const auto index = config::find_key(plan.config(), presented);
  if (!index) return nullptr;
  entry.presented = presented;
  entry.key = &plan.config().keys[*index];
  return entry.key;
}

std::optional<Identity> identify(KeyMemory& keys, const Plan& plan, const http::RequestHead& head,
                                 const Clock& clock) {
  if (!plan.config().auth_required) return Identity{};
  const std::string_view presented = presented_key(head);
  if (presented.empty()) return std::nullopt;
  const config::VirtualKey* key = keys.find(plan, presented);
  if (key == nullptr) return std::nullopt;
  if (key->expires && *key->expires <= clock.wall()) return std::nullopt;
  return Identity{key};
}

std::string make_trace_id(Rng& rng) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string id(32, '0');
  for (std::size_t word = 0; word < 2; ++word) {
    std::uint64_t bits = rng.next();
    for (std::size_t digit = 0; digit < 16; ++digit) {
      id[word * 16 + digit] = kDigits[bits & 15U];
      bits >>= 4U;
    }
  }
  return id;
}

Handler::Handler(Gateway& gateway, http::Loop& loop, http::Connector& connector)
    : context_(gateway, loop, connector) {}

governor::CallerLimits Handler::limits_of(const Plan& plan, const Identity& identity) {
  const NodeId leaf = identity.key != nullptr ? identity.key->node : plan.config().default_tenant;
  return context_.gateway.dispatcher()
      .caller_limits(leaf, ProfileId{}, plan, context_.gateway.clock().now())
      .value_or(governor::CallerLimits{});
}

std::string Handler::refuse_early(Problem problem, std::string_view message, std::string_view allow,
                                  const governor::CallerLimits* limits) {
  context_.gateway.meters().early_refusals.with({row(problem).code}).add();
  const std::string trace_id = make_trace_id(context_.rng);
  ErrorAnswer answer;
  answer.problem = problem;
  answer.message = message;
  answer.trace_id = trace_id;
  answer.allow = allow;
  answer.limits = limits;
  if (row(problem).retry_hint) answer.retry_after = spread(context_.rng);
  if (context_.refusal_lines.take(context_.loop.now())) {
    context_.gateway.log().write(telemetry::LogLevel::info, "refused_early",
                                 {{"code", row(problem).code},
                                  {"status", std::int64_t{status_of(answer)}},
                                  {"trace_id", std::string_view(trace_id)},
                                  {"suppressed", context_.refusal_lines.take_suppressed()}});
  }
  std::string out;
  append_error_answer(out, answer, false);
  return out;
}

std::optional<std::string> Handler::on_head(const http::RequestHead& head) {
  if (context_.gateway.draining()) {
    return refuse_early(Problem::draining, kDrainingText);
  }
  if (asks_upgrade(head)) {
    return refuse_early(Problem::upgrade_unsupported,
                        "WebSocket and other protocol upgrades are not in this version; use the "
                        "HTTP streaming API.");
  }
  const Routed routed = find_route(head);
  if (!routed.route) {
    if (routed.problem == Problem::method_not_allowed) {
      return refuse_early(routed.problem, "This path is not served with this method; see Allow.",
                          routed.allow);
    }
    if (routed.problem == Problem::not_built) {
      const std::string message = "The path " + std::string(routed.unbuilt) +
                                  " is not in this version; GET /v1/models and POST "
                                  "/v1/chat/completions, /v1/completions and /v1/embeddings are.";
      return refuse_early(routed.problem, message);
    }
    return refuse_early(routed.problem, kUnknownPathText);
  }
  const auto& plan = context_.current_plan();
  const auto identity = identify(context_.keys, *plan, head, context_.gateway.clock());
  if (!identity) {
    return refuse_early(Problem::unauthorized, kUnauthorizedText);
  }
  if (const auto asked = unbuilt_wish(head.fields); !asked.empty()) {
    const governor::CallerLimits limits = limits_of(*plan, *identity);
    const std::string message =
        "The request header " + std::string(asked) + " is not in this version; leave it out.";
    return refuse_early(Problem::not_built, message, {}, &limits);
  }
  if (body_encoded(head)) {
    const governor::CallerLimits limits = limits_of(*plan, *identity);
    return refuse_early(Problem::unsupported_encoding,
                        "Compressed request bodies are not supported; send the body without "
                        "Content-Encoding.",
                        {}, &limits);
  }
  return std::nullopt;
}

void Handler::on_accept_failure(std::string_view why) {
  context_.gateway.meters().accept_failures.with({}).add();
  if (!context_.accept_lines.take(context_.loop.now())) return;
  context_.gateway.log().write(
      telemetry::LogLevel::error, "accept_failed",
      {{"reason", why},
       {"fix", std::string_view("clients wait to be accepted; raise the process's limit of open "
                                "files (LimitNOFILE, ulimit -n) or lower "
                                "server.limits.connections")},
       {"suppressed", context_.accept_lines.take_suppressed()}});
}

std::string Handler::on_refusal(std::uint16_t status, const Error& error) {
  return refuse_early(problem_of_status(status), error.text);
}

std::unique_ptr<http::Session> Handler::on_request(const http::Request& request,
                                                   http::Responder& responder) {
  // on_head let it pass; what was true then may have changed while the body came.
  const auto refused = [&](Problem problem, std::string_view message) {
    const std::string out = refuse_early(problem, message);
    const std::string_view piece = out;
    responder.write({&piece, 1});
    responder.finish(false);
    return std::make_unique<Answered>();
  };
  if (context_.gateway.draining()) return refused(Problem::draining, kDrainingText);
  const Routed routed = find_route(request.head);
  if (!routed.route) return refused(routed.problem, kUnknownPathText);
  const std::shared_ptr<const Plan> plan = context_.current_plan();
  const auto identity = identify(context_.keys, *plan, request.head, context_.gateway.clock());
  if (!identity) return refused(Problem::unauthorized, kUnauthorizedText);
  const Route& route = *routed.route;
  if (route.kind == RouteKind::call) {
    auto session = std::make_unique<Session>(context_, responder, route);
    session->start(request, plan, *identity);
    return session;
  }
  const std::string trace_id = make_trace_id(context_.rng);
  const governor::CallerLimits limits = limits_of(*plan, *identity);
  std::string out;
  if (route.kind == RouteKind::list_models) {
    out = json_answer(models_body(*plan, *identity), trace_id, request.head.keep_alive, limits);
  } else if (const std::string body = model_body(*plan, *identity, route.model); !body.empty()) {
    out = json_answer(body, trace_id, request.head.keep_alive, limits);
  } else {
    ErrorAnswer answer;
    answer.problem = Problem::model_not_found;
    const std::string message = unknown_model_text(*plan, *identity, route.model);
    answer.message = message;
    answer.param = "model";
    answer.trace_id = trace_id;
    answer.limits = &limits;
    append_error_answer(out, answer, request.head.keep_alive);
  }
  const std::string_view piece = out;
  responder.write({&piece, 1});
  responder.finish(request.head.keep_alive);
  return std::make_unique<Answered>();
}

}  // namespace weir::gateway
