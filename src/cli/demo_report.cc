// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_report.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace weir::cli {
namespace {

constexpr double kMostRejected = 0.0001;
constexpr double kLeastUse = 0.97;
constexpr double kLeastSuccess = 0.999;

const load::Figures* class_of(const Run& run, std::string_view name) {
  const auto found = std::ranges::find(run.report.classes, name, &load::Figures::name);
  return found == run.report.classes.end() ? nullptr : &*found;
}

/// Admitted by a moment, between the samples around it.
double admitted_at(const Run& run, double at) {
  const auto after =
      std::ranges::find_if(run.samples, [at](const Sample& sample) { return sample.at >= at; });
  if (after == run.samples.end()) {
    return run.samples.empty() ? 0 : static_cast<double>(run.samples.back().admitted);
  }
  if (after == run.samples.begin()) return static_cast<double>(after->admitted);
  const Sample& before = *(after - 1);
  const double span = after->at - before.at;
  const double part = span > 0 ? (at - before.at) / span : 1;
  return static_cast<double>(before.admitted) +
         part * static_cast<double>(after->admitted - before.admitted);
}

std::string wait_cell(const load::Figures* figures) {
  if (figures == nullptr) return "-";
  return fmt::format("{:.0f} / {:.0f}", figures->wait.p50, figures->wait.p99);
}

struct Row {
  std::string what;
  std::vector<std::string> cells;
};

std::vector<Row> rows_of(const std::vector<Run>& runs, const DemoLimits& limits) {
  std::vector<Row> rows = {{"calls that succeeded", {}},
                           {"attempts the provider saw", {}},
                           {"provider 429s", {}},
                           {"use of the quota", {}},
                           {"interactive: wait p50 / p99, ms", {}},
                           {"batch: wait p50 / p99, ms", {}},
                           {"fairness between tenants (Jain)", {}}};
  for (const Run& run : runs) {
    const RunFigures figures = figures_of(run, limits);
    rows[0].cells.push_back(
        fmt::format("{:.2f} % of {}", 100 * run.report.all.success(), run.report.all.calls));
    rows[1].cells.push_back(fmt::format("{}", figures.attempts));
    rows[2].cells.push_back(
        fmt::format("{} ({:.2f} %)", figures.rejected, 100 * figures.rejected_share));
    rows[3].cells.push_back(fmt::format("{:.2f} %", 100 * figures.use));
    rows[4].cells.push_back(wait_cell(class_of(run, "interactive")));
    rows[5].cells.push_back(wait_cell(class_of(run, "batch")));
    rows[6].cells.push_back(run.report.fairness ? fmt::format("{:.4f}", *run.report.fairness)
                                                : std::string("-"));
  }
  return rows;
}

/// Admitted and refused attempts a second over time, as bars.
std::string chart(const Run& run, double longest, double tallest) {
  constexpr double kWidth = 640;
  constexpr double kHeight = 140;
  std::string svg = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", kWidth,
                                kHeight, run.name);
  for (std::size_t index = 1; index < run.samples.size(); ++index) {
    const Sample& from = run.samples[index - 1];
    const Sample& to = run.samples[index];
    const double span = to.at - from.at;
    if (span <= 0 || longest <= 0 || tallest <= 0) continue;
    const double left = from.at / longest * kWidth;
    const double width = span / longest * kWidth;
    const double good = static_cast<double>(to.admitted - from.admitted) / span / tallest * kHeight;
    const double bad = static_cast<double>(to.refused - from.refused) / span / tallest * kHeight;
    fmt::format_to(
        std::back_inserter(svg),
        R"(<rect class="good" x="{0:.1f}" y="{1:.1f}" width="{2:.1f}" height="{3:.1f}"/>)"
        R"(<rect class="bad" x="{0:.1f}" y="{4:.1f}" width="{2:.1f}" height="{5:.1f}"/>)",
        left, kHeight - good, width, good, kHeight - good - bad, bad);
  }
  return svg + "</svg>";
}

double tallest_of(const std::vector<Run>& runs) {
  double tallest = 0;
  for (const Run& run : runs) {
    for (std::size_t index = 1; index < run.samples.size(); ++index) {
      const double span = run.samples[index].at - run.samples[index - 1].at;
      if (span <= 0) continue;
      const auto attempts = run.samples[index].attempts - run.samples[index - 1].attempts;
      tallest = std::max(tallest, static_cast<double>(attempts) / span);
    }
  }
  return tallest;
}

constexpr std::string_view kPageHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>weir demo</title><style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #8884; }
svg { width: 100%; background: #8881; margin: .3rem 0 1rem; }
.good { fill: #2a7; } .bad { fill: #d43; }
</style></head><body><h1>The same calls, straight and through weir</h1>
)";

}  // namespace

