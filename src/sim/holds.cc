// SPDX-License-Identifier: Apache-2.0
#include "sim/holds.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "governor/congestion.h"
#include "weir/rng.h"

namespace weir::sim {
namespace {

constexpr std::int64_t kRowsLeast = 5000;
constexpr std::int64_t kWorkers = 16;
// Of the published rule: the moving average takes a tenth of each row, and twice of it is too much.
constexpr double kAverage = 0.1;
constexpr double kTooSlow = 2;

struct Running {
  Instant ends;
  governor::Congestion::Of of;
  std::size_t row = 0;
  bool operator>(const Running& other) const { return ends > other.ends; }
};
using Workers = std::priority_queue<Running, std::vector<Running>, std::greater<>>;

/// One order of the rows. `mean_seconds` present: they arrive at random so that `kWorkers` of them
/// run on average; else each starts when a worker is free.
class Replay {
 public:
  Replay(const std::vector<TraceRow>& rows, FalseHolds& found, std::uint64_t seed)
      : rows_(rows), found_(found), rng_(seed) {}

  void play(double mean_seconds) {
    Instant arrival{};
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (mean_seconds > 0) {
        arrival += from_seconds(rng_.exponential(mean_seconds / static_cast<double>(kWorkers)));
        while (!running_.empty() && running_.top().ends <= arrival) finish();
        now_ = std::max(now_, arrival);
      }
      const bool batch = mean_seconds <= 0;
      while (!running_.empty() && full(batch)) finish();
      const Instant ends = now_ + *rows_[row].took;
      running_.push({ends, {under_way() + 1, now_}, row});
      congestion_.granted(under_way(), now_);
    }
    while (!running_.empty()) finish();
    found_.holds += congestion_.holds();
    found_.trials += congestion_.holds() + congestion_.refuted() +
                     (congestion_.state() == governor::Congestion::State::trying ? 1 : 0);
  }

 private:
  [[nodiscard]] std::int64_t under_way() const {
    return static_cast<std::int64_t>(running_.size());
  }
  [[nodiscard]] bool full(bool batch) const {
    if (batch && under_way() >= kWorkers) return true;
    return congestion_.limit() > 0 && under_way() >= congestion_.limit();
  }
  void finish() {
    const Running done = running_.top();
    running_.pop();
    now_ = std::max(now_, done.ends);
    const TraceRow& row = rows_[done.row];
    congestion_.whole(done.of, *row.took, *row.input_tokens, *row.output_tokens, now_);
    if (congestion_.limit() > 0) ++found_.limited;
  }

  const std::vector<TraceRow>& rows_;
  FalseHolds& found_;
  Rng rng_;
  governor::Congestion congestion_;
  Workers running_;
  Instant now_{};
};

void judge_published(const std::vector<TraceRow>& rows, FalseHolds& found) {
  double average = 0;
  std::int64_t before = 0;
  std::int64_t after = 0;
  for (const TraceRow& row : rows) {
    const double each =
        to_seconds(*row.took) / static_cast<double>(std::max<std::int64_t>(1, *row.output_tokens));
    const double next = average > 0 ? average + (each - average) * kAverage : each;
    if (average > 0 && each > kTooSlow * average) ++before;
    if (each > kTooSlow * next) ++after;
    average = next;
  }
  const auto all = static_cast<double>(std::max<std::size_t>(1, rows.size()));
  found.published = static_cast<double>(before) / all;
  found.published_after = static_cast<double>(after) / all;
}

}  // namespace

double FalseHolds::share() const {
  return static_cast<double>(limited) /
         static_cast<double>(std::max<std::int64_t>(1, rows * orders));
}

FalseHolds find_false_holds(const std::vector<TraceRow>& all) {
  std::vector<TraceRow> rows;
  double seconds = 0;
  for (const TraceRow& row : all) {
    if (!row.took || !row.input_tokens || !row.output_tokens || *row.took <= Duration{0}) continue;
    rows.push_back(row);
    seconds += to_seconds(*row.took);
  }
  FalseHolds found;
  found.rows = std::ssize(rows);
  if (rows.empty()) return found;
  judge_published(rows, found);
  const std::int64_t pairs = std::max<std::int64_t>(1, kRowsLeast / (2 * found.rows) + 1);
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const auto seed = static_cast<std::uint64_t>(pair + 1);
    if (pair > 0) {
      Rng rng(seed);
      for (std::size_t i = rows.size() - 1; i > 0; --i) {
        std::swap(rows[i], rows[rng.below(static_cast<std::uint64_t>(i + 1))]);
      }
    }
    Replay(rows, found, seed).play(0);
    Replay(rows, found, seed).play(seconds / static_cast<double>(found.rows));
    found.orders += 2;
  }
  return found;
}

std::vector<TraceRow> bimodal_rows(std::int64_t rows, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<TraceRow> made;
  for (std::int64_t i = 0; i < rows; ++i) {
    TraceRow row;
    row.input_tokens = std::max<std::int64_t>(1, std::llround(rng.log_normal(60, 0.5)));
    const double output = std::clamp(rng.log_normal(1700, 0.9), 5.0, 6144.0);
    row.output_tokens = std::llround(output);
    const bool slow = rng.uniform() < 0.3;
    const double seconds = slow ? 7.9 + 0.0308 * output : 1.3 + 0.0051 * output;
    row.took = from_seconds(seconds * rng.log_normal(1, 0.15));
    made.push_back(row);
  }
  return made;
}

std::string holds_table(const FalseHolds& found) {
  return fmt::format(
      "{} rows, played {} times with other times of arrival\n\n"
      "{:<44}{:>12}\n{:<44}{:>10.2f} %\n{:<44}{:>12}\n{:<44}{:>12}\n{:<44}{:>10.2f} %\n"
      "{:<44}{:>10.2f} %\n\n"
      "Nothing here is congestion: how long a row takes does not depend on how many run.\n",
      found.rows, found.orders, "", "found", "rows under a limit of the governor's",
      100 * found.share(), "limits tried", found.trials, "limits kept", found.holds,
      "published rule, compared before averaging", 100 * found.published,
      "published rule, compared after averaging", 100 * found.published_after);
}

std::string holds_json(const FalseHolds& found) {
  return fmt::format(
      R"({{"rows":{},"orders":{},"limited_rows":{},"limited_share":{:.6f},"trials":{},"holds":{},)"
      R"("published_share":{:.6f},"published_share_after":{:.6f}}})"
      "\n",
      found.rows, found.orders, found.limited, found.share(), found.trials, found.holds,
      found.published, found.published_after);
}

}  // namespace weir::sim
