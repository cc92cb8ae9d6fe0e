// SPDX-License-Identifier: Apache-2.0
// Heads from outside: however the bytes are cut, request and response readers come to the same
// verdict, and what they accept keeps the promises the rest of weir builds on.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "http/parser.h"
#include "http/text.h"

namespace {

using namespace weir::http;

void require(bool holds) {
  if (!holds) std::abort();
}

bool inside(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void check_fields(const Fields& fields, std::string_view bytes) {
  require(fields.all().size() <= Fields::kMaxFields);
  for (const Field& field : fields.all()) {
    require(!field.name.empty() && inside(field.name, bytes) && inside(field.value, bytes));
    require(find_control(field.value) == field.value.size());
    require(field.value == trimmed(field.value));
    require(fields.has(field.name));
  }
  require(!(fields.has("content-length") && fields.has("transfer-encoding")));
}

void check_request(std::string_view bytes, std::size_t step) {
  const HeadLimits limits{.bytes = 4096};
  RequestParser whole;
  RequestHead head;
  const Progress verdict = whole.parse(bytes, head, limits);
  if (verdict == Progress::done) {
    require(whole.length() <= bytes.size());
    check_fields(head.fields, bytes);
    require(!head.target.empty() && head.target.find(' ') == std::string_view::npos);
    require(head.body != BodyKind::until_close);
  }
  if (verdict == Progress::refused) require(whole.fault().status >= 400);
  RequestParser pieces;
  RequestHead again;
  Progress progress = Progress::more;
  for (std::size_t size = 0; progress == Progress::more;) {
    size = std::min(bytes.size(), size + step);
    progress = pieces.parse(bytes.substr(0, size), again, limits);
    if (size == bytes.size()) break;
  }
  require(progress == verdict);
  if (verdict == Progress::done) {
    require(pieces.length() == whole.length() && again.body == head.body &&
            again.content_length == head.content_length && again.target == head.target);
  }
}

void check_response(std::string_view bytes, std::size_t step) {
  const HeadLimits limits{.bytes = 4096};
  ResponseParser whole;
  ResponseHead head;
  const Progress verdict = whole.parse(bytes, head, limits);
  if (verdict == Progress::done) {
    check_fields(head.fields, bytes);
    require(head.status >= 100 && head.status <= 599);
    require(head.body != BodyKind::until_close || !head.keep_alive);
  }
  ResponseParser pieces;
  ResponseHead again;
  Progress progress = Progress::more;
  for (std::size_t size = 0; progress == Progress::more;) {
    size = std::min(bytes.size(), size + step);
    progress = pieces.parse(bytes.substr(0, size), again, limits);
    if (size == bytes.size()) break;
  }
  require(progress == verdict);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t step = 1U + data[0] % 61U;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_request(bytes, step);
  check_response(bytes, step);
  return 0;
}
