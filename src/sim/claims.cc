// SPDX-License-Identifier: Apache-2.0
#include "sim/claims.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>

#include "sim/compare.h"

namespace weir::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

/// Runs contenders by name and counts.
class Lab {
 public:
  Lab(std::uint64_t seed, const std::function<void(std::size_t, std::size_t)>& progress)
      : seed_(seed), progress_(progress), contenders_(contenders({})) {}

  Cell run(const Scenario& scenario, std::string_view strategy) {
    const auto found = std::find_if(contenders_.begin(), contenders_.end(),
                                    [&](const Contender& one) { return one.name == strategy; });
    Cell cell = measure(scenario, *found, {seed_}, false);
    ++done_;
    if (progress_) progress_(done_, kRuns);
    return cell;
  }

 private:
  static constexpr std::size_t kRuns = 35;
  std::uint64_t seed_;
  const std::function<void(std::size_t, std::size_t)>& progress_;
  std::vector<Contender> contenders_;
  std::size_t done_ = 0;
};

Rule requests_per(std::int64_t amount, Duration window, Enforcement enforce) {
  return {Unit::requests, amount, window, enforce, Counting::settle, std::nullopt};
}

void set_rules(Scenario& scenario, std::vector<Rule> rules) {
  scenario.told.rules = rules;
  scenario.provider.rules = std::move(rules);
}

/// 600 requests and 600k tokens a minute, calls of 700 tokens: requests are scarce.
Scenario minute_world() {
  Scenario scenario;
  scenario.style = "claims";
  scenario.workload.streaming_share = 0.5;
  scenario.workload.bytes_per_token = 3.6;
  scenario.network.jitter = std::chrono::milliseconds(20);
  scenario.told.guard = std::chrono::milliseconds(20);
  scenario.told.max_wait = seconds(60);
  set_rules(scenario, {requests_per(600, minutes(1), Enforcement::sliding),
                       {Unit::total_tokens, 600'000, minutes(1), Enforcement::sliding,
                        Counting::settle, std::nullopt}});
  return scenario;
}

double failures(const Cell& cell) { return 1 - cell.success(); }

double ratio(double above, double below) {
  return below > 0 ? above / below : std::numeric_limits<double>::infinity();
}

ClaimVerdict reproduced_if(bool holds) {
  return holds ? ClaimVerdict::reproduced : ClaimVerdict::corrected;
}

Claim shaping_failures(Lab& lab) {
  Scenario world = minute_world();
  world.horizon = minutes(20);
  world.told.max_wait = seconds(120);
  world.workload.arrivals.on = seconds(120);
  world.workload.arrivals.off = seconds(80);
  set_load(world, 0.9);
  const Cell none = lab.run(world, "none");
  const Cell shaped = lab.run(world, "dual-bucket");
  const Cell ours = lab.run(world, "weir");
  Claim claim;
  claim.id = "shaping-failures";
  claim.claim = "traffic shaping lowers the share of failed calls";
  claim.published = "35 % -> < 2 %";
  claim.baseline =
      fmt::format("{:.1f} % -> {:.2f} % ({:.2f} % of attempts refused)", 100 * failures(none),
                  100 * failures(shaped), 100 * shaped.share_429());
  claim.weir = fmt::format("{:.2f} % ({:.2f} % of attempts refused)", 100 * failures(ours),
                           100 * ours.share_429());
  claim.verdict = reproduced_if(failures(none) > 0.25 && failures(shaped) < 0.02);
  claim.reason =
      "true of peaks (150 % for 2 min, then a pause) that clients wait out; of lasting overload "
      "nobody serves more than the quota";
  claim.figures = {{"none_failures", failures(none)},
                   {"shaper_failures", failures(shaped)},
                   {"weir_failures", failures(ours)},
                   {"shaper_429s", shaped.share_429()},
                   {"weir_429s", ours.share_429()}};
  return claim;
}

