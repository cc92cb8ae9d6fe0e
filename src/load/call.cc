// SPDX-License-Identifier: Apache-2.0
#include "load/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "http/writer.h"

namespace weir::load {
namespace {

constexpr std::size_t kTail = 1024;
constexpr std::size_t kErrorBytes = 2048;  // of an error's body
constexpr Duration kLongestHint = std::chrono::seconds(60);
/// A call that is not streamed and shall be left is left within this time of its start.
constexpr Duration kAbortWindow = std::chrono::seconds(1);

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The wait that a response asks for; none if it says nothing sensible.
std::optional<Duration> hint(const http::Fields& fields) {
  if (const auto ms = number<double>(fields.find("retry-after-ms")); ms && *ms > 0) {
    return from_seconds(*ms / 1e3);
  }
  if (const auto seconds = number<double>(fields.find("retry-after")); seconds && *seconds > 0) {
    return from_seconds(*seconds);
  }
  return std::nullopt;
}

/// A prompt of so many tokens at four bytes each, four of them the message's frame.
std::string prompt(std::int64_t tokens, std::uint64_t number) {
  std::string text = fmt::format("{:08x}", number);
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(tokens - 4, 2)) * 4;
  while (text.size() < bytes) text += " the water";
  text.resize(bytes);
  return text;
}

/// The last `"completion_tokens":N` in a text; 0 if there is none.
std::int64_t completion_tokens(std::string_view text) {
  constexpr std::string_view kKey = "\"completion_tokens\":";
  const std::size_t at = text.rfind(kKey);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + kKey.size());
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return number<std::int64_t>(text.substr(0, text.find_first_not_of("0123456789"))).value_or(0);
}

/// The text of the first member of this name, escapes left as they are but for the quotes; empty
/// if there is none. Good enough to tell a person what went wrong.
std::string member_text(std::string_view body, std::string_view member) {
  constexpr std::size_t kLongest = 300;
  std::size_t at = body.find(member);
  if (at == std::string_view::npos) return {};
  at = body.find_first_not_of(" \t\r\n", at + member.size());
  if (at == std::string_view::npos || body[at] != '"') return {};
  std::string text;
  for (++at; at < body.size() && body[at] != '"' && text.size() < kLongest; ++at) {
    if (body[at] == '\\' && at + 1 < body.size()) {
      ++at;
      if (body[at] != '"' && body[at] != '\\') text += '\\';
    }
    // A terminal must not obey what a server sends.
    text += static_cast<unsigned char>(body[at]) < 0x20 || body[at] == 0x7f ? '?' : body[at];
  }
  return text;
}

}  // namespace

std::optional<Duration> retry_wait(const RetrySettings& settings, std::int32_t attempts,
                                   std::uint16_t status, const http::Fields& fields,
                                   double uniform) {
  if (attempts >= settings.attempts) return std::nullopt;
  const std::string_view told = fields.find("x-should-retry");
  const bool usual =
      status == 0 || status == 408 || status == 409 || status == 429 || status >= 500;
  if (told == "false" || (told != "true" && !usual)) return std::nullopt;
  const auto asked = hint(fields);
  if (asked && *asked <= kLongestHint) return asked;
  const double grown = to_seconds(settings.base) * std::exp2(std::min(attempts - 1, 30));
  return from_seconds(std::min(grown, to_seconds(settings.cap)) * (1 - 0.25 * uniform));
}

Call::Call(Driver& driver, const Arrival& arrival)
    : driver_(driver), arrival_(arrival), arrived_(driver.loop_.now()) {
  const Client& client = driver_.workload_.clients[arrival_.client];
  record_.client = arrival_.client;
  record_.stream = arrival_.stream;
  record_.arrived = arrived_ - driver_.begun_;
  std::string model;
  http::append_json_text(model, driver_.workload_.model);
  body_ = fmt::format(R"({{"model":"{}","max_tokens":{},)", model, arrival_.output_tokens);
  if (arrival_.stream) body_ += R"("stream":true,"stream_options":{"include_usage":true},)";
  body_ += fmt::format(R"("messages":[{{"role":"user","content":"{}"}}]}})",
                       prompt(arrival_.input_tokens, arrival_.number));
  body_view_ = body_;
  http::append_request_line(head_, "POST", driver_.target_.path + "/chat/completions");
  http::append_field(head_, "host", driver_.target_.host);
  http::append_field(head_, "content-type", "application/json");
  http::append_field(head_, "content-length", static_cast<std::uint64_t>(body_.size()));
  http::append_field(head_, "authorization",
                     "Bearer " + (client.key.empty() ? std::string("weir-load") : client.key));
  if (!client.traffic_class.empty()) {
    http::append_field(head_, "x-weir-class", client.traffic_class);
  }
  http::end_head(head_);
}

