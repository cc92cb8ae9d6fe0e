// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "net/runtime.h"
#include "weir/result.h"

namespace weir::cli {

/// Asks one server small questions and waits for the answers, for commands that talk to another
/// process of weir. Threads: one owner.
class Fetcher {
 public:
  /// `address` as a `listening` event gives it, "127.0.0.1:8081". Errors: io, invalid_config.
  static Result<std::unique_ptr<Fetcher>> to(const std::string& address);
  ~Fetcher();

  /// The body of a 200, at most 1 MiB. Errors: those of the connection; bad_response for another
  /// status.
  Result<std::string> ask(std::string_view method, std::string_view path);

 private:
  explicit Fetcher(std::unique_ptr<net::Runtime> runtime);
  std::unique_ptr<net::Runtime> runtime_;
  http::Endpoint endpoint_;
};

}  // namespace weir::cli