Claim shaping_tokens(Lab& lab) {
  Scenario free = minute_world();
  set_load(free, 1.5);
  Scenario counted = free;
  counted.provider.rejected_counted = true;
  set_rules(counted, {requests_per(600, minutes(1), Enforcement::bucket)});
  set_load(counted, 2.0);
  const auto tokens = [&](const Scenario& world, std::string_view strategy) {
    return static_cast<double>(lab.run(world, strategy).tokens);
  };
  const double free_retry = tokens(free, "retry-jitter");
  const double counted_retry = tokens(counted, "retry-jitter");
  const double free_gain = ratio(tokens(free, "dual-bucket"), free_retry);
  const double counted_gain = ratio(tokens(counted, "dual-bucket"), counted_retry);
  const double free_weir = ratio(tokens(free, "weir"), free_retry);
  const double counted_weir = ratio(tokens(counted, "weir"), counted_retry);
  Claim claim;
  claim.id = "shaping-tokens";
  claim.claim = "traffic shaping raises the tokens served";
  claim.published = "x4";
  claim.baseline =
      fmt::format("x{:.2f}; x{:.2f} where refused attempts count", free_gain, counted_gain);
  claim.weir = fmt::format("x{:.2f}; x{:.2f}", free_weir, counted_weir);
  // Of both kinds of provider, not of one.
  claim.verdict = reproduced_if(free_gain >= 3.5 && counted_gain >= 3.5);
  claim.reason =
      "against basic retry in overload: only where refused attempts use up the quota; where they "
      "are free, retry fills it as well";
  claim.figures = {{"free_gain", free_gain},
                   {"counted_gain", counted_gain},
                   {"weir_free_gain", free_weir},
                   {"weir_counted_gain", counted_weir}};
  return claim;
}

Claim whole_system(Lab& lab) {
  Scenario requests = minute_world();
  set_load(requests, 1.2);
  Scenario tokens = minute_world();
  tokens.horizon = minutes(30);
  tokens.measure_from = minutes(2);
  tokens.workload.streaming_share = 1;
  tokens.workload.input_mean = 1100;
  tokens.workload.output_mean = 250;
  set_rules(tokens, {requests_per(900, minutes(1), Enforcement::sliding),
                     {Unit::total_tokens, 1'000'000, minutes(1), Enforcement::sliding,
                      Counting::settle, std::nullopt}});
  set_load(tokens, 1.2);
  const Cell by_requests = lab.run(requests, "dual-bucket");
  const Cell by_tokens = lab.run(tokens, "dual-bucket");
  const Cell ours_requests = lab.run(requests, "weir");
  const Cell ours_tokens = lab.run(tokens, "weir");
  const auto holds = [](const Cell& cell) { return cell.share_429() < 0.001 && cell.use > 0.85; };
  const auto show = [](const Cell& cell) {
    return fmt::format("{:.3f} % at {:.1f} %", 100 * cell.share_429(), 100 * cell.use);
  };
  Claim claim;
  claim.id = "whole-system";
  claim.claim = "a shaped system has next to no failures at high use";
  claim.published = "< 0.1 % at > 85 %";
  claim.baseline =
      fmt::format("requests scarce: {}; tokens scarce: {}", show(by_requests), show(by_tokens));
  claim.weir = fmt::format("{}; {}", show(ours_requests), show(ours_tokens));
  claim.verdict = reproduced_if(holds(by_requests) && holds(by_tokens));
  claim.reason =
      "refused attempts at 120 % demand: a bucket as large as the quota knows neither the window's "
      "edge nor the tokens under way; a mirror of the window does";
  claim.figures = {{"requests_429s", by_requests.share_429()},
                   {"requests_use", by_requests.use},
                   {"tokens_429s", by_tokens.share_429()},
                   {"tokens_use", by_tokens.use},
                   {"weir_requests_429s", ours_requests.share_429()},
                   {"weir_requests_use", ours_requests.use},
                   {"weir_tokens_429s", ours_tokens.share_429()},
                   {"weir_tokens_use", ours_tokens.use}};
  return claim;
}

/// Everything at one instant: clients that were set off by the same clock tick.
Scenario burst_world(std::size_t calls, const Rule& rule) {
  Scenario world = minute_world();
  world.horizon = minutes(5);
  world.told.max_wait = seconds(120);
  world.workload.arrivals = {};
  world.workload.arrivals.trace =
      std::make_shared<const std::vector<TraceRow>>(calls, TraceRow{seconds(1), {}, {}, {}});
  set_rules(world, {rule});
  return world;
}

