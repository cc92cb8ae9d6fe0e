// SPDX-License-Identifier: Apache-2.0
// A caller in strict C99: two calls for one slot. Run by capi_test.cc.
#include <string.h>

#include "weir/weir.h"

// Returns the line of the first thing that is not as it should be, or 0.
#define EXPECT(condition)              \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

int weir_c99_scenario(void);

static int build(weir_policy* policy) {
  weir_deployment deployment;
  weir_rule slots;
  uint32_t id = WEIR_NONE;
  EXPECT(weir_deployment_init(&deployment, sizeof deployment) == WEIR_OK);
  deployment.name = "main";
  deployment.start_level = 1.0;
  EXPECT(weir_policy_add_deployment(policy, &deployment, &id) == WEIR_OK && id == 0);
  EXPECT(weir_rule_init(&slots, sizeof slots) == WEIR_OK);
  slots.unit = WEIR_CONCURRENCY;
  slots.amount = 1;
  EXPECT(weir_policy_add_rule(policy, id, &slots) == WEIR_OK);
  return 0;
}

static int run(weir_governor* governor) {
  weir_request request;
  weir_decision first, second;
  weir_decision events[WEIR_EVENTS_AT_ONCE];
  weir_settlement settlement;
  size_t count = 7;
  int32_t more = 7;
  first.struct_size = second.struct_size = sizeof first;
  EXPECT(weir_request_init(&request, sizeof request) == WEIR_OK);
  request.cookie = 42;
  EXPECT(weir_submit(governor, &request, 1000, &first) == WEIR_OK);
  EXPECT(first.kind == WEIR_GRANTED && first.deployment == 0 && first.call != 0);
  EXPECT(weir_submit(governor, &request, 2000, &second) == WEIR_OK);
  EXPECT(second.kind == WEIR_QUEUED && second.limit_unit == WEIR_CONCURRENCY);
  EXPECT(weir_sent(governor, first.call, 3000) == WEIR_OK);
  EXPECT(weir_settlement_init(&settlement, sizeof settlement) == WEIR_OK);
  EXPECT(weir_settle(governor, first.call, &settlement, 4000, NULL) == WEIR_OK);
  EXPECT(weir_advance(governor, 4000, events, sizeof events[0], WEIR_EVENTS_AT_ONCE, &count,
                      &more) == WEIR_OK);
  EXPECT(count == 1 && more == 0 && events[0].call == second.call && events[0].cookie == 42);
  EXPECT(events[0].kind == WEIR_GRANTED && events[0].queued_ns == 2000);
  EXPECT(weir_cancel(governor, second.call, 5000) == WEIR_OK);
  EXPECT(weir_sent(governor, second.call, 6000) == WEIR_ERROR_ENDED);
  EXPECT(strlen(weir_governor_error(governor)) > 0);
  return 0;
}

int weir_c99_scenario(void) {
  weir_policy* policy = NULL;
  weir_governor* governor = NULL;
  int line = 0;
  if (weir_policy_create(&policy) != WEIR_OK) return __LINE__;
  line = build(policy);
  if (line == 0 && weir_governor_create(policy, 1, 0, &governor) != WEIR_OK) line = __LINE__;
  weir_policy_destroy(policy);
  if (line == 0) line = run(governor);
  weir_governor_destroy(governor);
  return line;
}
