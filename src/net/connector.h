// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "http/exchange.h"
#include "net/event_loop.h"
#include "net/resolver.h"
#include "net/tls.h"

namespace weir::net {

class ProviderConnection;
class ProviderExchange;

/// The connections to one endpoint on one loop.
struct Pool {
  http::Endpoint endpoint;
  std::optional<SocketAddress> literal;  ///< the host, if it is an address
  ProviderConnection* newest = nullptr;  ///< idle connections, the last used first
  ProviderConnection* oldest = nullptr;
  std::size_t connections = 0;
  std::uint64_t used = 0;  ///< the connector's count at the last use
  TlsTicket ticket;
};

/// Whom connections trust, and the state of the file that said so.
struct TrustStore {
  std::unique_ptr<TlsContext> context;
  std::uint64_t file = 0;    ///< its inode
  std::int64_t written = 0;  ///< its last change. Units: ns since 1970
  std::int64_t size = 0;
};

/// One loop's connections to providers: kept alive, used last in first out, replaced when found
/// dead. Threads: the loop's.
class PooledConnector final : public http::Connector {
 public:
  PooledConnector(EventLoop& loop, Resolver& resolver);
  ~PooledConnector() override;

  std::unique_ptr<http::Exchange> send(const http::Endpoint& endpoint, std::string_view head,
                                       std::span<const std::string_view> body,
                                       http::ResponseSink& sink) override;

  /// Connections open, idle ones included.
  [[nodiscard]] std::size_t connections() const { return connections_.size(); }
  /// Connections made since the start.
  [[nodiscard]] std::uint64_t opened() const { return opened_; }

 private:
  friend class ProviderConnection;
  Pool& pool_of(const http::Endpoint& endpoint);
  ProviderConnection* take_idle(Pool& pool);
  void open(Pool& pool, ProviderExchange& exchange);
  /// Made anew when the file is another one than it was, so that an authority can be replaced
  /// without a restart; while the new one cannot be read, the former holds.
  Result<TlsContext*> tls_context(const std::string& ca_file);
  /// Takes the connection out of the list and buries it.
  void drop(ProviderConnection& connection);

  EventLoop& loop_;
  Resolver& resolver_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<std::unique_ptr<ProviderConnection>> connections_;
  std::unordered_map<std::uint64_t, ProviderConnection*> resolving_;
  std::map<std::string, TrustStore> stores_;
  std::uint64_t opened_ = 0;
  std::uint64_t sends_ = 0;
};

}  // namespace weir::net
