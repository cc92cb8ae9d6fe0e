// SPDX-License-Identifier: Apache-2.0
#include "config/schema.h"

namespace weir::config {

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1000 * kMillisecond;
constexpr std::int64_t kDay = 86'400 * kSecond;
constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kGiB = kKiB * kKiB * kKiB;

constexpr Field kTls[] = {
    {.key = "cert_file", .type = Type::text, .doc = "Certificate chain, PEM", .required = true},
    {.key = "key_file", .type = Type::text, .doc = "Private key, PEM", .required = true},
};
constexpr Record kTlsRecord = {"tls", "TLS towards clients", kTls};

constexpr Field kServerLimits[] = {
    {.key = "body",
     .type = Type::bytes,
     .doc = "Largest request body; larger is 413",
     .fallback = "32MiB",
     .low = kKiB,
     .high = kGiB},
    {.key = "header",
     .type = Type::bytes,
     .doc = "Largest request head; larger is 431",
     .fallback = "32KiB",
     .low = kKiB,
     .high = kKiB * kKiB},
    {.key = "header_timeout",
     .type = Type::duration,
     .doc = "For the whole head to arrive",
     .fallback = "10s",
     .low = kMillisecond,
     .high = kDay},
    {.key = "idle_timeout",
     .type = Type::duration,
     .doc = "For a connection without a request",
     .fallback = "75s",
     .low = kMillisecond,
     .high = kDay},
    {.key = "connections",
     .type = Type::count,
     .doc = "Client connections at once",
     .fallback = "20000",
     .low = 1,
     .high = 10'000'000},
    {.key = "buffered",
     .type = Type::bytes,
     .doc = "Bytes of request bodies held at once",
     .fallback = "1GiB",
     .low = kKiB * kKiB,
     .high = 1024 * kGiB},
    {.key = "sync_wait",
     .type = Type::duration,
     .doc = "Longest time a connection is held while its call waits",
     .fallback = "290s",
     .high = kDay},
};
constexpr Record kServerLimitsRecord = {"server_limits", "Bounds of the data plane", kServerLimits};

constexpr Field kCors[] = {
    {.key = "origins",
     .type = Type::texts,
     .doc = "Origins that browsers may call from",
     .later = true,
     .harmless = "empty"},
};
constexpr Record kCorsRecord = {"cors", "Cross-origin calls", kCors};

constexpr Field kServer[] = {
    {.key = "listen",
     .type = Type::addresses,
     .doc = "Where clients connect: host:port, [v6]:port or unix:/path; a list is allowed",
     .fallback = "127.0.0.1:8080"},
    {.key = "threads",
     .type = Type::count,
     .doc = "I/O threads; auto: one per core",
     .fallback = "auto",
     .words = "auto",
     .low = 1,
     .high = 1024},
    {.key = "tls",
     .type = Type::record,
     .doc = "TLS towards clients",
     .record = &kTlsRecord,
     .later = true,
     .harmless = "empty"},
    {.key = "limits",
     .type = Type::record,
     .doc = "Bounds of the data plane",
     .record = &kServerLimitsRecord},
    {.key = "trusted_proxies",
     .type = Type::texts,
     .doc = "Networks whose X-Forwarded-For is believed, for logs only",
     .later = true,
     .harmless = "empty"},
    {.key = "cors", .type = Type::record, .doc = "Cross-origin calls", .record = &kCorsRecord},
    {.key = "drain",
     .type = Type::duration,
     .doc = "On SIGTERM, how long running answers may take to end",
     .fallback = "30s",
     .high = kDay},
};
constexpr Record kServerRecord = {"server", "The data plane", kServer};

constexpr Field kAdminMetrics[] = {
    {.key = "token",
     .type = Type::boolean,
     .doc = "Whether /metrics asks for the token",
     .fallback = "false"},
};
constexpr Record kAdminMetricsRecord = {"admin_metrics", "The metrics page", kAdminMetrics};

constexpr Field kAdminToken[] = {
    {.key = "hash", .type = Type::text, .doc = "SHA-256 of the token"},
    {.key = "role",
     .type = Type::choice,
     .doc = "What it may do",
     .choices = "admin|operator|viewer|partner"},
    {.key = "tenant", .type = Type::text, .doc = "The subtree of a partner"},
};
constexpr Record kAdminTokenRecord = {"admin_token", "One more token of the admin plane",
                                      kAdminToken};

constexpr Field kAdmin[] = {
    {.key = "listen",
     .type = Type::addresses,
     .doc = "Where the admin plane listens",
     .fallback = "127.0.0.1:8081"},
    {.key = "token",
     .type = Type::secret,
     .doc = "The bearer token; without one, on loopback, a random one is made at the start"},
    {.key = "metrics",
     .type = Type::record,
     .doc = "The metrics page",
     .record = &kAdminMetricsRecord},
    {.key = "tokens",
     .type = Type::named,
     .doc = "More tokens, with roles",
     .record = &kAdminTokenRecord,
     .later = true,
     .harmless = "empty"},
};
constexpr Record kAdminRecord = {
    "admin", "The admin plane: dashboard, API, metrics, health. Absent: there is none", kAdmin};

constexpr Field kTimeouts[] = {
    {.key = "connect",
     .type = Type::duration,
     .doc = "To connect, TLS included",
     .fallback = "5s",
     .low = kMillisecond,
     .high = kDay},
    {.key = "first_byte",
     .type = Type::duration,
     .doc = "From the request sent to the answer's head",
     .fallback = "600s",
     .low = kMillisecond,
     .high = kDay},
    {.key = "idle",
     .type = Type::duration,
     .doc = "Between two pieces of an answer",
     .fallback = "300s",
     .low = kMillisecond,
     .high = kDay},
    {.key = "total",
     .type = Type::duration,
     .doc = "For the whole exchange",
     .fallback = "3600s",
     .low = kMillisecond,
     .high = 7 * kDay},
};
constexpr Record kTimeoutsRecord = {"timeouts", "How long a provider may take", kTimeouts};

constexpr Field kProvider[] = {
    {.key = "kind",
     .type = Type::choice,
     .doc = "Whose API it speaks",
     .choices = "openai|openai_compatible|emulated",
     .later_choices = "azure_openai|anthropic|gemini|vertex|bedrock|dashscope|mistral|groq|cohere|"
                      "deepseek|xai|openrouter|together|fireworks|nvidia_nim|cerebras|vllm|sglang|"
                      "llama_cpp|tgi|ollama",
     .required = true},
    {.key = "base_url",
     .type = Type::url,
     .doc = "Up to the version, such as https://api.openai.com/v1 (the default of kind openai)"},
    {.key = "api_key",
     .type = Type::secret,
     .doc = "The provider's key. Kind openai: required; expanded to nothing, the provider is off"},
    {.key = "headers", .type = Type::text_map, .doc = "Headers added to each request"},
    {.key = "proxy", .type = Type::text, .doc = "An HTTP proxy on the way", .later = true},
    {.key = "ca_file",
     .type = Type::text,
     .doc = "Certificate authorities to trust instead of the system's, PEM"},
    {.key = "timeouts",
     .type = Type::record,
     .doc = "How long it may take",
     .record = &kTimeoutsRecord},
    {.key = "config", .type = Type::text, .doc = "Kind emulated: the emulator's own file"},
    {.key = "api_version", .type = Type::text, .doc = "Kind azure_openai", .later = true},
    {.key = "credentials",
     .type = Type::anything,
     .doc = "Kinds with more than a key",
     .later = true},
    {.key = "wait_timeout",
     .type = Type::duration,
     .doc = "Kind dashscope: its queue",
     .later = true},
};
constexpr Record kProviderRecord = {"provider", "An account at a provider", kProvider};

constexpr Field kLimits[] = {
    {.key = "rpm", .type = Type::allowance, .doc = "Requests per minute"},
    {.key = "rps", .type = Type::allowance, .doc = "Requests per second"},
    {.key = "rpd", .type = Type::allowance, .doc = "Requests per day"},
    {.key = "input_tpm", .type = Type::allowance, .doc = "Input tokens per minute"},
    {.key = "output_tpm", .type = Type::allowance, .doc = "Output tokens per minute"},
    {.key = "total_tpm", .type = Type::allowance, .doc = "Input and output tokens per minute"},
    {.key = "tps", .type = Type::allowance, .doc = "Input and output tokens per second"},
    {.key = "tpd", .type = Type::allowance, .doc = "Input and output tokens per day"},
    {.key = "concurrency", .type = Type::allowance, .doc = "Calls in flight"},
    {.key = "stream_seconds",
     .type = Type::allowance,
     .doc = "Seconds of streaming",
     .later = true},
    {.key = "images_per_minute", .type = Type::allowance, .doc = "Images", .later = true},
    {.key = "audio_seconds_per_minute",
     .type = Type::allowance,
     .doc = "Seconds of audio",
     .later = true},
    {.key = "characters_per_minute", .type = Type::allowance, .doc = "Characters", .later = true},
    {.key = "tasks_per_minute",
     .type = Type::allowance,
     .doc = "Asynchronous tasks begun",
     .later = true},
    {.key = "concurrent_tasks",
     .type = Type::allowance,
     .doc = "Asynchronous tasks at once",
     .later = true},
    {.key = "usd_per_day", .type = Type::money, .doc = "US dollars per day", .later = true},
    {.key = "usd_per_month", .type = Type::money, .doc = "US dollars per month", .later = true},
};
constexpr Record kLimitsRecord = {
    "limits",
    "0: nothing passes. Absent: unlimited. Below 1, a fraction: 0.5 rpm is one in two minutes",
    kLimits};

constexpr Field kRule[] = {
    {.key = "unit",
     .type = Type::choice,
     .doc = "What it counts",
     .choices = "requests|input_tokens|output_tokens|total_tokens|concurrency|growth",
     .later_choices = "images|audio_seconds|characters|tasks|concurrent_tasks|"
                      "stream_seconds|usd",
     .required = true},
    {.key = "amount", .type = Type::allowance, .doc = "How much of it in the window"},
    {.key = "per",
     .type = Type::duration,
     .doc = "The window; not for concurrency",
     .low = kMillisecond,
     .high = 366 * kDay},
    {.key = "enforce",
     .type = Type::choice,
     .doc = "How the provider's window moves",
     .choices = "sliding|fixed|bucket|counter|unknown"},
    {.key = "count",
     .type = Type::choice,
     .doc = "When and what it counts of tokens",
     .choices = "reserve|reserve_refund|settle|realtime|input"},
    {.key = "burst", .type = Type::count, .doc = "Depth of a bucket; absent: the amount", .low = 1},
    {.key = "off",
     .type = Type::boolean,
     .doc = "Removes what the shorthand, the quota or the kind says for this unit and window",
     .fallback = "false"},
    {.key = "of",
     .type = Type::choice,
     .doc = "Unit growth: of what",
     .fallback = "requests",
     .choices = "requests|input_tokens|output_tokens|total_tokens"},
    {.key = "ratio",
     .type = Type::decimal,
     .doc = "Unit growth: at most so many times the largest period of the last five minutes"},
    {.key = "floor", .type = Type::count, .doc = "Unit growth: so much always passes in a period"},
};
constexpr Record kRuleRecord = {"rule", "A provider's limit in the long form", kRule};

constexpr Field kQuota[] = {
    {.key = "limits", .type = Type::record, .doc = "In the short form", .record = &kLimitsRecord},
    {.key = "rules", .type = Type::records, .doc = "In the long form", .record = &kRuleRecord},
};
constexpr Record kQuotaRecord = {
    "quota", "One account-wide quota. In this version one deployment may draw on it", kQuota};

constexpr Field kCounts[] = {
    {.key = "cached_input",
     .type = Type::boolean,
     .doc = "Cached input tokens count",
     .fallback = "true"},
    {.key = "rejected",
     .type = Type::boolean,
     .doc = "Refused attempts count as requests",
     .fallback = "true"},
};
constexpr Record kCountsRecord = {"counts", "What else a provider counts", kCounts};

constexpr Field kShaping[] = {
    {.key = "strategy",
     .type = Type::choice,
     .doc = "Each includes those before it",
     .fallback = "shaping",
     .choices = "passthrough|retry|rate|shaping|adaptive"},
    {.key = "start",
     .type = Type::percent,
     .doc = "The provider's quota assumed free at start",
     .fallback = "empty",
     .words = "full|empty",
     .high = 100},
    {.key = "warmup",
     .type = Type::duration,
     .doc = "The rate grows linearly from the start",
     .fallback = "0s",
     .high = kDay},
    {.key = "burst",
     .type = Type::percent,
     .doc = "How much of a limit may go out at once",
     .fallback = "auto",
     .words = "auto",
     .high = 100},
    {.key = "growth",
     .type = Type::rate,
     .doc = "Largest factor from a minute to the next, in requests"},
    {.key = "margin",
     .type = Type::percent,
     .doc = "Share of token quotas kept free",
     .fallback = "auto",
     .words = "auto",
     .high = 90},
    {.key = "guard",
     .type = Type::duration,
     .doc = "Network jitter allowed for; auto: measured",
     .fallback = "auto",
     .words = "auto",
     .high = 60 * kSecond},
    {.key = "autotune",
     .type = Type::choice,
     .doc = "Learning from the last hour",
     .choices = "off|propose|apply",
     .later = true,
     .harmless = "off"},
};
constexpr Record kShapingRecord = {"shaping", "How a deployment's traffic is shaped", kShaping};

constexpr Field kRetry[] = {
    {.key = "attempts",
     .type = Type::count,
     .doc = "In all, the first included",
     .fallback = "2",
     .low = 1,
     .high = 10},
    {.key = "base",
     .type = Type::duration,
     .doc = "Of the wait where the provider gave no hint",
     .fallback = "1s",
     .low = kMillisecond,
     .high = kDay},
    {.key = "cap",
     .type = Type::duration,
     .doc = "Longest such wait",
     .fallback = "60s",
     .low = kMillisecond,
     .high = kDay},
    {.key = "jitter",
     .type = Type::choice,
     .doc = "How the wait is spread",
     .fallback = "full",
     .choices = "full"},
    {.key = "when",
     .type = Type::choices,
     .doc = "What is tried again",
     .fallback = "rate_limited|overloaded",
     .choices = "rate_limited|overloaded",
     .later_choices = "server_error|connection"},
    {.key = "budget",
     .type = Type::percent,
     .doc = "Share of requests that may be retries",
     .later = true,
     .high = 100},
};
constexpr Record kRetryRecord = {"retry", "Trying again after a refusal", kRetry};

constexpr Field kSupports[] = {
    {.key = "tools", .type = Type::boolean, .doc = "Tool calls"},
    {.key = "json_schema", .type = Type::boolean, .doc = "Structured output"},
    {.key = "vision", .type = Type::boolean, .doc = "Images in"},
    {.key = "audio", .type = Type::boolean, .doc = "Audio in"},
    {.key = "context", .type = Type::count, .doc = "Tokens of context"},
};
constexpr Record kSupportsRecord = {"supports", "What a model can do", kSupports};

constexpr Field kDeployment[] = {
    {.key = "provider", .type = Type::text, .doc = "A name under providers", .required = true},
    {.key = "model",
     .type = Type::text,
     .doc = "The provider's model name; absent: the client's is passed on"},
    {.key = "quota", .type = Type::text, .doc = "A name under quotas"},
    {.key = "scope", .type = Type::text_map, .doc = "Kept, and shown in every explanation"},
    {.key = "limits",
     .type = Type::record,
     .doc = "The provider's limits in the short form",
     .record = &kLimitsRecord},
    {.key = "rules",
     .type = Type::records,
     .doc = "The long form; replaces the short form's of the same unit and window",
     .record = &kRuleRecord},
    {.key = "counts",
     .type = Type::record,
     .doc = "What else the provider counts",
     .record = &kCountsRecord},
    {.key = "supports",
     .type = Type::record,
     .doc = "What the model can do",
     .record = &kSupportsRecord,
     .later = true,
     .harmless = "empty"},
    {.key = "residency", .type = Type::text, .doc = "Where data stays", .later = true},
    {.key = "retention",
     .type = Type::duration,
     .doc = "How long data is kept",
     .words = "none",
     .later = true},
    {.key = "quality", .type = Type::text, .doc = "A label of yours", .later = true},
    {.key = "shaping",
     .type = Type::record,
     .doc = "How traffic is shaped",
     .record = &kShapingRecord},
    {.key = "retry", .type = Type::record, .doc = "Trying again", .record = &kRetryRecord},
    {.key = "reserved",
     .type = Type::boolean,
     .doc = "Provisioned throughput, used first",
     .later = true,
     .harmless = "false"},
    {.key = "mode",
     .type = Type::choice,
     .doc = "As at the top, for this deployment",
     .choices = "enforce|observe"},
};
constexpr Record kDeploymentRecord = {"deployment", "One model at one provider under one quota",
                                      kDeployment};

constexpr Field kCandidate[] = {
    {.key = "to", .type = Type::text, .doc = "A name under deployments", .required = true},
    {.key = "priority",
     .type = Type::count,
     .doc = "Lower first",
     .fallback = "0",
     .high = 1'000'000},
    {.key = "weight",
     .type = Type::count,
     .doc = "Share among equal priorities",
     .fallback = "1",
     .low = 1,
     .high = 1'000'000},
};
constexpr Record kCandidateRecord = {"candidate", "A deployment that serves a model", kCandidate};

constexpr Field kEstimate[] = {
    {.key = "input",
     .type = Type::choice,
     .doc = "How input tokens are estimated",
     .fallback = "auto",
     .choices = "calibrated|auto",
     .later_choices = "exact"},
    {.key = "output",
     .type = Type::choice,
     .doc = "What is reserved for the output: the mean of the caller's answers, what 95 in 100 of "
            "them stay below, or the caller's cap",
     .fallback = "mean",
     .choices = "mean|p95|max_tokens"},
    {.key = "unknown",
     .type = Type::choice,
     .doc = "What is reserved until a deployment has given 20 answers: 256 tokens at most, or the "
            "caller's cap (768 tokens where it has none)",
     .fallback = "mean",
     .choices = "mean|max_tokens"},
    {.key = "propose_max_tokens",
     .type = Type::boolean,
     .doc =
         "Adds a max_tokens where the caller gives none and the provider charges it at admission "
         "(count: reserve or reserve_refund): what 99 in 100 of the caller's answers stay below, "
         "and a quarter more; at least 256, and none before 200 answers are known. Answers may "
         "be cut short by it",
     .fallback = "false"},
};
constexpr Record kEstimateRecord = {"estimate", "Estimates before the call", kEstimate};

constexpr Field kModel[] = {
    {.key = "deployments",
     .type = Type::records,
     .doc = "At most 8",
     .record = &kCandidateRecord,
     .required = true},
    {.key = "class", .type = Type::text, .doc = "A name under classes"},
    {.key = "limits",
     .type = Type::record,
     .doc = "Of this model for all callers together",
     .record = &kLimitsRecord},
    {.key = "estimate",
     .type = Type::record,
     .doc = "Estimates before the call",
     .record = &kEstimateRecord},
    {.key = "fallback",
     .type = Type::anything,
     .doc = "Other models to go to",
     .later = true,
     .harmless = "empty"},
    {.key = "ramp",
     .type = Type::anything,
     .doc = "A gradual move to a deployment",
     .later = true,
     .harmless = "empty"},
};
constexpr Record kModelRecord = {"model", "What clients name in \"model\"", kModel};

constexpr Field kClass[] = {
    {.key = "weight",
     .type = Type::count,
     .doc = "Share of what is free",
     .fallback = "1",
     .low = 1,
     .high = 1'000'000},
    {.key = "min_share",
     .type = Type::percent,
     .doc = "Its floor",
     .later = true,
     .harmless = "0%|0",
     .high = 100},
    {.key = "max_wait",
     .type = Type::duration,
     .doc = "Longest time in the queue",
     .fallback = "30s",
     .high = 7 * kDay},
    {.key = "depth",
     .type = Type::count,
     .doc = "Calls that may wait",
     .fallback = "10k",
     .high = 1'000'000},
    {.key = "on_timeout",
     .type = Type::choice,
     .doc = "When the wait is over",
     .fallback = "reject",
     .choices = "reject",
     .later_choices = "fallback|downgrade|defer"},
    {.key = "limits",
     .type = Type::record,
     .doc = "Of all its calls together",
     .record = &kLimitsRecord},
    {.key = "growth", .type = Type::rate, .doc = "Largest growth", .later = true},
};
constexpr Record kClassRecord = {"class", "A traffic class with its own queue", kClass};

constexpr Field kOrganization[] = {
    {.key = "name", .type = Type::text, .doc = "Its name", .fallback = "organization"},
    {.key = "limits",
     .type = Type::record,
     .doc = "Of everything together",
     .record = &kLimitsRecord},
    {.key = "timezone",
     .type = Type::choice,
     .doc = "Of days and months",
     .fallback = "UTC",
     .choices = "UTC"},
};
constexpr Record kOrganizationRecord = {"organization", "The root of the hierarchy", kOrganization};

constexpr Field kKey[] = {
    {.key = "hash",
     .type = Type::text,
     .doc = "\"sha256:\" and 64 hex digits; see weir keys",
     .required = true},
    {.key = "class", .type = Type::text, .doc = "The highest class it may use"},
    {.key = "models",
     .type = Type::texts,
     .doc = "Models it may name; * stands for anything. Absent: all"},
    {.key = "limits", .type = Type::record, .doc = "Of this key", .record = &kLimitsRecord},
    {.key = "expires", .type = Type::date, .doc = "Its last day (UTC), or an instant"},
    {.key = "tags",
     .type = Type::texts,
     .doc = "Labels of yours; nothing reads them in this version"},
    {.key = "mode",
     .type = Type::choice,
     .doc = "As at the top, for this key",
     .choices = "enforce|observe"},
    {.key = "trusted",
     .type = Type::boolean,
     .doc = "May speak for others",
     .later = true,
     .harmless = "false"},
    {.key = "customers",
     .type = Type::anything,
     .doc = "Caps for end customers",
     .later = true,
     .harmless = "empty"},
};
constexpr Record kKeyRecord = {"key", "A virtual key", kKey};

constexpr Field kTeam[] = {
    {.key = "limits", .type = Type::record, .doc = "Of the team", .record = &kLimitsRecord},
    {.key = "keys", .type = Type::named, .doc = "Its keys", .record = &kKeyRecord},
    {.key = "mode",
     .type = Type::choice,
     .doc = "As at the top, for this team",
     .choices = "enforce|observe"},
    {.key = "weight",
     .type = Type::count,
     .doc = "Share within the tenant",
     .later = true,
     .harmless = "1"},
};
constexpr Record kTeamRecord = {"team", "A team of a tenant", kTeam};

constexpr Field kTenant[] = {
    {.key = "limits", .type = Type::record, .doc = "Its ceiling", .record = &kLimitsRecord},
    {.key = "teams", .type = Type::named, .doc = "Its teams", .record = &kTeamRecord},
    {.key = "keys", .type = Type::named, .doc = "Keys without a team", .record = &kKeyRecord},
    {.key = "mode",
     .type = Type::choice,
     .doc = "As at the top, for this tenant",
     .choices = "enforce|observe"},
    {.key = "weight",
     .type = Type::count,
     .doc = "Share among tenants",
     .later = true,
     .harmless = "1"},
    {.key = "guarantee",
     .type = Type::anything,
     .doc = "Its floor per model",
     .later = true,
     .harmless = "empty"},
    {.key = "borrow",
     .type = Type::anything,
     .doc = "What it may use beyond its share",
     .later = true},
};
constexpr Record kTenantRecord = {"tenant", "A tenant", kTenant};

constexpr Field kStores[] = {
    {.key = "state",
     .type = Type::text,
     .doc = "A file that keeps what was learned and what long windows hold across restarts, beside "
            "this one where the path is relative; none: all of it is forgotten",
     .fallback = "none"},
    {.key = "quota",
     .type = Type::anything,
     .doc = "Where quota is shared between instances",
     .fallback = "memory",
     .later = true,
     .harmless = "memory"},
    {.key = "ledger",
     .type = Type::anything,
     .doc = "Usage and decisions",
     .fallback = "none",
     .later = true,
     .harmless = "none"},
};
constexpr Record kStoresRecord = {"stores", "What outlives a request", kStores};

constexpr Field kTelemetry[] = {
    {.key = "otlp", .type = Type::url, .doc = "An OpenTelemetry collector", .later = true},
    {.key = "log_bodies",
     .type = Type::choice,
     .doc = "Request and response bodies in the log",
     .fallback = "false",
     .choices = "false",
     .later_choices = "true|redact"},
};
constexpr Record kTelemetryRecord = {"telemetry", "Traces and logs", kTelemetry};

constexpr Field kRoot[] = {
    {.key = "server", .type = Type::record, .doc = "The data plane", .record = &kServerRecord},
    {.key = "admin",
     .type = Type::record,
     .doc = "The admin plane; absent: there is none",
     .record = &kAdminRecord},
    {.key = "mode",
     .type = Type::choice,
     .doc = "observe: account every call; delay and refuse nothing",
     .fallback = "enforce",
     .choices = "enforce|observe"},
    {.key = "auth",
     .type = Type::choice,
     .doc = "none: everything is tenant \"default\"",
     .fallback = "required",
     .choices = "required|none"},
    {.key = "providers",
     .type = Type::named,
     .doc = "Accounts at providers",
     .record = &kProviderRecord},
    {.key = "quotas",
     .type = Type::named,
     .doc = "Quotas that deployments refer to",
     .record = &kQuotaRecord},
    {.key = "deployments",
     .type = Type::named,
     .doc = "Models at providers",
     .record = &kDeploymentRecord},
    {.key = "models",
     .type = Type::named,
     .doc = "What clients name in \"model\"; \"*\": every other name",
     .record = &kModelRecord,
     .required = true,
     .model_names = true},
    {.key = "classes",
     .type = Type::named,
     .doc = "Traffic classes, highest first",
     .record = &kClassRecord},
    {.key = "organization",
     .type = Type::record,
     .doc = "The root of the hierarchy",
     .record = &kOrganizationRecord},
    {.key = "tenants",
     .type = Type::named,
     .doc = "Tenants, their teams and keys",
     .record = &kTenantRecord},
    {.key = "stores",
     .type = Type::record,
     .doc = "What outlives a request",
     .record = &kStoresRecord},
    {.key = "jobs",
     .type = Type::anything,
     .doc = "Asynchronous work",
     .later = true,
     .harmless = "empty"},
    {.key = "prices",
     .type = Type::anything,
     .doc = "US dollars per million tokens",
     .later = true,
     .harmless = "empty"},
    {.key = "telemetry",
     .type = Type::record,
     .doc = "Traces and logs",
     .record = &kTelemetryRecord},
    {.key = "alerts",
     .type = Type::anything,
     .doc = "Who is told when",
     .later = true,
     .harmless = "empty"},
};
constexpr Record kRootRecord = {"configuration", "The whole file", kRoot};

}  // namespace

const Record& schema() { return kRootRecord; }

const Field* find_field(const Record& record, std::string_view key) {
  constexpr std::string_view kFile = "_file";
  for (const Field& field : record.fields) {
    if (field.key == key) return &field;
    if (field.type == Type::secret && key.size() == field.key.size() + kFile.size() &&
        key.starts_with(field.key) && key.ends_with(kFile)) {
      return &field;
    }
  }
  return nullptr;
}

std::vector<std::string_view> keys_of(const Record& record) {
  std::vector<std::string_view> keys;
  for (const Field& field : record.fields) keys.push_back(field.key);
  return keys;
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t bar = list.find('|');
    parts.push_back(list.substr(0, bar));
    list = bar == std::string_view::npos ? std::string_view() : list.substr(bar + 1);
  }
  return parts;
}

}  // namespace weir::config