/// 400 calls in two seconds on a provider that lets the traffic double every ten seconds, from 20.
Scenario cold_start_world(std::size_t calls) {
  Scenario world = burst_world(calls, requests_per(1200, minutes(1), Enforcement::sliding));
  auto rows = std::make_shared<std::vector<TraceRow>>();
  for (std::size_t call = 0; call < calls; ++call) {
    const auto nth = static_cast<std::int64_t>(call);
    rows->push_back(
        {seconds(1) + Duration(seconds(2)) * nth / static_cast<std::int64_t>(calls), {}, {}, {}});
  }
  world.workload.arrivals.trace = std::move(rows);
  world.provider.growth.emplace_back();
  world.told.growth = true;
  return world;
}

Claim server_queue(Lab& lab) {
  const Scenario burst = cold_start_world(400);
  const auto waits_at_provider = [&](Duration longest) {
    Scenario world = burst;
    world.wait.longest = longest;
    return lab.run(world, "none").success();
  };
  const double without = waits_at_provider(Duration{0});
  const double short_wait = waits_at_provider(seconds(15));
  const double mean_wait = waits_at_provider(seconds(30));
  const double long_wait = waits_at_provider(seconds(60));
  const double retried = lab.run(burst, "retry-jitter").success();
  const Cell ours = lab.run(burst, "weir");
  Claim claim;
  claim.id = "server-queue";
  claim.claim = "a queue at the provider saves bursts that grow too fast";
  claim.published = "< 50 % -> > 90 % succeed";
  claim.baseline = fmt::format(
      "{:.0f} % without, {:.0f} / {:.0f} / {:.0f} % with a wait of 15 / 30 / 60 s there; basic "
      "retry, no queue: {:.0f} %",
      100 * without, 100 * short_wait, 100 * mean_wait, 100 * long_wait, 100 * retried);
  claim.weir =
      fmt::format("{:.0f} %, no queue there, {:.2f} % of attempts refused, p99 wait {:.0f} s",
                  100 * ours.success(), 100 * ours.share_429(), ours.p99_s);
  claim.verdict = reproduced_if(without < 0.5 && long_wait > 0.9);
  claim.reason =
      "400 calls in 2 s from a cold start, where traffic may double every 10 s: the share is what "
      "the rule lets in within the wait, so the wait must be as long as the burst needs";
  claim.figures = {{"without", without},
                   {"wait_15s", short_wait},
                   {"wait_30s", mean_wait},
                   {"wait_60s", long_wait},
                   {"retry", retried},
                   {"weir_success", ours.success()},
                   {"weir_429s", ours.share_429()},
                   {"weir_p99_s", ours.p99_s}};
  return claim;
}

/// Of the calls whose first attempt was refused, how many a retry saved.
double saved(const Cell& cell) {
  const std::int64_t first = cell.served - cell.retries_answered;
  return ratio(static_cast<double>(cell.retries_answered), static_cast<double>(cell.calls - first));
}

Claim jitter(Lab& lab) {
  const Scenario by_second = burst_world(400, requests_per(10, seconds(1), Enforcement::fixed));
  const Scenario by_minute = burst_world(1200, requests_per(600, minutes(1), Enforcement::sliding));
  Scenario mixed = minute_world();
  set_rules(mixed, {requests_per(10, seconds(1), Enforcement::fixed)});
  set_load(mixed, 0.95);
  const auto gain = [&](const Scenario& world) {
    const double fixed = saved(lab.run(world, "retry-fixed"));
    return ratio(saved(lab.run(world, "retry-jitter")), fixed);
  };
  const double second = gain(by_second);
  const double minute = gain(by_minute);
  const double spread = gain(mixed);
  const Cell ours_second = lab.run(by_second, "weir");
  const Cell ours_minute = lab.run(by_minute, "weir");
  Claim claim;
  claim.id = "jitter";
  claim.claim = "jitter multiplies the success of retries";
  claim.published = "x3 to x5";
  claim.baseline = fmt::format(
      "all at once: x{:.1f} at 10/s, x{:.2f} at 600/min; spread arrivals at 10/s: x{:.2f}", second,
      minute, spread);
  claim.weir = fmt::format("{:.1f} % and {:.1f} % of the bursts served, {} and {} retries",
                           100 * ours_second.success(), 100 * ours_minute.success(),
                           ours_second.retries, ours_minute.retries);
  claim.verdict = reproduced_if(second >= 3 && minute >= 3 && spread >= 3);
  claim.reason =
      "only of retries that are in step, against a limit of a second; a minute's limit needs "
      "patience, not jitter, and spread arrivals bring their own";
  claim.figures = {{"second_gain", second},
                   {"minute_gain", minute},
                   {"spread_gain", spread},
                   {"weir_second_success", ours_second.success()},
                   {"weir_minute_success", ours_minute.success()}};
  return claim;
}

