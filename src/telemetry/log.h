// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "weir/time.h"

namespace weir::telemetry {

enum class LogLevel : std::uint8_t { debug, info, warn, error, off };
enum class LogFormat : std::uint8_t { json, text };
/// The level a word names; none for another word.
std::optional<LogLevel> parse_log_level(std::string_view word);
std::string_view name(LogLevel level);

/// One named value of a log line. Never a body, a prompt or a secret.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::int64_t, double, bool> value;
};

/// Log lines: `{"ts":…,"level":…,"event":…,fields}` one per line. Writing never blocks on a slow
/// sink: lines wait in a bounded queue and the oldest is dropped when it is full.
/// Values longer than 1 KiB are cut. Threads: any.
class Log {
 public:
  /// Lines go to standard error.
  static std::unique_ptr<Log> to_stderr(LogFormat format, LogLevel level);
  /// Lines go to `sink`, within the call and without the time; for tests and embedding.
  static std::unique_ptr<Log> to(std::function<void(std::string_view)> sink, LogLevel level);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  [[nodiscard]] bool enabled(LogLevel level) const { return level >= level_; }
  void write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
  /// Hands everything written so far to the sink; used at the end of the process.
  void flush();

 private:
  struct Sink;
  Log(std::unique_ptr<Sink> sink, LogFormat format, LogLevel level);
  std::unique_ptr<Sink> sink_;
  LogFormat format_;
  LogLevel level_;
};

/// Bounds how often a kind of line is written: `limit` in each second; what was left out is
/// counted and told with the next line. Threads: one owner.
class LogBudget {
 public:
  explicit LogBudget(std::int32_t limit) : limit_(limit) {}
  /// Whether a line may be written now.
  bool take(Instant now);
  /// Lines left out since this was last asked.
  std::int64_t take_suppressed();

 private:
  std::int32_t limit_;
  std::int32_t used_ = 0;
  std::int64_t suppressed_ = 0;
  Instant second_ = kDawn;
};

}  // namespace weir::telemetry