void Call::start() {
  schedule_abort();
  attempt();
}

void Call::schedule_abort() {
  if (!arrival_.abort_at || arrival_.stream) return;
  const auto after = from_seconds(*arrival_.abort_at * to_seconds(kAbortWindow));
  driver_.scheduler_.at(arrived_ + after, [&driver = driver_, number = arrival_.number] {
    // The call may have ended, and its object gone, by then.
    if (const auto found = driver.calls_.find(number); found != driver.calls_.end()) {
      found->second->leave();
    }
  });
}

void Call::leave() {
  if (!over_) end(Outcome::aborted);
}

void Call::attempt() {
  ++record_.attempts;
  sent_ = driver_.loop_.now();
  status_ = 0;
  held_ = Duration{0};
  next_wait_.reset();
  tail_.clear();
  error_.clear();
  why_.clear();
  events_ = 0;
  record_.first_byte.reset();
  exchange_ = driver_.connector_.send(driver_.target_.endpoint, head_, {&body_view_, 1}, *this);
}

void Call::on_head(const http::ResponseHead& head, std::string_view /*raw*/) {
  status_ = head.status;
  record_.status = head.status;
  if (status_ == 429) ++record_.seen_429;
  if (const auto queued = number<double>(head.fields.find("x-weir-queue-ms"))) {
    held_ = from_seconds(*queued / 1e3);
  }
  if (status_ != 200) {
    next_wait_ = retry_wait(driver_.workload_.retry, record_.attempts, status_, head.fields,
                            driver_.jitter_.uniform());
  }
}

void Call::on_body(std::string_view bytes) {
  if (over_ || bytes.empty()) return;
  if (!record_.first_byte) record_.first_byte = driver_.loop_.now() - arrived_;
  if (status_ != 200 && error_.size() < kErrorBytes) {
    error_ += bytes.substr(0, kErrorBytes - error_.size());
  }
  if (bytes.size() >= kTail) {
    tail_ = bytes.substr(bytes.size() - kTail);
  } else {
    tail_ += bytes;
    if (tail_.size() > 2 * kTail) tail_.erase(0, tail_.size() - kTail);
  }
  events_ += std::count(bytes.begin(), bytes.end(), '\n');
  if (arrival_.abort_at && arrival_.stream && status_ == 200) {
    // Two line ends an event, one event a token.
    const double wanted = *arrival_.abort_at * static_cast<double>(arrival_.output_tokens);
    if (static_cast<double>(events_) / 2 >= wanted) leave();
  }
}

bool Call::whole() const {
  return !arrival_.stream || tail_.find("data: [DONE]") != std::string::npos;
}

void Call::on_end() {
  if (over_) return;
  if (status_ == 200 && whole()) {
    record_.output_tokens = completion_tokens(tail_);
    record_.wait = (sent_ - arrived_) + held_;
    end(Outcome::ok);
    return;
  }
  if (status_ == 200) {
    code_ = "cut_off";
    why_ = "the stream ended without its end mark";
  } else {
    code_ = member_text(error_, "\"code\":");
    why_ = member_text(error_, "\"message\":");
  }
  try_again_or(status_ == 429 || status_ == 503 ? Outcome::refused : Outcome::failed);
}

void Call::on_failure(const http::Failure& failure) {
  if (over_) return;
  record_.status = 0;
  why_ = failure.error.text;
  code_ = name(failure.error.code);
  // Nothing that has begun to be answered is sent again.
  if (!failure.response_started) {
    next_wait_ =
        retry_wait(driver_.workload_.retry, record_.attempts, 0, {}, driver_.jitter_.uniform());
  }
  try_again_or(Outcome::failed);
}

void Call::try_again_or(Outcome outcome) {
  if (!next_wait_) {
    end(outcome);
    return;
  }
  driver_.scheduler_.at(driver_.loop_.now() + *next_wait_,
                        [&driver = driver_, number = arrival_.number] {
                          const auto found = driver.calls_.find(number);
                          if (found != driver.calls_.end() && !found->second->over_) {
                            found->second->attempt();
                          }
                        });
}

void Call::end(Outcome outcome) {
  over_ = true;
  record_.outcome = outcome;
  record_.ended = driver_.loop_.now() - arrived_;
  if (outcome == Outcome::refused || outcome == Outcome::failed) {
    record_.code = code_;
    record_.message = why_;
  }
  // Destroying the exchange cancels it. That and the end of this object wait until no callback of
  // the exchange is on the stack.
  driver_.loop_.post([&driver = driver_, number = arrival_.number, record = record_] {
    driver.ended(number, record);
  });
  if (outcome == Outcome::aborted) exchange_.reset();
}

}  // namespace weir::load
