// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "emulator/provider.h"
#include "http/exchange.h"

namespace weir::emulator {

/// The emulated provider over HTTP: OpenAI's chat, completions, embeddings and models, and the
/// control plane under /emulator/v1/:
///   GET counters                    what was admitted, refused, produced; what the limits hold
///   GET, PUT rules latency faults   in the vocabulary of the file; PUT replaces, absent = default
///   POST reset                      as if just started
/// One handler a loop; they share the Provider, which outlives them. Threads: its loop's.
class Handler final : public http::Handler {
 public:
  Handler(http::Loop& loop, std::shared_ptr<Provider> provider)
      : loop_(loop), provider_(std::move(provider)) {}

  std::optional<std::string> on_head(const http::RequestHead& head) override;
  std::unique_ptr<http::Session> on_request(const http::Request& request,
                                            http::Responder& responder) override;

 private:
  std::unique_ptr<http::Session> model(Operation operation, const http::Request& request,
                                       http::Responder& responder);
  std::unique_ptr<http::Session> models(std::string_view path, const http::Request& request,
                                        http::Responder& responder);
  std::unique_ptr<http::Session> control(std::string_view what, const http::Request& request,
                                         http::Responder& responder);

  http::Loop& loop_;
  std::shared_ptr<Provider> provider_;
};

}  // namespace weir::emulator
