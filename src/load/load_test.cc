// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "load/call.h"
#include "load/driver.h"
#include "load/report.h"
#include "load/workload.h"

namespace weir::load {
namespace {

using namespace std::chrono_literals;

Result<std::string> no_file(const std::string& name) {
  if (name == "trace.csv") return std::string("seconds,in,out\n0.5,10,20\n1.5,30\n");
  return fail(ErrorCode::io, "no such file");
}

Workload workload(std::string_view text) {
  const auto read = read_workload(text, "load.yaml", &no_file);
  for (const auto& fault : read.faults) ADD_FAILURE() << fault.path << ": " << fault.message;
  return read.workload.value_or(Workload{});
}

std::vector<Arrival> all(const Workload& of) {
  Arrivals arrivals(of);
  std::vector<Arrival> list;
  while (const auto next = arrivals.next()) list.push_back(*next);
  return list;
}

TEST(Arrivals, PoissonHasItsRateAndItsSharesAndIsTheSameForASeed) {
  const Workload of = workload(
      "duration: 600s\narrivals: {per_minute: 600}\n"
      "clients: [{tenant: a, share: 3}, {tenant: b, share: 1}]\n");
  const auto list = all(of);
  EXPECT_NEAR(static_cast<double>(list.size()), 6000, 4 * std::sqrt(6000.0));
  const auto first =
      std::count_if(list.begin(), list.end(), [](const Arrival& each) { return each.client == 0; });
  EXPECT_NEAR(static_cast<double>(first) / static_cast<double>(list.size()), 0.75, 0.03);
  const auto again = all(of);
  ASSERT_EQ(again.size(), list.size());
  EXPECT_EQ(again.back().at, list.back().at);
  EXPECT_EQ(again.back().input_tokens, list.back().input_tokens);
}

TEST(Arrivals, StepsAndPausesAreKept) {
  const auto list =
      all(workload("duration: 100s\narrivals: {steps: [{from: 0s, per_minute: 60}, "
                   "{from: 50s, per_minute: 6000}], on: 5s, off: 5s}\n"));
  std::int64_t early = 0;
  for (const Arrival& each : list) {
    EXPECT_LT(each.at % Duration(10s), 5s);
    if (each.at < 50s) ++early;
  }
  EXPECT_LT(early, 60);
  EXPECT_NEAR(static_cast<double>(list.size()), 2525, 250);
}

TEST(Arrivals, ATraceIsSentAsItStands) {
  const auto list = all(workload("arrivals: {trace: trace.csv}\n"));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].at, 500ms);
  EXPECT_EQ(list[0].input_tokens, 10);
  EXPECT_EQ(list[0].output_tokens, 20);
  EXPECT_EQ(list[1].input_tokens, 30);
}

TEST(ReadWorkload, FaultsNameTheirPlace) {
  const auto read = read_workload("arrivals: {trace: none.csv}\nstraem: 5%\n", "x.yaml", &no_file);
  EXPECT_FALSE(read.workload);
  ASSERT_EQ(read.faults.size(), 2U);
  EXPECT_EQ(read.faults[0].path, "arrivals.trace");
  EXPECT_NE(read.faults[1].fix.find("stream"), std::string::npos);
  EXPECT_FALSE(read_trace("0,1\nx,2\n"));
  EXPECT_FALSE(read_trace("5\n4\n"));
}

