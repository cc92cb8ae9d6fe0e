// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <variant>

#include "gateway/fields.h"
#include "gateway/limit_fields.h"
#include "gateway/provider_error.h"
#include "gateway/session.h"
#include "http/text.h"
#include "http/writer.h"

namespace weir::gateway {
namespace {

constexpr std::size_t kHighWater = 64 << 10;
constexpr std::size_t kMaxErrorBody = 64 << 10;
constexpr Duration kProgressEvery = std::chrono::milliseconds(100);
constexpr std::uint32_t kRoundTripEvery = 16;

bool is_event_stream(const http::Fields& fields) {
  constexpr std::string_view kType = "text/event-stream";
  const auto type = fields.find("content-type");
  return type.size() >= kType.size() && http::same_word(type.substr(0, kType.size()), kType);
}

bool is_encoded(const http::Fields& fields) {
  const auto coding = fields.find("content-encoding");
  return !coding.empty() && !http::same_word(coding, "identity");
}

/// A model name from outside as a header value: visible ASCII only, bounded.
std::string header_safe(std::string_view text) {
  constexpr std::size_t kMaxModelHeader = 128;
  std::string safe(text.substr(0, kMaxModelHeader));
  for (char& c : safe) {
    if (c < 0x21 || c > 0x7e) c = '?';
  }
  return safe;
}

std::uint64_t non_negative(std::int64_t value) {
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

}  // namespace

void Session::on_head(const http::ResponseHead& head, std::string_view /*raw*/) {
  const Instant at = now();
  status_ = head.status;
  request_left_ = true;
  response_started_ = true;
  if (head.status < 200 || head.status > 299) {
    count_attempt(status_);
    keep_error(head);
    return;
  }
  Signal signal =
      route_.dialect->read_signal(status_, head.fields, {}, context_.gateway.clock().wall());
  if (context_.round_trip_turn++ % kRoundTripEvery == 0 && exchange_) {
    signal.round_trip = exchange_->round_trip();
  }
  signal.call = call_.call();
  context_.gateway.dispatcher().signal(grant_.deployment, *plan_, signal, at);
  begin_relay(head);
  overhead_ += saturating_sub(now(), at);
}

void Session::begin_relay(const http::ResponseHead& head) {
  phase_ = Phase::relaying;
  event_stream_ = is_event_stream(head.fields);
  const bool strip = event_stream_ && facts_.ask_usage.has_value();
  const bool no_body = head.body == http::BodyKind::none;
  if (!no_body && !is_encoded(head.fields)) {
    meter_ = route_.dialect->meter(route_.operation, event_stream_, strip);
  }
  std::string& out = buffers_->client_head;
  out.clear();
  http::append_status_line(out, head.status);
  append_response_fields(out, head.fields);
  if (no_body) {
    framing_ = Framing::none;
    if (head.status != 204) http::append_field(out, "content-length", std::uint64_t{0});
  } else if (head.body == http::BodyKind::length && !(meter_ && strip)) {
    framing_ = Framing::length;
    http::append_field(out, "content-length", head.content_length);
  } else if (!http_1_0_) {
    framing_ = Framing::chunked;
    out += "transfer-encoding: chunked\r\n";
  } else {
    framing_ = Framing::until_close;
    keep_alive_ = false;
  }
  append_own_fields(out, head.fields.has("x-request-id"));
}

void Session::append_own_fields(std::string& out, bool has_request_id) {
  if (context_.gateway.draining()) keep_alive_ = false;
  http::append_field(out, "x-weir-trace-id", trace_id_);
  if (!has_request_id) http::append_field(out, "x-request-id", trace_id_);
  http::append_field(out, "x-weir-decision", name(grant_.decision));
  http::append_field(out, "x-weir-queue-ms",
                     non_negative(grant_.queued / std::chrono::milliseconds(1)));
  const auto& deployment = plan_->deployment(grant_.deployment);
  http::append_field(out, "x-weir-deployment", deployment.name);
  http::append_field(out, "x-weir-model",
                     deployment.model.empty() ? header_safe(facts_.model) : deployment.model);
  http::append_field(out, "x-weir-attempts", non_negative(attempts_));
  http::append_field(out, "x-weir-overhead-us",
                     non_negative(overhead_ / std::chrono::microseconds(1)));
  http::append_field(out, "x-weir-reserved-input-tokens",
                     non_negative(grant_.reserved.input_tokens));
  http::append_field(out, "x-weir-reserved-output-tokens",
                     non_negative(grant_.reserved.output_tokens));
  if (grant_.propose_max_tokens && !cap_text_.empty()) {
    http::append_field(out, "x-weir-max-tokens", non_negative(*grant_.propose_max_tokens));
  }
  append_limit_fields(out, limits_);
  if (!keep_alive_) {
    http::append_field(out, "connection", "close");
  } else if (http_1_0_) {
    http::append_field(out, "connection", "keep-alive");
  }
  http::end_head(out);
}

void Session::on_body(std::string_view bytes) {
  if (phase_ == Phase::error_body) {
    const std::size_t room = kMaxErrorBody - error_->body.size();
    if (bytes.size() <= room) {
      error_->body += bytes;
      return;
    }
    error_->body += bytes.substr(0, room);
    // More than any error needs: judge by what is there. What passes on goes on with the rest.
    if (judge_error(Extent::begun)) on_body(bytes.substr(room));
    return;
  }
  if (phase_ != Phase::relaying) return;
  auto& relayed = buffers_->relayed;
  relayed.clear();
  if (!meter_) {
    relayed.push_back(bytes);
  } else {
    meter_->feed(bytes, relayed);
    if (error_instead_of_content()) return;
    if (meter_->undecided()) return;
  }
  write_relayed(false);
  note_first_bytes();
  note_progress();
  hold_back();
}

void Session::count_attempt(std::uint16_t status) {
  if (attempt_counted_) return;
  attempt_counted_ = true;
  context_.series.count_attempt(*plan_, grant_.deployment, status);
}

bool Session::error_instead_of_content() {
  if (head_written_ || !meter_) return false;
  const auto signal = meter_->error_before_content();
  if (!signal) return false;
  count_attempt(signal->status);
  error_ = std::make_unique<ErrorReply>();
  for (const auto piece : buffers_->relayed) {
    error_->body += piece.substr(0, kMaxErrorBody - error_->body.size());
  }
  buffers_->relayed.clear();
  switch (signal->kind) {
    case SignalClass::rate_limited:
    case SignalClass::quota_exhausted:
    case SignalClass::overloaded: provider_refused(*signal); break;
    case SignalClass::auth: provider_failed(Problem::provider_key_refused, 502, "auth"); break;
    case SignalClass::timeout:
      provider_failed(Problem::provider_timed_out, signal->status, "error in a success");
      break;
    case SignalClass::ok:
    case SignalClass::bad_request:
    case SignalClass::server_error:
    case SignalClass::content_filter:
    case SignalClass::context_length:
      provider_failed(Problem::provider_failed, signal->status, "error in a success");
      break;
  }
  return true;
}

void Session::write_relayed(bool last) {
  const auto& relayed = buffers_->relayed;
  auto& pieces = buffers_->pieces;
  pieces.clear();
  std::size_t size = 0;
  for (const auto piece : relayed) size += piece.size();
  if (!head_written_) pieces.push_back(buffers_->client_head);
  const bool chunked = framing_ == Framing::chunked;
  if (chunked && size > 0) {
    char* end = std::to_chars(chunk_line_.data(), chunk_line_.data() + 20, size, 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    pieces.emplace_back(chunk_line_.data(), static_cast<std::size_t>(end - chunk_line_.data()));
  }
  for (const auto piece : relayed) {
    if (!piece.empty()) pieces.push_back(piece);
  }
  if (chunked) {
    if (size > 0) pieces.emplace_back(last ? "\r\n0\r\n\r\n" : "\r\n");
    if (size == 0 && last) pieces.emplace_back("0\r\n\r\n");
  }
  if (event_stream_) {
    for (const auto piece : relayed) {
      if (piece.size() == 1) last_bytes_ = {last_bytes_[1], piece[0]};
      if (piece.size() > 1) last_bytes_ = {piece[piece.size() - 2], piece[piece.size() - 1]};
    }
  }
  if (pieces.empty()) return;
  head_written_ = true;
  responder_.write(pieces);
}

void Session::note_first_bytes() {
  if (first_bytes_at_ != kNever || !event_stream_) return;
  first_bytes_at_ = now();
  context_.series.first_token().observe(saturating_sub(first_bytes_at_, received_));
}

void Session::note_progress() {
  if (passing_error_) return;
  const Instant at = context_.loop.now();
  if (progress_at_ != kDawn && saturating_sub(at, progress_at_) < kProgressEvery) return;
  // The first bytes of an answer that is no stream are mostly all of them.
  const bool first = progress_at_ == kDawn;
  progress_at_ = at;
  if (first && !event_stream_) return;
  context_.gateway.dispatcher().progress(call_.call(), meter_ ? meter_->output_events() : 0, at);
}

void Session::hold_back() {
  if (paused_) waiting_bytes_ = responder_.buffered();
  if (paused_ || !exchange_ || responder_.buffered() <= kHighWater) return;
  paused_ = true;
  waiting_bytes_ = responder_.buffered();
  exchange_->pause(true);
  responder_.set_timer(saturating_add(context_.loop.now(), kStalled));
}

void Session::on_end() {
  if (phase_ == Phase::error_body) {
    judge_error(Extent::whole);
    return;
  }
  if (phase_ == Phase::relaying) end_relay();
}

void Session::end_relay() {
  const Instant at = now();
  auto& relayed = buffers_->relayed;
  relayed.clear();
  if (meter_) {
    meter_->finish(relayed);
    if (error_instead_of_content()) return;
    if (!meter_->terminated()) {
      if (!head_written_) {
        provider_failed(Problem::provider_failed, 502, "the answer is not whole");
        return;
      }
      if (event_stream_ || framing_ == Framing::until_close) {
        write_relayed(false);
        break_relay(Ending::truncated, "The provider ended the stream before it was complete.");
        return;
      }
    }
  }
  write_relayed(true);
  if (passing_error_) {
    settle(Ending::failed);
    record(name(grant_.decision), status_);
    finish(keep_alive_);
    return;
  }
  note_first_bytes();
  overhead_ += saturating_sub(now(), at);
  const bool whole = !meter_ || meter_->terminated();
  settle(whole ? Ending::completed : Ending::truncated);
  record(name(grant_.decision), status_);
  finish(keep_alive_);
}

void Session::break_relay(Ending ending, std::string_view why) {
  context_.gateway.meters().truncated.with({plan_->deployment(grant_.deployment).name}).add();
  if (context_.fault_lines.take(context_.loop.now())) {
    context_.gateway.log().write(
        telemetry::LogLevel::warn, "answer_broken",
        {{"trace_id", std::string_view(trace_id_)},
         {"deployment", std::string_view(plan_->deployment(grant_.deployment).name)},
         {"reason", why},
         {"suppressed", context_.fault_lines.take_suppressed()}});
  }
  settle(passing_error_ ? Ending::failed : ending);
  if (!event_stream_ || !head_written_) {
    // Half a JSON body has no place for an error: only a broken connection tells the truth.
    record("truncated", status_);
    phase_ = Phase::done;
    responder_.abort();
    return;
  }
  ErrorAnswer reply;
  reply.problem = Problem::stream_broken;
  reply.message = why;
  fill_answer(reply);
  std::string event;
  // An event that was cut in the middle must not swallow this one.
  if (last_bytes_[1] != '\n') event += "\n\n";
  if (last_bytes_[1] == '\n' && last_bytes_[0] != '\n' && last_bytes_[0] != '\r') event += '\n';
  event += "data: ";
  append_error_body(event, reply);
  event += "\n\n";
  buffers_->relayed.assign(1, event);
  write_relayed(true);
  record("truncated", status_);
  // The framing ended well, but a client that keeps the connection would learn nothing more.
  finish(false);
}

void Session::on_failure(const http::Failure& failure) {
  if (phase_ == Phase::done) return;
  request_left_ = request_left_ || failure.request_sent;
  const bool timed_out = failure.error.code == ErrorCode::timed_out;
  if (phase_ == Phase::relaying) {
    if (meter_) {
      buffers_->relayed.clear();
      if (meter_->terminated()) {
        // The answer was whole; only the end of its framing is missing.
        if (framing_ != Framing::length) {
          end_relay();
          return;
        }
      } else {
        meter_->finish(buffers_->relayed);
        if (error_instead_of_content()) return;
        if (head_written_) write_relayed(false);
      }
    }
    if (head_written_) {
      break_relay(Ending::truncated, timed_out ? "The provider stopped sending before the end."
                                               : "The connection to the provider was lost.");
      return;
    }
  }
  if (phase_ == Phase::error_body) {
    judge_error(Extent::broken_off);
    return;
  }
  if (request_left_) count_attempt(status_);
  if (timed_out && failure.request_sent) {
    Signal silence;
    silence.kind = SignalClass::timeout;
    silence.call = call_.call();
    context_.gateway.dispatcher().signal(grant_.deployment, *plan_, silence, now());
  }
  // A provider that has the whole request may charge for it, whatever became of its answer.
  const bool billed = failure.request_sent && failure.error.may_have_been_billed;
  provider_failed(timed_out ? Problem::provider_timed_out : Problem::provider_failed,
                  timed_out ? 504 : 502, failure.error.text,
                  billed ? Ending::truncated : Ending::failed, http::words(failure.cause));
}

void Session::keep_error(const http::ResponseHead& head) {
  phase_ = Phase::error_body;
  error_ = std::make_unique<ErrorReply>();
  error_->has_length = head.body == http::BodyKind::length;
  error_->content_length = head.content_length;
  std::size_t size = 0;
  for (const auto& field : head.fields.all()) size += field.name.size() + field.value.size();
  std::string& text = error_->field_text;
  text.reserve(size);
  for (const auto& field : head.fields.all()) {
    const std::size_t at = text.size();
    text += field.name;
    text += field.value;
    const std::string_view kept = text;
    error_->fields.add({kept.substr(at, field.name.size()),
                        kept.substr(at + field.name.size(), field.value.size())});
  }
}

bool Session::judge_error(Extent extent) {
  Signal signal = route_.dialect->read_signal(status_, error_->fields, error_->body,
                                              context_.gateway.clock().wall());
  if (signal.kind == SignalClass::timeout) signal.call = call_.call();
  switch (signal.kind) {
    case SignalClass::rate_limited:
    case SignalClass::quota_exhausted:
    case SignalClass::overloaded: provider_refused(signal); return false;
    case SignalClass::auth:
      context_.gateway.dispatcher().signal(grant_.deployment, *plan_, signal, now());
      provider_failed(Problem::provider_key_refused, status_, "the provider refused our key");
      return false;
    case SignalClass::ok:
    case SignalClass::bad_request:
    case SignalClass::server_error:
    case SignalClass::timeout:
    case SignalClass::content_filter:
    case SignalClass::context_length: break;
  }
  context_.gateway.dispatcher().signal(grant_.deployment, *plan_, signal, now());
  if (status_ == 401 || status_ == 403) {
    provider_failed(Problem::provider_key_refused, status_, "the provider refused our key");
  } else if (status_ >= 400 && status_ < 500 && extent != Extent::broken_off) {
    pass_error_on(extent == Extent::whole);
    return extent == Extent::begun;
  } else {
    const bool timed_out = status_ == 504 || status_ == 524 || status_ == 408;
    provider_failed(timed_out ? Problem::provider_timed_out : Problem::provider_failed, status_,
                    "an error of the provider's own");
  }
  return false;
}

void Session::pass_error_on(bool whole) {
  std::string& out = buffers_->client_head;
  out.clear();
  http::append_status_line(out, status_);
  append_response_fields(out, error_->fields);
  passing_error_ = true;
  if (whole || error_->has_length) {
    framing_ = Framing::length;
    http::append_field(out, "content-length", whole ? error_->body.size() : error_->content_length);
  } else if (!http_1_0_) {
    framing_ = Framing::chunked;
    out += "transfer-encoding: chunked\r\n";
  } else {
    framing_ = Framing::until_close;
    keep_alive_ = false;
  }
  append_own_fields(out, error_->fields.has("x-request-id"));
  buffers_->relayed.assign(1, error_->body);
  phase_ = Phase::relaying;
  if (!whole) {
    write_relayed(false);
    hold_back();
    return;
  }
  write_relayed(true);
  settle(Ending::failed);
  record(name(grant_.decision), status_);
  finish(keep_alive_);
}

void Session::provider_refused(const Signal& signal) {
  const auto& deployment = plan_->deployment(grant_.deployment);
  auto& meters = context_.gateway.meters();
  meters.rejections.with({deployment.name, name(signal.limiter)}).add();
  if (signal.retry_after) {
    meters.retry_after.with({plan_->provider(deployment.provider).name, name(signal.limiter)})
        .observe(*signal.retry_after);
  }
  last_refusal_ = std::make_unique<ProviderRefusal>(
      signal, provider_error_json(signal.status, error_ ? error_->body : std::string_view{},
                                  plan_->provider(deployment.provider).api_key.reveal()));
  // Nothing of an answer was relayed, so the whole request can be sent again.
  exchange_.reset();
  meter_.reset();
  auto verdict =
      context_.gateway.dispatcher().rejected(call_.call(), signal, !head_written_, now());
  if (std::holds_alternative<governor::Requeued>(verdict)) {
    meters.retries.with({deployment.name, name(signal.kind)}).add();
    error_.reset();
    phase_ = Phase::waiting;
    return;
  }
  call_.release();
  refuse(std::get<governor::GaveUp>(verdict).refusal, last_refusal_.get());
}

void Session::provider_failed(Problem problem, std::uint16_t status, std::string_view why,
                              Ending ending, std::string_view cause) {
  exchange_.reset();
  meter_.reset();
  const auto& deployment = plan_->deployment(grant_.deployment);
  const auto& provider = plan_->provider(deployment.provider);
  if (context_.fault_lines.take(context_.loop.now())) {
    context_.gateway.log().write(telemetry::LogLevel::warn, "provider_failed",
                                 {{"trace_id", std::string_view(trace_id_)},
                                  {"deployment", std::string_view(deployment.name)},
                                  {"code", row(problem).code},
                                  {"provider_status", std::int64_t{status_}},
                                  {"reason", why},
                                  {"suppressed", context_.fault_lines.take_suppressed()}});
  }
  settle(request_left_ ? ending : Ending::never_sent);
  ErrorAnswer reply;
  reply.problem = problem;
  std::string message;
  std::string detail;
  if (problem == Problem::provider_key_refused) {
    message = fmt::format(
        "The provider {} does not accept the gateway's key; the operator of the gateway must "
        "correct it.",
        provider.name);
  } else if (status_ >= 300) {
    message =
        fmt::format("The provider {} answered with status {}; try again.", provider.name, status_);
    detail = provider_error_json(status, error_ ? error_->body : std::string_view{},
                                 provider.api_key.reveal());
  } else if (!cause.empty()) {
    message = fmt::format("The provider {} could not be used for this call: {}; try again.",
                          provider.name, cause);
  } else if (problem == Problem::provider_timed_out) {
    message = fmt::format("The provider {} did not answer in time; try again.", provider.name);
  } else {
    message =
        fmt::format("The provider {} could not be used for this call; try again.", provider.name);
  }
  reply.message = message;
  reply.provider_error = detail;
  if (error_) {
    const Signal signal = route_.dialect->read_signal(status_, error_->fields, error_->body,
                                                      context_.gateway.clock().wall());
    reply.retry_after = signal.retry_after;
  }
  answer(reply, row(problem).decision);
}

}  // namespace weir::gateway
