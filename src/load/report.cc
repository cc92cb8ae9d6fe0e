// SPDX-License-Identifier: Apache-2.0
#include "load/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "http/writer.h"

namespace weir::load {
namespace {

double milliseconds(Duration duration) { return to_seconds(duration) * 1e3; }

Figures figures_of(std::string name, std::span<const CallRecord* const> calls) {
  Figures figures;
  figures.name = std::move(name);
  std::vector<Duration> waits, firsts, latencies;
  double token_times = 0;
  std::int64_t streams = 0;
  for (const CallRecord* call : calls) {
    ++figures.calls;
    figures.attempts += call->attempts;
    figures.seen_429 += call->seen_429;
    switch (call->outcome) {
      case Outcome::ok: ++figures.ok; break;
      case Outcome::refused: ++figures.refused; break;
      case Outcome::failed: ++figures.failed; break;
      case Outcome::aborted: ++figures.aborted; break;
      case Outcome::not_sent: ++figures.not_sent; break;
    }
    if (call->outcome != Outcome::ok) continue;
    figures.output_tokens += call->output_tokens;
    waits.push_back(call->wait);
    latencies.push_back(call->ended);
    if (call->stream && call->first_byte) {
      firsts.push_back(*call->first_byte);
      if (call->output_tokens > 1) {
        token_times += milliseconds(call->ended - *call->first_byte) /
                       static_cast<double>(call->output_tokens - 1);
        ++streams;
      }
    }
  }
  figures.wait = percentiles(std::move(waits));
  figures.first_byte = percentiles(std::move(firsts));
  figures.latency = percentiles(std::move(latencies));
  if (streams > 0) figures.ms_per_output_token = token_times / static_cast<double>(streams);
  return figures;
}

void append_percentiles(std::string& json, std::string_view name, const Percentiles& values) {
  fmt::format_to(std::back_inserter(json),
                 R"(,"{}":{{"p50":{:.3f},"p90":{:.3f},"p99":{:.3f},"max":{:.3f}}})", name,
                 values.p50, values.p90, values.p99, values.longest);
}

std::string figures_json(const Figures& figures) {
  std::string name;
  http::append_json_text(name, figures.name);
  std::string json = fmt::format(
      R"({{"name":"{}","calls":{},"ok":{},"refused":{},"failed":{},"aborted":{},"not_sent":{},)"
      R"("attempts":{},"seen_429":{},"success":{:.6f},"output_tokens":{},)"
      R"("ms_per_output_token":{:.3f})",
      name, figures.calls, figures.ok, figures.refused, figures.failed, figures.aborted,
      figures.not_sent, figures.attempts, figures.seen_429, figures.success(),
      figures.output_tokens, figures.ms_per_output_token);
  append_percentiles(json, "wait_ms", figures.wait);
  append_percentiles(json, "ttft_ms", figures.first_byte);
  append_percentiles(json, "latency_ms", figures.latency);
  return json + "}";
}

std::string list_json(const std::vector<Figures>& list) {
  std::string json = "[";
  for (const Figures& figures : list) {
    if (json.size() > 1) json += ',';
    json += figures_json(figures);
  }
  return json + "]";
}

/// A figure that means something only if `known`.
std::string cell(double value, bool known, int digits = 0) {
  return known ? fmt::format("{:.{}f}", value, digits) : std::string("-");
}

void append_row(std::string& text, const Figures& figures) {
  const bool meant = figures.calls > figures.aborted;
  const bool any = figures.ok > 0;
  fmt::format_to(
      std::back_inserter(text), "{:<18} {:>7} {:>9} {:>7} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9}\n",
      figures.name, figures.calls, meant ? fmt::format("{:.2f}%", 100 * figures.success()) : "-",
      figures.seen_429, figures.refused, figures.failed, cell(figures.wait.p50, any),
      cell(figures.wait.p99, any), cell(figures.first_byte.p50, figures.first_byte.longest > 0),
      cell(figures.latency.p99, any));
}

std::vector<Reason> reasons_of(std::span<const CallRecord> calls) {
  std::map<std::pair<std::uint16_t, std::string_view>, Reason> found;
  for (const CallRecord& call : calls) {
    if (call.outcome != Outcome::refused && call.outcome != Outcome::failed) continue;
    Reason& reason = found[{call.status, call.code}];
    if (reason.calls++ == 0) {
      reason.status = call.status;
      reason.code = call.code;
    }
    if (reason.message.empty()) reason.message = call.message;
  }
  std::vector<Reason> reasons;
  reasons.reserve(found.size());
  for (auto& [key, reason] : found) reasons.push_back(std::move(reason));
  std::ranges::stable_sort(reasons, std::ranges::greater{}, &Reason::calls);
  return reasons;
}

std::string reasons_json(const std::vector<Reason>& reasons) {
  std::string json = "[";
  for (const Reason& reason : reasons) {
    if (json.size() > 1) json += ',';
    std::string code, message;
    http::append_json_text(code, reason.code);
    http::append_json_text(message, reason.message);
    fmt::format_to(std::back_inserter(json),
                   R"({{"status":{},"code":"{}","calls":{},"message":"{}"}})", reason.status, code,
                   reason.calls, message);
  }
  return json + "]";
}

void append_reasons(std::string& text, const std::vector<Reason>& reasons) {
  if (reasons.empty()) return;
  fmt::format_to(std::back_inserter(text), "\n{:>7} {:>6}  why calls were refused or failed\n",
                 "calls", "status");
  for (const Reason& reason : reasons) {
    fmt::format_to(std::back_inserter(text), "{:>7} {:>6}  {}{}{}\n", reason.calls,
                   reason.status == 0 ? "-" : std::to_string(reason.status), reason.code,
                   reason.code.empty() || reason.message.empty() ? "" : ": ", reason.message);
  }
}

}  // namespace

Percentiles percentiles(std::vector<Duration> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto rank = [&](double share) {
    const auto index =
        static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return milliseconds(values[std::max<std::size_t>(index, 1) - 1]);
  };
  return {rank(0.5), rank(0.9), rank(0.99), milliseconds(values.back())};
}

double Figures::success() const {
  const std::int64_t meant = calls - aborted;
  return meant > 0 ? static_cast<double>(ok) / static_cast<double>(meant) : 1;
}

double jain(std::span<const double> values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

Report sum_up(const Workload& workload, std::span<const CallRecord> calls) {
  Report report;
  std::vector<const CallRecord*> all;
  std::map<std::string, std::vector<const CallRecord*>> classes, tenants;
  for (const CallRecord& call : calls) {
    const Client& client = workload.clients[call.client];
    all.push_back(&call);
    classes[client.traffic_class].push_back(&call);
    tenants[client.name].push_back(&call);
    report.duration = std::max(report.duration, call.arrived + call.ended);
  }
  report.all = figures_of("all", all);
  std::vector<double> shares;
  for (const auto& [name, members] : classes) {
    report.classes.push_back(figures_of(name.empty() ? "(no class)" : name, members));
  }
  for (const auto& [name, members] : tenants) {
    report.tenants.push_back(figures_of(name, members));
    shares.push_back(report.tenants.back().success());
  }
  if (report.all.ok > 0 && shares.size() > 1) report.fairness = jain(shares);
  report.reasons = reasons_of(calls);
  return report;
}

std::string report_json(const Report& report) {
  const double seconds = to_seconds(report.duration);
  return fmt::format(
      R"({{"seconds":{:.3f},"output_tokens_per_second":{:.1f},"fairness":{},"all":{},)"
      R"("classes":{},"tenants":{},"reasons":{}}})",
      seconds, seconds > 0 ? static_cast<double>(report.all.output_tokens) / seconds : 0.0,
      report.fairness ? fmt::format("{:.6f}", *report.fairness) : "null", figures_json(report.all),
      list_json(report.classes), list_json(report.tenants), reasons_json(report.reasons));
}

std::string report_text(const Report& report) {
  std::string text = fmt::format("{:<18} {:>7} {:>9} {:>7} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9}\n",
                                 "", "calls", "success", "429s", "refused", "failed", "wait p50",
                                 "wait p99", "ttft p50", "total p99");
  append_row(text, report.all);
  for (const Figures& figures : report.classes) append_row(text, figures);
  for (const Figures& figures : report.tenants) append_row(text, figures);
  const double seconds = to_seconds(report.duration);
  fmt::format_to(std::back_inserter(text),
                 "{:.1f} s, {:.0f} output tokens/s, fairness between tenants {} (Jain); "
                 "times in ms\n",
                 seconds,
                 seconds > 0 ? static_cast<double>(report.all.output_tokens) / seconds : 0.0,
                 cell(report.fairness.value_or(0), report.fairness.has_value(), 4));
  append_reasons(text, report.reasons);
  return text;
}

}  // namespace weir::load
