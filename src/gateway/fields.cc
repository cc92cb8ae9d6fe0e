// SPDX-License-Identifier: Apache-2.0
#include "gateway/fields.h"

#include <algorithm>
#include <array>
#include <span>

#include "http/text.h"

namespace weir::gateway {
namespace {

constexpr std::array<std::string_view, 39> kDroppedFromClient = {
    "te",
    "via",
    "host",
    "cookie",
    "expect",
    "prefer",
    "alt-svc",
    "api-key",
    "cookie2",
    "trailer",
    "upgrade",
    "x-bf-vk",
    "forwarded",
    "x-api-key",
    "x-real-ip",
    "connection",
    "keep-alive",
    "set-cookie",
    "x-client-ip",
    "x-auth-token",
    "authorization",
    "http2-settings",
    "content-length",
    "openai-project",
    "true-client-ip",
    "x-goog-api-key",
    "accept-encoding",
    "content-encoding",
    "proxy-connection",
    "cf-connecting-ip",
    "transfer-encoding",
    "ocp-apim-subscription-key",
    "proxy-authenticate",
    "proxy-authorization",
    "openai-organization",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-amz-security-token",
    "x-dashscope-wait-timeout",
};

constexpr std::array<std::string_view, 17> kDroppedFromProvider = {
    "alt-svc",
    "upgrade",
    "trailer",
    "connection",
    "keep-alive",
    "set-cookie",
    "set-cookie2",
    "content-length",
    "retry-after-ms",
    "x-should-retry",
    "proxy-connection",
    "www-authenticate",
    "transfer-encoding",
    "proxy-authenticate",
    "proxy-authorization",
    "strict-transport-security",
    "public-key-pins",
};

constexpr std::size_t kLongestName = 32;

/// The names of a list by their length: a field is compared only with the few of its own.
class NamesByLength {
 public:
  explicit NamesByLength(std::span<const std::string_view> names) {
    for (const auto name : names) {
      if (name.size() <= kLongestName) by_length_[name.size()].push_back(name);
    }
  }
  [[nodiscard]] bool has(std::string_view name) const {
    if (name.empty() || name.size() > kLongestName) return false;
    for (const auto other : by_length_[name.size()]) {
      // The names are lower case; most others differ in their last letter already.
      if (http::lower(name.back()) == other.back() && http::same_word(name, other)) return true;
    }
    return false;
  }

 private:
  std::array<std::vector<std::string_view>, kLongestName + 1> by_length_;
};

const NamesByLength& dropped_from_client() {
  static const NamesByLength kNames(kDroppedFromClient);
  return kNames;
}

const NamesByLength& dropped_from_provider() {
  static const NamesByLength kNames(kDroppedFromProvider);
  return kNames;
}

bool starts_with_word(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && http::same_word(text.substr(0, prefix.size()), prefix);
}

void append_line(std::string& out, const http::Field& field) {
  // Sized once, because a request has a dozen of these.
  const std::size_t start = out.size();
  out.resize(start + field.name.size() + field.value.size() + 4);
  char* at = out.data() + start;
  at = std::copy(field.name.begin(), field.name.end(), at);
  *at++ = ':';
  *at++ = ' ';
  at = std::copy(field.value.begin(), field.value.end(), at);
  *at++ = '\r';
  *at = '\n';
}

}  // namespace

bool names_word(std::string_view list, std::string_view word) {
  bool found = false;
  http::for_each_word(list, [&](std::string_view item) {
    if (http::same_word(item, word)) found = true;
  });
  return found;
}

namespace {

/// Whether a Connection field names `name` as hop-by-hop.
bool named_by_connection(const http::Fields& fields, std::string_view name) {
  for (const auto& field : fields.all()) {
    if (http::same_word(field.name, "connection") && names_word(field.value, name)) return true;
  }
  return false;
}

/// Whether Connection says more than the two words that every client sends.
bool connection_names_fields(const http::Fields& fields) {
  for (const auto& field : fields.all()) {
    if (!http::same_word(field.name, "connection")) continue;
    if (!http::same_word(field.value, "keep-alive") && !http::same_word(field.value, "close")) {
      return true;
    }
  }
  return false;
}

}  // namespace

void append_request_fields(std::string& out, const http::Fields& fields) {
  const auto& dropped = dropped_from_client();
  const bool more_hops = connection_names_fields(fields);
  for (const auto& field : fields.all()) {
    if (dropped.has(field.name)) continue;
    if (!field.name.empty() && http::lower(field.name.front()) == 'x' &&
        (starts_with_word(field.name, "x-weir-") || starts_with_word(field.name, "x-forwarded-"))) {
      continue;
    }
    if (more_hops && named_by_connection(fields, field.name)) continue;
    append_line(out, field);
  }
}

void append_unconfigured(std::string& out, std::string_view passed,
                         const std::vector<std::pair<std::string, std::string>>& configured) {
  while (!passed.empty()) {
    const std::size_t end = passed.find('\n') + 1;
    const std::string_view line = passed.substr(0, end);
    const std::string_view name = line.substr(0, line.find(':'));
    const bool replaced = std::any_of(configured.begin(), configured.end(), [&](const auto& own) {
      return http::same_word(own.first, name);
    });
    if (!replaced) out += line;
    passed.remove_prefix(end);
  }
}

void append_response_fields(std::string& out, const http::Fields& fields) {
  const auto& dropped = dropped_from_provider();
  const bool more_hops = connection_names_fields(fields);
  for (const auto& field : fields.all()) {
    if (dropped.has(field.name)) continue;
    if (starts_with_word(field.name, "x-ratelimit-")) continue;
    if (starts_with_word(field.name, "ratelimit")) continue;
    if (starts_with_word(field.name, "x-weir-")) continue;
    if (more_hops && named_by_connection(fields, field.name)) continue;
    append_line(out, field);
  }
}

}  // namespace weir::gateway
