// SPDX-License-Identifier: Apache-2.0
#include "load/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "config/faults.h"
#include "config/schema.h"
#include "config/section.h"
#include "config/yaml_tree.h"

namespace weir::load {
namespace {

using config::Field;
using config::Record;
using config::Section;
using config::Type;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kDay = 86'400 * kSecond;
constexpr double kSecondsPerMinute = 60;

constexpr Field kStep[] = {
    {.key = "from", .type = Type::duration, .doc = "From when on", .required = true},
    {.key = "per_minute", .type = Type::count, .doc = "Arrivals a minute", .required = true},
};
constexpr Record kStepRecord = {"load_step", "A rate from a time on", kStep};

constexpr Field kArrivals[] = {
    {.key = "per_minute", .type = Type::count, .doc = "Arrivals a minute, Poisson"},
    {.key = "steps", .type = Type::records, .doc = "Rates in steps", .record = &kStepRecord},
    {.key = "on", .type = Type::duration, .doc = "With off: how long arrivals come", .high = kDay},
    {.key = "off", .type = Type::duration, .doc = "How long none come", .high = kDay},
    {.key = "trace", .type = Type::text, .doc = "A CSV file: seconds,input_tokens,output_tokens"},
};
constexpr Record kArrivalsRecord = {"load_arrivals", "When calls come", kArrivals};

constexpr Field kLength[] = {
    {.key = "mean",
     .type = Type::count,
     .doc = "Tokens",
     .fallback = "100",
     .low = 1,
     .high = 1'000'000},
    {.key = "sigma",
     .type = Type::percent,
     .doc = "Of the log-normal; 0%: always the mean",
     .fallback = "70%",
     .high = 300},
    {.key = "cap",
     .type = Type::count,
     .doc = "Longest, tokens",
     .fallback = "8192",
     .low = 1,
     .high = 1'000'000},
};
constexpr Record kLengthRecord = {"load_length", "A length in tokens", kLength};

constexpr Field kRetry[] = {
    {.key = "attempts",
     .type = Type::count,
     .doc = "In all; 1: none",
     .fallback = "3",
     .low = 1,
     .high = 20},
    {.key = "base", .type = Type::duration, .doc = "First wait", .fallback = "500ms", .high = kDay},
    {.key = "cap", .type = Type::duration, .doc = "Longest wait", .fallback = "8s", .high = kDay},
};
constexpr Record kRetryRecord = {"load_retry", "How clients try again", kRetry};

constexpr Field kClient[] = {
    {.key = "tenant", .type = Type::text, .doc = "Whose calls they are", .required = true},
    {.key = "class", .type = Type::text, .doc = "Sent as x-weir-class"},
    {.key = "key", .type = Type::text, .doc = "Its virtual key"},
    {.key = "share",
     .type = Type::count,
     .doc = "Of the arrivals",
     .fallback = "1",
     .low = 1,
     .high = 1'000'000},
};
constexpr Record kClientRecord = {"load_client", "Calls of one kind", kClient};

constexpr Field kWorkload[] = {
    {.key = "seed", .type = Type::count, .doc = "Of everything drawn", .fallback = "1"},
    {.key = "duration",
     .type = Type::duration,
     .doc = "How long calls come",
     .fallback = "30s",
     .low = 1,
     .high = kDay},
    {.key = "model", .type = Type::text, .doc = "The model asked for", .fallback = "toy-chat"},
    {.key = "arrivals",
     .type = Type::record,
     .doc = "When",
     .record = &kArrivalsRecord,
     .required = true},
    {.key = "input_tokens", .type = Type::record, .doc = "Prompts", .record = &kLengthRecord},
    {.key = "output_tokens",
     .type = Type::record,
     .doc = "Answers, asked by max_tokens",
     .record = &kLengthRecord},
    {.key = "stream",
     .type = Type::percent,
     .doc = "Share streamed",
     .fallback = "50%",
     .high = 100},
    {.key = "aborts",
     .type = Type::percent,
     .doc = "Share whose client leaves in the middle",
     .fallback = "0%",
     .high = 100},
    {.key = "retry", .type = Type::record, .doc = "How clients try again", .record = &kRetryRecord},
    {.key = "timeout",
     .type = Type::duration,
     .doc = "Of one attempt",
     .fallback = "600s",
     .low = 1,
     .high = kDay},
    {.key = "in_flight",
     .type = Type::count,
     .doc = "Most calls at once; more are not sent",
     .fallback = "10000",
     .low = 1,
     .high = 100'000},
    {.key = "clients", .type = Type::records, .doc = "Who calls", .record = &kClientRecord},
};
constexpr Record kWorkloadRecord = {"load", "What `weir load` sends", kWorkload};

Length read_length(const Section& section) {
  Length length;
  length.mean = static_cast<double>(section.count("mean").value_or(100));
  length.sigma = section.percent("sigma").value_or(0.7);
  length.cap = section.count("cap").value_or(8192);
  return length;
}

void read_arrivals(const Section& section, Workload& workload, config::Faults& faults,
                   ReadFile read_file) {
  if (const auto rate = section.count("per_minute")) {
    workload.rates.push_back({Duration{0}, static_cast<double>(*rate) / kSecondsPerMinute});
  }
  for (const Section& step : section.sections("steps")) {
    workload.rates.push_back(
        {step.duration("from").value_or(Duration{0}),
         static_cast<double>(step.count("per_minute").value_or(0)) / kSecondsPerMinute});
  }
  std::ranges::stable_sort(workload.rates, {}, &RateStep::from);
  workload.on = section.duration("on").value_or(Duration{0});
  workload.off = section.duration("off").value_or(Duration{0});
  if (section.has("trace")) {
    const auto text = read_file(section.text("trace"));
    auto rows = text ? read_trace(*text) : Result<std::vector<TraceRow>>(fail(text.error()));
    if (!rows) {
      faults.add(section.place("trace"), section.path("trace"), rows.error().text,
                 "give a CSV file of seconds,input_tokens,output_tokens");
    } else {
      workload.trace = std::move(*rows);
    }
  } else if (workload.rates.empty()) {
    faults.add(section.place(), section.path(), "says no rate",
               "give per_minute, steps or a trace");
  }
}

std::optional<std::string> no_environment(std::string_view /*name*/) { return std::nullopt; }

template <class Number>
bool read_number(std::string_view text, Number& into) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), into);
  return failed == std::errc{} && end == text.data() + text.size();
}

}  // namespace

