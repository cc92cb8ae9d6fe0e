// SPDX-License-Identifier: Apache-2.0
#include "net/connector.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "net/provider_connection.h"

namespace weir::net {
namespace {

constexpr std::size_t kMaxPools = 1024;
/// An idle connection's end is told by its loop; only after this long is it looked at again, in
/// case the news has not been read yet.
constexpr Duration kLookAgain = std::chrono::seconds(1);

bool same_place(const http::Endpoint& left, const http::Endpoint& right) {
  return left.port == right.port && left.tls == right.tls && left.host == right.host &&
         left.name == right.name && left.ca_file == right.ca_file;
}

bool looks_dead(int fd, bool tls) {
  char byte = 0;
  const ssize_t got = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) return !tls;  // a TLS peer may send a session ticket at any time
  return got == 0 || errno != EAGAIN;
}

}  // namespace

PooledConnector::PooledConnector(EventLoop& loop, Resolver& resolver)
    : loop_(loop), resolver_(resolver) {}

PooledConnector::~PooledConnector() {
  while (!connections_.empty()) connections_.back()->abandon();
  loop_.settle();
}

Pool& PooledConnector::pool_of(const http::Endpoint& endpoint) {
  ++sends_;
  for (const auto& pool : pools_) {
    if (same_place(pool->endpoint, endpoint)) {
      pool->used = sends_;
      return *pool;
    }
  }
  if (pools_.size() >= kMaxPools) {
    // Endpoints come from the configuration; those of former ones have no connections any more.
    const auto unused = std::ranges::find_if(
        pools_, [](const std::unique_ptr<Pool>& pool) { return pool->connections == 0; });
    if (unused != pools_.end()) pools_.erase(unused);
  }
  pools_.push_back(std::make_unique<Pool>());
  Pool& pool = *pools_.back();
  pool.endpoint = endpoint;
  pool.literal = literal_address(endpoint.host, endpoint.port);
  pool.used = sends_;
  return pool;
}

std::unique_ptr<http::Exchange> PooledConnector::send(const http::Endpoint& endpoint,
                                                      std::string_view head,
                                                      std::span<const std::string_view> body,
                                                      http::ResponseSink& sink) {
  Pool& pool = pool_of(endpoint);
  auto exchange = std::make_unique<ProviderExchange>(endpoint, head, body, sink, loop_.now());
  if (ProviderConnection* const idle = take_idle(pool)) {
    idle->reuse(*exchange);
  } else {
    open(pool, *exchange);
  }
  return exchange;
}

ProviderConnection* PooledConnector::take_idle(Pool& pool) {
  while (pool.newest != nullptr) {
    ProviderConnection& connection = *pool.newest;
    connection.unlink_idle();
    const Duration idle = loop_.now() - connection.since_;
    if (idle < pool.endpoint.pool_idle &&
        (idle < kLookAgain || !looks_dead(connection.stream_.fd(), pool.endpoint.tls))) {
      return &connection;
    }
    connection.close();
  }
  return nullptr;
}

void PooledConnector::open(Pool& pool, ProviderExchange& exchange) {
  connections_.push_back(std::make_unique<ProviderConnection>(*this, pool, ++opened_));
  connections_.back()->index_ = connections_.size() - 1;
  ++pool.connections;
  connections_.back()->open(exchange);
}

Result<TlsContext*> PooledConnector::tls_context(const std::string& ca_file) {
  TrustStore now;
  struct stat state{};
  if (!ca_file.empty() && ::stat(ca_file.c_str(), &state) == 0) {
    constexpr std::int64_t kPerSecond = 1'000'000'000;
    now.file = state.st_ino;
    now.written = state.st_mtim.tv_sec * kPerSecond + state.st_mtim.tv_nsec;
    now.size = state.st_size;
  }
  TrustStore& store = stores_[ca_file];
  const bool same =
      store.file == now.file && store.written == now.written && store.size == now.size;
  if (store.context != nullptr && same) return store.context.get();
  Result<std::unique_ptr<TlsContext>> made = TlsContext::create(ca_file);
  if (!made && store.context != nullptr) return store.context.get();
  if (!made) return fail(std::move(made.error()));
  // A resumed session is not verified again: what the former authorities vouched for ends here.
  for (const auto& pool : pools_) {
    if (pool->endpoint.ca_file == ca_file) pool->ticket.keep(nullptr);
  }
  now.context = std::move(*made);
  store = std::move(now);
  return store.context.get();
}

void PooledConnector::drop(ProviderConnection& connection) {
  resolving_.erase(connection.id_);
  --connection.pool_.connections;
  const std::size_t index = connection.index_;
  std::unique_ptr<ProviderConnection> gone = std::move(connections_[index]);
  if (index + 1 < connections_.size()) {
    connections_[index] = std::move(connections_.back());
    connections_[index]->index_ = index;
  }
  connections_.pop_back();
  loop_.bury(std::move(gone));
}

}  // namespace weir::net
