// SPDX-License-Identifier: Apache-2.0
#pragma once

/// weir's governor for programs in C and for whatever can call C: it decides who may send what to
/// a provider of language models, when, and on whose quota. It does no I/O, reads no clock and
/// starts no thread; the program sends, and tells what came of it.
///
/// Life of a call: `weir_submit` grants, queues or refuses it; a queued one is answered by an event
/// of `weir_advance`; a granted one is `weir_sent`, then `weir_progress` as the response streams,
/// then `weir_settle`. After a refusal by the provider: `weir_rejected`, which lets it wait again
/// or gives it up. `weir_cancel` ends a call in any state.
///
/// Units: times are nanoseconds of one monotonic clock of the program's choice, at least 0 and less
/// than WEIR_NEVER; one that goes back counts as the latest seen. Tokens are tokens.
/// Errors: a function returns a negative WEIR_ERROR_… and has then changed nothing; the text is in
/// `weir_policy_error` or `weir_governor_error`. Below, NULL stands for WEIR_ERROR_NULL and so
/// on. No C++ exception leaves the library.
/// Threads: a handle has one owner at a time; guard it with a mutex if several threads use it.
/// ABI: `struct_size` is sizeof the struct as the program was compiled. Structs grow at their end
/// only: what an older program does not know is left alone, what an older library does not know
/// must be zero. Numbers of constants do not change.

#include "weir/weir_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The version of the library that is linked, "0.1.0"; the macros of weir_types.h give the one that
/// was compiled against. Errors: none. Threads: any.
WEIR_API const char* weir_version(void);

/// What a status means, in one sentence; never NULL. Errors: none. Threads: any.
WEIR_API const char* weir_status_text(int32_t status);

/// The word for a WEIR_REASON_…, as the gateway's headers and logs have it; never NULL. Threads:
/// any.
WEIR_API const char* weir_reason_name(int32_t reason);

/// Fills a struct with its defaults; `struct_size` is its sizeof. Errors: NULL, SIZE. Threads: any.
WEIR_API int32_t weir_rule_init(weir_rule* rule, size_t struct_size);
/// As `weir_rule_init`; the name is left NULL and must be set.
WEIR_API int32_t weir_deployment_init(weir_deployment* deployment, size_t struct_size);
/// As `weir_rule_init`; the name is left NULL and must be set.
WEIR_API int32_t weir_class_init(weir_class* traffic_class, size_t struct_size);
/// As `weir_rule_init`: the first node, model and class, nothing known of its tokens.
WEIR_API int32_t weir_request_init(weir_request* request, size_t struct_size);
/// As `weir_rule_init`: nothing was told.
WEIR_API int32_t weir_signal_init(weir_signal* signal, size_t struct_size);
/// As `weir_rule_init`: completed, without a report.
WEIR_API int32_t weir_settlement_init(weir_settlement* settlement, size_t struct_size);

/// Makes an empty policy. A policy without a node, a class or a model gets one, with the number 0:
/// a node and a class "default", and a model "*" that every deployment serves.
/// Errors: NULL, MEMORY.
WEIR_API int32_t weir_policy_create(weir_policy** policy);

/// Frees a policy; a governor made from it has its own copy. NULL is let be.
WEIR_API void weir_policy_destroy(weir_policy* policy);

/// What was wrong with the last call that failed on this policy, in one sentence that names the
/// thing and the fix; "" if none did. It lives until the next call on the policy. NULL gives "".
WEIR_API const char* weir_policy_error(const weir_policy* policy);

/// Bounds the calls known at once, waiting and in flight: 1 to 10000000; without it 100000.
/// Errors: NULL, RANGE.
WEIR_API int32_t weir_policy_set_max_calls(weir_policy* policy, int64_t max_calls);

/// Adds a deployment; `id` becomes its number, counted from 0. At most 1024.
/// Errors: NULL, SIZE, RANGE, DUPLICATE, TOO_MANY, MEMORY.
WEIR_API int32_t weir_policy_add_deployment(weir_policy* policy, const weir_deployment* deployment,
                                            uint32_t* id);

