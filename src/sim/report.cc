// SPDX-License-Identifier: Apache-2.0
#include "sim/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace weir::sim {
namespace {

/// The seeds of one world put together.
struct Row {
  std::string style, load;
  int runs = 0, held = 0;
  std::int64_t arrivals = 0, sent = 0, rejected = 0, served = 0, admitted = 0;
  double least_window_share = 1e300;
  double least_use = 1e300, fifo_use = 0, backfill_use = 0;  ///< the oracles' on that run
  double p99 = 0, oracle_p99 = 0, worst_difference = -1e300;
  double worst_window = 0;
  std::size_t tenants = 0;
  double least_share = 1e300, least_jain = 1;
  double starvation = 0;
  std::int64_t restart_attempts = 0, restart_rejected = 0, in_transit = 0;
  std::int64_t overloaded = 0, holds = 0, refuted = 0, answered = 0, best_fixed_answered = 0;
  std::int64_t best_fixed = 0;
  double first_token = 0;
};

Row& row_of(std::vector<Row>& rows, const Report& report) {
  for (Row& row : rows) {
    if (row.style == report.style && row.load == report.load) return row;
  }
  rows.emplace_back();
  rows.back().style = report.style;
  rows.back().load = report.load;
  return rows.back();
}

std::vector<Row> rows_of(const std::vector<Report>& reports) {
  std::vector<Row> rows;
  for (const Report& report : reports) {
    Row& row = row_of(rows, report);
    ++row.runs;
    row.held += report.held() ? 1 : 0;
    row.arrivals += report.books.arrivals;
    row.sent += report.books.sent;
    row.rejected += report.books.rejected - report.overloaded;
    row.overloaded += report.overloaded;
    row.holds += report.holds;
    row.refuted += report.congestion_refuted;
    row.answered += report.answered_in_horizon;
    row.best_fixed = std::max(row.best_fixed, report.best_fixed);
    row.best_fixed_answered += report.best_fixed_answered;
    row.first_token = std::max(row.first_token, to_seconds(report.p95_first_token));
    row.served += report.books.served;
    row.admitted += report.admitted_in_horizon;
    row.least_window_share =
        std::min(row.least_window_share,
                 static_cast<double>(report.admitted_in_horizon) / std::max(report.allowed, 1.0));
    if (report.use < row.least_use) {
      row.least_use = report.use;
      row.fifo_use = report.fifo_use;
      row.backfill_use = report.backfill_use;
    }
    row.p99 = std::max(row.p99, to_seconds(report.waits.p99));
    row.oracle_p99 = std::max(row.oracle_p99, to_seconds(report.oracle.p99));
    row.worst_difference =
        std::max(row.worst_difference, to_seconds(report.waits.p99 - report.oracle.p99));
    row.worst_window = std::max(row.worst_window, report.worst_window);
    row.tenants = std::max(row.tenants, report.fairness.tenants);
    row.least_share = std::min(row.least_share, report.fairness.least);
    row.least_jain = std::min(row.least_jain, report.fairness.jain);
    row.starvation = std::max(row.starvation, report.starvation.ratio);
    row.restart_attempts += report.attempts_after_restart;
    row.restart_rejected += report.rejected_after_restart;
    row.in_transit += report.rejected_in_transit;
  }
  return rows;
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void append_waits(std::string& out, const char* key, const Waits& waits) {
  fmt::format_to(std::back_inserter(out),
                 "\"{}\":{{\"p50_s\":{:.6f},\"p99_s\":{:.6f},\"max_s\":{:.6f}}}", key,
                 to_seconds(waits.p50), to_seconds(waits.p99), to_seconds(waits.longest));
}

/// Text of our own checkers, which hold no quotes or control characters; escaped all the same.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return result;
}

void append_run(std::string& out, const Report& report) {
  const Books& books = report.books;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{{\"style\":\"{}\",\"load\":\"{}\",\"seed\":{},\"held\":{},",
                 escaped(report.style), escaped(report.load), report.seed, report.held());
  fmt::format_to(to,
                 "\"arrivals\":{},\"served\":{},\"refused\":{},\"timed_out\":{},\"gave_up\":{},"
                 "\"failed\":{},\"gone\":{},\"lost\":{},\"attempts\":{},\"provider_429s\":{},",
                 books.arrivals, books.served, books.refused, books.timed_out, books.gave_up,
                 books.failed, books.gone, books.lost, books.sent,
                 books.rejected - report.overloaded);
  fmt::format_to(to,
                 "\"provider_503s\":{},\"congestion_holds\":{},\"congestion_refuted\":{},"
                 "\"first_token_p95_s\":{:.6f},\"answered_in_horizon\":{},\"best_fixed\":{},"
                 "\"best_fixed_answered\":{},",
                 report.overloaded, report.holds, report.congestion_refuted,
                 to_seconds(report.p95_first_token), report.answered_in_horizon, report.best_fixed,
                 report.best_fixed_answered);
  fmt::format_to(to,
                 "\"admitted_in_horizon\":{},\"allowed\":{:.1f},\"use\":{:.6f},\"fifo_use\":{:.6f},"
                 "\"backfill_use\":{:.6f},\"attempts_after_restart\":{},"
                 "\"429s_after_restart\":{},\"429s_in_transit\":{},\"window_ratio\":{:.6f},"
                 "\"offered_ratio\":{:.6f},",
                 report.admitted_in_horizon, report.allowed, report.use, report.fifo_use,
                 report.backfill_use, report.attempts_after_restart, report.rejected_after_restart,
                 report.rejected_in_transit, report.worst_window, report.worst_offered);
  append_waits(out, "wait", report.waits);
  out += ',';
  append_waits(out, "oracle_wait", report.oracle);
  const Starvation& starvation = report.starvation;
  fmt::format_to(to,
                 ",\"starvation\":{{\"asserted\":{},\"ratio\":{:.4f},\"waited_s\":{:.6f},"
                 "\"bound_s\":{:.6f},\"why_not\":\"{}\"}}",
                 starvation.why_not.empty(), starvation.ratio, to_seconds(starvation.waited),
                 to_seconds(starvation.bound), escaped(starvation.why_not));
  if (report.fairness.tenants > 1) {
    fmt::format_to(to, ",\"tenants\":{},\"min_share\":{:.6f},\"jain\":{:.6f}",
                   report.fairness.tenants, report.fairness.least, report.fairness.jain);
  }
  fmt::format_to(to, ",\"oracle_served\":{},\"digest\":\"{:016x}\",\"goals\":[",
                 report.oracle_served, report.digest);
  const char* comma = "";
  for (const Judgement& one : report.judgements) {
    fmt::format_to(to, "{}{{\"goal\":\"{}\",\"wanted\":{:.6f},\"reached\":{:.6f},\"held\":{}}}",
                   comma, one.goal, one.wanted, one.reached, one.held);
    comma = ",";
  }
  fmt::format_to(to, "],\"violations\":{},\"first_violations\":[", report.violations.count());
  comma = "";
  for (const std::string& one : report.violations.first()) {
    fmt::format_to(to, "{}\"{}\"", comma, escaped(one));
    comma = ",";
  }
  out += "]}";
}

std::int64_t all_arrivals(const std::vector<Report>& reports) {
  std::int64_t sum = 0;
  for (const Report& report : reports) sum += report.books.arrivals;
  return sum;
}

bool all_held(const std::vector<Report>& reports) {
  return std::all_of(reports.begin(), reports.end(), [](const Report& one) { return one.held(); });
}

double speed(const RunSummary& summary, const std::vector<Report>& reports) {
  if (summary.wall_seconds <= 0) return 0;
  return static_cast<double>(all_arrivals(reports)) / summary.wall_seconds;
}

}  // namespace

std::string table(const RunSummary& summary, const std::vector<Report>& reports) {
  std::string out;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{}: {}\n\n", summary.name, summary.about);
  fmt::format_to(
      to,
      "{:<18}{:<10}{:>5} {:>9} {:>9} {:>6} {:>9} {:>9} {:>8} {:>7} {:>7} {:>7} {:>9} {:>9} {:>8}\n",
      "rules", "load", "runs", "requests", "attempts", "429s", "429s %", "served %", "window %",
      "use %", "FIFO %", "fill %", "p99 wait", "FIFO p99", "held");
  for (const Row& row : rows_of(reports)) {
    fmt::format_to(to,
                   "{:<18}{:<10}{:>5} {:>9} {:>9} {:>6} {:>9.4f} {:>9.2f} {:>8.2f} {:>7.2f} "
                   "{:>7.2f} {:>7.2f} {:>7.2f} s {:>7.2f} s {:>8}\n",
                   row.style, row.load, row.runs, row.arrivals, row.sent, row.rejected,
                   percent(row.rejected, row.sent), percent(row.served, row.arrivals),
                   100 * row.least_window_share, 100 * row.least_use, 100 * row.fifo_use,
                   100 * row.backfill_use, row.p99, row.oracle_p99,
                   fmt::format("{}/{}", row.held, row.runs));
    if (row.tenants > 1) {
      fmt::format_to(to,
                     "{:<23}{} tenants: least share / max-min share {:.3f}, Jain over it {:.4f}; "
                     "longest wait {:.2f} of its bound\n",
                     "", row.tenants, row.least_share, row.least_jain, row.starvation);
    }
    if (row.holds + row.refuted + row.overloaded + row.best_fixed > 0) {
      fmt::format_to(to,
                     "{:<23}congestion set in {} times, {} limits did not help; {} 503s; first "
                     "token p95 {:.2f} s",
                     "", row.holds, row.refuted, row.overloaded, row.first_token);
      if (row.best_fixed > 0) {
        fmt::format_to(to, "; answered {:.1f} % of the best fixed number in flight ({})",
                       percent(row.answered, row.best_fixed_answered), row.best_fixed);
      }
      out += '\n';
    }
    if (row.restart_attempts > 0) {
      fmt::format_to(to,
                     "{:<23}in the two windows after the restart: {} attempts, {} 429s; of those "
                     "on their way at the kill: {} 429s\n",
                     "", row.restart_attempts, row.restart_rejected, row.in_transit);
    }
  }
  out +=
      "\nwindow %: the smallest share of the requests the provider's windows allow; use, FIFO and "
      "fill %:\nthe smallest share of its scarcest limit that the provider charged, and what a "
      "clairvoyant FIFO and one\nwith backfill would have had it charge in that run; waits: the "
      "largest of any seed.\n";
  for (const Report& report : reports) {
    if (report.held()) continue;
    fmt::format_to(to, "missed: {} {} seed {}:", report.style, report.load, report.seed);
    for (const Judgement& one : report.judgements) {
      if (!one.held) {
        fmt::format_to(to, " {} = {:.5g} (wanted {:.5g})", one.goal, one.reached, one.wanted);
      }
    }
    out += '\n';
    for (const std::string& one : report.first_429s) fmt::format_to(to, "  {}\n", one);
    for (const std::string& one : report.violations.first()) fmt::format_to(to, "  {}\n", one);
  }
  if (summary.wall_seconds > 0) {
    fmt::format_to(to, "{} requests in {:.1f} s, {:.0f} requests/s of simulation. ",
                   all_arrivals(reports), summary.wall_seconds, speed(summary, reports));
  }
  out += all_held(reports) ? "All goals held.\n" : "Goals were missed.\n";
  return out;
}

std::string json(const RunSummary& summary, const std::vector<Report>& reports) {
  std::string out = fmt::format(
      "{{\"scenario\":\"{}\",\"held\":{},\"requests\":{},\"wall_s\":{:.3f},\"requests_per_s\":{:."
      "0f},"
      "\"runs\":[",
      escaped(summary.name), all_held(reports), all_arrivals(reports), summary.wall_seconds,
      speed(summary, reports));
  const char* comma = "";
  for (const Report& report : reports) {
    out += comma;
    append_run(out, report);
    comma = ",\n";
  }
  out += "]}\n";
  return out;
}

}  // namespace weir::sim
