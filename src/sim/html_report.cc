// SPDX-License-Identifier: Apache-2.0
#include "sim/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>
#include <vector>

namespace weir::sim {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{0}: strategies compared</title><style>
:root {{ color-scheme: light dark; --ink: #1c2530; --soft: #5a6672; --line: #d5dbe1; --back: #fff;
  --card: #f6f8fa; --good: #1f8a5b; --bad: #c8432f; --limit: #8a6d1f;
  --s0: #7a7a7a; --s1: #b3541e; --s2: #c9861a; --s3: #8c4fb0; --s4: #c0417e; --s5: #2b6cb0;
  --s6: #4b7a2b; --s7: #007f7f; --s8: #555; --s9: #996; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6eaee; --soft: #9aa7b3; --line: #36424d;
  --back: #12181e; --card: #1a222a; --good: #4cc38a; --bad: #ff7a66; --limit: #d9b84a;
  --s0: #a8a8a8; --s1: #f08c4f; --s2: #f0bb5a; --s3: #c194e0; --s4: #f086b8; --s5: #72aef0;
  --s6: #98cc70; --s7: #35d0c8; --s8: #bbb; --s9: #cca; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ line-height: 1.2; }} h2 {{ margin-top: 3rem; border-top: 1px solid var(--line);
  padding-top: 1rem; }}
p, li {{ max-width: 46rem; }}
.charts {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); gap: 1rem; }}
figure {{ margin: 0; background: var(--card); border-radius: .5rem; padding: .6rem .8rem; }}
figcaption {{ font-size: .85rem; color: var(--soft); }}
figcaption b {{ color: var(--ink); }}
svg {{ width: 100%; height: auto; display: block; }}
svg text {{ font: 11px system-ui, sans-serif; fill: var(--soft); }}
.grid {{ stroke: var(--line); }} .limit {{ stroke: var(--limit); stroke-dasharray: 4 3; }}
.curve {{ fill: none; stroke-width: 1.6; }} .ours {{ stroke-width: 3; }}
.accepted {{ fill: var(--good); opacity: .75; }} .refused {{ fill: var(--bad); opacity: .85; }}
.window {{ fill: none; stroke: var(--ink); stroke-width: 1.2; }}
.key {{ display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; padding: 0; }}
.key svg {{ display: inline-block; width: 2.2rem; height: .8rem; vertical-align: middle; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: right; padding: .15rem .6rem; border-bottom: 1px solid var(--line); }}
th:nth-child(-n+2), td:nth-child(-n+2) {{ text-align: left; }}
tr.weir {{ font-weight: 600; }}
</style></head><body>
<h1>{0}: strategies compared</h1>
)";

std::string text(std::string_view raw) {
  std::string out;
  for (const char letter : raw) {
    switch (letter) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += letter;
    }
  }
  return out;
}

/// Curves are told apart by colour, dashes and a mark, so that none of the three is needed.
constexpr std::array<std::string_view, 10> kDashes = {"2 3", "6 3",      "6 2 2 2", "8 2", "3 2",
                                                      "1 2", "10 3 2 3", "",        "4 4", "2 6"};

std::string mark(std::size_t which, double x, double y) {
  const std::string colour = fmt::format("var(--s{})", which % 10);
  switch (which % 4) {
    case 0:
      return fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>)", x, y, colour);
    case 1:
      return fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="5" height="5" fill="{}"/>)", x - 2.5,
                         y - 2.5, colour);
    case 2:
      return fmt::format(R"(<path d="M{:.1f} {:.1f}l3.5 6h-7z" fill="{}"/>)", x, y - 3.5, colour);
    default:
      return fmt::format(R"(<path d="M{:.1f} {:.1f}l3.6 3.6l-3.6 3.6l-3.6 -3.6z" fill="{}"/>)", x,
                         y - 3.6, colour);
  }
}

std::string curve_style(std::size_t which, std::string_view name) {
  return fmt::format(R"~(class="curve{}" style="stroke:var(--s{})" stroke-dasharray="{}")~",
                     name == "weir" ? " ours" : "", which % 10, kDashes[which % kDashes.size()]);
}

