// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <expected>
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
  /// Where a cap on the output goes if one is proposed; none if the caller gave one, or the
  /// operation has none. `with` empty: the number stands there alone, in place of a null. Else
  /// `with` is a member's name without its quotes, to be put in with number and comma.
  std::optional<Splice> propose_cap;
  std::string end_user;  ///< "user", bounded to 256 bytes
};

/// Why a request body cannot be served: the Error, and the parameter it is about as the error
/// envelope names it ("model", "stream_options.include_usage"); empty: the body as a whole.
struct RequestFault : Error {
  std::string param;
};

/// Meters and filters one response's body. Bytes go in as they arrive; bytes to relay come out.
///
/// While `undecided` the meter holds the bytes back itself (at most 64 KiB) and relays nothing.
/// Once it has decided, what was held comes out with the same feed (or with `finish`). After each
/// call the session asks `error_before_content` first: if it is set, all that was ever relayed is
/// the body of an error answer and none of it may be sent as a success.
class ResponseMeter {
 public:
  virtual ~ResponseMeter() = default;
  /// Feeds bytes; appends to `relay` the pieces of `bytes` (or of the meter's own buffer, valid
  /// until the next call) that go to the client, in order.
  virtual void feed(std::string_view bytes, std::vector<std::string_view>& relay) = 0;
  /// The body ended; appends what was held back.
  virtual void finish(std::vector<std::string_view>& relay) = 0;
  /// The last real numbers the provider gave; absent: none came (yet).
  [[nodiscard]] virtual std::optional<Usage> usage() const = 0;
  /// Stream events that carried output; 0 for an answer that is not a stream.
  [[nodiscard]] virtual std::int64_t output_events() const = 0;
  /// Whether the dialect's own terminal mark came ([DONE], finish_reason, a whole JSON object).
  [[nodiscard]] virtual bool terminated() const = 0;
  /// An error object at the start of a success response (before any content), as a Signal. Its
  /// status is the one the error stands for (its own numeric code, else by class), never 200.
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
  /// Errors: malformed, the client's doing, with the parameter named in `param` and in the text.
  /// Threads: any; a scratch parser is kept for each thread.
  [[nodiscard]] virtual std::expected<RequestFacts, RequestFault> read_request(
      Operation operation, std::string_view body) const = 0;
  /// What an answer says about limits: status, headers, and for errors up to 64 KiB of body.
  /// `wall_now` for dates in Retry-After.
  [[nodiscard]] virtual Signal read_signal(std::uint16_t status, const http::Fields& fields,
                                           std::string_view error_body,
                                           WallTime wall_now) const = 0;
  /// A meter for the body of a success answer. `streaming`: its content type is
  /// text/event-stream. `strip_usage`: weir asked for the usage chunk (`RequestFacts::ask_usage`)
  /// and the client did not, so what the asking added is taken out again.
  [[nodiscard]] virtual std::unique_ptr<ResponseMeter> meter(Operation operation, bool streaming,
                                                             bool strip_usage) const = 0;
};

/// The dialect of OpenAI and of what is compatible with it. Never null; static storage.
const Dialect& openai();

}  // namespace weir::dialects
