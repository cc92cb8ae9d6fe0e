// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "gateway/gateway.h"
#include "http/exchange.h"
#include "http/text.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

/// A gateway with nothing real around it: time is set by the test, clients and providers are
/// scripted. For the tests of this folder only.
namespace weir::gateway::fake {

using std::chrono::milliseconds;
using std::chrono::seconds;

class TestClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override { return at; }
  [[nodiscard]] WallTime wall() const override { return wall_at; }
  Instant at{seconds(1000)};
  WallTime wall_at{seconds(1'790'000'000)};
};

class TestLoop final : public http::Loop {
 public:
  explicit TestLoop(const TestClock& clock) : clock_(clock) {}
  [[nodiscard]] Instant now() const override { return clock_.now(); }
  void post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  void run() {
    while (!tasks_.empty()) {
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }

 private:
  const TestClock& clock_;
  std::deque<std::function<void()>> tasks_;
};

/// One attempt as the provider's side sees it.
struct Attempt {
  std::string endpoint;
  std::string head;
  std::string body;
  http::ResponseSink* sink = nullptr;
  bool open = true;  ///< the exchange has not been destroyed
  bool paused = false;
  std::string field_storage;

  /// The head's lines, in lower case names as sent.
  [[nodiscard]] bool has_line(std::string_view line) const {
    return head.find("\r\n" + std::string(line) + "\r\n") != std::string::npos;
  }
  void sent() { sink->on_sent(); }
  void answer_head(std::uint16_t status,
                   const std::vector<std::pair<std::string, std::string>>& fields,
                   http::BodyKind kind, std::uint64_t length = 0) {
    http::ResponseHead response;
    response.status = status;
    response.body = kind;
    response.content_length = length;
    for (const auto& [name, value] : fields) response.fields.add({name, value});
    sink->on_head(response, {});
  }
  void answer_body(std::string_view bytes) {
    if (open) sink->on_body(bytes);
  }
  void answer_end() {
    if (open) sink->on_end();
  }
  /// A whole answer with a length.
  void answer(std::uint16_t status, std::string_view bytes,
              std::vector<std::pair<std::string, std::string>> fields = {
                  {"content-type", "application/json"}}) {
    answer_head(status, fields, http::BodyKind::length, bytes.size());
    answer_body(bytes);
    answer_end();
  }
  void fail(ErrorCode code, bool request_sent, bool billed = false,
            http::FailureCause cause = http::FailureCause::lost) {
    http::Failure failure;
    failure.cause = cause;
    failure.error.code = code;
    failure.error.text = "it broke at 10.1.2.3";
    failure.error.may_have_been_billed = billed;
    failure.request_sent = request_sent;
    if (open) sink->on_failure(failure);
  }
};

class TestConnector final : public http::Connector {
 public:
  std::unique_ptr<http::Exchange> send(const http::Endpoint& endpoint, std::string_view head,
                                       std::span<const std::string_view> body,
                                       http::ResponseSink& sink) override {
    auto attempt = std::make_shared<Attempt>();
    attempt->endpoint = endpoint.name;
    attempt->head = head;
    for (const auto piece : body) attempt->body += piece;
    attempt->sink = &sink;
    attempts.push_back(attempt);
    return std::make_unique<TestExchange>(attempt);
  }
  [[nodiscard]] Attempt& last() { return *attempts.back(); }

  std::vector<std::shared_ptr<Attempt>> attempts;

 private:
  class TestExchange final : public http::Exchange {
   public:
    explicit TestExchange(std::shared_ptr<Attempt> attempt) : attempt_(std::move(attempt)) {}
    ~TestExchange() override { attempt_->open = false; }
    void pause(bool paused) override { attempt_->paused = paused; }
    [[nodiscard]] std::optional<Duration> round_trip() const override { return milliseconds(2); }

   private:
    std::shared_ptr<Attempt> attempt_;
  };
};

/// One client connection with one exchange. As strict as the real one: the session is destroyed
/// the moment it says that it has ended.
class Client final : public http::Responder {
 public:
  void write(std::span<const std::string_view> pieces) override {
    ++writes;
    for (const auto piece : pieces) out += piece;
  }
  void finish(bool keep_alive) override {
    finished = true;
    kept_alive = keep_alive;
    session.reset();
  }
  void abort() override {
    aborted = true;
    session.reset();
  }
  [[nodiscard]] std::size_t buffered() const override { return backlog; }
  void set_timer(Instant at) override { timer = at; }

  [[nodiscard]] int status() const { return out.size() > 12 ? std::stoi(out.substr(9, 3)) : 0; }
  [[nodiscard]] std::string head() const { return out.substr(0, out.find("\r\n\r\n") + 2); }
  [[nodiscard]] std::string body() const {
    const auto end = out.find("\r\n\r\n");
    return end == std::string::npos ? std::string() : out.substr(end + 4);
  }
  /// The body with its chunk framing taken off; fails the test if the framing is broken.
  [[nodiscard]] std::string unchunked() const {
    std::string rest = body();
    std::string whole;
    for (;;) {
      const auto end = rest.find("\r\n");
      if (end == std::string::npos) return whole + "<broken>";
      const std::size_t size = std::stoul(rest.substr(0, end), nullptr, 16);
      if (size == 0) return rest.substr(end) == "\r\n\r\n" ? whole : whole + "<broken end>";
      whole += rest.substr(end + 2, size);
      rest = rest.substr(end + 2 + size + 2);
    }
  }
  [[nodiscard]] std::string field(std::string_view name) const {
    const std::string all = head();
    std::size_t at = 0;
    while ((at = all.find("\r\n", at)) != std::string::npos) {
      at += 2;
      if (at + name.size() < all.size() && all[at + name.size()] == ':' &&
          http::same_word(std::string_view(all).substr(at, name.size()), name)) {
        const auto start = at + name.size() + 2;
        return all.substr(start, all.find("\r\n", start) - start);
      }
    }
    return {};
  }
  void leave() {
    if (session) {
      session->on_peer_gone();
      session.reset();
    }
  }

  std::string out;
  std::string body_storage;
  bool finished = false;
  bool kept_alive = false;
  bool aborted = false;
  bool refused_early = false;
  int writes = 0;
  std::size_t backlog = 0;
  Instant timer = kNever;
  std::unique_ptr<http::Session> session;
};

using Lines = std::vector<std::pair<std::string, std::string>>;

/// The whole: configuration, clock, loop, provider, clients.
class World {
 public:
  explicit World(std::string_view yaml, telemetry::LogLevel level = telemetry::LogLevel::debug)
      : log_(
            telemetry::Log::to([this](std::string_view line) { lines.emplace_back(line); }, level)),
        loop(clock) {
    gateway = std::make_unique<Gateway>(
        parse(yaml), GatewayParts{.clock = clock,
                                  .registry = registry,
                                  .log = *log_,
                                  .wake = [this](Instant at) { next_ = std::min(next_, at); },
                                  .seed = 7});
    handler = gateway->make_handler(loop, connector);
  }

  static std::shared_ptr<const config::Config> parse(std::string_view yaml) {
    auto loaded = config::load(yaml, "test.yaml",
                               [](std::string_view) { return std::optional<std::string>(); });
    for (const auto& fault : loaded.faults) ADD_FAILURE() << config::render(fault);
    if (!loaded.config) std::abort();
    return loaded.config;
  }

  std::shared_ptr<Client> request(std::string_view method, std::string_view target, Lines fields,
                                  std::string_view body = {}, std::uint8_t minor = 1) {
    auto client = std::make_shared<Client>();
    client->body_storage = body;
    client->body_storage.append(http::kBodyPadding, '\0');
    http::Request incoming;
    incoming.head.method = method;
    incoming.head.target = target;
    incoming.head.minor_version = minor;
    incoming.head.keep_alive = minor == 1;
    incoming.head.body = body.empty() ? http::BodyKind::none : http::BodyKind::length;
    incoming.head.content_length = body.size();
    for (const auto& [name, value] : fields) incoming.head.fields.add({name, value});
    incoming.body = std::string_view(client->body_storage).substr(0, body.size());
    incoming.peer = "127.0.0.1";
    if (auto refusal = handler->on_head(incoming.head)) {
      client->out = *refusal;
      client->refused_early = true;
      client->finished = true;
      return client;
    }
    auto session = handler->on_request(incoming, *client);
    if (!client->finished && !client->aborted) client->session = std::move(session);
    return client;
  }

  /// A chat call of key weir-acme.
  std::shared_ptr<Client> chat(std::string_view body = kChat, Lines more = {}) {
    Lines fields = {{"Authorization", "Bearer weir-acme"}, {"Content-Type", "application/json"}};
    fields.insert(fields.end(), more.begin(), more.end());
    return request("POST", "/v1/chat/completions", fields, body);
  }

  /// Lets time pass; the pacer runs whenever it is due.
  void pass(Duration time) {
    const Instant end = clock.at + time;
    next_ = std::min(next_, gateway->poll(clock.at));
    loop.run();
    while (next_ <= end) {
      clock.at = std::max(clock.at, next_);
      next_ = kNever;
      next_ = std::min(next_, gateway->poll(clock.at));
      loop.run();
    }
    clock.at = end;
    clock.wall_at += time;
  }

  [[nodiscard]] std::string metrics() {
    gateway->observe(clock.at);
    std::string text;
    registry.render(text);
    return text;
  }
  [[nodiscard]] bool metric(std::string_view line) {
    return ("\n" + metrics()).find("\n" + std::string(line) + "\n") != std::string::npos;
  }
  [[nodiscard]] governor::Snapshot snapshot() { return gateway->observe(clock.at); }
  /// Nothing is held anywhere.
  [[nodiscard]] bool idle() {
    const auto state = snapshot();
    if (state.inflight != 0 || state.queued != 0) return false;
    for (const auto& deployment : state.deployments) {
      if (deployment.inflight != 0) return false;
      for (const auto& meter : deployment.meters) {
        if (meter.reserved != 0) return false;
      }
    }
    return true;
  }
  [[nodiscard]] std::string all_lines() const {
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    return text;
  }

  static constexpr std::string_view kChat =
      R"({"model":"fast-chat","messages":[{"role":"user","content":"prompt-canary"}],"max_tokens":20})";
  static constexpr std::string_view kStream =
      R"({"model":"fast-chat","messages":[{"role":"user","content":"hi"}],"stream":true})";
  static constexpr std::string_view kAnswer =
      R"({"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"reply-canary"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}})";

