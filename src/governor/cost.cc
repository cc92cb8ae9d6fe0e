// SPDX-License-Identifier: Apache-2.0
#include "governor/cost.h"

namespace weir::governor {

std::int64_t Cost::admitted(Unit unit, Counting count, Side side) const {
  const bool reserves = count == Counting::reserve || count == Counting::reserve_refund;
  const std::int64_t out = side == Side::own ? output : reserves ? reserve_output : 0;
  switch (unit) {
    case Unit::requests: return 1;
    case Unit::concurrency: return 1;
    case Unit::input_tokens: return input;
    case Unit::output_tokens: return out;
    case Unit::total_tokens: return input + out;
  }
  return 0;
}

std::int64_t Cost::paced(Unit unit, Counting count) const {
  const bool reserves = count == Counting::reserve;
  const std::int64_t out = count == Counting::input ? 0 : (reserves ? reserve_output : output);
  switch (unit) {
    case Unit::requests: return 1;
    case Unit::concurrency: return 0;
    case Unit::input_tokens: return input;
    case Unit::output_tokens: return out;
    case Unit::total_tokens: return input + out;
  }
  return 0;
}

std::int64_t Actual::of(Unit unit) const {
  switch (unit) {
    case Unit::requests: return request_counted ? 1 : 0;
    case Unit::concurrency: return 0;
    case Unit::input_tokens: return tokens_charged ? input : 0;
    case Unit::output_tokens: return tokens_charged ? output : 0;
    case Unit::total_tokens: return tokens_charged ? input + output : 0;
  }
  return 0;
}

}  // namespace weir::governor
