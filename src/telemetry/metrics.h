// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/time.h"

namespace weir::telemetry {

/// A number that only grows. Threads: any; relaxed, since no other data hangs on it.
class Counter {
 public:
  void add(std::int64_t by = 1) { value_.fetch_add(by, std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

/// A number that goes up and down. Threads: any.
class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

/// A distribution over fixed upper bounds. Units: those of the metric's name, seconds or ratios.
/// Threads: any.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds);
  void observe(double value);
  void observe(Duration value) { observe(to_seconds(value)); }
  [[nodiscard]] std::span<const double> bounds() const { return bounds_; }
  /// Observations at or below bound `index`, not cumulated; the last is "above all".
  [[nodiscard]] std::int64_t in_bucket(std::size_t index) const {
    return buckets_[index].load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] double sum() const;

 private:
  std::span<const double> bounds_;
  std::unique_ptr<std::atomic<std::int64_t>[]> buckets_;
  std::atomic<std::int64_t> sum_nano_{0};
};

enum class MetricKind : std::uint8_t { counter, gauge, histogram };

/// All series of one metric name. `with` finds or makes a series; callers on a hot path keep the
/// reference, which stays valid as long as the Registry (gauges: until `clear`).
/// Bounded: beyond `max_series` every further combination is the one series whose labels are all
/// "other".
/// Threads: any.
template <class Metric>
class Family {
 public:
  Family(std::string name, std::string help, std::vector<std::string> labels,
         std::span<const double> bounds, std::size_t max_series)
      : name_(std::move(name)),
        help_(std::move(help)),
        labels_(std::move(labels)),
        bounds_(bounds),
        max_series_(max_series) {}

  Metric& with(std::initializer_list<std::string_view> values);
  /// Forgets every series; for gauges that are set anew at each scrape.
  void clear();
  /// Calls `visit(label_text, metric)` in the order of the labels' text.
  void each(const std::function<void(std::string_view, const Metric&)>& visit) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& help() const { return help_; }

 private:
  std::string name_, help_;
  std::vector<std::string> labels_;
  std::span<const double> bounds_;
  std::size_t max_series_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Metric>, std::less<>> series_;
};

extern template class Family<Counter>;
extern template class Family<Gauge>;
extern template class Family<Histogram>;

/// Bucket bounds. Units: seconds.
/// Source: time to first token and durations follow the OpenTelemetry GenAI conventions, the first
/// extended beyond 10 s because prompts are long here.
std::span<const double> duration_bounds();
std::span<const double> overhead_bounds();
std::span<const double> first_token_bounds();
std::span<const double> per_token_bounds();

/// The metrics of one process: made once, written by all threads, rendered as Prometheus text.
/// Threads: any. The references it hands out live as long as it does.
class Registry {
 public:
  static constexpr std::size_t kMaxSeries = 20'000;

  Family<Counter>& counter(std::string name, std::string help, std::vector<std::string> labels);
  Family<Gauge>& gauge(std::string name, std::string help, std::vector<std::string> labels);
  Family<Histogram>& histogram(std::string name, std::string help, std::vector<std::string> labels,
                               std::span<const double> bounds);

  /// Appends the Prometheus text format 0.0.4, in the order in which families were made.
  void render(std::string& out) const;
  /// "name kind label,label" of each family, in order: what the golden file holds.
  [[nodiscard]] std::string describe() const;
  /// The reference page docs/reference/metrics.md: name, kind, labels and meaning of each family.
  [[nodiscard]] std::string markdown() const;

 private:
  struct Entry {
    MetricKind kind = MetricKind::counter;
    std::string labels;
    std::unique_ptr<Family<Counter>> counter;
    std::unique_ptr<Family<Gauge>> gauge;
    std::unique_ptr<Family<Histogram>> histogram;
  };
  std::vector<Entry> entries_;
};

}  // namespace weir::telemetry