ReadWorkload read_workload(std::string_view text, const std::string& file, ReadFile read_file) {
  config::Faults faults(file);
  ReadWorkload result;
  const auto node = config::parse_yaml(text, faults);
  if (node) {
    config::prepare(*node, "", &no_environment, faults);
    config::check(*node, kWorkloadRecord, "", faults);
    const Section top(node.get(), kWorkloadRecord, "");
    Workload workload;
    workload.seed = static_cast<std::uint64_t>(top.count("seed").value_or(1));
    workload.duration = top.duration("duration").value_or(workload.duration);
    workload.model = top.text("model");
    read_arrivals(top.section("arrivals"), workload, faults, read_file);
    workload.input = read_length(top.section("input_tokens"));
    workload.output = read_length(top.section("output_tokens"));
    workload.stream_share = top.percent("stream").value_or(0.5);
    workload.abort_share = top.percent("aborts").value_or(0);
    const Section retry = top.section("retry");
    workload.retry.attempts = static_cast<std::int32_t>(retry.count("attempts").value_or(3));
    workload.retry.base = retry.duration("base").value_or(workload.retry.base);
    workload.retry.cap = retry.duration("cap").value_or(workload.retry.cap);
    workload.timeout = top.duration("timeout").value_or(workload.timeout);
    workload.in_flight = top.count("in_flight").value_or(workload.in_flight);
    for (const Section& client : top.sections("clients")) {
      workload.clients.push_back({.name = client.text("tenant"),
                                  .traffic_class = client.text("class"),
                                  .key = client.text("key"),
                                  .share = client.count("share").value_or(1)});
    }
    if (workload.clients.empty()) workload.clients.push_back({"default", "", "", 1});
    result.workload = std::move(workload);
  }
  if (!faults.empty()) result.workload.reset();
  result.faults = faults.take();
  return result;
}