struct Measure {
  std::string_view title;
  std::string_view unit;
  double (*of)(const Cell&);
  double least_top;  ///< the axis reaches at least this far
};

constexpr std::array kMeasures = {
    Measure{"Success", "% of calls", [](const Cell& cell) { return 100 * cell.success(); }, 100},
    Measure{"Provider 429s", "% of attempts",
            [](const Cell& cell) { return 100 * cell.share_429(); }, 1},
    Measure{"Use of the quota", "% of the scarcest limit",
            [](const Cell& cell) { return 100 * cell.use; }, 100},
    Measure{"Wait, 99 of 100 calls", "seconds at most", [](const Cell& cell) { return cell.p99_s; },
            1}};

/// A round number at or above.
double round_up(double value) {
  if (!(value > 0)) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0}) {
    if (step * power >= value * (1 - 1e-9)) return step * power;
  }
  return 10 * power;
}

std::string against_load(const Comparison& comparison, const std::string& style,
                         const Measure& measure) {
  constexpr double kWidth = 360;
  constexpr double kHeight = 210;
  constexpr double kLeft = 38;
  constexpr double kBottom = 24;
  constexpr double kTop = 10;
  double top = measure.least_top;
  for (const Cell& cell : comparison.cells) {
    if (cell.style == style) top = std::max(top, measure.of(cell));
  }
  top = round_up(top);
  const auto loads = static_cast<double>(std::max<std::size_t>(comparison.loads.size(), 2));
  const auto x_of = [&](std::size_t load) {
    return kLeft + 8 + static_cast<double>(load) * (kWidth - kLeft - 26) / (loads - 1);
  };
  const auto y_of = [&](double value) {
    return kHeight - kBottom - value / top * (kHeight - kBottom - kTop);
  };
  std::string svg = fmt::format(
      R"(<figure><figcaption><b>{0}</b>, {1}</figcaption><svg viewBox="0 0 {2} {3}" role="img">)"
      R"(<title>{0} of each strategy against load, {4}</title><desc>Every figure is in the table )"
      R"(below.</desc>)",
      measure.title, measure.unit, kWidth, kHeight, text(style));
  auto to = std::back_inserter(svg);
  for (int line = 0; line <= 4; ++line) {
    const double value = top * line / 4;
    fmt::format_to(
        to,
        R"(<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/><text x="{3}" )"
        R"(y="{4:.1f}" text-anchor="end">{5:.4g}</text>)",
        kLeft, kWidth - 4, y_of(value), kLeft - 4, y_of(value) + 4, value);
  }
  for (std::size_t load = 0; load < comparison.loads.size(); ++load) {
    fmt::format_to(to, R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x_of(load),
                   kHeight - 8, text(comparison.loads[load]));
  }
  for (std::size_t which = 0; which < comparison.strategies.size(); ++which) {
    const std::string& name = comparison.strategies[which].name;
    std::string points;
    std::string marks;
    for (std::size_t load = 0; load < comparison.loads.size(); ++load) {
      const Cell* cell = comparison.find(style, comparison.loads[load], name);
      if (cell == nullptr) continue;
      const double y = y_of(measure.of(*cell));
      fmt::format_to(std::back_inserter(points), "{:.1f},{:.1f} ", x_of(load), y);
      marks += mark(which, x_of(load), y);
    }
    fmt::format_to(to, R"(<g><title>{}</title><polyline {} points="{}"/>{}</g>)", text(name),
                   curve_style(which, name), points, marks);
  }
  return svg + "</svg></figure>\n";
}

