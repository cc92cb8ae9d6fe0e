// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <utility>

namespace weir::telemetry {
namespace {

/// Label values in the text format: backslash, quote and line feed are escaped; other control
/// characters would break a reader's line handling and are left out.
void append_label_value(std::string& out, std::string_view value) {
  constexpr std::size_t kMaxLabel = 128;
  for (const char c : value.substr(0, kMaxLabel)) {
    switch (c) {
      case '\\': out += "\\\\"; break;
      case '"': out += "\\\""; break;
      case '\n': out += "\\n"; break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
  }
}

std::string label_text(const std::vector<std::string>& names,
                       std::initializer_list<std::string_view> values) {
  std::string text;
  auto value = values.begin();
  for (const auto& label : names) {
    if (!text.empty()) text += ',';
    text += label;
    text += "=\"";
    if (value != values.end()) append_label_value(text, *value++);
    text += '"';
  }
  return text;
}

void append_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
}

void append_header(std::string& out, const std::string& name, const std::string& help,
                   std::string_view kind) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind);
}

void append_series_name(std::string& out, std::string_view name, std::string_view labels) {
  out += name;
  if (!labels.empty()) {
    out += '{';
    out += labels;
    out += '}';
  }
  out += ' ';
}

void render_histogram(std::string& out, const std::string& name, std::string_view labels,
                      const Histogram& histogram) {
  std::int64_t cumulated = 0;
  const auto bounds = histogram.bounds();
  const std::string_view separator = labels.empty() ? "" : ",";
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    cumulated += histogram.in_bucket(i);
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels,
                   separator, bounds[i], cumulated);
  }
  cumulated += histogram.in_bucket(bounds.size());
  fmt::format_to(std::back_inserter(out), "{}_bucket{{{}{}le=\"+Inf\"}} {}\n", name, labels,
                 separator, cumulated);
  append_series_name(out, name + "_sum", labels);
  append_number(out, histogram.sum());
  out += '\n';
  append_series_name(out, name + "_count", labels);
  fmt::format_to(std::back_inserter(out), "{}\n", cumulated);
}

constexpr std::array kDurations = {0.005, 0.01, 0.02,  0.04,  0.08,  0.16,  0.32,   0.64,  1.28,
                                   2.56,  5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68};
constexpr std::array kOverheads = {0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005,
                                   0.001,   0.0025,   0.005,   0.01,   0.05,    0.25};
constexpr std::array kFirstTokens = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08,
                                     0.1,   0.25,  0.5,  0.75, 1.0,  2.5,  5.0,
                                     7.5,   10.0,  15.0, 20.0, 30.0, 45.0, 60.0};
constexpr std::array kPerTokens = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                   0.3,  0.4,   0.5,  0.75,  1.0, 2.5};

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) {
    if (!text.empty()) text += ',';
    text += word;
  }
  return text;
}

}  // namespace

std::span<const double> duration_bounds() { return kDurations; }
std::span<const double> overhead_bounds() { return kOverheads; }
std::span<const double> first_token_bounds() { return kFirstTokens; }
std::span<const double> per_token_bounds() { return kPerTokens; }

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds), buckets_(std::make_unique<std::atomic<std::int64_t>[]>(bounds.size() + 1)) {}

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  buckets_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  constexpr double kMaxAddend = 1e9;
  const double bounded = std::clamp(value, -kMaxAddend, kMaxAddend);
  sum_nano_.fetch_add(static_cast<std::int64_t>(bounded * 1e9), std::memory_order_relaxed);
}

std::int64_t Histogram::count() const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i <= bounds_.size(); ++i) total += in_bucket(i);
  return total;
}

double Histogram::sum() const {
  return static_cast<double>(sum_nano_.load(std::memory_order_relaxed)) / 1e9;
}

template <class Metric>
Metric& Family<Metric>::with(std::initializer_list<std::string_view> values) {
  std::string text = label_text(labels_, values);
  const std::lock_guard lock(mutex_);
  auto found = series_.find(text);
  if (found != series_.end()) return *found->second;
  if (series_.size() >= max_series_) {
    text.clear();
    for (const auto& label : labels_) {
      if (!text.empty()) text += ',';
      text += label + "=\"other\"";
    }
    found = series_.find(text);
    if (found != series_.end()) return *found->second;
  }
  std::unique_ptr<Metric> metric;
  if constexpr (std::is_same_v<Metric, Histogram>) {
    metric = std::make_unique<Histogram>(bounds_);
  } else {
    metric = std::make_unique<Metric>();
  }
  return *series_.emplace(std::move(text), std::move(metric)).first->second;
}