Claim adaptive(Lab& lab) {
  constexpr std::int64_t kHidden = 1200;
  Scenario world = minute_world();
  world.horizon = minutes(30);
  world.measure_from = minutes(5);
  world.workload.input_mean = 100;
  world.workload.output_mean = 100;
  world.provider.rules = {requests_per(kHidden, minutes(1), Enforcement::sliding)};
  set_load(world, 1.8);
  const auto told = [&](std::int64_t guess) {
    Scenario guessed = world;
    guessed.told.rules = {requests_per(guess, minutes(1), Enforcement::sliding)};
    return guessed;
  };
  const Cell high = lab.run(told(2000), "bucket-empty");
  const Cell low = lab.run(told(840), "bucket-empty");
  const Cell ebp = lab.run(told(2000), "ebp");
  const Cell wrong = lab.run(told(2000), "weir");
  const Cell right = lab.run(told(kHidden), "weir");
  const double fewer = 1 - ratio(ebp.share_429(), high.share_429());
  const double over_low = ratio(ebp.use, low.use) - 1;
  const double over_high = ratio(ebp.use, high.use) - 1;
  Claim claim;
  claim.id = "ebp";
  claim.claim = "adaptive probing (EBP) against a static limit";
  claim.published = "errors -60 %, throughput +35 %";
  claim.baseline = fmt::format(
      "guess 167 % of a hidden limit: errors {:+.0f} %, throughput {:+.0f} %; guess 70 %: "
      "throughput "
      "{:+.0f} %, errors 0 -> {:.2f} %",
      -100 * fewer, 100 * over_high, 100 * over_low, 100 * ebp.share_429());
  claim.weir = fmt::format(
      "told right: {:.2f} % refused at {:.1f} % use; told 167 %: {:.1f} % at {:.1f} %",
      100 * right.share_429(), 100 * right.use, 100 * wrong.share_429(), 100 * wrong.use);
  // Both at once, against one and the same static limit; where that one is never refused there is
  // nothing to cut.
  claim.verdict = reproduced_if((fewer >= 0.6 && over_high >= 0.35) ||
                                (low.share_429() > 0 && over_low >= 0.35));
  claim.reason =
      "each figure needs another static guess to compare with: fewer errors than one too high, "
      "more "
      "throughput than one too low; never both";
  claim.figures = {{"errors_cut", fewer},
                   {"throughput_over_low", over_low},
                   {"throughput_over_high", over_high},
                   {"ebp_use", ebp.use},
                   {"ebp_429s", ebp.share_429()},
                   {"static_429s", high.share_429()},
                   {"weir_told_429s", right.share_429()},
                   {"weir_told_use", right.use},
                   {"weir_wrong_429s", wrong.share_429()},
                   {"weir_wrong_use", wrong.use}};
  return claim;
}

