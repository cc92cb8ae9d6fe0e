// SPDX-License-Identifier: Apache-2.0
#include "capi/structs.h"

#include <type_traits>

#include "weir/decision.h"
#include "weir/policy.h"

namespace weir::capi {
namespace {

// Padding at a struct's end would let a new member in without changing the size.
template <class... Structs>
constexpr bool kPacked = (std::has_unique_object_representations_v<Structs> && ...);
static_assert(kPacked<weir_rule, weir_class, weir_request, weir_decision, weir_signal>);
static_assert(kPacked<weir_settlement, weir_usage, weir_totals, weir_meter_view>);
static_assert(sizeof(weir_deployment) ==
              offsetof(weir_deployment, reserved) + sizeof(weir_deployment::reserved));
static_assert(sizeof(weir_deployment_view) ==
              offsetof(weir_deployment_view, meters) + sizeof(weir_deployment_view::meters));

}  // namespace

weir_rule default_rule() {
  weir_rule made{};
  made.burst = WEIR_UNKNOWN;
  made.enforce = WEIR_ENFORCE_UNKNOWN;
  made.count = WEIR_COUNT_SETTLE;
  return made;
}

weir_deployment default_deployment() {
  const DeploymentPolicy from;
  weir_deployment made{};
  made.strategy = WEIR_SHAPING;
  made.start_level = from.start_level;
  made.margin = WEIR_UNKNOWN;
  made.guard_ns = WEIR_UNKNOWN;
  made.warmup_ns = from.warmup.count();
  made.retry_attempts = from.retry.attempts;
  made.retry_base_ns = from.retry.base.count();
  made.retry_cap_ns = from.retry.cap.count();
  made.lease_ns = from.lease.count();
  made.send_lease_ns = from.send_lease.count();
  made.bytes_per_token = from.bytes_per_token;
  made.mean_output_tokens = from.mean_output_tokens;
  return made;
}

weir_class default_class() {
  const ClassPolicy from;
  weir_class made{};
  made.max_wait_ns = from.max_wait.count();
  made.depth = from.depth;
  made.weight = from.weight;
  return made;
}

weir_request default_request() {
  weir_request made{};
  made.choices = 1;
  made.input_tokens = WEIR_UNKNOWN;
  made.max_output_tokens = WEIR_UNKNOWN;
  made.max_wait_ns = WEIR_UNKNOWN;
  made.deadline_ns = WEIR_NEVER;
  return made;
}

weir_signal default_signal() {
  const weir_reading none{WEIR_UNKNOWN, WEIR_UNKNOWN, WEIR_UNKNOWN};
  weir_signal made{};
  made.limited_unit = WEIR_UNKNOWN;
  made.retry_after_ns = WEIR_UNKNOWN;
  made.round_trip_ns = WEIR_UNKNOWN;
  made.requests = made.tokens = made.input_tokens = made.output_tokens = none;
  return made;
}

weir_settlement default_settlement() {
  weir_settlement made{};
  made.input_tokens = WEIR_UNKNOWN;
  made.output_tokens = WEIR_UNKNOWN;
  made.cached_input_tokens = WEIR_UNKNOWN;
  return made;
}

}  // namespace weir::capi

using namespace weir::capi;

extern "C" {

int32_t weir_rule_init(weir_rule* rule, size_t struct_size) {
  return fill(default_rule(), rule, struct_size);
}
int32_t weir_deployment_init(weir_deployment* deployment, size_t struct_size) {
  return fill(default_deployment(), deployment, struct_size);
}
int32_t weir_class_init(weir_class* traffic_class, size_t struct_size) {
  return fill(default_class(), traffic_class, struct_size);
}
int32_t weir_request_init(weir_request* request, size_t struct_size) {
  return fill(default_request(), request, struct_size);
}
int32_t weir_signal_init(weir_signal* signal, size_t struct_size) {
  return fill(default_signal(), signal, struct_size);
}
int32_t weir_settlement_init(weir_settlement* settlement, size_t struct_size) {
  return fill(default_settlement(), settlement, struct_size);
}

const char* weir_version() { return WEIR_LIBRARY_VERSION; }

const char* weir_status_text(int32_t status) {
  switch (status) {
    case WEIR_OK: return "done";
    case WEIR_BOOKED_LATE: return "the call's lease had run out; its usage was booked once";
    case WEIR_ERROR_NULL: return "a pointer that must not be NULL is NULL";
    case WEIR_ERROR_SIZE: return "struct_size is none that this library knows; set it to sizeof";
    case WEIR_ERROR_RANGE: return "a value is out of its range";
    case WEIR_ERROR_DUPLICATE: return "it stands there already";
    case WEIR_ERROR_NOT_FOUND: return "no deployment, node, class or model has this number";
    case WEIR_ERROR_ENDED: return "the call has ended, or was never given out";
    case WEIR_ERROR_NOT_GRANTED: return "the call still waits in the queue";
    case WEIR_ERROR_TOO_MANY: return "a bound of the policy's size is reached";
    case WEIR_ERROR_MEMORY: return "out of memory; destroy the handle";
    case WEIR_ERROR_INTERNAL: return "a fault of the library; destroy the handle";
    default: return "no status of this library";
  }
}

const char* weir_reason_name(int32_t reason) {
  if (!within(reason, WEIR_REASON_ADMITTED, WEIR_REASON_NOT_ALLOWED)) return "unknown";
  // Every name is a literal, so its view ends in a zero.
  return weir::name(static_cast<weir::Decision>(reason)).data();
}

}  // extern "C"
