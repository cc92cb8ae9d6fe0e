// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "weir/governor.h"
#include "weir/rng.h"
#include "weir/weir.h"

extern "C" int weir_c99_scenario(void);

namespace weir::capi {
namespace {

using std::chrono::seconds;
constexpr std::int64_t kSecond = 1'000'000'000;

template <class Struct, class Init>
Struct made(Init init) {
  Struct one;
  EXPECT_EQ(init(&one, sizeof one), WEIR_OK);
  return one;
}
weir_rule rule(std::int32_t unit, std::int64_t amount, std::int64_t window_ns) {
  auto one = made<weir_rule>(weir_rule_init);
  one.unit = unit;
  one.amount = amount;
  one.window_ns = window_ns;
  one.enforce = WEIR_SLIDING;
  return one;
}
weir_deployment deployment(const char* name) {
  auto one = made<weir_deployment>(weir_deployment_init);
  one.name = name;
  one.start_level = 1;
  one.guard_ns = 0;
  one.margin = 0;
  return one;
}
weir_decision decision() {
  weir_decision one{};
  one.struct_size = sizeof one;
  return one;
}

/// A policy with one deployment, and the governor made of it.
class CApi : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(weir_policy_create(&policy), WEIR_OK); }
  void TearDown() override {
    weir_policy_destroy(policy);
    weir_governor_destroy(governor);
  }
  void start(const weir_rule& limit) {
    const weir_deployment main = deployment("main");
    ASSERT_EQ(weir_policy_add_deployment(policy, &main, &id), WEIR_OK);
    ASSERT_EQ(weir_policy_add_rule(policy, id, &limit), WEIR_OK) << weir_policy_error(policy);
    ASSERT_EQ(weir_governor_create(policy, 1, 0, &governor), WEIR_OK) << weir_policy_error(policy);
  }
  weir_decision submit(std::int64_t now_ns, std::int64_t max_wait_ns = WEIR_UNKNOWN) {
    auto request = made<weir_request>(weir_request_init);
    request.max_wait_ns = max_wait_ns;
    weir_decision out = decision();
    EXPECT_EQ(weir_submit(governor, &request, now_ns, &out), WEIR_OK)
        << weir_governor_error(governor);
    return out;
  }
  std::vector<weir_decision> advance(std::int64_t now_ns) {
    std::vector<weir_decision> events(WEIR_EVENTS_AT_ONCE);
    std::size_t count = 0;
    std::int32_t more = 1;
    EXPECT_EQ(weir_advance(governor, now_ns, events.data(), sizeof(weir_decision), events.size(),
                           &count, &more),
              WEIR_OK);
    EXPECT_EQ(more, 0);
    events.resize(count);
    return events;
  }

  weir_policy* policy = nullptr;
  weir_governor* governor = nullptr;
  std::uint32_t id = WEIR_NONE;
};

TEST(CApiVersion, IsTheHeaders) {
  const std::string compiled = std::to_string(WEIR_VERSION_MAJOR) + "." +
                               std::to_string(WEIR_VERSION_MINOR) + "." +
                               std::to_string(WEIR_VERSION_PATCH);
  EXPECT_EQ(weir_version(), compiled);
}

TEST(CApiVersion, ConstantsAreThoseOfTheGovernor) {
  EXPECT_EQ(WEIR_CONCURRENCY, static_cast<int>(Unit::concurrency));
  EXPECT_EQ(WEIR_ENFORCE_UNKNOWN, static_cast<int>(Enforcement::unknown));
  EXPECT_EQ(WEIR_COUNTER, static_cast<int>(Enforcement::counter));
  EXPECT_EQ(WEIR_COUNT_INPUT, static_cast<int>(Counting::input));
  EXPECT_EQ(WEIR_SHAPING, static_cast<int>(Strategy::shaping));
  EXPECT_EQ(WEIR_OBSERVE, static_cast<int>(Mode::observe));
  EXPECT_EQ(WEIR_NEVER_SENT, static_cast<int>(Ending::never_sent));
  EXPECT_EQ(WEIR_REASON_NOT_ALLOWED, static_cast<int>(Decision::not_allowed));
  EXPECT_EQ(WEIR_NONE, NodeId::kNoneValue);
  EXPECT_STREQ(weir_reason_name(WEIR_REASON_QUEUE_TIMEOUT), "queue_timeout");
  EXPECT_STREQ(weir_reason_name(99), "unknown");
  for (std::int32_t status = WEIR_ERROR_INTERNAL; status <= WEIR_BOOKED_LATE; ++status) {
    EXPECT_STRNE(weir_status_text(status), weir_status_text(99)) << status;
  }
}