TEST(RetryWait, IsTheSdks) {
  const RetrySettings sdk;
  http::Fields none;
  EXPECT_EQ(retry_wait(sdk, 1, 429, none, 0), 500ms);
  EXPECT_EQ(retry_wait(sdk, 2, 500, none, 0), 1s);
  EXPECT_EQ(retry_wait(sdk, 1, 0, none, 0.5), 437'500us);
  EXPECT_FALSE(retry_wait(sdk, 3, 429, none, 0));
  EXPECT_FALSE(retry_wait(sdk, 1, 400, none, 0));
  http::Fields asked;
  asked.add({"retry-after", "7"});
  EXPECT_EQ(retry_wait(sdk, 1, 429, asked, 0), 7s);
  http::Fields exact;
  exact.add({"retry-after-ms", "1500"});
  exact.add({"retry-after", "7"});
  EXPECT_EQ(retry_wait(sdk, 1, 429, exact, 0), 1500ms);
  http::Fields far;
  far.add({"retry-after", "61"});
  EXPECT_EQ(retry_wait(sdk, 1, 429, far, 0), 500ms);
  http::Fields never;
  never.add({"x-should-retry", "false"});
  EXPECT_FALSE(retry_wait(sdk, 1, 429, never, 0));
}

TEST(Figures, JainAndPercentiles) {
  EXPECT_DOUBLE_EQ(jain(std::vector<double>{1, 1, 0}), 2.0 / 3);
  EXPECT_DOUBLE_EQ(jain({}), 1);
  const Percentiles values = percentiles({4ms, 1ms, 3ms, 2ms});
  EXPECT_DOUBLE_EQ(values.p50, 2);
  EXPECT_DOUBLE_EQ(values.p99, 4);
}

/// A provider of two answers: first a refusal, then a success; and a time that a test moves.
class FakeWorld final : public http::Loop, public http::Connector, public Scheduler {
 public:
  class FakeExchange final : public http::Exchange {
   public:
    explicit FakeExchange(int& open) : open_(open) { ++open_; }
    ~FakeExchange() override { --open_; }
    void pause(bool /*paused*/) override {}
    [[nodiscard]] std::optional<Duration> round_trip() const override { return std::nullopt; }

   private:
    int& open_;
  };

  [[nodiscard]] Instant now() const override { return time; }
  void post(std::function<void()> task) override { at(time, std::move(task)); }
  void at(Instant when, std::function<void()> task) override {
    tasks.emplace(when, std::move(task));
  }
  std::unique_ptr<http::Exchange> send(const http::Endpoint& /*endpoint*/, std::string_view head,
                                       std::span<const std::string_view> /*body*/,
                                       http::ResponseSink& sink) override {
    heads.emplace_back(head);
    const bool refuse = sends++ < refusals;
    at(time + 10ms, [this, &sink, refuse] { answer(sink, refuse); });
    return std::make_unique<FakeExchange>(open);
  }
  void answer(http::ResponseSink& sink, bool refuse) {
    if (open == 0) return;
    http::ResponseHead head;
    head.status = refuse ? 429 : 200;
    if (refuse) head.fields.add({"retry-after", "2"});
    sink.on_head(head, "");
    sink.on_body(refuse ? refusal : R"({"usage":{"completion_tokens": 17}})");
    sink.on_end();
  }
  void run() {
    while (!tasks.empty()) {
      auto first = tasks.extract(tasks.begin());
      time = std::max(time, first.key());
      first.mapped()();
    }
  }

  Instant time = Instant(1h);
  std::multimap<Instant, std::function<void()>> tasks;
  std::vector<std::string> heads;
  std::string refusal = "{}";
  int sends = 0;
  int refusals = 0;
  int open = 0;
};

std::vector<CallRecord> drive(const Workload& of, FakeWorld& world) {
  bool done = false;
  Driver driver(of, {.endpoint = {}, .host = "h:1", .path = "/v1"}, world, world, world,
                [&done] { done = true; });
  driver.start();
  world.run();
  EXPECT_TRUE(done);
  EXPECT_EQ(world.open, 0);
  return driver.records();
}

constexpr std::string_view kOneCall =
    "arrivals: {trace: trace.csv}\nduration: 1s\nstream: 0%\n"
    "clients: [{tenant: a, class: batch, key: weir-k}]\n";

TEST(Driver, RetriesAsToldAndRecordsTheWait) {
  FakeWorld world;
  world.refusals = 1;
  const auto records = drive(workload(kOneCall), world);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].outcome, Outcome::ok);
  EXPECT_EQ(records[0].attempts, 2);
  EXPECT_EQ(records[0].seen_429, 1);
  EXPECT_EQ(records[0].output_tokens, 17);
  EXPECT_EQ(records[0].wait, 2010ms);
  EXPECT_NE(world.heads[0].find("authorization: Bearer weir-k\r\n"), std::string::npos);
  EXPECT_NE(world.heads[0].find("x-weir-class: batch\r\n"), std::string::npos);
}

TEST(Driver, GivesUpAfterTheLastAttempt) {
  FakeWorld world;
  world.refusals = 9;
  const auto records = drive(workload(kOneCall), world);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].outcome, Outcome::refused);
  EXPECT_EQ(records[0].attempts, 3);
}

TEST(Driver, SaysForWhatReasonsCallsFailed) {
  FakeWorld world;
  world.refusals = 1'000'000;
  world.refusal = R"({"error":{"message":"say \"please\"","code":"rate_limited"}})";
  const Workload of = workload(
      "arrivals: {per_minute: 60}\nduration: 10s\nretry: {attempts: 1}\n"
      "clients: [{tenant: a}, {tenant: b}]\n");
  const auto records = drive(of, world);
  const Report report = sum_up(of, records);
  ASSERT_GT(report.all.refused, 3);
  ASSERT_EQ(report.reasons.size(), 1U);
  EXPECT_EQ(report.reasons[0].calls, report.all.refused);
  EXPECT_EQ(report.reasons[0].status, 429);
  EXPECT_EQ(report.reasons[0].code, "rate_limited");
  EXPECT_EQ(report.reasons[0].message, "say \"please\"");
  EXPECT_FALSE(report.fairness) << "nobody got anything";
  const std::string text = report_text(report);
  EXPECT_NE(text.find("fairness between tenants - (Jain)"), std::string::npos) << text;
  EXPECT_NE(text.find("    429  rate_limited: say \"please\"\n"), std::string::npos) << text;
  EXPECT_NE(report_json(report).find(R"("fairness":null)"), std::string::npos);
}

TEST(Report, AFigureOfNothingIsADash) {
  const Workload of = workload("arrivals: {per_minute: 60}\n");
  const Report report = sum_up(of, {});
  EXPECT_NE(report_text(report).find("all                      0         -"), std::string::npos)
      << report_text(report);
}

TEST(Driver, ACallThatIsLeftCancelsItsExchange) {
  Workload of = workload(kOneCall);
  of.abort_share = 1;
  of.seed = 5;
  FakeWorld world;
  world.refusals = 9;
  const auto records = drive(of, world);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].outcome, Outcome::aborted);
}

TEST(Driver, BeyondItsBoundNothingIsSent) {
  Workload of = workload(
      "arrivals: {per_minute: 60000}\nduration: 100ms\nin_flight: 1\n"
      "stream: 0%\n");
  FakeWorld world;
  const auto records = drive(of, world);
  const Report report = sum_up(of, records);
  EXPECT_GT(report.all.not_sent, 10);
  EXPECT_GT(report.all.ok, 2);
  EXPECT_EQ(report.all.ok + report.all.not_sent, report.all.calls);
}

}  // namespace
}  // namespace weir::load
