// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/head.h"
#include "weir/demand.h"
#include "weir/result.h"
#include "weir/signal.h"
#include "weir/usage.h"

namespace weir::dialects {

/// Which operation of an API a request is.
enum class Operation : std::uint8_t { chat, completion, embedding, list_models };

/// A change to the request body: bytes [offset, offset+length) are replaced by `with`.
struct Splice {
  std::size_t offset = 0;
  std::size_t length = 0;
  std::string with;
};

/// What was read from a request body, in one pass, whatever the order of its keys.
struct RequestFacts {
  Operation operation = Operation::chat;
  std::string model;             ///< JSON escapes resolved
  std::size_t model_offset = 0;  ///< of the value with its quotes, in the body
  std::size_t model_length = 0;
  Demand demand;
  bool include_usage_asked = false;  ///< the client itself asked for the usage chunk
  /// Where and what to splice so that a streamed answer carries usage; none if asked already, or
  /// not a stream. Existing members of stream_options are kept.
  std::optional<Splice> ask_usage;
  std::string end_user;  ///< "user", bounded to 256 bytes
};

/// Meters and filters one response's body. Bytes go in as they arrive; bytes to relay come out.
class ResponseMeter {
 public:
  virtual ~ResponseMeter() = default;
  /// Feeds bytes; appends to `relay` the pieces of `bytes` (or of the meter's own buffer, valid
  /// until the next feed) that go to the client.
  virtual void feed(std::string_view bytes, std::vector<std::string_view>& relay) = 0;
  /// The body ended; appends what was held back.
  virtual void finish(std::vector<std::string_view>& relay) = 0;
  [[nodiscard]] virtual std::optional<Usage> usage() const = 0;
  [[nodiscard]] virtual std::int64_t output_events() const = 0;
  /// Whether the dialect's own terminal mark came ([DONE], finish_reason, a whole JSON object).
  [[nodiscard]] virtual bool terminated() const = 0;
  /// An error object at the start of a success response (before any content), as a Signal.
  [[nodiscard]] virtual std::optional<Signal> error_before_content() const = 0;
  /// True while nothing that is content has been passed on and an error may still show: the
  /// session holds the head back.
  [[nodiscard]] virtual bool undecided() const = 0;
};

/// One API family: pure functions, no state between requests.
class Dialect {
 public:
  virtual ~Dialect() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Which operation a method and path mean; none: not of this dialect.
  [[nodiscard]] virtual std::optional<Operation> operation(std::string_view method,
                                                           std::string_view path) const = 0;
  /// Reads a request. `body` is followed by http::kBodyPadding readable bytes.
  /// Errors: malformed (with `param` named in the text), too_large for absurd numbers.
  virtual Result<RequestFacts> read_request(Operation operation, std::string_view body) const = 0;
  /// What an answer says about limits: status, headers, and for errors up to 64 KiB of body.
  /// `wall_now` for dates in Retry-After.
  [[nodiscard]] virtual Signal read_signal(std::uint16_t status, const http::Fields& fields,
                                           std::string_view error_body,
                                           WallTime wall_now) const = 0;
  [[nodiscard]] virtual std::unique_ptr<ResponseMeter> meter(Operation operation, bool streaming,
                                                             bool strip_usage) const = 0;
};

/// The dialect of OpenAI and of what is compatible with it. Never null; static storage.
const Dialect& openai();

}  // namespace weir::dialects