TEST(CApiFromC, AStrictC99ProgramRuns) { EXPECT_EQ(weir_c99_scenario(), 0) << "a line of it"; }

TEST(CApiMisuse, NullIsAnErrorEverywhere) {
  weir_policy_destroy(nullptr);
  weir_governor_destroy(nullptr);
  EXPECT_STREQ(weir_policy_error(nullptr), "");
  EXPECT_STREQ(weir_governor_error(nullptr), "");
  EXPECT_EQ(weir_policy_create(nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_rule_init(nullptr, sizeof(weir_rule)), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_policy_set_max_calls(nullptr, 1), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_policy_add_deployment(nullptr, nullptr, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_policy_add_rule(nullptr, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_policy_add_node(nullptr, nullptr, 0, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_policy_add_class(nullptr, nullptr, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_policy_add_model(nullptr, nullptr, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_policy_add_candidate(nullptr, 0, 0, 0, 1), WEIR_ERROR_NULL);
  weir_governor* governor = nullptr;
  EXPECT_EQ(weir_governor_create(nullptr, 1, 0, &governor), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_governor_create(nullptr, 1, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_governor_apply(nullptr, nullptr, 0), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_submit(nullptr, nullptr, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_advance(nullptr, 0, nullptr, 0, 0, nullptr, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_next_deadline(nullptr, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_sent(nullptr, 1, 0), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_progress(nullptr, 1, 0, 0), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_observe(nullptr, 0, nullptr, 0), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_rejected(nullptr, 1, nullptr, 0, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_settle(nullptr, 1, nullptr, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_cancel(nullptr, 1, 0), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_snapshot(nullptr, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_snapshot_deployment(nullptr, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_snapshot_meter(nullptr, 0, 0, nullptr), WEIR_ERROR_NULL);
}

TEST_F(CApi, NullArgumentsOfAGoodHandleToo) {
  start(rule(WEIR_REQUESTS, 10, kSecond));
  weir_decision out = decision();
  const weir_call call = submit(0).call;
  EXPECT_EQ(weir_policy_add_deployment(policy, nullptr, &id), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_policy_add_rule(policy, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_policy_add_node(policy, nullptr, WEIR_NONE, 0, &id), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_submit(governor, nullptr, 0, &out), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_next_deadline(governor, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_settle(governor, call, nullptr, 0, nullptr), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_rejected(governor, call, nullptr, 0, 0, &out), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_observe(governor, 0, nullptr, 0), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_governor_apply(governor, nullptr, 0), WEIR_ERROR_NULL);
  EXPECT_EQ(weir_snapshot(governor, 0, nullptr), WEIR_ERROR_NULL);
}

TEST_F(CApi, ABadRuleIsNamedAndChangesNothing) {
  weir_deployment main = deployment("main");
  ASSERT_EQ(weir_policy_add_deployment(policy, &main, &id), WEIR_OK);
  const auto refused = [&](weir_rule bad, std::int32_t status, const char* word) {
    EXPECT_EQ(weir_policy_add_rule(policy, id, &bad), status) << word;
    EXPECT_NE(std::strstr(weir_policy_error(policy), word), nullptr) << weir_policy_error(policy);
  };
  refused(rule(WEIR_CONCURRENCY + 1, 1, kSecond), WEIR_ERROR_RANGE, "unit");
  refused(rule(-1, 1, kSecond), WEIR_ERROR_RANGE, "unit");
  refused(rule(WEIR_REQUESTS, -1, kSecond), WEIR_ERROR_RANGE, "amount");
  refused(rule(WEIR_REQUESTS, INT64_MAX, kSecond), WEIR_ERROR_RANGE, "amount");
  refused(rule(WEIR_REQUESTS, 1, 0), WEIR_ERROR_RANGE, "window_ns");
  refused(rule(WEIR_REQUESTS, 1, INT64_MAX), WEIR_ERROR_RANGE, "window_ns");
  refused(rule(WEIR_CONCURRENCY, 1, kSecond), WEIR_ERROR_RANGE, "window_ns");
  weir_rule deep = rule(WEIR_REQUESTS, 1, kSecond);
  deep.burst = 5;
  refused(deep, WEIR_ERROR_RANGE, "burst");
  deep.enforce = WEIR_BUCKET;
  deep.burst = 0;
  refused(deep, WEIR_ERROR_RANGE, "burst");
  weir_rule counted = rule(WEIR_TOTAL_TOKENS, 1, kSecond);
  counted.count = 9;
  refused(counted, WEIR_ERROR_RANGE, "count");
  const weir_rule good = rule(WEIR_REQUESTS, 1, kSecond);
  EXPECT_EQ(weir_policy_add_rule(policy, id + 1, &good), WEIR_ERROR_NOT_FOUND);
  EXPECT_EQ(weir_policy_add_rule(policy, id, &good), WEIR_OK);
  refused(rule(WEIR_REQUESTS, 2, kSecond), WEIR_ERROR_DUPLICATE, "second limit");
  for (int i = 2; i <= 16; ++i) {
    const weir_rule more = rule(WEIR_REQUESTS, 1, i * kSecond);
    EXPECT_EQ(weir_policy_add_rule(policy, id, &more), WEIR_OK);
  }
  refused(rule(WEIR_REQUESTS, 1, 99 * kSecond), WEIR_ERROR_TOO_MANY, "16");
}

TEST_F(CApi, ABadDeploymentIsRefused) {
  const auto refused = [&](auto change, std::int32_t status) {
    weir_deployment bad = deployment("main");
    change(bad);
    EXPECT_EQ(weir_policy_add_deployment(policy, &bad, &id), status);
    EXPECT_STRNE(weir_policy_error(policy), "");
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::string long_name(300, 'n');
  refused([](auto& bad) { bad.name = nullptr; }, WEIR_ERROR_NULL);
  refused([](auto& bad) { bad.name = ""; }, WEIR_ERROR_RANGE);
  refused([&](auto& bad) { bad.name = long_name.c_str(); }, WEIR_ERROR_RANGE);
  refused([](auto& bad) { bad.strategy = 4; }, WEIR_ERROR_RANGE);
  refused([](auto& bad) { bad.start_level = kNan; }, WEIR_ERROR_RANGE);
  refused([](auto& bad) { bad.margin = 1; }, WEIR_ERROR_RANGE);
  refused([](auto& bad) { bad.bytes_per_token = 0; }, WEIR_ERROR_RANGE);
  refused([](auto& bad) { bad.retry_attempts = 0; }, WEIR_ERROR_RANGE);
  refused([](auto& bad) { bad.retry_cap_ns = bad.retry_base_ns - 1; }, WEIR_ERROR_RANGE);
  refused([](auto& bad) { bad.struct_size = 8; }, WEIR_ERROR_SIZE);
  refused([](auto& bad) { bad.struct_size = std::size_t{1} << 40; }, WEIR_ERROR_SIZE);
  EXPECT_EQ(weir_governor_create(policy, 1, 0, &governor), WEIR_ERROR_NOT_FOUND);
  EXPECT_EQ(governor, nullptr);
  const weir_deployment good = deployment("main");
  EXPECT_EQ(weir_policy_add_deployment(policy, &good, &id), WEIR_OK);
  refused([](auto&) {}, WEIR_ERROR_DUPLICATE);
}

TEST_F(CApi, NodesClassesAndModelsAreChecked) {
  start(rule(WEIR_REQUESTS, 10, kSecond));
  EXPECT_EQ(weir_policy_add_node(policy, "child", 0, WEIR_ENFORCE, &id), WEIR_ERROR_NOT_FOUND);
  EXPECT_EQ(weir_policy_add_node(policy, "root", WEIR_NONE, 2, &id), WEIR_ERROR_RANGE);
  std::uint32_t parent = WEIR_NONE;
  for (int depth = 0; depth < 16; ++depth) {
    EXPECT_EQ(weir_policy_add_node(policy, std::to_string(depth).c_str(), parent, 0, &parent),
              WEIR_OK);
  }
  EXPECT_EQ(weir_policy_add_node(policy, "deeper", parent, 0, &id), WEIR_ERROR_TOO_MANY);
  EXPECT_EQ(weir_policy_add_node(policy, "3", 0, 0, &id), WEIR_ERROR_DUPLICATE);
  auto traffic_class = made<weir_class>(weir_class_init);
  traffic_class.name = "batch";
  traffic_class.weight = 0;
  EXPECT_EQ(weir_policy_add_class(policy, &traffic_class, &id), WEIR_ERROR_RANGE);
  traffic_class.weight = 1;
  EXPECT_EQ(weir_policy_add_class(policy, &traffic_class, &id), WEIR_OK);
  EXPECT_EQ(weir_policy_add_class(policy, &traffic_class, &id), WEIR_ERROR_DUPLICATE);
  std::uint32_t model = WEIR_NONE;
  for (const std::int32_t odd : {WEIR_RESERVE_MEAN - 1, WEIR_RESERVE_P95 + 1}) {
    EXPECT_EQ(weir_policy_add_model(policy, "chat", odd, &model), WEIR_ERROR_RANGE);
  }
  EXPECT_EQ(weir_policy_add_model(policy, "chat", WEIR_RESERVE_P95, &model), WEIR_OK);
  EXPECT_EQ(weir_governor_apply(governor, policy, 0), WEIR_ERROR_NOT_FOUND)
      << "a model without a deployment";
  EXPECT_EQ(weir_policy_add_candidate(policy, model, 1, 0, 1), WEIR_ERROR_NOT_FOUND);
  EXPECT_EQ(weir_policy_add_candidate(policy, model, 0, 0, 0), WEIR_ERROR_RANGE);
  EXPECT_EQ(weir_policy_add_candidate(policy, model, 0, 0, 1), WEIR_OK);
  EXPECT_EQ(weir_policy_add_candidate(policy, model, 0, 1, 1), WEIR_ERROR_DUPLICATE);
  EXPECT_EQ(weir_governor_apply(governor, policy, 0), WEIR_OK);
}

TEST_F(CApi, CallsThatAreNotThereAndSecondSettlements) {
  start(rule(WEIR_CONCURRENCY, 1, 0));
  const auto settlement = made<weir_settlement>(weir_settlement_init);
  const weir_call call = submit(0).call;
  const weir_call waiting = submit(0).call;
  for (const weir_call none :
       {weir_call{0}, weir_call{77}, ~weir_call{0}, call + (weir_call{1} << 32U)}) {
    EXPECT_EQ(weir_sent(governor, none, 1), WEIR_ERROR_ENDED);
    EXPECT_EQ(weir_progress(governor, none, 1, 1), WEIR_ERROR_ENDED);
    EXPECT_EQ(weir_settle(governor, none, &settlement, 1, nullptr), WEIR_ERROR_ENDED);
    EXPECT_EQ(weir_cancel(governor, none, 1), WEIR_OK);
  }
  EXPECT_EQ(weir_sent(governor, waiting, 1), WEIR_ERROR_NOT_GRANTED);
  EXPECT_EQ(weir_settle(governor, waiting, &settlement, 1, nullptr), WEIR_ERROR_NOT_GRANTED);
  EXPECT_EQ(weir_sent(governor, call, 1), WEIR_OK);
  EXPECT_EQ(weir_settle(governor, call, &settlement, 2, nullptr), WEIR_OK);
  EXPECT_EQ(weir_settle(governor, call, &settlement, 3, nullptr), WEIR_ERROR_ENDED);
  EXPECT_NE(std::strstr(weir_governor_error(governor), "ended"), nullptr);
  EXPECT_EQ(weir_cancel(governor, call, 3), WEIR_OK);
  ASSERT_EQ(advance(3).size(), 1U);
}

TEST_F(CApi, TimesAndCountsOutOfRange) {
  start(rule(WEIR_REQUESTS, 10, kSecond));
  auto request = made<weir_request>(weir_request_init);
  weir_decision out = decision();
  EXPECT_EQ(weir_submit(governor, &request, -1, &out), WEIR_ERROR_RANGE);
  EXPECT_EQ(weir_submit(governor, &request, WEIR_NEVER, &out), WEIR_ERROR_RANGE);
  request.choices = 0;
  EXPECT_EQ(weir_submit(governor, &request, 0, &out), WEIR_ERROR_RANGE);
  request.choices = 1;
  request.input_tokens = -2;
  EXPECT_EQ(weir_submit(governor, &request, 0, &out), WEIR_ERROR_RANGE);
  request.input_tokens = 1;
  request.model = 1;
  EXPECT_EQ(weir_submit(governor, &request, 0, &out), WEIR_ERROR_NOT_FOUND);
  request.model = 0;
  request.node = 1;  // the model's own node, which is none of the program's
  EXPECT_EQ(weir_submit(governor, &request, 0, &out), WEIR_ERROR_NOT_FOUND);
  std::array<weir_decision, WEIR_EVENTS_AT_ONCE> events{};
  std::size_t count = 0;
  std::int32_t more = 0;
  EXPECT_EQ(weir_advance(governor, 0, events.data(), sizeof events[0], 63, &count, &more),
            WEIR_ERROR_RANGE);
  EXPECT_EQ(weir_advance(governor, 0, events.data(), 8, 64, &count, &more), WEIR_ERROR_SIZE);
  auto settlement = made<weir_settlement>(weir_settlement_init);
  settlement.input_tokens = 5;
  EXPECT_EQ(weir_settle(governor, submit(0).call, &settlement, 0, nullptr), WEIR_ERROR_RANGE);
}

// What a program compiled against a later header hands over.
struct LaterRequest {
  weir_request known;
  std::int64_t more;
};

TEST_F(CApi, StructsOfALaterVersion) {
  start(rule(WEIR_REQUESTS, 10, kSecond));
  LaterRequest later{{}, 7};
  ASSERT_EQ(weir_request_init(&later.known, sizeof later), WEIR_OK);
  EXPECT_EQ(later.more, 0) << "what this library does not know is filled with zeros";
  EXPECT_EQ(later.known.struct_size, sizeof later);
  weir_decision out = decision();
  EXPECT_EQ(weir_submit(governor, &later.known, 0, &out), WEIR_OK);
  later.more = 1;
  EXPECT_EQ(weir_submit(governor, &later.known, 0, &out), WEIR_ERROR_SIZE);
}

TEST_F(CApi, TheProvidersRefusalWaitsAgainOrIsFinal) {
  start(rule(WEIR_REQUESTS, 10, kSecond));
  auto signal = made<weir_signal>(weir_signal_init);
  signal.kind = WEIR_SIGNAL_RATE_LIMITED;
  signal.retry_after_ns = 2 * kSecond;
  weir_decision out = decision();
  const weir_call call = submit(0).call;
  ASSERT_EQ(weir_sent(governor, call, 0), WEIR_OK);
  ASSERT_EQ(weir_rejected(governor, call, &signal, 1, 0, &out), WEIR_OK);
  EXPECT_EQ(out.kind, WEIR_QUEUED);
  EXPECT_EQ(out.call, call);
  EXPECT_GE(out.wait_ns, 2 * kSecond);
  std::int64_t due = 0;
  std::vector<weir_decision> events;
  for (int look = 0; look < 10 && events.empty(); ++look) {
    ASSERT_EQ(weir_next_deadline(governor, &due), WEIR_OK);
    events = advance(due);
  }
  EXPECT_GE(due, 2 * kSecond);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, WEIR_GRANTED);
  EXPECT_EQ(events[0].attempt, 2);
  ASSERT_EQ(weir_rejected(governor, call, &signal, 1, due, &out), WEIR_OK);
  EXPECT_EQ(out.kind, WEIR_REFUSED) << "two attempts in all";
  EXPECT_EQ(out.reason, WEIR_REASON_PROVIDER_REJECTED);
  EXPECT_EQ(weir_rejected(governor, call, &signal, 1, due, &out), WEIR_ERROR_ENDED);
  weir_totals totals{sizeof totals, 0, 0};
  ASSERT_EQ(weir_snapshot(governor, due, &totals), WEIR_OK);
  EXPECT_EQ(totals.inflight + totals.queued, 0);
  weir_deployment_view view{};
  view.struct_size = sizeof view;
  ASSERT_EQ(weir_snapshot_deployment(governor, 0, &view), WEIR_OK);
  EXPECT_EQ(view.rejections, 2);
  EXPECT_EQ(view.meters, 1);
  weir_meter_view meter{};
  meter.struct_size = sizeof meter;
  EXPECT_EQ(weir_snapshot_meter(governor, 0, 0, &meter), WEIR_OK);
  EXPECT_EQ(weir_snapshot_meter(governor, 0, 1, &meter), WEIR_ERROR_NOT_FOUND);
  EXPECT_EQ(weir_snapshot_deployment(governor, 1, &view), WEIR_ERROR_NOT_FOUND);
}

TEST_F(CApi, LimitsAreNamedByTheProgramsNumbers) {
  const weir_rule none = rule(WEIR_REQUESTS, 0, kSecond);
  std::uint32_t node = WEIR_NONE;
  std::uint32_t model = WEIR_NONE;
  const weir_deployment main = deployment("main");
  ASSERT_EQ(weir_policy_add_deployment(policy, &main, &id), WEIR_OK);
  ASSERT_EQ(weir_policy_add_node(policy, "acme", WEIR_NONE, WEIR_ENFORCE, &node), WEIR_OK);
  ASSERT_EQ(weir_policy_add_model(policy, "open", 0, &model), WEIR_OK);
  ASSERT_EQ(weir_policy_add_candidate(policy, model, id, 0, 1), WEIR_OK);
  ASSERT_EQ(weir_policy_add_model(policy, "closed", 0, &model), WEIR_OK);
  ASSERT_EQ(weir_policy_add_candidate(policy, model, id, 0, 1), WEIR_OK);
  ASSERT_EQ(weir_policy_limit_model(policy, model, &none), WEIR_OK);
  ASSERT_EQ(weir_governor_create(policy, 1, 0, &governor), WEIR_OK);
  auto request = made<weir_request>(weir_request_init);
  request.model = model;
  weir_decision out = decision();
  ASSERT_EQ(weir_submit(governor, &request, 0, &out), WEIR_OK);
  EXPECT_EQ(out.kind, WEIR_REFUSED);
  EXPECT_EQ(out.call, 0U);
  EXPECT_EQ(out.limit_model, model);
  EXPECT_EQ(out.limit_node, WEIR_NONE);
  ASSERT_EQ(weir_policy_limit_node(policy, node, &none), WEIR_OK);
  ASSERT_EQ(weir_governor_apply(governor, policy, 0), WEIR_OK);
  request.model = 0;
  ASSERT_EQ(weir_submit(governor, &request, 0, &out), WEIR_OK);
  EXPECT_EQ(out.limit_node, node);
  EXPECT_EQ(out.limit_model, WEIR_NONE);
}

/// The same traffic through both interfaces, one step after another.
class Twins : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    Policy same;
    same.nodes = {{"default", NodeKind::organization, NodeId(), {}, Mode::enforce},
                  {"*", NodeKind::profile, NodeId(), {}, Mode::enforce}};
    DeploymentPolicy main;
    main.name = "main";
    main.start_level = 1;
    main.guard = Duration{0};
    main.margin = 0;
    main.rules = {
        {Unit::requests, 20, seconds(10), Enforcement::sliding, Counting::reserve, {}},
        {Unit::total_tokens, 8000, seconds(10), Enforcement::bucket, Counting::settle, {}}};
    same.deployments = {main};
    ProfilePolicy all;
    all.name = "*";
    all.node = NodeId(1);
    all.candidates = {{DeploymentId(0), 0, 1}};
    same.profiles = {all};
    ClassPolicy one;
    one.name = "default";
    same.classes = {one};
    twin = std::make_unique<governor::Governor>(std::make_shared<Policy>(same), 1,
                                                Instant(Duration(0)));
    weir_rule tokens = rule(WEIR_TOTAL_TOKENS, 8000, 10 * kSecond);
    tokens.enforce = WEIR_BUCKET;
    const weir_deployment same_main = deployment("main");
    const weir_rule requests = rule(WEIR_REQUESTS, 20, 10 * kSecond);
    ASSERT_EQ(weir_policy_add_deployment(policy, &same_main, &id), WEIR_OK);
    ASSERT_EQ(weir_policy_add_rule(policy, id, &requests), WEIR_OK);
    ASSERT_EQ(weir_policy_add_rule(policy, id, &tokens), WEIR_OK);
    ASSERT_EQ(weir_governor_create(policy, 1, 0, &governor), WEIR_OK);
  }

  // The call's id in both, and what was decided: of the C++ interface.
  struct Pair {
    CallId id;
    weir_call call = 0;
    bool granted = false;
  };
  Pair submit_both(std::int64_t now_ns, std::int64_t input) {
    Call call;
    call.leaf = NodeId(0);
    call.profile = ProfileId(0);
    call.traffic_class = ClassId(0);
    call.demand.input_tokens = input;
    const governor::Outcome outcome = twin->submit(call, Instant(Duration(now_ns)));
    auto request = made<weir_request>(weir_request_init);
    request.input_tokens = input;
    weir_decision out = decision();
    EXPECT_EQ(weir_submit(governor, &request, now_ns, &out), WEIR_OK);
    EXPECT_EQ(static_cast<std::size_t>(out.kind), outcome.index());
    Pair pair;
    pair.call = out.call;
    if (const auto* admitted = std::get_if<governor::Admitted>(&outcome)) {
      pair.id = admitted->call;
      pair.granted = true;
      EXPECT_EQ(out.output_tokens, admitted->grant.reserved.output_tokens);
    } else if (const auto* queued = std::get_if<governor::Queued>(&outcome)) {
      pair.id = queued->call;
      EXPECT_EQ(out.wait_ns, queued->expected_wait.count());
    } else if (const auto* refused = std::get_if<governor::Refused>(&outcome)) {
      EXPECT_EQ(out.reason, static_cast<int>(refused->refusal.decision));
    }
    return pair;
  }
  void end_both(const Pair& pair, std::int64_t now_ns, std::int64_t output) {
    const Instant now{Duration(now_ns)};
    twin->sent(pair.id, now);
    EXPECT_EQ(weir_sent(governor, pair.call, now_ns), WEIR_OK);
    Settlement mine;
    mine.reported = Usage{50, output, std::nullopt, std::nullopt};
    EXPECT_EQ(twin->settle(pair.id, mine, now), governor::Settled::settled);
    auto theirs = made<weir_settlement>(weir_settlement_init);
    theirs.input_tokens = 50;
    theirs.output_tokens = output;
    weir_usage charged{sizeof charged, 0, 0};
    EXPECT_EQ(weir_settle(governor, pair.call, &theirs, now_ns, &charged), WEIR_OK);
    EXPECT_EQ(charged.output_tokens, output);
  }

  std::unique_ptr<governor::Governor> twin;
};

TEST_F(Twins, TheSameDecisionsAsTheCppInterface) {
  Rng rng(7);
  std::vector<Pair> waiting;
  std::int64_t now_ns = 0;
  int granted = 0;
  int late = 0;
  for (int step = 0; step < 600; ++step) {
    // Quiet at first, then more than the limits allow.
    now_ns += static_cast<std::int64_t>(rng.below(step < 200 ? 2'000'000'000 : 400'000'000));
    const Pair pair = submit_both(now_ns, static_cast<std::int64_t>(rng.below(100)));
    if (pair.granted) {
      ++granted;
      end_both(pair, now_ns, static_cast<std::int64_t>(rng.below(200)));
    } else if (pair.call != 0) {
      waiting.push_back(pair);
    }
    std::vector<governor::Event> mine;
    twin->advance(Instant(Duration(now_ns)), mine);
    const std::vector<weir_decision> theirs = advance(now_ns);
    ASSERT_EQ(theirs.size(), mine.size()) << "step " << step;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const bool grant = std::holds_alternative<Grant>(mine[i].what);
      ASSERT_EQ(theirs[i].kind, grant ? WEIR_GRANTED : WEIR_REFUSED);
      ++late;
      if (grant) end_both({mine[i].call, theirs[i].call, true}, now_ns, 100);
    }
    std::int64_t due = 0;
    ASSERT_EQ(weir_next_deadline(governor, &due), WEIR_OK);
    ASSERT_EQ(due, twin->next_deadline().time_since_epoch().count());
  }
  EXPECT_GT(granted, 10) << "some went at once";
  EXPECT_GT(late, 100) << "and many waited";
  governor::Snapshot mine;
  twin->snapshot(mine, Instant(Duration(now_ns)));
  weir_totals totals{sizeof totals, 0, 0};
  ASSERT_EQ(weir_snapshot(governor, now_ns, &totals), WEIR_OK);
  EXPECT_EQ(totals.queued, mine.queued);
  weir_meter_view meter{};
  meter.struct_size = sizeof meter;
  ASSERT_EQ(weir_snapshot_meter(governor, 0, 1, &meter), WEIR_OK);
  EXPECT_EQ(meter.used, mine.deployments[0].meters[1].used);
  EXPECT_EQ(meter.remaining, mine.deployments[0].meters[1].remaining);
}

}  // namespace
}  // namespace weir::capi
