// SPDX-License-Identifier: Apache-2.0
// Calls to a provider, governed inside the program: no gateway, no thread, one libcurl multi
// handle.
//
//   embed [--calls 60] [--requests 20] [--window-ms 2000] [--strategy shaping] [--no-governor] URL
//
// It has all its calls to make at once. The provider allows `requests` in every window of
// `window-ms`. The governor says which call may go now and when to ask again; with --no-governor
// they all go at once, and the provider answers most of them with 429. `--strategy` is one of
// passthrough, retry, rate, shaping: what a client can do about limits, each with those before it.
#include <curl/curl.h>
#include <weir/governor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Options {
  int calls = 60;
  int requests = 20;
  int window_ms = 2000;
  weir::Strategy strategy = weir::Strategy::shaping;
  bool governed = true;
  std::string url;
};

// What the provider allows, told to the governor: everything a configuration file would hold.
std::shared_ptr<const weir::Policy> policy_of(const Options& options) {
  weir::Policy policy;

  weir::DeploymentPolicy provider;  // one model at one provider under one quota
  provider.name = "provider";
  weir::Rule requests;
  requests.unit = weir::Unit::requests;
  requests.amount = options.requests;
  requests.window = milliseconds(options.window_ms);
  requests.enforce = weir::Enforcement::sliding;  // `unknown` is safe where it is not documented
  requests.count = weir::Counting::reserve;
  provider.rules = {requests};
  // Nobody else has used this quota lately. Without that knowledge leave it at 0: the first window
  // is then waited for, as if it were full.
  provider.start_level = 1.0;
  provider.retry.attempts = 5;
  provider.strategy = options.strategy;
  policy.deployments = {provider};

  // Whose calls they are; limits of one's own for tenants, users and models would stand here.
  policy.nodes = {{"me", weir::NodeKind::organization, weir::NodeId(), {}, weir::Mode::enforce}};
  weir::ProfilePolicy model;
  model.name = "chat";
  model.candidates = {{weir::DeploymentId(0), 0, 1}};
  policy.profiles = {model};
  weir::ClassPolicy patient;
  patient.name = "patient";
  patient.max_wait = seconds(60);
  policy.classes = {patient};
  return std::make_shared<const weir::Policy>(policy);
}

// The program reads the clock; the governor is only told.
weir::Instant now() { return weir::Instant(std::chrono::steady_clock::now().time_since_epoch()); }

// One call on its way.
struct Transfer {
  class Client* client = nullptr;
  int number = 0;
  weir::CallId call;
  std::size_t body_left = 0;  // bytes of the request not yet handed to the kernel
  std::string answer;
};

class Client {
 public:
  explicit Client(const Options& options)
      : options_(options), governor_(policy_of(options), 1, now()), multi_(curl_multi_init()) {
    headers_ = curl_slist_append(headers_, "content-type: application/json");
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    curl_slist_free_all(headers_);
    curl_multi_cleanup(multi_);
  }

  int run() {
    const auto begun = now();
    for (int number = 0; number < options_.calls; ++number) ask(number);
    while (true) {
      grant_what_is_due();
      int running = 0;
      curl_multi_perform(multi_, &running);
      finish_what_is_done();
      if (waiting_ + flying_ == 0) break;
      curl_multi_poll(multi_, nullptr, 0, milliseconds_to_wait(), nullptr);
    }
    std::printf("calls %d served %d provider_429 %d refused %d seconds %.2f\n", options_.calls,
                served_, rejected_, refused_, weir::to_seconds(now() - begun));
    return served_ == options_.calls ? 0 : 1;
  }

 private:
  // Asks for leave. A call that has to wait is answered by an event later on.
  void ask(int number) {
    if (!options_.governed) return send(number, weir::CallId());
    weir::Call call;
    call.leaf = weir::NodeId(0);
    call.profile = weir::ProfileId(0);
    call.traffic_class = weir::ClassId(0);
    call.cookie = static_cast<std::uint64_t>(number);
    call.demand.input_bytes = static_cast<std::int64_t>(body(number).size());
    call.demand.max_output_tokens = 16;
    const auto outcome = governor_.submit(call, now());
    if (const auto* admitted = std::get_if<weir::governor::Admitted>(&outcome)) {
      send(number, admitted->call);
    } else if (std::holds_alternative<weir::governor::Queued>(outcome)) {
      ++waiting_;
    } else {
      ++refused_;
    }
  }

  void grant_what_is_due() {
    bool more = true;
    while (more) {
      events_.clear();
      more = governor_.advance(now(), events_);
      for (const auto& event : events_) {
        --waiting_;
        if (std::holds_alternative<weir::Grant>(event.what)) {
          send(static_cast<int>(event.cookie), event.call);
        } else {
          ++refused_;
        }
      }
    }
  }

  int milliseconds_to_wait() const {
    constexpr milliseconds kMost(1000);
    const auto left = weir::saturating_sub(governor_.next_deadline(), now());
    const auto rounded = std::chrono::ceil<milliseconds>(std::min<weir::Duration>(left, kMost));
    return static_cast<int>(std::max(milliseconds(0), rounded).count());
  }