Claim peak_queue(Lab& lab) {
  Scenario world = minute_world();
  world.horizon = minutes(25);
  set_load(world, 0.5);
  const double usual = world.workload.arrivals.rates.front().per_second;
  world.workload.arrivals.of_quota.reset();
  world.workload.arrivals.rates = {
      {Duration{0}, usual}, {minutes(2), 10 * usual}, {minutes(3), usual}};
  Scenario patient = world;
  patient.told.max_wait = minutes(20);
  const Cell retry = lab.run(world, "retry-jitter");
  const Cell queued = lab.run(patient, "bucket-empty");
  const Cell ours = lab.run(patient, "weir");
  Claim claim;
  claim.id = "peak-queue";
  claim.claim = "a queue absorbs peaks of ten times the usual traffic";
  claim.published = "< 0.5 % errors";
  claim.baseline = fmt::format("{:.1f} % with retry alone, {:.2f} % with a queue and a bucket",
                               100 * failures(retry), 100 * failures(queued));
  claim.weir = fmt::format("{:.2f} %, p99 wait {:.0f} s, {:.2f} % of attempts refused",
                           100 * failures(ours), ours.p99_s, 100 * ours.share_429());
  claim.verdict = reproduced_if(failures(queued) < 0.005);
  claim.reason =
      "one minute at ten times half the quota leaves four minutes of work: true for calls that may "
      "wait that long, and for no others";
  claim.figures = {{"retry_failures", failures(retry)}, {"queue_failures", failures(queued)},
                   {"weir_failures", failures(ours)},   {"weir_p99_s", ours.p99_s},
                   {"weir_429s", ours.share_429()},     {"queue_429s", queued.share_429()}};
  return claim;
}

Claim provisioned() {
  Claim claim;
  claim.id = "provisioned";
  claim.claim = "provisioned throughput shortens the slowest answers";
  claim.published = "P99 -60 %";
  claim.verdict = ClaimVerdict::not_reproducible_here;
  claim.reason = "a property of the provider's machines; a model of limits has no say in it";
  return claim;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result;
}

}  // namespace

std::string_view name(ClaimVerdict verdict) {
  switch (verdict) {
    case ClaimVerdict::reproduced: return "reproduced";
    case ClaimVerdict::corrected: return "corrected";
    case ClaimVerdict::not_reproducible_here: return "not reproducible here";
  }
  return "";
}

double Claim::figure(std::string_view name) const {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [&](const auto& one) { return one.first == name; });
  return found == figures.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

std::vector<Claim> measure_claims(std::uint64_t seed,
                                  const std::function<void(std::size_t, std::size_t)>& progress) {
  Lab lab(seed, progress);
  std::vector<Claim> claims;
  claims.push_back(shaping_failures(lab));
  claims.push_back(shaping_tokens(lab));
  claims.push_back(whole_system(lab));
  claims.push_back(server_queue(lab));
  claims.push_back(jitter(lab));
  claims.push_back(adaptive(lab));
  claims.push_back(peak_queue(lab));
  claims.push_back(provisioned());
  return claims;
}

std::string claims_table(const std::vector<Claim>& claims) {
  std::string out = "Published figures, and what the same methods give in this simulator\n";
  auto to = std::back_inserter(out);
  for (const Claim& claim : claims) {
    const auto or_dash = [](const std::string& text) {
      return text.empty() ? std::string("-") : text;
    };
    fmt::format_to(to, "\n{}: {}\n  {:<10} {}\n  {:<10} {}\n  {:<10} {}\n  {:<10} {}: {}\n",
                   claim.id, claim.claim, "published", claim.published, "method",
                   or_dash(claim.baseline), "weir", or_dash(claim.weir), "verdict",
                   name(claim.verdict), claim.reason);
  }
  return out;
}

std::string claims_json(const std::vector<Claim>& claims) {
  std::string out = R"({"claims":[)";
  auto to = std::back_inserter(out);
  const char* comma = "";
  for (const Claim& claim : claims) {
    fmt::format_to(to,
                   R"({}{{"id":"{}","claim":"{}","published":"{}","baseline":"{}","weir":"{}",)"
                   R"("verdict":"{}","reason":"{}","figures":{{)",
                   comma, claim.id, escaped(claim.claim), escaped(claim.published),
                   escaped(claim.baseline), escaped(claim.weir), name(claim.verdict),
                   escaped(claim.reason));
    comma = ",\n";
    const char* inner = "";
    for (const auto& [key, value] : claim.figures) {
      // JSON has no infinity: a gain over nothing is null.
      fmt::format_to(to, R"({}"{}":{})", inner, key,
                     std::isfinite(value) ? fmt::format("{:.6f}", value) : "null");
      inner = ",";
    }
    out += "}}";
  }
  return out + "]}\n";
}

}  // namespace weir::sim
