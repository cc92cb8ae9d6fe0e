// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/session.h"
#include "weir/rule.h"

namespace weir::gateway {
namespace {

std::string seconds_text(Duration wait) {
  const double seconds = std::max(to_seconds(wait), 0.0);
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

/// What a call asks that never passes, and what it can do about it.
std::string too_large_message(const Refusal& refusal, std::string_view limit) {
  std::string unit(name(refusal.limit.unit));
  std::replace(unit.begin(), unit.end(), '_', ' ');
  const std::string most = refusal.at_most > 0
                               ? fmt::format("at most {} pass at once", refusal.at_most)
                               : std::string("nothing pass");
  return fmt::format(
      "The call asks for {} {}, and {} lets {}; shorten the prompt, lower max_tokens or raise the "
      "limit.",
      refusal.asked, unit, limit, most);
}

/// One sentence a person can act on. It names the limit and its owner, and keeps clear of words
/// that client libraries take as final (talk of billing, credit or exhausted quotas).
std::string refusal_message(const Refusal& refusal, std::string_view owner,
                            std::string_view limiter) {
  std::string limit = "a limit";
  if (!owner.empty() && !limiter.empty()) {
    limit = fmt::format("the limit {} of {}", limiter, owner);
  } else if (!owner.empty()) {
    limit = fmt::format("a limit of {}", owner);
  }
  const std::string when = refusal.retry_after
                               ? fmt::format("try again in {}", seconds_text(*refusal.retry_after))
                               : std::string("try again later");
  switch (refusal.decision) {
    case Decision::rejected_locally:
      return fmt::format("The call cannot start in time because of {}; {}.", limit, when);
    case Decision::queue_timeout:
      return fmt::format(
          "The call waited {} for {} without getting a start; {}, or allow a "
          "longer wait with x-weir-max-wait.",
          seconds_text(refusal.queued), limit, when);
    case Decision::queue_full:
      return fmt::format("Too many calls wait already ({}); {}.", limit, when);
    case Decision::never_fits: return too_large_message(refusal, limit);
    case Decision::admitted_then_provider_rejected:
      return fmt::format(
          "The provider refused the call for its rate or load after {} attempt(s); "
          "{}.",
          refusal.attempts, when);
    case Decision::admitted_then_provider_failed:
      return fmt::format("The provider failed after {} attempt(s); {}.", refusal.attempts, when);
    case Decision::backpressure: return fmt::format("The gateway itself is full; {}.", when);
    case Decision::draining: return "The gateway is shutting down; send the request again.";
    case Decision::not_allowed: return "The caller may not do this; ask for access.";
    case Decision::admitted:
    case Decision::queued:
    case Decision::spilled:
    case Decision::observed: break;
  }
  return "The call was not sent.";
}

}  // namespace

std::string_view Session::tenant() const {
  return key_ != nullptr ? std::string_view(key_->tenant) : plan_->default_tenant();
}

void Session::settle(Ending ending) {
  if (!call_.holds()) return;
  if (request_left_) count_attempt(status_);
  Settlement settlement;
  settlement.ending = ending;
  settlement.response_started = response_started_ && status_ >= 200 && status_ < 300;
  if (meter_) {
    settlement.reported = meter_->usage();
    settlement.output_events = meter_->output_events();
  }
  const Instant at = now();
  Usage charged;
  context_.gateway.dispatcher().settle(call_.release(), settlement, at, &charged);
  if (context_.gateway.dispatcher().has_debt_alarms()) context_.gateway.tell_debts();
  if (context_.gateway.dispatcher().has_learned()) context_.gateway.tell_learned();
  if (context_.gateway.dispatcher().has_congestion_notes()) context_.gateway.tell_congestion();
  // Also what no provider reported: a caller that leaves early is charged for what was made.
  if (charged.input_tokens > 0 || charged.output_tokens > 0) {
    context_.series.count_tokens(*plan_, grant_.deployment, plan_->tenant_label(tenant()), class_,
                                 charged);
  }
  if (!settlement.reported) return;
  if (event_stream_ && first_bytes_at_ != kNever && settlement.reported->output_tokens > 1) {
    context_.series.per_token().observe(
        to_seconds(saturating_sub(at, first_bytes_at_)) /
        static_cast<double>(settlement.reported->output_tokens - 1));
  }
}

void Session::fill_answer(ErrorAnswer& answer) const {
  answer.trace_id = trace_id_;
  answer.model_profile = profile_name_;
  answer.request_class = class_name_;
  answer.tenant_id = tenant();
  if (key_ != nullptr) answer.api_key_id = key_->id;
  const DeploymentId about = answer.deployment.valid() ? answer.deployment : grant_.deployment;
  if (about.valid() && about.value() < plan_->policy().deployments.size()) {
    const auto& deployment = plan_->deployment(about);
    answer.provider = plan_->provider(deployment.provider).name;
    answer.provider_scope = plan_->provider_scope(about);
    answer.provider_model =
        deployment.model.empty() ? std::string_view(facts_.model) : deployment.model;
  }
  // A call that went out and failed there was not refused here: both say that it was admitted.
  if (row(answer.problem).decision.starts_with("admitted_then") && grant_.deployment.valid()) {
    answer.decision = name(grant_.decision);
  }
  if (grant_.deployment.valid() && !answer.estimated_input_tokens) {
    answer.estimated_input_tokens = grant_.reserved.input_tokens;
    answer.estimated_output_tokens = grant_.reserved.output_tokens;
  }
}

void Session::read_limits() {
  const auto limits = context_.gateway.dispatcher().caller_limits(leaf_, profile_, *plan_, now());
  if (limits) limits_ = *limits;
}

void Session::refuse(const Refusal& decided, const ProviderRefusal* said) {
  Refusal refusal = decided;
  // The same second for everyone would bring all of them back at once.
  if (refusal.decision == Decision::backpressure) refusal.retry_after = spread(context_.rng);
  const Signal* signal = said != nullptr ? &said->signal : nullptr;
  ErrorAnswer reply;
  reply.deployment = refusal.limit.deployment;
  reply.problem = problem_of(refusal.decision);
  const bool by_provider = refusal.decision == Decision::admitted_then_provider_rejected;
  std::string limiter;
  if (by_provider && signal != nullptr) {
    if (signal->kind == SignalClass::quota_exhausted) reply.problem = Problem::provider_quota;
    limiter = name(signal->limiter);
  } else if (refusal.limit.any() && !refusal.limit.traffic_class.valid()) {
    limiter = limiter_name(refusal.limit.unit, refusal.limit.window);
  }
  std::string owner = plan_->limit_owner(refusal.limit);
  if (owner.empty() && by_provider && grant_.deployment.valid()) {
    owner = plan_->limit_owner({.node = {}, .deployment = grant_.deployment, .traffic_class = {}});
  }
  const std::string message = reply.problem == Problem::provider_quota
                                  ? "The provider account's quota or credit is used up; raise it "
                                    "at the provider."
                                  : refusal_message(refusal, owner, limiter);
  reply.message = message;
  reply.limiter = limiter;
  reply.limited_by = owner;
  reply.retry_after = refusal.retry_after;
  reply.estimated_input_tokens = refusal.estimate.input_tokens;
  reply.estimated_output_tokens = refusal.estimate.output_tokens;
  if (signal != nullptr) {
    reply.provider_status = signal->status;
    if (!reply.retry_after) reply.retry_after = signal->retry_after;
    reply.provider_error = said->error;
  }
  answer(reply, name(refusal.decision));
}

void Session::answer(ErrorAnswer& answer, std::string_view outcome) {
  if (!limits_read_) {
    // Refused before it was asked for: there is a caller, but no profile yet.
    leaf_ = key_ != nullptr ? key_->node : plan_->config().default_tenant;
    read_limits();
  }
  fill_answer(answer);
  answer.limits = &limits_;
  if (context_.gateway.draining()) keep_alive_ = false;
  const std::uint16_t status = status_of(answer);
  if (context_.refusal_lines.take(context_.loop.now())) {
    context_.gateway.log().write(telemetry::LogLevel::info, "refused",
                                 {{"trace_id", answer.trace_id},
                                  {"status", std::int64_t{status}},
                                  {"code", row(answer.problem).code},
                                  {"decision", outcome},
                                  {"limiter", answer.limiter},
                                  {"limited_by", answer.limited_by},
                                  {"tenant", answer.tenant_id},
                                  {"key", answer.api_key_id},
                                  {"class", answer.request_class},
                                  {"model_profile", answer.model_profile},
                                  {"suppressed", context_.refusal_lines.take_suppressed()}});
  }
  std::string& out = buffers_->client_head;
  out.clear();
  append_error_answer(out, answer, keep_alive_);
  const std::string_view piece = out;
  head_written_ = true;
  responder_.write({&piece, 1});
  record(outcome, status);
  finish(keep_alive_);
}

void Session::log_observed(std::string_view deployment) {
  auto& log = context_.gateway.log();
  const std::string_view would = name(*grant_.would_have);
  const std::string limiter = limiter_name(grant_.limit.unit, grant_.limit.window);
  const std::string owner = plan_->limit_owner(grant_.limit);
  if (!grant_.would_wait) {
    log.write(telemetry::LogLevel::info, "observed",
              {{"trace_id", std::string_view(trace_id_)},
               {"would", would},
               {"limiter", limiter},
               {"limited_by", owner},
               {"tenant", tenant()},
               {"deployment", deployment}});
    return;
  }
  log.write(telemetry::LogLevel::info, "observed",
            {{"trace_id", std::string_view(trace_id_)},
             {"would", would},
             {"limiter", limiter},
             {"limited_by", owner},
             {"would_wait_ms", std::int64_t{*grant_.would_wait / std::chrono::milliseconds(1)}},
             {"tenant", tenant()},
             {"deployment", deployment}});
}

void Session::record(std::string_view outcome, std::uint16_t status) {
  if (recorded_) return;
  recorded_ = true;
  const std::string_view label = plan_->tenant_label(tenant());
  const bool known = class_.valid() && class_.value() < plan_->policy().classes.size();
  context_.series.count_request(*plan_, grant_.deployment, label, known ? class_ : ClassId{},
                                outcome);
  const Duration whole = saturating_sub(now(), received_);
  context_.series.request_seconds().observe(whole);
  if (grant_.deployment.valid()) {
    context_.series.overhead().observe(overhead_);
    if (known) context_.series.observe_queue(*plan_, class_, grant_.queued);
  }
  auto& log = context_.gateway.log();
  const std::string_view deployment =
      grant_.deployment.valid() ? std::string_view(plan_->deployment(grant_.deployment).name)
                                : std::string_view{};
  if (grant_.would_have) {
    context_.gateway.meters().observed.with({deployment, name(*grant_.would_have)}).add();
    if (*grant_.would_have != Decision::admitted) log_observed(deployment);
  }
  if (!log.enabled(telemetry::LogLevel::debug)) return;
  log.write(telemetry::LogLevel::debug, "request",
            {{"trace_id", std::string_view(trace_id_)},
             {"status", std::int64_t{status}},
             {"decision", outcome},
             {"tenant", tenant()},
             {"key", key_ != nullptr ? std::string_view(key_->id) : std::string_view{}},
             {"class", std::string_view(class_name_)},
             {"model_profile", std::string_view(profile_name_)},
             {"deployment", deployment},
             {"attempts", std::int64_t{attempts_}},
             {"proposed_max_tokens", std::int64_t{grant_.propose_max_tokens.value_or(0)}},
             {"queue_ms", std::int64_t{grant_.queued / std::chrono::milliseconds(1)}},
             {"total_ms", std::int64_t{whole / std::chrono::milliseconds(1)}}});
}

void Session::finish(bool keep_alive) {
  phase_ = Phase::done;
  responder_.finish(keep_alive);
}

void Session::settle_error() {
  const Signal signal = route_.dialect->read_signal(status_, error_->fields, error_->body,
                                                    context_.gateway.clock().wall());
  auto& dispatcher = context_.gateway.dispatcher();
  const bool refused = signal.kind == SignalClass::rate_limited ||
                       signal.kind == SignalClass::quota_exhausted ||
                       signal.kind == SignalClass::overloaded;
  if (refused) {
    const auto& deployment = plan_->deployment(grant_.deployment).name;
    context_.gateway.meters().rejections.with({deployment, name(signal.limiter)}).add();
    dispatcher.rejected(call_.release(), signal, false, now());
  } else {
    dispatcher.signal(grant_.deployment, *plan_, signal, now());
    settle(Ending::failed);
  }
}

void Session::leave(std::string_view phase) {
  const bool waiting = phase_ == Phase::waiting;
  const bool error_body = phase_ == Phase::error_body;
  phase_ = Phase::done;
  exchange_.reset();
  context_.gateway.meters().client_gone.with({phase}).add();
  if (waiting || !request_left_) {
    call_.drop();
  } else if (error_body) {
    settle_error();
  } else {
    settle(Ending::client_gone);
  }
  record("client_gone", 499);
}

}  // namespace weir::gateway
