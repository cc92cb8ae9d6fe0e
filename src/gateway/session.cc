// SPDX-License-Identifier: Apache-2.0
#include "gateway/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "gateway/fields.h"
#include "gateway/models.h"
#include "gateway/wishes.h"
#include "http/writer.h"

namespace weir::gateway {
namespace {

constexpr std::size_t kMaxTellableName = 128;

/// A name from outside, short enough for a message.
std::string_view tellable(std::string_view name) { return name.substr(0, kMaxTellableName); }

}  // namespace

Session::Session(LoopContext& context, http::Responder& responder, const Route& route)
    : context_(context),
      responder_(responder),
      route_(route),
      buffers_(context.take_buffers()),
      trace_id_(make_trace_id(context.rng)) {
  // The views of the route point into the head, which is gone after `start`.
  route_.query = {};
  route_.model = {};
}

Session::~Session() {
  // The exchange goes first: a provider must not work for a call that is given back.
  exchange_.reset();
  if (has_cookie_) context_.mailbox->close(cookie_);
  call_.drop();
  context_.give_back(std::move(buffers_));
}

void Session::GiveBack::operator()(CallId call) const {
  gateway->dispatcher().cancel(call, gateway->clock().now());
}

void Session::start(const http::Request& request, std::shared_ptr<const Plan> plan,
                    const Identity& identity) {
  received_ = now();
  body_ = request.body;
  http_1_0_ = request.head.minor_version == 0;
  keep_alive_ = request.head.keep_alive;
  plan_ = std::move(plan);
  key_ = identity.key;
  if (!read(request)) return;
  admit(request);
}

bool Session::read(const http::Request& request) {
  auto facts = route_.dialect->read_request(route_.operation, body_);
  if (!facts) {
    ErrorAnswer reply;
    reply.problem = problem_of(facts.error().code);
    reply.message = facts.error().text;
    reply.param = facts.error().param;
    answer(reply, row(reply.problem).code);
    return false;
  }
  facts_ = std::move(*facts);
  const std::string_view target = request.head.target;
  append_query(query_, target.substr(request.head.path().size()));
  return true;
}

std::optional<ClassId> Session::pick_class(const Plan& plan, const ProfilePolicy& profile,
                                           std::string_view wanted) {
  std::optional<ClassId> lowest = profile.traffic_class;
  const auto lower_to = [&](ClassId other) {
    if (!lowest || other > *lowest) lowest = other;
  };
  if (key_ != nullptr && key_->traffic_class) lower_to(*key_->traffic_class);
  if (!wanted.empty()) {
    const auto named = plan.find_class(wanted);
    if (!named) {
      ErrorAnswer reply;
      reply.problem = Problem::unknown_class;
      std::string names;
      for (const auto& each : plan.policy().classes) {
        if (!names.empty()) names += ", ";
        names += each.name;
      }
      const std::string message =
          fmt::format("x-weir-class names no traffic class; the classes are: {}.", names);
      reply.message = message;
      reply.param = "x-weir-class";
      answer(reply, row(reply.problem).code);
      return std::nullopt;
    }
    lower_to(*named);
  }
  return lowest ? *lowest : plan.config().default_class;
}

bool Session::reidentify(const http::Request& request) {
  plan_ = context_.fetch_plan();
  const auto identity = identify(context_.keys, *plan_, request.head, context_.gateway.clock());
  key_ = identity ? identity->key : nullptr;
  if (identity) return true;
  limits_read_ = true;  // nobody's
  ErrorAnswer reply;
  reply.problem = Problem::unauthorized;
  reply.message = "The key is missing or not valid; send it as Authorization: Bearer.";
  answer(reply, row(reply.problem).code);
  return false;
}

bool Session::resolve(const http::Request& request, const Plan& plan, Call& call) {
  ErrorAnswer reply;
  const auto profile = plan.find_profile(facts_.model);
  if (!profile) {
    reply.problem = Problem::model_not_found;
    const std::string message = unknown_model_text(plan, Identity{key_}, facts_.model);
    reply.message = message;
    reply.param = "model";
    answer(reply, row(reply.problem).code);
    return false;
  }
  profile_name_ = plan.profile(*profile).name;
  if (!may_use(Identity{key_}, facts_.model)) {
    reply.problem = Problem::model_not_allowed;
    const std::string message =
        fmt::format("This key may not use the model \"{}\"; GET /v1/models lists those it may.",
                    tellable(facts_.model));
    reply.message = message;
    reply.param = "model";
    answer(reply, row(reply.problem).decision);
    return false;
  }
  const auto wishes = read_wishes(request.head.fields);
  if (!wishes) {
    reply.problem = Problem::malformed;
    reply.message = wishes.error().text;
    answer(reply, row(reply.problem).code);
    return false;
  }
  const auto traffic_class = pick_class(plan, plan.profile(*profile), wishes->traffic_class);
  if (!traffic_class) return false;
  class_ = *traffic_class;
  class_name_ = plan.policy().classes[class_.value()].name;
  call.leaf = key_ != nullptr ? key_->node : plan.config().default_tenant;
  call.profile = *profile;
  call.traffic_class = class_;
  call.max_wait = wishes->max_wait;
  call.demand = facts_.demand;
  // A held connection ends well before clients give up on it by themselves.
  call.deadline = saturating_add(received_, plan.config().server.sync_wait);
  if (wishes->timeout) {
    call.deadline = std::min(call.deadline, saturating_add(received_, *wishes->timeout));
  }
  return true;
}

void Session::admit(const http::Request& request) {
  if (!has_cookie_) {
    cookie_ = context_.mailbox->open(*this);
    has_cookie_ = true;
  }
  constexpr int kMaxReloadsMeanwhile = 8;
  for (int turn = 0; turn < kMaxReloadsMeanwhile; ++turn) {
    Call call;
    if (!resolve(request, *plan_, call)) return;
    call.cookie = cookie_;
    auto submission = context_.gateway.dispatcher().submit(call, *plan_, now());
    if (!submission) {
      if (!reidentify(request)) return;
      continue;
    }
    leaf_ = call.leaf;
    profile_ = call.profile;
    limits_ = submission->limits;
    limits_read_ = true;
    const governor::Outcome& outcome = submission->outcome;
    // The head's views end with this call, and the request may be sent later.
    buffers_->passed.clear();
    append_request_fields(buffers_->passed, request.head.fields);
    if (const auto* refused = std::get_if<governor::Refused>(&outcome)) {
      refuse(refused->refusal, nullptr);
    } else if (const auto* queued = std::get_if<governor::Queued>(&outcome)) {
      call_ = {queued->call, GiveBack{&context_.gateway}};
      phase_ = Phase::waiting;
    } else {
      const auto& admitted = std::get<governor::Admitted>(outcome);
      call_ = {admitted.call, GiveBack{&context_.gateway}};
      send(admitted.grant);
    }
    return;
  }
  ErrorAnswer reply;
  reply.problem = Problem::backpressure;
  reply.message = "The configuration is being changed; send the request again.";
  reply.retry_after = spread(context_.rng);
  answer(reply, row(reply.problem).decision);
}

void Session::on_event(const governor::Event& event, const std::shared_ptr<const Plan>& plan) {
  if (phase_ != Phase::waiting || event.call != call_.call()) return;
  if (plan_ != plan) {
    // The ids of a former attempt belong to the former plan.
    const auto deployment = grant_.deployment.valid()
                                ? plan->find_deployment(plan_->deployment(grant_.deployment).name)
                                : std::nullopt;
    if (!deployment) grant_ = {};
    if (deployment) grant_.deployment = *deployment;
    if (!identity_plan_) identity_plan_ = std::move(plan_);
    plan_ = plan;
    class_ = plan->find_class(class_name_).value_or(ClassId{});
  }
  // While the call waited, the limits moved on.
  if (!identity_plan_) read_limits();
  if (const auto* refusal = std::get_if<Refusal>(&event.what)) {
    call_.release();
    const bool by_provider = refusal->decision == Decision::admitted_then_provider_rejected;
    refuse(*refusal, by_provider ? last_refusal_.get() : nullptr);
    return;
  }
  send(std::get<Grant>(event.what));
}

void Session::build_cap() {
  cap_text_.clear();
  if (!grant_.propose_max_tokens || !facts_.propose_cap) return;
  const std::string_view member = facts_.propose_cap->with;
  const auto cap = *grant_.propose_max_tokens;
  if (member.empty()) {
    cap_text_ = fmt::format("{}", cap);
    return;
  }
  // OpenAI's newer models know the cap of a chat by its newer name only; what is compatible with
  // it often knows the older one only.
  const auto& provider = plan_->provider(plan_->deployment(grant_.deployment).provider);
  const bool newer = provider.kind == "openai" && facts_.operation == dialects::Operation::chat;
  cap_text_ = fmt::format("\"{}\":{},", newer ? "max_completion_tokens" : member, cap);
}

void Session::build_body(std::string_view model_literal) {
  // Pieces of the client's body around the splices, which are at most three and do not overlap.
  struct Cut {
    std::size_t offset;
    std::size_t length;
    std::string_view with;
  };
  std::array<Cut, 3> cuts{};
  std::size_t count = 0;
  if (!model_literal.empty()) {
    cuts[count++] = {facts_.model_offset, facts_.model_length, model_literal};
  }
  if (facts_.ask_usage) {
    cuts[count++] = {facts_.ask_usage->offset, facts_.ask_usage->length, facts_.ask_usage->with};
  }
  build_cap();
  if (!cap_text_.empty()) {
    cuts[count++] = {facts_.propose_cap->offset, facts_.propose_cap->length, cap_text_};
  }
  std::stable_sort(cuts.begin(), cuts.begin() + static_cast<std::ptrdiff_t>(count),
                   [](const Cut& left, const Cut& right) { return left.offset < right.offset; });
  auto& pieces = buffers_->pieces;
  pieces.clear();
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (cuts[i].offset > at) pieces.push_back(body_.substr(at, cuts[i].offset - at));
    if (!cuts[i].with.empty()) pieces.push_back(cuts[i].with);
    at = cuts[i].offset + cuts[i].length;
  }
  if (at < body_.size()) pieces.push_back(body_.substr(at));
}

