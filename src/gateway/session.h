// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dialects/dialect.h"
#include "gateway/answer.h"
#include "gateway/dispatcher.h"
#include "gateway/handler.h"
#include "gateway/route.h"
#include "http/exchange.h"
#include "weir/demand.h"
#include "weir/governor.h"
#include "weir/reservation.h"
#include "weir/usage.h"

namespace weir::gateway {

/// The life of one call, without I/O: identify, read, estimate and admit (submit to the governor),
/// send, relay, settle, record. It only turns bytes into a Demand, Signals and a Settlement; what
/// is to be done is the governor's decision.
///
/// It holds one call of the governor at most, and its destructor gives that back, whatever the
/// way out. Everything that ends the exchange is the last thing a member function does, because
/// the connection may destroy the session there.
/// Threads: its loop's.
class Session final : public http::Session, public http::ResponseSink, public Receiver {
 public:
  Session(LoopContext& context, http::Responder& responder, const Route& route);
  ~Session() override;

  /// Takes the request on, for a caller found in `plan`; may answer within the call.
  void start(const http::Request& request, std::shared_ptr<const Plan> plan,
             const Identity& identity);

  // http::Session
  void on_peer_gone() override;
  void on_writable() override;
  void on_timer() override;

  // http::ResponseSink
  void on_sent() override;
  void on_head(const http::ResponseHead& head, std::string_view raw) override;
  void on_body(std::string_view bytes) override;
  void on_end() override;
  void on_failure(const http::Failure& failure) override;

  // Receiver
  void on_event(const governor::Event& event, const std::shared_ptr<const Plan>& plan) override;
  void on_drain(bool last) override;

 private:
  enum class Phase : std::uint8_t { reading, waiting, sending, error_body, relaying, done };
  /// What a provider said when it refused an attempt.
  struct ProviderRefusal {
    Signal signal;
    std::string error;  ///< one JSON value, free of our key
  };
  /// How much of a provider's error answer there is: all, its first part, or all there will be.
  enum class Extent : std::uint8_t { whole, begun, broken_off };
  enum class Framing : std::uint8_t { length, chunked, until_close, none };

  /// A caller that takes nothing for this long while bytes wait for it counts as gone.
  static constexpr Duration kStalled = std::chrono::seconds(60);

  // session.cc: up to the request's departure
  bool read(const http::Request& request);
  bool reidentify(const http::Request& request);
  bool resolve(const http::Request& request, const Plan& plan, Call& call);
  std::optional<ClassId> pick_class(const Plan& plan, const ProfilePolicy& profile,
                                    std::string_view wanted);
  void admit(const http::Request& request);
  void send(const Grant& grant);
  void build_provider_head(std::size_t body_size);
  void build_body(std::string_view model_literal);
  void build_cap();

  // session_relay.cc: the answer
  void begin_relay(const http::ResponseHead& head);
  void append_own_fields(std::string& out, bool has_request_id);
  bool error_instead_of_content();
  /// Counts the attempt once, under what it turned out to be: a success whose body is an error
  /// counts as that error.
  void count_attempt(std::uint16_t status);
  void write_relayed(bool last);
  void note_first_bytes();
  void note_progress();
  void hold_back();
  void end_relay();
  void break_relay(Ending ending, std::string_view why);
  void keep_error(const http::ResponseHead& head);
  /// True: the rest is to be relayed. False: the exchange may have ended, and with it `this`.
  bool judge_error(Extent extent);
  void pass_error_on(bool whole);
  void provider_refused(const Signal& signal);
  /// `ending`: how an attempt that left is settled; an error answer costs nothing. `cause`: what
  /// the caller is told of it.
  void provider_failed(Problem problem, std::uint16_t status, std::string_view why,
                       Ending ending = Ending::failed, std::string_view cause = {});

  // session_end.cc: settlement, answers of our own, the record
  void settle(Ending ending);
  /// `said`: what the provider said, where it is the provider that refused; null: nothing.
  void refuse(const Refusal& refusal, const ProviderRefusal* said);
  void answer(ErrorAnswer& answer, std::string_view outcome);
  void fill_answer(ErrorAnswer& answer) const;
  /// Reads the caller's limits anew, unless a reload has changed what their ids mean.
  void read_limits();
  void record(std::string_view outcome, std::uint16_t status);
  /// The line of a call that was only observed and that `enforce` would have held back.
  void log_observed(std::string_view deployment);
  void finish(bool keep_alive);
  /// Ends the call of one who left while an error answer was read, of which the head is enough.
  void settle_error();
  void leave(std::string_view phase);
  [[nodiscard]] std::string_view tenant() const;
  [[nodiscard]] Instant now() const { return context_.gateway.clock().now(); }

  LoopContext& context_;
  http::Responder& responder_;
  Route route_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<SessionBuffers> buffers_;
  std::string trace_id_;

  // the request
  std::string_view body_;
  dialects::RequestFacts facts_;
  std::string cap_text_;                       ///< what is put into the body for a proposed cap
  const config::VirtualKey* key_ = nullptr;    ///< null: auth is none
  std::shared_ptr<const Plan> identity_plan_;  ///< keeps `key_` alive after a reload
  std::string query_;
  std::string class_name_;    ///< for answers; ids change with a reload
  std::string profile_name_;  ///< the same
  ClassId class_;
  NodeId leaf_;
  ProfileId profile_;
  governor::CallerLimits limits_;  ///< as of the admission
  bool limits_read_ = false;
  bool http_1_0_ = false;
  bool keep_alive_ = true;

  /// Gives a call back to the governor of the process.
  struct GiveBack {
    Gateway* gateway = nullptr;
    void operator()(CallId call) const;
  };

  // the call
  Phase phase_ = Phase::reading;
  std::uint64_t cookie_ = 0;
  bool has_cookie_ = false;
  Reservation<GiveBack> call_;
  Grant grant_;
  Instant received_;
  Instant sent_at_;
  Instant first_bytes_at_ = kNever;
  Instant progress_at_ = kDawn;
  Duration overhead_{0};
  std::int32_t attempts_ = 0;
  std::size_t waiting_bytes_ = 0;  ///< unread by the caller when it was looked at last

  // the answer
  std::unique_ptr<http::Exchange> exchange_;
  std::unique_ptr<dialects::ResponseMeter> meter_;
  Framing framing_ = Framing::none;
  std::uint16_t status_ = 0;
  bool attempt_counted_ = false;
  bool event_stream_ = false;
  bool head_written_ = false;
  bool response_started_ = false;
  bool request_left_ = false;   ///< any byte of the attempt's request left us
  bool passing_error_ = false;  ///< a provider's own 4xx goes through
  bool paused_ = false;
  bool recorded_ = false;
  std::array<char, 2> last_bytes_{'\n', '\n'};
  std::array<char, 24> chunk_line_{};

  /// A provider's error answer while it is collected. Made only when there is one.
  struct ErrorReply {
    std::string field_text;
    http::Fields fields;
    std::string body;
    std::uint64_t content_length = 0;
    bool has_length = false;
  };
  std::unique_ptr<ErrorReply> error_;
  /// Of the last attempt that was refused; kept while the call waits for another.
  std::unique_ptr<ProviderRefusal> last_refusal_;
};

}  // namespace weir::gateway