Result<Sample> read_sample(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::element top;
  Sample sample;
  std::int64_t milliseconds = 0;
  if (parser.parse(json.data(), json.size()).get(top) != simdjson::SUCCESS ||
      top["attempts"].get(sample.attempts) != simdjson::SUCCESS ||
      top["admitted"].get(sample.admitted) != simdjson::SUCCESS ||
      top["refused"].get(sample.refused) != simdjson::SUCCESS ||
      top["inflight"].get(sample.inflight) != simdjson::SUCCESS ||
      top["virtual_ms"].get(milliseconds) != simdjson::SUCCESS) {
    return fail(ErrorCode::malformed, "the emulator's counters are not what they should be");
  }
  sample.at = static_cast<double>(milliseconds) / 1e3;
  return sample;
}

RunFigures figures_of(const Run& run, const DemoLimits& limits) {
  RunFigures figures;
  if (run.samples.empty()) return figures;
  figures.attempts = run.samples.back().attempts;
  figures.rejected = run.samples.back().refused;
  if (figures.attempts > 0) {
    figures.rejected_share =
        static_cast<double>(figures.rejected) / static_cast<double>(figures.attempts);
  }
  const double span = limits.arrivals_end - limits.window;
  const double allowed = static_cast<double>(limits.requests) * span / limits.window;
  if (allowed > 0) {
    figures.use =
        (admitted_at(run, limits.arrivals_end) - admitted_at(run, limits.window)) / allowed;
  }
  return figures;
}

std::vector<std::string> missed_goals(const Run& run, const DemoLimits& limits) {
  const RunFigures figures = figures_of(run, limits);
  std::vector<std::string> missed;
  if (figures.rejected_share > kMostRejected) {
    missed.push_back(fmt::format("provider 429s {:.3f} % of attempts, the goal is {:.2f} %",
                                 100 * figures.rejected_share, 100 * kMostRejected));
  }
  if (figures.use < kLeastUse) {
    missed.push_back(fmt::format("use of the quota {:.2f} %, the goal is {:.0f} %",
                                 100 * figures.use, 100 * kLeastUse));
  }
  if (run.report.all.success() < kLeastSuccess) {
    missed.push_back(fmt::format("{:.2f} % of the calls succeeded, the goal is {:.1f} %",
                                 100 * run.report.all.success(), 100 * kLeastSuccess));
  }
  return missed;
}

std::string demo_text(const std::vector<Run>& runs, const DemoLimits& limits) {
  std::string text = fmt::format("\n{:<34}", "");
  for (const Run& run : runs) text += fmt::format("{:>24}", run.name);
  text += '\n';
  for (const Row& row : rows_of(runs, limits)) {
    text += fmt::format("{:<34}", row.what);
    for (const auto& cell : row.cells) text += fmt::format("{:>24}", cell);
    text += '\n';
  }
  return text;
}

std::string demo_json(const std::vector<Run>& runs, const DemoLimits& limits) {
  std::string json = R"({"runs":[)";
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const RunFigures figures = figures_of(runs[index], limits);
    fmt::format_to(
        std::back_inserter(json),
        R"({}{{"name":"{}","provider_attempts":{},"provider_429s":{},"provider_429_share":{:.6f},)"
        R"("quota_use":{:.6f},"success":{:.6f},"fairness":{},"load":{}}})",
        index == 0 ? "" : ",", runs[index].name, figures.attempts, figures.rejected,
        figures.rejected_share, figures.use, runs[index].report.all.success(),
        runs[index].report.fairness ? fmt::format("{:.6f}", *runs[index].report.fairness) : "null",
        load::report_json(runs[index].report));
  }
  const auto missed = runs.empty() ? std::vector<std::string>{} : missed_goals(runs.back(), limits);
  json += R"(],"missed_goals":[)";
  for (std::size_t index = 0; index < missed.size(); ++index) {
    json += fmt::format("{}\"{}\"", index == 0 ? "" : ",", missed[index]);
  }
  return json + "]}";
}

std::string demo_html(const std::vector<Run>& runs, const DemoLimits& limits) {
  std::string html(kPageHead);
  html += fmt::format(
      "<p>The provider allows {} requests in {:.0f} s. Its own counters, both times; the calls, "
      "their seed and their times are the same.</p>\n<table><tr><th></th>",
      limits.requests, limits.window);
  for (const Run& run : runs) html += fmt::format("<th>{}</th>", run.name);
  html += "</tr>\n";
  for (const Row& row : rows_of(runs, limits)) {
    html += fmt::format("<tr><th>{}</th>", row.what);
    for (const auto& cell : row.cells) html += fmt::format("<td>{}</td>", cell);
    html += "</tr>\n";
  }
  html +=
      "</table>\n<p>Attempts a second at the provider: <span style=\"color:#2a7\">\u25a0</span> "
      "admitted (green), <span style=\"color:#d43\">\u25a0</span> refused with 429 (red).</p>\n";
  double longest = 0;
  for (const Run& run : runs) {
    if (!run.samples.empty()) longest = std::max(longest, run.samples.back().at);
  }
  for (const Run& run : runs) {
    html += fmt::format("<h2>{}</h2>\n{}\n", run.name, chart(run, longest, tallest_of(runs)));
  }
  return html + "</body></html>\n";
}

}  // namespace weir::cli
