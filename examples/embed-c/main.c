// SPDX-License-Identifier: Apache-2.0
// The C example: calls to a provider, governed inside the program through weir/weir.h.
//
//   embed-c [--no-governor] URL [CALLS [REQUESTS [WINDOW_MS]]]
//
// It has CALLS (60) to make at once; the provider allows REQUESTS (20) in every WINDOW_MS (2000).
// With --no-governor they all go at once, and the provider answers most of them with 429.
#define _POSIX_C_SOURCE 199309L
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weir/weir.h>

#define MILLISECOND INT64_C(1000000) /* times are nanoseconds */

struct program {
  weir_governor* governor; /* NULL: not governed */
  CURLM* multi;
  struct curl_slist* headers;
  const char* url;
  int waiting, flying; /* calls in the governor's queue, and on the wire */
  int served, rejected, refused;
};

/* One call on its way. */
struct transfer {
  struct program* program;
  weir_call call;
  size_t body_left; /* bytes of the request not yet handed to the kernel */
};

static const char kBody[] =
    "{\"model\":\"toy-chat\",\"max_tokens\":16,"
    "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}";

/* The program reads the clock; the governor is only told. */
static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 * MILLISECOND + now.tv_nsec;
}

/* An error is a mistake of this program, not of the provider: tell it and leave. */
static void check(int32_t status, const weir_policy* policy, const weir_governor* governor) {
  if (status >= WEIR_OK) return;
  fprintf(stderr, "weir: %s: %s%s\n", weir_status_text(status), weir_policy_error(policy),
          weir_governor_error(governor));
  exit(1);
}

/* One deployment with one limit. A policy without tenants, models and classes gets one of each. */
static weir_governor* make_governor(int64_t requests, int64_t window_ms) {
  weir_policy* policy = NULL;
  weir_governor* governor = NULL;
  weir_deployment provider;
  weir_class patient;
  weir_rule limit;
  uint32_t id = 0, traffic_class = 0;
  check(weir_policy_create(&policy), policy, NULL);

  weir_deployment_init(&provider, sizeof provider);
  provider.name = "provider";
  provider.start_level = 1.0; /* nobody else used the quota lately; 0 waits a window first */
  check(weir_policy_add_deployment(policy, &provider, &id), policy, NULL);

  weir_rule_init(&limit, sizeof limit);
  limit.unit = WEIR_REQUESTS;
  limit.amount = requests;
  limit.window_ns = window_ms * MILLISECOND;
  limit.enforce = WEIR_SLIDING; /* WEIR_ENFORCE_UNKNOWN is safe where it is not documented */
  check(weir_policy_add_rule(policy, id, &limit), policy, NULL);

  weir_class_init(&patient, sizeof patient);
  patient.name = "patient";
  patient.max_wait_ns = 60 * 1000 * MILLISECOND;
  check(weir_policy_add_class(policy, &patient, &traffic_class), policy, NULL);

  check(weir_governor_create(policy, 1, now_ns(), &governor), policy, NULL);
  weir_policy_destroy(policy);
  return governor;
}

/* The provider counts a call when it arrives, not when it was granted: between the two a connection
   may have to be made. So the governor is told when the last byte left. */
static int on_bytes(CURL* easy, curl_infotype kind, char* data, size_t size, void* to) {
  struct transfer* transfer = to;
  (void)easy;
  (void)data;
  if (kind != CURLINFO_DATA_OUT || transfer->body_left == 0) return 0;
  transfer->body_left -= size < transfer->body_left ? size : transfer->body_left;
  if (transfer->body_left == 0 && transfer->program->governor != NULL) {
    weir_sent(transfer->program->governor, transfer->call, now_ns());
  }
  return 0;
}

static size_t on_answer(char* data, size_t size, size_t count, void* to) {
  (void)data;
  (void)to;
  return size * count;
}

static void send_call(struct program* program, weir_call call) {
  CURL* easy = curl_easy_init();
  struct transfer* transfer = calloc(1, sizeof *transfer);
  if (easy == NULL || transfer == NULL) exit(1);
  transfer->program = program;
  transfer->call = call;
  transfer->body_left = strlen(kBody);
  curl_easy_setopt(easy, CURLOPT_URL, program->url);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, program->headers);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, kBody);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
  curl_easy_setopt(easy, CURLOPT_DEBUGDATA, transfer);
  curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, on_bytes);
  curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L); /* or on_bytes would not be called */
  curl_multi_add_handle(program->multi, easy);
  ++program->flying;
}

/* What a decision means for the call, whether it came at once or as an event. */
static void follow(struct program* program, const weir_decision* decision) {
  if (decision->kind == WEIR_GRANTED) {
    send_call(program, decision->call);
  } else if (decision->kind == WEIR_QUEUED) {
    ++program->waiting;
  } else {
    ++program->refused;
  }
}