/// Accepted and refused attempts a second as areas, the window's sum as a line.
std::string over_time(const Cell& cell, double tallest, double highest) {
  constexpr double kWidth = 360;
  constexpr double kHeight = 120;
  constexpr double kBottom = 16;
  const double span = std::max(cell.series.back().at_s, 1.0);
  const auto x_of = [&](double at) { return at / span * kWidth; };
  const auto y_of = [&](double value, double top) {
    return kHeight - kBottom - value / top * (kHeight - kBottom - 4);
  };
  std::string accepted = fmt::format("M0 {:.1f}", y_of(0, 1));
  std::string both;
  std::string back;
  std::string window;
  for (const SeriesPoint& point : cell.series) {
    const double x = x_of(point.at_s);
    const double low = y_of(point.accepted_per_s, tallest);
    const double high = y_of(point.accepted_per_s + point.refused_per_s, tallest);
    fmt::format_to(std::back_inserter(accepted), "L{:.1f} {:.1f}", x, low);
    fmt::format_to(std::back_inserter(both), "{}{:.1f} {:.1f}", both.empty() ? "M" : "L", x, high);
    back.insert(0, fmt::format("L{:.1f} {:.1f}", x, low));
    fmt::format_to(std::back_inserter(window), "{:.1f},{:.1f} ", x,
                   y_of(point.window_share, highest));
  }
  fmt::format_to(std::back_inserter(accepted), "L{} {:.1f}z", kWidth, y_of(0, 1));
  return fmt::format(R"(<figure><figcaption><b>{0}</b>, {1:.2f} % of attempts refused</figcaption>)"
                     R"(<svg viewBox="0 0 {2} {3}" role="img"><title>{0} over time</title>)"
                     R"(<path class="accepted" d="{4}"/><path class="refused" d="{5}{6}z"/>)"
                     R"(<line class="limit" x1="0" x2="{2}" y1="{7:.1f}" y2="{7:.1f}"/>)"
                     R"(<polyline class="window" points="{8}"/><text x="2" y="{9}">0 s</text>)"
                     R"(<text x="{2}" y="{9}" text-anchor="end">{10:.0f} s</text></svg></figure>)"
                     "\n",
                     text(cell.strategy), 100 * cell.share_429(), kWidth, kHeight, accepted, both,
                     back, y_of(1, highest), window, kHeight - 4, span);
}

std::string strips(const Comparison& comparison, const std::string& style) {
  double tallest = 1e-9;
  double highest = 1.1;
  std::string out;
  std::vector<const Cell*> shown;
  for (const Cell& cell : comparison.cells) {
    if (cell.style != style || cell.series.empty()) continue;
    shown.push_back(&cell);
    for (const SeriesPoint& point : cell.series) {
      tallest = std::max(tallest, point.accepted_per_s + point.refused_per_s);
      highest = std::max(highest, point.window_share * 1.05);
    }
  }
  if (shown.empty()) return out;
  out += fmt::format(
      "<h3>Over time, at {} of demand</h3>\n<p>Attempts a second: accepted (lower area), refused "
      "with 429 (upper area). Line: the sum over the last window, with the limit dashed.</p>\n"
      "<div class=\"charts\">\n",
      text(comparison.pictured_load));
  for (const Cell* cell : shown) out += over_time(*cell, tallest, highest);
  return out + "</div>\n";
}

struct Column {
  std::string_view key;  ///< as in the JSON
  std::string_view title;
  double (*of)(const Cell&);
  double factor;
  int digits;
};
constexpr std::array kColumns = {
    Column{"success", "success %", [](const Cell& cell) { return cell.success(); }, 100, 2},
    Column{"share_429", "429s %", [](const Cell& cell) { return cell.share_429(); }, 100, 3},
    Column{"attempts_per_call", "attempts per call",
           [](const Cell& cell) { return cell.attempts_per_call(); }, 1, 2},
    Column{"use", "use %", [](const Cell& cell) { return cell.use; }, 100, 2},
    Column{"fifo_use", "FIFO's use %", [](const Cell& cell) { return cell.fifo_use; }, 100, 2},
    Column{"use_of_fifo", "of FIFO", [](const Cell& cell) { return cell.use_of_fifo(); }, 1, 3},
    Column{"wait_p50_s", "p50 wait, s", [](const Cell& cell) { return cell.p50_s; }, 1, 2},
    Column{"wait_p99_s", "p99 wait, s", [](const Cell& cell) { return cell.p99_s; }, 1, 2},
    Column{"window_ratio", "worst window", [](const Cell& cell) { return cell.worst_window; }, 1,
           3}};

