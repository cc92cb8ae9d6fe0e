// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/dispatcher.h"
#include "gateway/gateway.h"
#include "gateway/meters.h"
#include "gateway/plan.h"
#include "gateway/problem.h"
#include "gateway/route.h"
#include "http/exchange.h"
#include "telemetry/log.h"
#include "weir/rng.h"

namespace weir::gateway {

/// The buffers a session builds heads and pieces in; they go from session to session, so that a
/// request in the steady state allocates none of them.
struct SessionBuffers {
  std::string passed;                     ///< the client's fields that reach the provider
  std::string provider_head;              ///< the request towards the provider
  std::string client_head;                ///< the answer's head, until it is written
  std::vector<std::string_view> relayed;  ///< what the meter lets through
  std::vector<std::string_view> pieces;   ///< of one write
  void clear();
};

/// Keys that were found lately, so that a caller's next request need not be hashed again. It holds
/// keys as presented, in memory only, as the connections' buffers do; they are compared in a time
/// that depends on their lengths only. Bounded. Threads: its loop's.
class KeyMemory {
 public:
  /// The key of `plan` that `presented` is; null: none of them.
  const config::VirtualKey* find(const Plan& plan, std::string_view presented);
  /// Must be called before the plan of the last `find` is let go of: another one may be made at
  /// its address.
  void forget();

 private:
  struct Entry {
    std::string presented;
    const config::VirtualKey* key = nullptr;
  };
  const Plan* plan_ = nullptr;
  std::array<Entry, 64> entries_;
};

/// What the sessions of one handler share. Threads: its loop's.
struct LoopContext {
  LoopContext(Gateway& gateway, http::Loop& loop, http::Connector& connector);

  /// The plan in force, read anew after a reload.
  const std::shared_ptr<const Plan>& current_plan();
  /// The same, even if the version does not show a change yet.
  const std::shared_ptr<const Plan>& fetch_plan();
  std::unique_ptr<SessionBuffers> take_buffers();
  void give_back(std::unique_ptr<SessionBuffers> buffers);

  Gateway& gateway;
  http::Loop& loop;
  http::Connector& connector;
  std::shared_ptr<Mailbox> mailbox;
  Rng rng;
  SeriesCache series;
  KeyMemory keys;
  telemetry::LogBudget refusal_lines{10};
  telemetry::LogBudget fault_lines{10};
  telemetry::LogBudget accept_lines{1};
  std::uint32_t round_trip_turn = 0;  ///< the socket is asked for its round trip now and then

 private:
  std::shared_ptr<const Plan> plan_;
  std::uint64_t plan_version_ = 0;
  std::vector<std::unique_ptr<SessionBuffers>> spare_;
};

/// Who asks: a key, or nobody in particular where no key is required.
struct Identity {
  const config::VirtualKey* key = nullptr;  ///< null: auth is none
};

/// Serves the data plane on one loop: finds the route, authenticates, and makes a Session for
/// each call. Threads: its loop's.
class Handler final : public http::Handler {
 public:
  Handler(Gateway& gateway, http::Loop& loop, http::Connector& connector);
  std::optional<std::string> on_head(const http::RequestHead& head) override;
  std::unique_ptr<http::Session> on_request(const http::Request& request,
                                            http::Responder& responder) override;
  std::string on_refusal(std::uint16_t status, const Error& error) override;
  void on_accept_failure(std::string_view why) override;

 private:
  /// `limits`: of the caller, if it is known already.
  std::string refuse_early(Problem problem, std::string_view message, std::string_view allow = {},
                           const governor::CallerLimits* limits = nullptr);
  governor::CallerLimits limits_of(const Plan& plan, const Identity& identity);

  LoopContext context_;
};

/// Finds the key of a head in `plan`. Absent: no key, an unknown one, or an expired one; which of
/// them is not told.
std::optional<Identity> identify(KeyMemory& keys, const Plan& plan, const http::RequestHead& head,
                                 const Clock& clock);

/// 32 hex digits.
std::string make_trace_id(Rng& rng);

}  // namespace weir::gateway