template <class Metric>
void Family<Metric>::clear() {
  const std::lock_guard lock(mutex_);
  series_.clear();
}

template <class Metric>
void Family<Metric>::each(const std::function<void(std::string_view, const Metric&)>& visit) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [labels, metric] : series_) visit(labels, *metric);
}

template <class Metric>
std::size_t Family<Metric>::size() const {
  const std::lock_guard lock(mutex_);
  return series_.size();
}

template class Family<Counter>;
template class Family<Gauge>;
template class Family<Histogram>;

Family<Counter>& Registry::counter(std::string name, std::string help,
                                   std::vector<std::string> labels) {
  Entry entry{MetricKind::counter, join(labels), {}, {}, {}};
  entry.counter = std::make_unique<Family<Counter>>(
      std::move(name), std::move(help), std::move(labels), std::span<const double>{}, kMaxSeries);
  entries_.push_back(std::move(entry));
  return *entries_.back().counter;
}

Family<Gauge>& Registry::gauge(std::string name, std::string help,
                               std::vector<std::string> labels) {
  Entry entry{MetricKind::gauge, join(labels), {}, {}, {}};
  entry.gauge = std::make_unique<Family<Gauge>>(std::move(name), std::move(help), std::move(labels),
                                                std::span<const double>{}, kMaxSeries);
  entries_.push_back(std::move(entry));
  return *entries_.back().gauge;
}

Family<Histogram>& Registry::histogram(std::string name, std::string help,
                                       std::vector<std::string> labels,
                                       std::span<const double> bounds) {
  Entry entry{MetricKind::histogram, join(labels), {}, {}, {}};
  entry.histogram = std::make_unique<Family<Histogram>>(std::move(name), std::move(help),
                                                        std::move(labels), bounds, kMaxSeries);
  entries_.push_back(std::move(entry));
  return *entries_.back().histogram;
}

void Registry::render(std::string& out) const {
  for (const auto& entry : entries_) {
    switch (entry.kind) {
      case MetricKind::counter:
        append_header(out, entry.counter->name(), entry.counter->help(), "counter");
        entry.counter->each([&](std::string_view labels, const Counter& counter) {
          append_series_name(out, entry.counter->name(), labels);
          fmt::format_to(std::back_inserter(out), "{}\n", counter.value());
        });
        break;
      case MetricKind::gauge:
        append_header(out, entry.gauge->name(), entry.gauge->help(), "gauge");
        entry.gauge->each([&](std::string_view labels, const Gauge& gauge) {
          append_series_name(out, entry.gauge->name(), labels);
          append_number(out, gauge.value());
          out += '\n';
        });
        break;
      case MetricKind::histogram:
        append_header(out, entry.histogram->name(), entry.histogram->help(), "histogram");
        entry.histogram->each([&](std::string_view labels, const Histogram& histogram) {
          render_histogram(out, entry.histogram->name(), labels, histogram);
        });
        break;
    }
  }
}

std::string Registry::describe() const {
  std::string text;
  for (const auto& entry : entries_) {
    std::string_view kind = "counter";
    const std::string* name = nullptr;
    switch (entry.kind) {
      case MetricKind::counter: name = &entry.counter->name(); break;
      case MetricKind::gauge:
        kind = "gauge";
        name = &entry.gauge->name();
        break;
      case MetricKind::histogram:
        kind = "histogram";
        name = &entry.histogram->name();
        break;
    }
    fmt::format_to(std::back_inserter(text), "{} {} {}\n", *name, kind,
                   entry.labels.empty() ? "-" : entry.labels);
  }
  return text;
}

std::string Registry::markdown() const {
  std::string page =
      "# Metrics\n\n"
      "<!-- Made from the table in src/gateway/meters.cc; edit that. -->\n\n"
      "`GET /metrics` at the admin address, Prometheus text. Base units; no label takes an "
      "unbounded value: tenants beyond the first 100 of the configuration are `other`, model "
      "names and end users are no labels.\n\n"
      "| name | kind | labels | meaning |\n| --- | --- | --- | --- |\n";
  for (const auto& entry : entries_) {
    const auto append = [&](const auto& family, std::string_view kind) {
      fmt::format_to(std::back_inserter(page), "| `{}` | {} | {} | {} |\n", family.name(), kind,
                     entry.labels.empty() ? "" : "`" + entry.labels + "`", family.help());
    };
    switch (entry.kind) {
      case MetricKind::counter: append(*entry.counter, "counter"); break;
      case MetricKind::gauge: append(*entry.gauge, "gauge"); break;
      case MetricKind::histogram: append(*entry.histogram, "histogram"); break;
    }
  }
  return page;
}

}  // namespace weir::telemetry
