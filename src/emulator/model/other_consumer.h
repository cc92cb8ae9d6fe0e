// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "emulator/model/behaviour.h"
#include "emulator/model/provider_rules.h"
#include "weir/rng.h"
#include "weir/time.h"

namespace weir::emulator::model {

/// Somebody else who uses the same account. Lengths are log-normal. Units: tokens; per second.
struct OtherSettings {
  double per_second = 0;  ///< mean of its Poisson arrivals; 0: there is nobody else
  std::optional<double> swings_to = std::nullopt;  ///< its rate in every second half of `period`
  Duration period{0};                              ///< of the swing; 0: the rate is steady
  double input_mean = 350;
  double input_sigma = 0.7;
  double output_mean = 350;
  double output_sigma = 0.7;
  std::int64_t length_cap = 32'768;
  bool names_maximum = false;  ///< its requests carry their true length as max_tokens
  bool retries = false;        ///< a refused one comes again, whatever the hint said
  Duration retry_after = std::chrono::seconds(1);
  int attempts = 5;  ///< in all, where it retries
  Duration from{0};  ///< since the start; nothing comes before
  Duration until = kForever;
};

/// What the other consumer did, for who keeps books of the provider.
struct OtherEvent {
  enum class Kind : std::uint8_t { admitted, refused, ended };
  Kind kind = Kind::admitted;
  Instant at;
  Instant admitted_at;  ///< of `ended`: when it was admitted
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::optional<std::int64_t> max_output_tokens;
};

/// Another consumer of the account: it charges the same rules as everybody, and is seen in their
/// readings. Its arrivals are a thinned Poisson stream, so a swing changes nothing before it.
///
/// Worked example (also a test): 1 per second swinging to 3 with a period of 20 minutes makes about
/// 600 requests in the first ten minutes and 1800 in the next ten.
/// Bounds: at most kMaxOpen of its requests are open or wait for a retry; more do not come.
/// Pure and seeded. Threads: one owner. Time: `now` must not go back.
class OtherConsumer {
 public:
  static constexpr std::size_t kMaxOpen = 100'000;
  using Watch = std::function<void(const OtherEvent&)>;

  OtherConsumer(const OtherSettings& settings, const LatencySettings& latency, std::uint64_t seed,
                Instant start);
  /// When something of it happens next; kNever if nothing does.
  [[nodiscard]] Instant next() const;
  /// Lets everything happen that is due at `now`, each at its own time. Arrivals that are more than
  /// `catch_up` late are left out, so that a long pause costs little.
  void advance(ProviderRules& rules, Instant now, const Watch& watch = {},
               Duration catch_up = kForever);

 private:
  struct Happening {
    Instant at;
    std::uint64_t number = 0;
    AttemptId attempt = 0;  ///< 0: it comes again
    Instant admitted_at;
    int tries = 0;
    std::int64_t input = 0;
    std::int64_t output = 0;
    bool operator>(const Happening& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  struct Rate {
    double per_second;
    Instant until;
  };
  [[nodiscard]] Rate rate_at(Instant at) const;
  void draw_arrival(Instant after);
  void come(Happening one, ProviderRules& rules, const Watch& watch);
  void step(ProviderRules& rules, const Watch& watch);

  OtherSettings settings_;
  LatencyModel latency_;
  Rng arrivals_;
  Rng lengths_;
  Instant start_;
  Instant arrival_ = kNever;
  std::uint64_t next_number_ = 0;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
};

}  // namespace weir::emulator::model
