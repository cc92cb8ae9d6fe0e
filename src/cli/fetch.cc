// SPDX-License-Identifier: Apache-2.0
#include "cli/fetch.h"

#include <fmt/format.h>

#include <future>
#include <utility>

#include "config/address.h"
#include "http/exchange.h"
#include "http/writer.h"

namespace weir::cli {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 20U;

/// One question under way on the loop; it tells its end once.
class Question final : public http::ResponseSink {
 public:
  std::string head;
  std::unique_ptr<http::Exchange> exchange;
  std::promise<Result<std::string>> answer;

  void on_sent() override {}
  void on_head(const http::ResponseHead& response, std::string_view /*raw*/) override {
    status_ = response.status;
  }
  void on_body(std::string_view bytes) override {
    if (body_.size() + bytes.size() <= kLargest) body_ += bytes;
  }
  void on_end() override {
    constexpr std::uint16_t kOk = 200;
    if (status_ == kOk) {
      answer.set_value(std::move(body_));
    } else {
      answer.set_value(fail(ErrorCode::bad_response, fmt::format("status {}", status_)));
    }
  }
  void on_failure(const http::Failure& failure) override { answer.set_value(fail(failure.error)); }

 private:
  std::uint16_t status_ = 0;
  std::string body_;
};

}  // namespace

Fetcher::Fetcher(std::unique_ptr<net::Runtime> runtime) : runtime_(std::move(runtime)) {}

Fetcher::~Fetcher() { runtime_->stop(); }

Result<std::unique_ptr<Fetcher>> Fetcher::to(const std::string& address) {
  const auto parsed = config::parse_listen(address);
  if (!parsed) {
    return fail(ErrorCode::invalid_config,
                fmt::format("{}: {}; {}", address, parsed.error().message, parsed.error().fix));
  }
  auto runtime = net::Runtime::create(1);
  if (!runtime) return fail(runtime.error());
  if (const auto started = (*runtime)->start(); !started) return fail(started.error());
  std::unique_ptr<Fetcher> fetcher(new Fetcher(std::move(*runtime)));
  fetcher->endpoint_.name = address;
  fetcher->endpoint_.host = parsed->host;
  fetcher->endpoint_.port = parsed->port;
  fetcher->endpoint_.total_timeout = std::chrono::seconds(10);
  return fetcher;
}

Result<std::string> Fetcher::ask(std::string_view method, std::string_view path) {
  Question question;
  http::append_request_line(question.head, method, path);
  http::append_field(question.head, "host", endpoint_.name);
  if (method != "GET") http::append_field(question.head, "content-length", std::uint64_t{0});
  http::end_head(question.head);
  auto answer = question.answer.get_future();
  runtime_->loop(0).post([this, &question] {
    question.exchange = runtime_->connector(0).send(endpoint_, question.head, {}, question);
  });
  auto result = answer.get();
  // The exchange belongs to the loop and ends there, before the question goes.
  std::promise<void> gone;
  runtime_->loop(0).post([&] {
    question.exchange.reset();
    gone.set_value();
  });
  gone.get_future().wait();
  return result;
}

}  // namespace weir::cli