/// Adds a limit of the provider to a deployment, at most 16; one for each unit and window.
/// Errors: NULL, SIZE, RANGE, DUPLICATE, NOT_FOUND, TOO_MANY, MEMORY.
WEIR_API int32_t weir_policy_add_rule(weir_policy* policy, uint32_t deployment,
                                      const weir_rule* rule);

/// Adds a node of the program's own hierarchy (a tenant, a team, a user) below `parent`, or a root
/// with WEIR_NONE; a call passes the limits of its node and of all above it. `mode` is WEIR_ENFORCE
/// or WEIR_OBSERVE. At most 1000000, and 16 deep.
/// Errors: NULL, RANGE, DUPLICATE, NOT_FOUND, TOO_MANY, MEMORY.
WEIR_API int32_t weir_policy_add_node(weir_policy* policy, const char* name, uint32_t parent,
                                      int32_t mode, uint32_t* id);

/// Adds a limit of the program's own to a node. Errors: as `weir_policy_add_rule`.
WEIR_API int32_t weir_policy_limit_node(weir_policy* policy, uint32_t node, const weir_rule* rule);

/// Adds a traffic class below those that stand there. At most 32.
/// Errors: NULL, SIZE, RANGE, DUPLICATE, TOO_MANY, MEMORY.
WEIR_API int32_t weir_policy_add_class(weir_policy* policy, const weir_class* traffic_class,
                                       uint32_t* id);

/// Adds a limit of the program's own to a class. Errors: as `weir_policy_add_rule`.
WEIR_API int32_t weir_policy_limit_class(weir_policy* policy, uint32_t traffic_class,
                                         const weir_rule* rule);

/// Adds a model: what calls ask for, served by the deployments that `weir_policy_add_candidate`
/// names. `reserve`: a WEIR_RESERVE_…, what is reserved as output.
/// At most 1024. Errors: NULL, RANGE, DUPLICATE, TOO_MANY, MEMORY.
WEIR_API int32_t weir_policy_add_model(weir_policy* policy, const char* name, int32_t reserve,
                                       uint32_t* id);

/// Adds a limit of the program's own to a model. Errors: as `weir_policy_add_rule`.
WEIR_API int32_t weir_policy_limit_model(weir_policy* policy, uint32_t model,
                                         const weir_rule* rule);

/// Lets a deployment serve a model, at most 8: lower `priority` first (0 to 1000000), among equals
/// by `weight` (1 to 1000000). Errors: NULL, RANGE, DUPLICATE, NOT_FOUND, TOO_MANY, MEMORY.
WEIR_API int32_t weir_policy_add_candidate(weir_policy* policy, uint32_t model, uint32_t deployment,
                                           int32_t priority, int32_t weight);

/// Makes a governor of a policy, which it copies. The same seed and the same calls give the same
/// decisions. Errors: NULL, RANGE, MEMORY; NOT_FOUND if no deployment stands in it, or a model
/// has none; the text is in `weir_policy_error`.
WEIR_API int32_t weir_governor_create(weir_policy* policy, uint64_t seed, int64_t now_ns,
                                      weir_governor** governor);

/// Frees a governor and forgets its calls. NULL is let be.
WEIR_API void weir_governor_destroy(weir_governor* governor);

/// As `weir_policy_error`, of a governor.
WEIR_API const char* weir_governor_error(const weir_governor* governor);

/// Takes a new policy; its numbers hold from here on. What has the same name keeps its state; calls
/// in flight keep their terms; what waits for a model, node or class that is gone is refused by an
/// event. Errors: as `weir_governor_create`; the text is in `weir_policy_error`.
WEIR_API int32_t weir_governor_apply(weir_governor* governor, weir_policy* policy, int64_t now_ns);

