// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/exchange.h"
#include "load/driver.h"
#include "load/report.h"
#include "load/workload.h"

namespace weir::load {

/// The wait before the next attempt, as the SDKs take it; none: do not try again.
/// `attempts` were made; `uniform` in [0, 1).
std::optional<Duration> retry_wait(const RetrySettings& settings, std::int32_t attempts,
                                   std::uint16_t status, const http::Fields& fields,
                                   double uniform);

/// One call of a client with its attempts. Lives on the driver's loop until it has told its end.
class Call final : public http::ResponseSink {
 public:
  Call(Driver& driver, const Arrival& arrival);

  void start();
  void on_sent() override {}
  void on_head(const http::ResponseHead& head, std::string_view raw) override;
  void on_body(std::string_view bytes) override;
  void on_end() override;
  void on_failure(const http::Failure& failure) override;

 private:
  void attempt();
  void schedule_abort();
  void leave();
  void try_again_or(Outcome outcome);
  void end(Outcome outcome);
  [[nodiscard]] bool whole() const;

  Driver& driver_;
  const Arrival arrival_;
  CallRecord record_;
  std::string head_, body_;
  std::string_view body_view_;
  std::unique_ptr<http::Exchange> exchange_;
  Instant arrived_, sent_;
  Duration held_{0};  ///< by a gateway, as it says itself
  std::uint16_t status_ = 0;
  std::optional<Duration> next_wait_;
  std::string tail_;        ///< of the body, where usage and the end mark stand
  std::string error_;       ///< the beginning of an error's body
  std::string code_, why_;  ///< of the last attempt that failed
  std::int64_t events_ = 0;
  bool over_ = false;
};

}  // namespace weir::load