std::string figures(const Comparison& comparison, const std::string& style) {
  std::string out = fmt::format(
      "<h3>Figures</h3>\n<div class=\"scroll\" tabindex=\"0\"><table><caption>{}</caption><thead>"
      "<tr><th scope=\"col\">load</th><th scope=\"col\">strategy</th>",
      text(style));
  auto to = std::back_inserter(out);
  for (const Column& column : kColumns) {
    fmt::format_to(to, R"(<th scope="col">{}</th>)", column.title);
  }
  out += "</tr></thead><tbody>\n";
  for (const Cell& cell : comparison.cells) {
    if (cell.style != style) continue;
    fmt::format_to(to,
                   R"(<tr data-style="{}" data-load="{}" data-strategy="{}"{}><td>{}</td><th )"
                   R"(scope="row">{}</th>)",
                   text(cell.style), text(cell.load), text(cell.strategy),
                   cell.strategy == "weir" ? R"( class="weir")" : "", text(cell.load),
                   text(cell.strategy));
    for (const Column& column : kColumns) {
      const double value = column.of(cell);
      fmt::format_to(to, R"(<td data-key="{}" data-value="{:.6f}">{:.{}f}</td>)", column.key, value,
                     value * column.factor, column.digits);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string legend(const Comparison& comparison) {
  std::string out = "<ul class=\"key\">\n";
  for (std::size_t which = 0; which < comparison.strategies.size(); ++which) {
    const Contender& one = comparison.strategies[which];
    fmt::format_to(std::back_inserter(out),
                   R"(<li><svg viewBox="0 0 36 12" aria-hidden="true"><polyline {} )"
                   R"(points="0,6 36,6"/>{}</svg> <b>{}</b>: {}</li>)"
                   "\n",
                   curve_style(which, one.name), mark(which, 18, 6), text(one.name),
                   text(one.title));
  }
  return out + "</ul>\n";
}

}  // namespace

std::string compare_html(const Comparison& comparison) {
  std::string html = fmt::format(fmt::runtime(kHead), text(comparison.name));
  auto to = std::back_inserter(html);
  fmt::format_to(to, "<p>{}. {:.0f} virtual seconds of arrivals", text(comparison.about),
                 comparison.horizon_s);
  html += comparison.seeds.size() == 1 ? ", seed" : ", seeds";
  for (const std::uint64_t seed : comparison.seeds) fmt::format_to(to, " {}", seed);
  html +=
      ". Every strategy meets the same calls at the same times; load is their demand as a share "
      "of the provider's scarcest limit. Use is what that limit was charged; FIFO is a clairvoyant "
      "first-in-first-out that knows every length and keeps each window's sum within the limit. "
      "Where use passes the limit, a provider that charges at the end of an answer let more in "
      "than "
      "it meant to; the worst window says by how much. Beyond 100 % somebody must go without: then "
      "the wait is the clients' patience. The same seed gives the same page.</p>\n";
  html += legend(comparison);
  for (const std::string& fault : comparison.faults()) {
    fmt::format_to(to, "<p role=\"alert\"><b>{}</b></p>\n", text(fault));
  }
  for (std::size_t index = 0; index < comparison.styles.size(); ++index) {
    const std::string& style = comparison.styles[index];
    fmt::format_to(to,
                   "<section aria-label=\"{0}\"><h2>{0}</h2>\n<p>Clients wait up to {1:.0f} s for "
                   "their first attempt.</p>\n<div class=\"charts\">\n",
                   text(style), comparison.patience_s[index]);
    for (const Measure& measure : kMeasures) html += against_load(comparison, style, measure);
    html += "</div>\n";
    html += strips(comparison, style);
    html += figures(comparison, style);
    html += "</section>\n";
  }
  return html + "</body></html>\n";
}

}  // namespace weir::sim