/// Asks for leave to send. A refusal is a decision, not an error.
/// Errors: NULL, SIZE, RANGE, NOT_FOUND, MEMORY.
WEIR_API int32_t weir_submit(weir_governor* governor, const weir_request* request, int64_t now_ns,
                             weir_decision* decision);

/// Hands out what fell due: grants and refusals of calls that waited. `events` has room for
/// `capacity` of at least WEIR_EVENTS_AT_ONCE structs, each of `event_size` bytes; `count` becomes
/// how many were written. Call it again at once while `more` is not 0.
/// Errors: NULL, SIZE, RANGE, MEMORY.
WEIR_API int32_t weir_advance(weir_governor* governor, int64_t now_ns, weir_decision* events,
                              size_t event_size, size_t capacity, size_t* count, int32_t* more);

/// When `weir_advance` has something to do next; WEIR_NEVER if only another call of the program can
/// change anything. Ask again after every call that changes the governor. Errors: NULL.
WEIR_API int32_t weir_next_deadline(weir_governor* governor, int64_t* at_ns);

/// The request's last byte was handed to the kernel: the provider's window begins to count it.
/// A second time changes nothing. Errors: NULL, RANGE, NOT_GRANTED, ENDED; where its lease had run
/// out the window counts it nevertheless, because the provider does.
WEIR_API int32_t weir_sent(weir_governor* governor, weir_call call, int64_t now_ns);

/// Bytes of the response came: renews the lease. `output_events` is the count so far, at least 0,
/// of stream events that carried output. Errors: NULL, RANGE, ENDED, NOT_GRANTED.
WEIR_API int32_t weir_progress(weir_governor* governor, weir_call call, int64_t output_events,
                               int64_t now_ns);

/// Rate-limit headers of any answer of a deployment, success too. Errors: NULL, SIZE, RANGE,
/// NOT_FOUND.
WEIR_API int32_t weir_observe(weir_governor* governor, uint32_t deployment,
                              const weir_signal* signal, int64_t now_ns);

/// The provider refused the attempt (429 and the like). `replayable` not 0: nothing of a response
/// was used and the request can be sent again. The decision is WEIR_QUEUED, and an event will
/// follow, or WEIR_REFUSED, and the call has ended.
/// Errors: NULL, SIZE, RANGE, ENDED, NOT_GRANTED, MEMORY.
WEIR_API int32_t weir_rejected(weir_governor* governor, weir_call call, const weir_signal* signal,
                               int32_t replayable, int64_t now_ns, weir_decision* decision);

/// Ends a granted call. `charged` may be NULL, or becomes what was booked: the report or, without
/// one, the larger of what was seen and what was estimated. Returns WEIR_BOOKED_LATE for a call
/// whose lease had run out. Errors: NULL, SIZE, RANGE, ENDED (a second settlement), NOT_GRANTED.
WEIR_API int32_t weir_settle(weir_governor* governor, weir_call call,
                             const weir_settlement* settlement, int64_t now_ns,
                             weir_usage* charged);

/// Ends a call in any state; one that has ended already is let be. Errors: NULL, RANGE.
WEIR_API int32_t weir_cancel(weir_governor* governor, weir_call call, int64_t now_ns);

/// The governor in numbers. It also fixes what the two functions below tell, so that the numbers
/// of one look belong together. Errors: NULL, SIZE, RANGE, MEMORY.
WEIR_API int32_t weir_snapshot(weir_governor* governor, int64_t now_ns, weir_totals* totals);

/// A deployment in the numbers of the last `weir_snapshot`. Errors: NULL, SIZE, NOT_FOUND.
WEIR_API int32_t weir_snapshot_deployment(weir_governor* governor, uint32_t deployment,
                                          weir_deployment_view* view);

/// A rule of a deployment, counted from 0 in the order of its adding, in the numbers of the last
/// `weir_snapshot`. Errors: NULL, SIZE, NOT_FOUND.
WEIR_API int32_t weir_snapshot_meter(weir_governor* governor, uint32_t deployment, uint32_t rule,
                                     weir_meter_view* view);

#ifdef __cplusplus
}
#endif