void Session::build_provider_head(std::size_t body_size) {
  const auto& provider_id = plan_->deployment(grant_.deployment).provider;
  std::string& head = buffers_->provider_head;
  head.clear();
  head += "POST ";
  head += plan_->provider(provider_id).path;
  head += route_.suffix;
  head += query_;
  head += " HTTP/1.1\r\n";
  head += plan_->provider_lines(provider_id);
  http::append_field(head, "content-length", body_size);
  if (const auto& configured = plan_->provider(provider_id).headers; configured.empty()) {
    head += buffers_->passed;
  } else {
    append_unconfigured(head, buffers_->passed, configured);
  }
  http::end_head(head);
}

void Session::send(const Grant& grant) {
  grant_ = grant;
  const auto provider = plan_->deployment(grant.deployment).provider;
  build_body(plan_->model_literal(grant.deployment));
  std::size_t body_size = 0;
  for (const auto piece : buffers_->pieces) body_size += piece.size();
  build_provider_head(body_size);
  phase_ = Phase::sending;
  ++attempts_;
  request_left_ = false;
  response_started_ = false;
  event_stream_ = false;
  status_ = 0;
  attempt_counted_ = false;
  if (attempts_ == 1) overhead_ = saturating_sub(now(), received_) - grant.queued;
  exchange_ = context_.connector.send(plan_->endpoint(provider), buffers_->provider_head,
                                      buffers_->pieces, *this);
  sent_at_ = now();
}

