// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The constants and structs of the C interface; `weir/weir.h` has the functions. Where a member's
/// comment ends in a value after a semicolon, that is what its `…_init` function sets.

#include <stddef.h>
#include <stdint.h>

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

#define WEIR_NEVER INT64_MAX    ///< a time that does not come
#define WEIR_NONE UINT32_MAX    ///< no such deployment, node, class or model
#define WEIR_UNKNOWN (-1)       ///< a number that was not told, or that the library chooses
#define WEIR_EVENTS_AT_ONCE 64  ///< what `weir_advance` may hand out in one call

#ifdef __cplusplus
extern "C" {
#endif

/// What functions return. Negative: an error, and nothing was changed.
enum {
  WEIR_OK = 0,
  WEIR_BOOKED_LATE = 1,         ///< settled after its lease had run out: the usage was booked once
  WEIR_ERROR_NULL = -1,         ///< a pointer that must not be NULL is
  WEIR_ERROR_SIZE = -2,         ///< struct_size is none that this library knows
  WEIR_ERROR_RANGE = -3,        ///< a number is out of its range, or a name too long or empty
  WEIR_ERROR_DUPLICATE = -4,    ///< the name, the rule or the candidate stands there already
  WEIR_ERROR_NOT_FOUND = -5,    ///< no such deployment, node, class or model
  WEIR_ERROR_ENDED = -6,        ///< the call is settled, cancelled, refused, or was never given out
  WEIR_ERROR_NOT_GRANTED = -7,  ///< the call still waits in the queue
  WEIR_ERROR_TOO_MANY = -8,     ///< a bound of the policy's size is reached
  WEIR_ERROR_MEMORY = -9,       ///< out of memory; the handle can only be destroyed
  WEIR_ERROR_INTERNAL = -10     ///< a fault of the library; the handle can only be destroyed
};

/// What a limit counts.
enum {
  WEIR_REQUESTS,       ///< calls sent
  WEIR_INPUT_TOKENS,   ///< tokens of the prompt
  WEIR_OUTPUT_TOKENS,  ///< tokens produced
  WEIR_TOTAL_TOKENS,   ///< both together
  WEIR_CONCURRENCY     ///< calls in flight; without a window
};

/// How a limit's window moves. Unknown is kept safe under the three before it; a counter estimates
/// from two fixed windows.
enum { WEIR_SLIDING, WEIR_FIXED, WEIR_BUCKET, WEIR_ENFORCE_UNKNOWN, WEIR_COUNTER };

/// When and what a provider counts against a token limit.
enum {
  WEIR_COUNT_RESERVE,         ///< input + max_tokens when it is sent, never given back
  WEIR_COUNT_RESERVE_REFUND,  ///< the same, corrected to the real usage at the end
  WEIR_COUNT_SETTLE,          ///< input at admission, real output at the end
  WEIR_COUNT_REALTIME,        ///< input when it is sent, output as it is produced
  WEIR_COUNT_INPUT            ///< input only
};

/// How a deployment's traffic is treated; each includes those before it. Passthrough accounts
/// only; retry sends a refused call again after a growing wait; rate keeps request limits and
/// calls in flight as well; shaping keeps every limit and spaces departures.
enum { WEIR_PASSTHROUGH, WEIR_RETRY, WEIR_RATE, WEIR_SHAPING };

/// Which estimate of the output is reserved: the learned mean of the caller's answers, the caller's
/// own cap, or what 95 in 100 of its answers stay below.
enum { WEIR_RESERVE_MEAN, WEIR_RESERVE_MAX_TOKENS, WEIR_RESERVE_P95 };

/// Enforce delays and refuses; observe accounts, and says what enforce would have done.
enum { WEIR_ENFORCE, WEIR_OBSERVE };

/// What a decision says of the call.
enum { WEIR_GRANTED, WEIR_QUEUED, WEIR_REFUSED };

/// Why: `weir_reason_name` gives the word that the gateway uses for it.
enum {
  WEIR_REASON_ADMITTED,
  WEIR_REASON_QUEUED,
  WEIR_REASON_SPILLED,  ///< to another deployment than the first
  WEIR_REASON_OBSERVED,
  WEIR_REASON_REJECTED_LOCALLY,  ///< it could not start in time
  WEIR_REASON_QUEUE_TIMEOUT,
  WEIR_REASON_QUEUE_FULL,
  WEIR_REASON_NEVER_FITS,  ///< more than the whole of a limit
  WEIR_REASON_PROVIDER_REJECTED,
  WEIR_REASON_PROVIDER_FAILED,
  WEIR_REASON_BACKPRESSURE,  ///< more calls than the policy's most
  WEIR_REASON_DRAINING,
  WEIR_REASON_NOT_ALLOWED  ///< its model, node or class is not in the policy
};

/// What kind of answer a provider gave.
enum {
  WEIR_SIGNAL_OK,
  WEIR_SIGNAL_RATE_LIMITED,     ///< 429 for a rate: waiting helps
  WEIR_SIGNAL_QUOTA_EXHAUSTED,  ///< 429 for credit: waiting does not help
  WEIR_SIGNAL_OVERLOADED,       ///< 503, 529
  WEIR_SIGNAL_OTHER             ///< any other refusal
};

/// How an attempt ended.
enum {
  WEIR_COMPLETED,    ///< the response came to its end
  WEIR_TRUNCATED,    ///< the provider broke off after bytes had come
  WEIR_CLIENT_GONE,  ///< the caller left
  WEIR_FAILED,       ///< an error or no answer; the provider charged nothing
  WEIR_NEVER_SENT    ///< no byte of the request left
};

/// One call, from its submission to its end. 0 is none. A stale one is harmless.
typedef uint64_t weir_call;

typedef struct weir_policy weir_policy;      ///< limits and deployments while they are put together
typedef struct weir_governor weir_governor;  ///< what decides

/// One limit: `amount` of `unit` in `window_ns`.
typedef struct weir_rule {
  size_t struct_size;
  int64_t amount;     ///< at least 0; 0 lets nothing pass
  int64_t window_ns;  ///< 1 to 366 days; 0 for concurrency
  int64_t burst;      ///< a bucket's depth, at least 1; WEIR_UNKNOWN: `amount`
  int32_t unit;       ///< WEIR_REQUESTS …
  int32_t enforce;    ///< WEIR_SLIDING …
  int32_t count;      ///< WEIR_COUNT_…; without meaning for requests and concurrency
  int32_t reserved;   ///< 0
} weir_rule;

/// One model at one provider under one quota.
typedef struct weir_deployment {
  size_t struct_size;
  const char* name;           ///< copied; unique
  int32_t strategy;           ///< WEIR_PASSTHROUGH …; shaping
  int32_t mode;               ///< WEIR_ENFORCE or WEIR_OBSERVE; enforce
  double start_level;         ///< quota assumed free at the start, 0 to 1; 0
  double margin;              ///< share of token quotas kept free, 0 to 0.9; WEIR_UNKNOWN: chosen
  int64_t guard_ns;           ///< network jitter allowed for; WEIR_UNKNOWN: measured
  int64_t warmup_ns;          ///< the rate grows from the start over this; 0
  int32_t retry_attempts;     ///< in all, the first included; 2
  int32_t rejected_counted;   ///< not 0: refused attempts count against request rules; 0
  int64_t retry_base_ns;      ///< first wait without a hint; 1 s
  int64_t retry_cap_ns;       ///< longest such wait; 60 s
  int64_t lease_ns;           ///< a sent call without any byte for this long is lost; 660 s
  int64_t send_lease_ns;      ///< a granted call not sent by then is lost; 365 s
  double bytes_per_token;     ///< start of the calibration of estimates; 4
  double mean_output_tokens;  ///< start of the learned mean; 256
  int32_t uncached_only;      ///< not 0: cached input tokens do not count; 0
  int32_t reserved;           ///< 0
} weir_deployment;

/// A traffic class; those added first are higher.
typedef struct weir_class {
  size_t struct_size;
  const char* name;     ///< copied; unique
  int64_t max_wait_ns;  ///< in the queue; 30 s
  int64_t depth;        ///< calls that may wait in it; 10000
  int32_t weight;       ///< its share among the classes that wait, 1 to 1000000; 1
  int32_t reserved;     ///< 0
} weir_class;

/// What a call asks for, as far as it is known before it is sent.
typedef struct weir_request {
  size_t struct_size;
  uint32_t node;              ///< whose limits it passes, up to the root; 0
  uint32_t model;             ///< 0
  uint32_t traffic_class;     ///< 0
  int32_t choices;            ///< n or best_of, at least 1; 1
  int64_t input_bytes;        ///< bytes of prompt text; 0
  int64_t input_tokens;       ///< exact count; WEIR_UNKNOWN: estimated from the bytes
  int64_t max_output_tokens;  ///< the caller's cap for each choice; WEIR_UNKNOWN: none
  int64_t max_wait_ns;        ///< shortens the class's; 0: do not queue; WEIR_UNKNOWN: the class's
  int64_t deadline_ns;        ///< the caller gives up then; WEIR_NEVER
  int32_t no_output;          ///< not 0: embeddings and the like; 0
  int32_t streaming;          ///< not 0: the response is streamed; 0
  uint64_t cookie;            ///< the program's own, handed back with every event of the call
} weir_request;

/// What was decided about a call.
typedef struct weir_decision {
  size_t struct_size;
  int32_t kind;           ///< WEIR_GRANTED, WEIR_QUEUED or WEIR_REFUSED
  int32_t reason;         ///< WEIR_REASON_…
  weir_call call;         ///< refused: ended; 0 if `weir_submit` refused it
  uint64_t cookie;        ///< of the request; 0 from `weir_rejected`
  uint32_t deployment;    ///< granted: where to send it
  int32_t attempt;        ///< granted: 1 for the first; refused: attempts made
  int64_t input_tokens;   ///< reserved, or estimated
  int64_t output_tokens;  ///< reserved, or estimated
  int64_t queued_ns;      ///< how long it waited
  int64_t wait_ns;        ///< queued: expected wait; refused: retry after, WEIR_UNKNOWN: never
  int32_t would_have;     ///< observe: the WEIR_REASON_… of enforce; else WEIR_UNKNOWN
  int32_t limit_unit;     ///< the limit that decided, where one of the four below is set
  int64_t limit_window_ns;
  uint32_t limit_node;  ///< WEIR_NONE where it is none of these
  uint32_t limit_model;
  uint32_t limit_class;
  uint32_t limit_deployment;
} weir_decision;

/// One dimension of a provider's rate-limit headers. WEIR_UNKNOWN: not sent.
typedef struct weir_reading {
  int64_t limit;
  int64_t remaining;
  int64_t reset_ns;
} weir_reading;

/// What one answer of a provider tells about its limits. Its size is fixed by its readings.
typedef struct weir_signal {
  size_t struct_size;
  int32_t kind;            ///< WEIR_SIGNAL_…; WEIR_SIGNAL_OK
  int32_t limited_unit;    ///< the unit whose limit the error named; WEIR_UNKNOWN: none
  int64_t retry_after_ns;  ///< the provider's hint; WEIR_UNKNOWN: none
  int64_t round_trip_ns;   ///< of the network alone; WEIR_UNKNOWN: not measured
  weir_reading requests;
  weir_reading tokens;
  weir_reading input_tokens;
  weir_reading output_tokens;
} weir_signal;

/// How a granted call ended, and what the provider says it counted.
typedef struct weir_settlement {
  size_t struct_size;
  int32_t ending;               ///< WEIR_COMPLETED …; WEIR_COMPLETED
  int32_t response_started;     ///< not 0: a byte of a success response came; 0
  int64_t input_tokens;         ///< as reported, cached ones included; WEIR_UNKNOWN: no report
  int64_t output_tokens;        ///< as reported; WEIR_UNKNOWN: no report
  int64_t cached_input_tokens;  ///< part of input_tokens; WEIR_UNKNOWN: not told
  int64_t output_events;        ///< stream events that carried output; 0
} weir_settlement;

/// What a call was booked with.
typedef struct weir_usage {
  size_t struct_size;
  int64_t input_tokens;
  int64_t output_tokens;
} weir_usage;

/// The governor as a whole in numbers.
typedef struct weir_totals {
  size_t struct_size;
  int64_t queued;    ///< calls that wait
  int64_t inflight;  ///< calls granted and not settled
} weir_totals;

/// One deployment in numbers.
typedef struct weir_deployment_view {
  size_t struct_size;
  int64_t inflight;           ///< granted and not settled
  int64_t attempts;           ///< granted so far
  int64_t rejections;         ///< rate-limit refusals of the provider so far
  int64_t guard_ns;           ///< jitter allowed for
  double bytes_per_token;     ///< as learned
  double mean_output_tokens;  ///< as learned
  int64_t meters;             ///< how many rules it has
} weir_deployment_view;

/// One rule of a deployment in numbers, in its unit.
typedef struct weir_meter_view {
  size_t struct_size;
  int64_t used;       ///< in the provider's window, as mirrored
  int64_t reserved;   ///< held by calls granted and not settled
  int64_t remaining;  ///< what may go now
  int64_t refill_ns;  ///< until the whole of it is free
} weir_meter_view;

#ifdef __cplusplus
}
#endif