  void send(int number, weir::CallId call) {
    CURL* easy = curl_easy_init();
    auto* transfer = new Transfer{this, number, call, body(number).size(), {}};
    curl_easy_setopt(easy, CURLOPT_URL, options_.url.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_);
    curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, body(number).c_str());
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Client::on_answer);
    curl_easy_setopt(easy, CURLOPT_DEBUGDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, &Client::on_bytes);
    curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L);  // or on_bytes would not be called
    curl_multi_add_handle(multi_, easy);
    ++flying_;
  }

  // The provider counts a call when it arrives, not when it was granted: between the two a
  // connection may have to be made. So the governor is told when the last byte left.
  static int on_bytes(CURL* easy, curl_infotype kind, char* data, std::size_t size, void* to) {
    static_cast<void>(easy);
    static_cast<void>(data);
    auto* transfer = static_cast<Transfer*>(to);
    if (kind != CURLINFO_DATA_OUT || transfer->body_left == 0) return 0;
    transfer->body_left -= std::min(transfer->body_left, size);
    if (transfer->body_left == 0) transfer->client->governor_.sent(transfer->call, now());
    return 0;
  }

  static std::size_t on_answer(char* data, std::size_t size, std::size_t count, void* to) {
    auto* transfer = static_cast<Transfer*>(to);
    transfer->answer.append(data, size * count);
    // Each byte is a sign of life: without one for its lease, a call is given up as lost.
    transfer->client->governor_.progress(transfer->call, 0, now());
    return size * count;
  }

  void finish_what_is_done() {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* easy = message->easy_handle;
      const CURLcode result = message->data.result;
      char* pointer = nullptr;
      curl_easy_getinfo(easy, CURLINFO_PRIVATE, &pointer);
      const std::unique_ptr<Transfer> transfer(reinterpret_cast<Transfer*>(pointer));
      long status = 0;
      curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
      --flying_;
      if (result == CURLE_OK && status == 429) {
        refused_by_provider(*transfer, easy);
      } else {
        settle(*transfer, result == CURLE_OK && status == 200);
      }
      curl_multi_remove_handle(multi_, easy);
      curl_easy_cleanup(easy);
    }
  }

  // The governor decides whether the call waits for another try or is given up.
  void refused_by_provider(const Transfer& transfer, CURL* easy) {
    ++rejected_;
    if (!options_.governed) return;
    weir::Signal signal;
    signal.kind = weir::SignalClass::rate_limited;
    signal.limiter = weir::Limiter::rpm;
    signal.status = 429;
    curl_header* header = nullptr;
    if (curl_easy_header(easy, "retry-after-ms", 0, CURLH_HEADER, -1, &header) == CURLHE_OK) {
      signal.retry_after = milliseconds(std::strtoll(header->value, nullptr, 10));
    }
    const auto verdict = governor_.rejected(transfer.call, signal, /*replayable=*/true, now());
    ++(std::holds_alternative<weir::governor::Requeued>(verdict) ? waiting_ : refused_);
  }

  // What the provider says it counted replaces the estimate.
  void settle(const Transfer& transfer, bool good) {
    if (good) ++served_;
    weir::Settlement settlement;
    settlement.ending = good ? weir::Ending::completed : weir::Ending::failed;
    settlement.response_started = good;
    const auto input = number_after(transfer.answer, "\"prompt_tokens\":");
    const auto output = number_after(transfer.answer, "\"completion_tokens\":");
    if (good && input && output) settlement.reported = weir::Usage{*input, *output, {}, {}};
    static_cast<void>(governor_.settle(transfer.call, settlement, now()));
  }

  // Enough for an example; a program has a JSON parser.
  static std::optional<std::int64_t> number_after(const std::string& text, const char* key) {
    const std::size_t found = text.find(key);
    if (found == std::string::npos) return std::nullopt;
    return std::strtoll(text.c_str() + found + std::strlen(key), nullptr, 10);
  }

  static std::string body(int number) {
    return R"({"model":"toy-chat","max_tokens":16,"messages":[{"role":"user","content":"call )" +
           std::to_string(number) + R"("}]})";
  }

  Options options_;
  weir::governor::Governor governor_;
  std::vector<weir::governor::Event> events_;
  CURLM* multi_;
  curl_slist* headers_ = nullptr;
  int waiting_ = 0, flying_ = 0, served_ = 0, rejected_ = 0, refused_ = 0;
};

bool read_strategy(const std::string& name, weir::Strategy& strategy) {
  for (const auto each : {weir::Strategy::passthrough, weir::Strategy::retry, weir::Strategy::rate,
                          weir::Strategy::shaping}) {
    if (weir::name(each) != name) continue;
    strategy = each;
    return true;
  }
  return false;
}

bool read(int count, char** arguments, Options& options) {
  for (int at = 1; at < count; ++at) {
    const std::string word = arguments[at];
    const char* value = at + 1 < count ? arguments[at + 1] : "";
    if (word == "--no-governor") {
      options.governed = false;
    } else if (word == "--calls" || word == "--requests" || word == "--window-ms") {
      const int number = std::atoi(value);
      if (number < 1) return false;
      (word == "--calls"      ? options.calls
       : word == "--requests" ? options.requests
                              : options.window_ms) = number;
      ++at;
    } else if (word == "--strategy") {
      if (!read_strategy(value, options.strategy)) return false;
      ++at;
    } else {
      options.url = word;
    }
  }
  return !options.url.empty();
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!read(count, arguments, options)) {
    std::fputs(
        "usage: embed [--calls N] [--requests N] [--window-ms N] [--strategy NAME] "
        "[--no-governor] URL\n",
        stderr);
    return 2;
  }
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const int code = Client(options).run();
  curl_global_cleanup();
  return code;
}
