// SPDX-License-Identifier: Apache-2.0
#include "http/exchange.h"

namespace weir::http {

std::string_view words(FailureCause cause) {
  switch (cause) {
    case FailureCause::name: return "its name was not found (DNS)";
    case FailureCause::refused: return "it refused the connection";
    case FailureCause::unreachable: return "it could not be reached over the network";
    case FailureCause::connect: return "the connection was not made in time";
    case FailureCause::tls: return "the TLS handshake failed";
    case FailureCause::slow: return "it did not answer in time";
    case FailureCause::lost: return "the connection was lost";
    case FailureCause::answer: return "its answer is not HTTP";
    case FailureCause::full: return "the gateway's own bound for it is full";
  }
  return "the connection was lost";
}

}  // namespace weir::http