  std::vector<std::string> lines;
  TestClock clock;

 private:
  std::unique_ptr<telemetry::Log> log_;
  Instant next_ = kNever;

 public:
  TestLoop loop;
  TestConnector connector;
  telemetry::Registry registry;
  std::unique_ptr<Gateway> gateway;
  std::unique_ptr<http::Handler> handler;
};

/// A configuration with one deployment at one provider; `limits` is put into the deployment.
inline std::string config_text(std::string_view limits = "rpm: 60000", std::string_view more = {}) {
  return std::string(R"(
providers:
  up:
    kind: openai_compatible
    base_url: "http://127.0.0.1:9001/base/v1"
    api_key: "sk-provider-canary"
    headers: {OpenAI-Organization: org-own}
deployments:
  chat-1:
    provider: up
    model: big-model
    limits: {)") +
         std::string(limits) + R"(}
    shaping: {start: full}
models:
  fast-chat: {deployments: [{to: chat-1}]}
tenants:
  acme:
    keys:
      prod: {hash: "sha256:38deb5371dee7d0fb9cf8a3c163c8f88e15555acf26e7e10046d74beccea00d1"}
      mini: {hash: "sha256:68182df1c19accbe29371c282b3c4af580b0e4fd9bea04628c1b0ea9a43db690", models: ["mini-*"], class: batch}
      old: {hash: "sha256:ab6f4e382766380e0029a0c8373aba9e1450193503c1850bc1146c8cd5ec03d2", expires: 2020-01-01}
classes:
  interactive: {weight: 8, max_wait: 5s, depth: 50}
  standard: {weight: 4, max_wait: 30s, depth: 50}
  batch: {weight: 1, max_wait: 20m, depth: 50}
)" + std::string(more);
}

}  // namespace weir::gateway::fake
