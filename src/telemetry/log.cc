// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log.h"

#include <fmt/format.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <iterator>
#include <utility>

#include "telemetry/json_writer.h"

namespace weir::telemetry {
namespace {

constexpr std::size_t kMaxValue = 1024;
constexpr std::size_t kQueuedLines = 8192;

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::off: return spdlog::level::off;
  }
  return spdlog::level::info;
}

void append_json_fields(std::string& out, std::string_view event,
                        std::initializer_list<LogField> fields) {
  out += "\"event\":\"";
  append_json_escaped(out, event);
  out += '"';
  for (const auto& field : fields) {
    out += ",\"";
    append_json_escaped(out, field.name);
    out += "\":";
    JsonWriter writer(out);
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      writer.text(text->substr(0, kMaxValue));
    } else if (const auto* integer = std::get_if<std::int64_t>(&field.value)) {
      writer.integer(*integer);
    } else if (const auto* real = std::get_if<double>(&field.value)) {
      writer.real(*real);
    } else {
      writer.boolean(std::get<bool>(field.value));
    }
  }
}

void append_text_fields(std::string& out, std::string_view event,
                        std::initializer_list<LogField> fields) {
  out += event;
  for (const auto& field : fields) {
    out += ' ';
    out += field.name;
    out += '=';
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      // Escaped as in JSON, so that no value can start a line of its own.
      append_json_escaped(out, text->substr(0, kMaxValue));
    } else if (const auto* integer = std::get_if<std::int64_t>(&field.value)) {
      fmt::format_to(std::back_inserter(out), "{}", *integer);
    } else if (const auto* real = std::get_if<double>(&field.value)) {
      fmt::format_to(std::back_inserter(out), "{}", *real);
    } else {
      out += std::get<bool>(field.value) ? "true" : "false";
    }
  }
}

}  // namespace

std::string_view name(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warn: return "warn";
    case LogLevel::error: return "error";
    case LogLevel::off: return "off";
  }
  return "info";
}

std::optional<LogLevel> parse_log_level(std::string_view word) {
  for (const auto level :
       {LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error, LogLevel::off}) {
    if (word == name(level)) return level;
  }
  return std::nullopt;
}

struct Log::Sink {
  std::function<void(std::string_view)> function;
  // The pool must outlive the logger that posts to it.
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::logger> logger;
};

std::unique_ptr<Log> Log::to_stderr(LogFormat format, LogLevel level) {
  auto sink = std::make_unique<Sink>();
  sink->pool = std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1);
  sink->logger = std::make_shared<spdlog::async_logger>(
      "weir", std::make_shared<spdlog::sinks::stderr_sink_mt>(), sink->pool,
      spdlog::async_overflow_policy::overrun_oldest);
  sink->logger->set_level(spdlog::level::trace);
  sink->logger->set_pattern(format == LogFormat::json ? R"({"ts":"%Y-%m-%dT%H:%M:%S.%eZ",%v})"
                                                      : "%Y-%m-%dT%H:%M:%S.%eZ %v",
                            spdlog::pattern_time_type::utc);
  return std::unique_ptr<Log>(new Log(std::move(sink), format, level));
}

std::unique_ptr<Log> Log::to(std::function<void(std::string_view)> sink, LogLevel level) {
  auto own = std::make_unique<Sink>();
  own->function = std::move(sink);
  return std::unique_ptr<Log>(new Log(std::move(own), LogFormat::json, level));
}

Log::Log(std::unique_ptr<Sink> sink, LogFormat format, LogLevel level)
    : sink_(std::move(sink)), format_(format), level_(level) {}

Log::~Log() { flush(); }

void Log::flush() {
  if (sink_->logger) sink_->logger->flush();
}

void Log::write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!enabled(level) || level == LogLevel::off) return;
  std::string line;
  if (format_ == LogFormat::json) {
    line = fmt::format("\"level\":\"{}\",", name(level));
    append_json_fields(line, event, fields);
  } else {
    line = fmt::format("{} ", name(level));
    append_text_fields(line, event, fields);
  }
  if (sink_->function) {
    sink_->function(fmt::format("{{{}}}", line));
    return;
  }
  sink_->logger->log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

bool LogBudget::take(Instant now) {
  if (second_ == kDawn || saturating_sub(now, second_) >= std::chrono::seconds(1)) {
    second_ = now;
    used_ = 0;
  }
  if (used_ >= limit_) {
    ++suppressed_;
    return false;
  }
  ++used_;
  return true;
}

std::int64_t LogBudget::take_suppressed() { return std::exchange(suppressed_, 0); }

}  // namespace weir::telemetry