Result<std::vector<TraceRow>> read_trace(std::string_view text) {
  std::vector<TraceRow> rows;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.empty() || line == "\r" || line.front() == '#') continue;
    std::vector<std::string_view> cells;
    while (true) {
      const std::size_t comma = line.find(',');
      cells.push_back(line.substr(0, comma));
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
    }
    double seconds = 0;
    if (!read_number(cells[0], seconds)) {
      if (rows.empty() && number == 1) continue;
      return fail(ErrorCode::malformed, fmt::format("line {}: no time in seconds", number));
    }
    TraceRow row;
    row.at = from_seconds(seconds);
    std::int64_t tokens = 0;
    if (cells.size() > 1 && read_number(cells[1], tokens) && tokens >= 0) row.input_tokens = tokens;
    if (cells.size() > 2 && read_number(cells[2], tokens) && tokens >= 0) {
      row.output_tokens = tokens;
    }
    if (!(seconds >= 0) || (!rows.empty() && row.at < rows.back().at)) {
      return fail(ErrorCode::malformed, fmt::format("line {}: time goes back", number));
    }
    rows.push_back(row);
  }
  if (rows.empty()) return fail(ErrorCode::malformed, "the trace has no lines");
  return rows;
}

Arrivals::Arrivals(const Workload& workload)
    : workload_(workload), times_(workload.seed), sizes_(workload.seed ^ 0x6c6f6164ULL) {
  for (const RateStep& step : workload_.rates) peak_ = std::max(peak_, step.per_second);
  for (const Client& client : workload_.clients) shares_ += client.share;
}

double Arrivals::rate_at(Duration at) const {
  double rate = 0;
  for (const RateStep& step : workload_.rates) {
    if (step.from <= at) rate = step.per_second;
  }
  const Duration cycle = workload_.on + workload_.off;
  if (workload_.on.count() > 0 && workload_.off.count() > 0 && at % cycle >= workload_.on) {
    return 0;
  }
  return rate;
}

/// Poisson with a varying rate by thinning: candidates at the peak rate, each kept with the
/// probability rate / peak.
std::optional<Duration> Arrivals::next_time() {
  if (!workload_.trace.empty()) {
    if (row_ >= workload_.trace.size()) return std::nullopt;
    const Duration at = workload_.trace[row_].at;
    return at < workload_.duration ? std::optional(at) : std::nullopt;
  }
  if (peak_ <= 0) return std::nullopt;
  while (true) {
    at_ += from_seconds(times_.exponential(1 / peak_));
    if (at_ >= workload_.duration) return std::nullopt;
    if (times_.uniform() * peak_ < rate_at(at_)) return at_;
  }
}

std::int64_t Arrivals::length(const Length& length) {
  const double drawn = sizes_.log_normal(length.mean, length.sigma);
  const auto tokens = static_cast<std::int64_t>(std::llround(std::min(drawn, 1e9)));
  return std::clamp<std::int64_t>(tokens, 1, length.cap);
}

std::optional<Arrival> Arrivals::next() {
  const auto at = next_time();
  if (!at) return std::nullopt;
  Arrival arrival;
  arrival.at = *at;
  arrival.number = ++number_;
  auto ticket = static_cast<std::int64_t>(sizes_.below(static_cast<std::uint64_t>(shares_)));
  for (std::size_t index = 0; index < workload_.clients.size(); ++index) {
    ticket -= workload_.clients[index].share;
    if (ticket < 0) {
      arrival.client = index;
      break;
    }
  }
  arrival.input_tokens = length(workload_.input);
  arrival.output_tokens = length(workload_.output);
  arrival.stream = sizes_.uniform() < workload_.stream_share;
  if (sizes_.uniform() < workload_.abort_share) arrival.abort_at = sizes_.uniform();
  if (!workload_.trace.empty()) {
    const TraceRow& row = workload_.trace[row_++];
    if (row.input_tokens) arrival.input_tokens = std::max<std::int64_t>(1, *row.input_tokens);
    if (row.output_tokens) arrival.output_tokens = std::max<std::int64_t>(1, *row.output_tokens);
  }
  return arrival;
}

}  // namespace weir::load