void Session::on_sent() {
  request_left_ = true;
  sent_at_ = now();
  context_.gateway.dispatcher().sent(call_.call(), sent_at_);
}

void Session::on_peer_gone() {
  switch (phase_) {
    case Phase::waiting: leave("queue"); break;
    case Phase::sending:
    case Phase::error_body: leave("provider"); break;
    case Phase::relaying: leave("relay"); break;
    case Phase::reading:
    case Phase::done: break;
  }
}

void Session::on_writable() {
  if (!paused_) return;
  paused_ = false;
  responder_.set_timer(kNever);
  if (exchange_) exchange_->pause(false);
}

void Session::on_timer() {
  if (!paused_) return;
  const std::size_t before = std::exchange(waiting_bytes_, responder_.buffered());
  if (waiting_bytes_ < before) {
    responder_.set_timer(saturating_add(context_.loop.now(), kStalled));
    return;
  }
  // The caller has taken nothing for a long time; it counts as gone.
  leave("stalled");
  responder_.abort();
}

void Session::on_drain(bool last) {
  const bool answers = phase_ == Phase::sending || phase_ == Phase::error_body;
  if (phase_ == Phase::waiting || (last && answers)) {
    exchange_.reset();
    if (phase_ == Phase::error_body) settle(Ending::failed);
    if (phase_ == Phase::sending && request_left_) count_attempt(status_);
    call_.drop();
    ErrorAnswer reply;
    reply.problem = Problem::draining;
    reply.message = "The gateway is shutting down; send the request again.";
    reply.retry_after = spread(context_.rng);
    keep_alive_ = false;
    answer(reply, row(reply.problem).decision);
    return;
  }
  if (last && phase_ == Phase::relaying) {
    exchange_.reset();
    break_relay(Ending::truncated, "The gateway is shutting down; the answer is not complete.");
  }
}

}  // namespace weir::gateway
