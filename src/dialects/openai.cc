// SPDX-License-Identifier: Apache-2.0
#include "dialects/dialect.h"
#include "dialects/openai_meter.h"
#include "dialects/openai_request.h"
#include "dialects/openai_signal.h"

namespace weir::dialects {
namespace {

class OpenAi final : public Dialect {
 public:
  [[nodiscard]] std::string_view name() const override { return "openai"; }

  [[nodiscard]] std::optional<Operation> operation(std::string_view method,
                                                   std::string_view path) const override {
    if (method == "POST") {
      if (path == "/v1/chat/completions") return Operation::chat;
      if (path == "/v1/completions") return Operation::completion;
      if (path == "/v1/embeddings") return Operation::embedding;
    }
    if (method == "GET" && path == "/v1/models") return Operation::list_models;
    return std::nullopt;
  }

  [[nodiscard]] std::expected<RequestFacts, RequestFault> read_request(
      Operation operation, std::string_view body) const override {
    return read_openai_request(operation, body);
  }

  [[nodiscard]] Signal read_signal(std::uint16_t status, const http::Fields& fields,
                                   std::string_view error_body, WallTime wall_now) const override {
    return read_openai_signal(status, fields, error_body, wall_now);
  }

  [[nodiscard]] std::unique_ptr<ResponseMeter> meter(Operation /*operation*/, bool streaming,
                                                     bool strip_usage) const override {
    if (streaming) return std::make_unique<StreamMeter>(strip_usage);
    return std::make_unique<JsonMeter>();
  }
};

}  // namespace

const Dialect& openai() {
  static const OpenAi kDialect;
  return kDialect;
}

}  // namespace weir::dialects