static void ask(struct program* program) {
  weir_request request;
  weir_decision decision;
  if (program->governor == NULL) {
    send_call(program, 0);
    return;
  }
  weir_request_init(&request, sizeof request);
  request.input_bytes = (int64_t)strlen(kBody);
  request.max_output_tokens = 16;
  decision.struct_size = sizeof decision;
  check(weir_submit(program->governor, &request, now_ns(), &decision), NULL, program->governor);
  follow(program, &decision);
}

static void grant_what_is_due(struct program* program) {
  weir_decision events[WEIR_EVENTS_AT_ONCE];
  int32_t more = program->governor != NULL;
  while (more) {
    size_t count = 0;
    check(weir_advance(program->governor, now_ns(), events, sizeof events[0], WEIR_EVENTS_AT_ONCE,
                       &count, &more),
          NULL, program->governor);
    for (size_t i = 0; i < count; ++i) {
      --program->waiting;
      follow(program, &events[i]);
    }
  }
}

static int milliseconds_to_wait(const struct program* program) {
  int64_t due = WEIR_NEVER;
  const int64_t now = now_ns();
  if (program->governor != NULL) weir_next_deadline(program->governor, &due);
  if (due <= now) return 0;
  if (due - now > 1000 * MILLISECOND) return 1000;
  return (int)((due - now + MILLISECOND - 1) / MILLISECOND);
}

/* The governor decides whether a refused call waits for another try or is given up. */
static void refused_by_provider(struct program* program, weir_call call, CURL* easy) {
  struct curl_header* header = NULL;
  weir_decision decision;
  weir_signal signal;
  ++program->rejected;
  if (program->governor == NULL) return;
  weir_signal_init(&signal, sizeof signal);
  signal.kind = WEIR_SIGNAL_RATE_LIMITED;
  signal.limited_unit = WEIR_REQUESTS;
  if (curl_easy_header(easy, "retry-after-ms", 0, CURLH_HEADER, -1, &header) == CURLHE_OK) {
    signal.retry_after_ns = strtoll(header->value, NULL, 10) * MILLISECOND;
  }
  decision.struct_size = sizeof decision;
  check(weir_rejected(program->governor, call, &signal, 1, now_ns(), &decision), NULL,
        program->governor);
  follow(program, &decision);
}

static void settle(struct program* program, weir_call call, int good) {
  weir_settlement settlement;
  program->served += good;
  if (program->governor == NULL) return;
  weir_settlement_init(&settlement, sizeof settlement);
  settlement.ending = good ? WEIR_COMPLETED : WEIR_FAILED;
  settlement.response_started = good;
  /* A program that reads the answer tells its usage in input_tokens and output_tokens. */
  weir_settle(program->governor, call, &settlement, now_ns(), NULL);
}

static void finish_what_is_done(struct program* program) {
  int left = 0;
  for (CURLMsg* message = curl_multi_info_read(program->multi, &left); message != NULL;
       message = curl_multi_info_read(program->multi, &left)) {
    CURL* easy = message->easy_handle;
    const CURLcode result = message->data.result;
    struct transfer* transfer = NULL;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char**)&transfer);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    --program->flying;
    if (result == CURLE_OK && status == 429) {
      refused_by_provider(program, transfer->call, easy);
    } else {
      settle(program, transfer->call, result == CURLE_OK && status == 200);
    }
    curl_multi_remove_handle(program->multi, easy);
    curl_easy_cleanup(easy);
    free(transfer);
  }
}

int main(int count, char** arguments) {
  struct program program = {0};
  const int bare = count > 1 && strcmp(arguments[1], "--no-governor") == 0;
  char** rest = arguments + 1 + bare;
  const int given = count - 1 - bare;
  const int calls = given > 1 ? atoi(rest[1]) : 60;
  const int requests = given > 2 ? atoi(rest[2]) : 20;
  const int window_ms = given > 3 ? atoi(rest[3]) : 2000;
  if (given < 1) {
    fputs("usage: embed-c [--no-governor] URL [CALLS [REQUESTS [WINDOW_MS]]]\n", stderr);
    return 2;
  }
  curl_global_init(CURL_GLOBAL_DEFAULT);
  program.url = rest[0];
  program.multi = curl_multi_init();
  program.headers = curl_slist_append(NULL, "content-type: application/json");
  if (!bare) program.governor = make_governor(requests, window_ms);

  for (int i = 0; i < calls; ++i) ask(&program);
  for (;;) {
    int running = 0;
    grant_what_is_due(&program);
    curl_multi_perform(program.multi, &running);
    finish_what_is_done(&program);
    if (program.waiting + program.flying == 0) break;
    curl_multi_poll(program.multi, NULL, 0, milliseconds_to_wait(&program), NULL);
  }

  printf("calls %d served %d provider_429 %d refused %d\n", calls, program.served, program.rejected,
         program.refused);
  weir_governor_destroy(program.governor);
  curl_slist_free_all(program.headers);
  curl_multi_cleanup(program.multi);
  curl_global_cleanup();
  return program.served == calls ? 0 : 1;
}
