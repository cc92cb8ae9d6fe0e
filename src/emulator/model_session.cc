// SPDX-License-Identifier: Apache-2.0
#include "emulator/model_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "emulator/limit_text.h"
#include "http/chunked.h"
#include "http/writer.h"

namespace weir::emulator {
namespace {

/// Above this a reader that is slow is waited for.
constexpr std::size_t kHighWater = std::size_t{256} << 10U;

std::string answer_id(const ModelRequest& request, std::uint64_t serial) {
  const std::string_view prefix = request.operation == Operation::chat ? "chatcmpl" : "cmpl";
  Rng rng(serial ^ 0x77656972ULL);
  return fmt::format("{}-{:016x}{:08x}", prefix, rng.next(), serial & 0xffffffffU);
}

}  // namespace

ModelSession::ModelSession(http::Loop& loop, Provider& provider, http::Responder& responder,
                           ModelRequest request, const Attempt& attempt, std::string fields,
                           const http::RequestHead& head)
    : loop_(loop),
      provider_(provider),
      responder_(responder),
      request_(std::move(request)),
      attempt_(attempt),
      name_{.id = answer_id(request_, attempt.serial),
            .created = provider.created(loop.now()),
            .seed = provider.seed()},
      fields_(std::move(fields)),
      keep_alive_(head.keep_alive),
      chunked_(head.minor_version >= 1),
      length_(request_.tool.empty() ? attempt.output_tokens : tool_call_tokens(request_)) {
  for (std::int64_t choice = 0; choice < request_.choices; ++choice) {
    words_.emplace_back(request_, name_.seed, choice);
  }
  const bool early = request_.stream || attempt_.fault.kind != model::FaultKind::none;
  responder_.set_timer(attempt_.ready_at(early ? 1 : length_));
}

ModelSession::~ModelSession() { leave(loop_.now()); }

/// The caller went before the end: the provider charges what was produced by then.
void ModelSession::leave(Instant now) {
  if (std::exchange(ended_, true)) return;
  const std::int64_t done = request_.stream ? written_ : ready(now);
  provider_.abort(attempt_, done * request_.choices, now);
}

void ModelSession::on_peer_gone() { leave(loop_.now()); }

void ModelSession::on_writable() { on_timer(); }

std::int64_t ModelSession::ready(Instant now) const {
  if (now < attempt_.ready_at(1)) return 0;
  if (attempt_.per_token.count() <= 0) return length_;
  const std::int64_t count = (now - attempt_.ready_at(1)) / attempt_.per_token + 1;
  return std::min(count, length_);
}

void ModelSession::on_timer() {
  if (ended_) return;
  const Instant now = loop_.now();
  if (now < attempt_.ready_at(1)) {
    responder_.set_timer(attempt_.ready_at(1));
    return;
  }
  if (attempt_.fault.kind == model::FaultKind::server_error) return server_error(now);
  if (attempt_.fault.kind == model::FaultKind::reset_before) return break_off(now);
  if (request_.stream) return stream(now);
  if (now < attempt_.ready_at(length_)) {
    responder_.set_timer(attempt_.ready_at(length_));
    return;
  }
  answer_whole(now);
}

void ModelSession::write_head(std::uint16_t status, std::string_view type, std::size_t length) {
  std::string head;
  http::append_status_line(head, status);
  http::append_field(head, "content-type", type);
  if (status == 200 && request_.stream) {
    http::append_field(head, "cache-control", "no-cache");
    if (chunked_) http::append_field(head, "transfer-encoding", "chunked");
  } else {
    http::append_field(head, "content-length", static_cast<std::uint64_t>(length));
  }
  head += fields_;
  http::append_field(head, "openai-processing-ms",
                     static_cast<std::uint64_t>(std::max<std::int64_t>(
                         0, (loop_.now() - attempt_.begun) / std::chrono::milliseconds(1))));
  if (!keep_alive_ || (request_.stream && !chunked_)) {
    http::append_field(head, "connection", "close");
  }
  http::end_head(head);
  const std::string_view piece = head;
  responder_.write({&piece, 1});
}

void ModelSession::server_error(Instant now) {
  ended_ = true;
  provider_.fail(attempt_, now);
  const std::string body = error_body(
      "The server had an error while processing your request. Sorry about that!", "server_error");
  write_head(500, "application/json", body.size());
  const std::string_view piece = body;
  responder_.write({&piece, 1});
  responder_.finish(keep_alive_);
}

void ModelSession::break_off(Instant now) {
  ended_ = true;
  provider_.abort(attempt_, produced(), now);
  responder_.abort();
}

void ModelSession::answer_whole(Instant now) {
  std::string body = request_.operation == Operation::embedding
                         ? embedding_body(request_)
                         : answer_body(request_, name_, length_, attempt_.cut);
  if (attempt_.fault.kind == model::FaultKind::malformed) body.resize(body.size() / 2);
  const bool resets = attempt_.fault.kind == model::FaultKind::reset_inside;
  if (!resets) {
    // Booked before the answer leaves, so that who reads it finds the counters true.
    ended_ = true;
    provider_.finish(attempt_, request_.input_tokens, length_ * request_.choices, now);
  }
  write_head(200, "application/json", body.size());
  std::string_view piece = body;
  if (resets) {
    piece = piece.substr(0, piece.size() / 2);
    responder_.write({&piece, 1});
    written_ = length_;
    return break_off(now);
  }
  responder_.write({&piece, 1});
  responder_.finish(keep_alive_);
}

void ModelSession::write_events(std::string_view events) {
  if (events.empty()) return;
  if (!chunked_) {
    responder_.write({&events, 1});
    return;
  }
  std::array<char, 20> line{};
  const std::array<std::string_view, 3> pieces = {http::chunk_line(events.size(), line), events,
                                                  http::kChunkEnd};
  responder_.write(pieces);
}

void ModelSession::append_ready(std::string& events, std::int64_t until) {
  const bool breaks = attempt_.fault.kind == model::FaultKind::malformed;
  const auto break_at =
      static_cast<std::int64_t>(attempt_.fault.where * static_cast<double>(length_));
  for (; written_ < until; ++written_) {
    if (breaks && !broken_event_ && written_ >= break_at) {
      broken_event_ = true;
      events += "data: {\"id\":\"chatcmpl-\n\n";
    }
    for (std::int64_t choice = 0; choice < request_.choices; ++choice) {
      append_token(events, request_, name_, choice,
                   words_[static_cast<std::size_t>(choice)].next());
    }
  }
}

void ModelSession::stream(Instant now) {
  std::string events;
  if (!std::exchange(opened_, true)) {
    write_head(200, "text/event-stream; charset=utf-8", 0);
    for (std::int64_t choice = 0; choice < request_.choices; ++choice) {
      append_opening(events, request_, name_, choice);
    }
  }
  std::int64_t until = ready(now);
  const bool resets = attempt_.fault.kind == model::FaultKind::reset_inside;
  const auto reset_at =
      static_cast<std::int64_t>(attempt_.fault.where * static_cast<double>(length_));
  if (resets) until = std::min(until, reset_at);
  append_ready(events, until);
  if (resets && written_ >= reset_at) {
    write_events(events);
    return break_off(now);
  }
  if (written_ >= length_) return close_stream(now, events);
  provider_.produced(attempt_, produced(), now);
  write_events(events);
  if (responder_.buffered() > kHighWater) {
    responder_.set_timer(kNever);  // on_writable goes on
    return;
  }
  responder_.set_timer(attempt_.ready_at(written_ + 1));
}

void ModelSession::close_stream(Instant now, std::string& events) {
  for (std::int64_t choice = 0; choice < request_.choices; ++choice) {
    append_closing(events, request_, name_, choice, attempt_.cut);
  }
  if (request_.include_usage) append_usage(events, request_, name_, produced());
  events += kDone;
  // Booked before the last byte leaves, so that who reads the end finds the counters true.
  ended_ = true;
  provider_.finish(attempt_, request_.input_tokens, produced(), now);
  write_events(events);
  if (chunked_) {
    const std::string_view piece = http::kLastChunk;
    responder_.write({&piece, 1});
  }
  responder_.finish(keep_alive_ && chunked_);
}

}  // namespace weir::emulator
