// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/answer_text.h"
#include "emulator/model_request.h"
#include "emulator/provider.h"
#include "http/exchange.h"

namespace weir::emulator {

/// One admitted request: writes its answer as the model would produce it, whole or streamed, with
/// the fault that was drawn for it. Tokens that fall due in one turn leave in one write.
/// Threads: its loop's.
class ModelSession final : public http::Session {
 public:
  /// `fields`: the field lines of the head that every answer of this request carries.
  ModelSession(http::Loop& loop, Provider& provider, http::Responder& responder,
               ModelRequest request, const Attempt& attempt, std::string fields,
               const http::RequestHead& head);
  ~ModelSession() override;
  ModelSession(const ModelSession&) = delete;
  ModelSession& operator=(const ModelSession&) = delete;

  void on_peer_gone() override;
  void on_writable() override;
  void on_timer() override;

 private:
  [[nodiscard]] std::int64_t ready(Instant now) const;
  [[nodiscard]] std::int64_t produced() const { return written_ * request_.choices; }
  void answer_whole(Instant now);
  void stream(Instant now);
  void append_ready(std::string& events, std::int64_t until);
  void close_stream(Instant now, std::string& events);
  void write_head(std::uint16_t status, std::string_view type, std::size_t length);
  void write_events(std::string_view events);
  void server_error(Instant now);
  void break_off(Instant now);
  void leave(Instant now);

  http::Loop& loop_;
  Provider& provider_;
  http::Responder& responder_;
  const ModelRequest request_;
  const Attempt attempt_;
  const AnswerName name_;
  std::string fields_;
  const bool keep_alive_;
  const bool chunked_;
  std::int64_t length_ = 0;  ///< tokens of a choice
  std::vector<Words> words_;
  std::int64_t written_ = 0;  ///< tokens of each choice that left
  bool opened_ = false;
  bool broken_event_ = false;
  bool ended_ = false;
};

}  // namespace weir::emulator
