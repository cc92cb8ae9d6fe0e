// SPDX-License-Identifier: Apache-2.0
#include "net/runtime.h"

#include <signal.h>

#include <cstring>
#include <system_error>
#include <thread>

#include "net/connector.h"
#include "net/event_loop.h"
#include "net/resolver.h"
#include "net/server.h"
#include "net/socket.h"

namespace weir::net {
namespace {

struct Listener {
  HandlerFactory factory;
  ListenerCounts counts;
  std::string unix_path;
};

/// One thread with what lives on it.
struct Worker {
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<PooledConnector> connector;
  std::vector<std::unique_ptr<Server>> servers;
  std::thread thread;
};

/// A thread that writes to a connection its peer has reset would be sent SIGPIPE by OpenSSL's own
/// writes; the error code is enough.
void block_broken_pipes() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

class Runtime::Impl {
 public:
  std::unique_ptr<Resolver> resolver = std::make_unique<Resolver>();
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<Worker> workers;
  std::atomic<std::size_t> active = 0;
  bool started = false;
  bool stopped = false;
};

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Runtime::~Runtime() { stop(); }

Result<std::unique_ptr<Runtime>> Runtime::create(std::size_t loops) {
  if (loops == 0) loops = std::max(1U, std::thread::hardware_concurrency());
  auto impl = std::make_unique<Impl>();
  for (std::size_t index = 0; index < loops; ++index) {
    Result<std::unique_ptr<EventLoop>> loop = EventLoop::create();
    if (!loop) return fail(std::move(loop.error()));
    Worker worker;
    worker.loop = std::move(*loop);
    worker.connector = std::make_unique<PooledConnector>(*worker.loop, *impl->resolver);
    impl->workers.push_back(std::move(worker));
  }
  return std::unique_ptr<Runtime>(new Runtime(std::move(impl)));
}

Result<Address> Runtime::listen(const Address& address, const ServerLimits& limits,
                                HandlerFactory factory) {
  Address bound;
  Result<std::vector<Fd>> sockets = listen_sockets(address, impl_->workers.size(), bound);
  if (!sockets) return fail(std::move(sockets.error()));
  impl_->listeners.push_back(std::make_unique<Listener>());
  Listener& listener = *impl_->listeners.back();
  listener.factory = std::move(factory);
  listener.unix_path = address.unix_path;
  const bool shared = !address.unix_path.empty() && impl_->workers.size() > 1;
  for (std::size_t index = 0; index < impl_->workers.size(); ++index) {
    Worker& worker = impl_->workers[index];
    worker.servers.push_back(std::make_unique<Server>(*worker.loop, std::move((*sockets)[index]),
                                                      shared, limits, listener.counts,
                                                      impl_->active));
  }
  return bound;
}

Result<void> Runtime::start() {
  impl_->started = true;
  for (Worker& worker : impl_->workers) {
    for (std::size_t index = 0; index < worker.servers.size(); ++index) {
      worker.servers[index]->serve_with(
          impl_->listeners[index]->factory(*worker.loop, *worker.connector));
      if (!worker.servers[index]->start()) {
        return fail(ErrorCode::io, std::string("cannot watch a listener: ") + std::strerror(errno));
      }
    }
  }
  for (Worker& worker : impl_->workers) {
    // The vector of workers does not change from here on, so the reference holds.
    worker.thread = std::thread([&worker] {
      block_broken_pipes();
      worker.loop->run();
      for (const auto& server : worker.servers) server->end();
      worker.loop->settle();
    });
  }
  return {};
}

void Runtime::drain() {
  for (Worker& worker : impl_->workers) {
    worker.loop->post([&worker] {
      for (const auto& server : worker.servers) server->drain();
    });
  }
}

std::size_t Runtime::active() const { return impl_->active.load(); }

std::size_t Runtime::connections() const {
  std::size_t count = 0;
  for (const auto& listener : impl_->listeners) count += listener->counts.connections.load();
  return count;
}

void Runtime::stop() {
  if (impl_->stopped) return;
  impl_->stopped = true;
  for (Worker& worker : impl_->workers) worker.loop->stop();
  for (Worker& worker : impl_->workers) {
    if (worker.thread.joinable()) worker.thread.join();
  }
  // No thread runs any more: what is left is taken down here, callers before what they use.
  impl_->resolver.reset();
  for (Worker& worker : impl_->workers) {
    worker.servers.clear();
    worker.connector.reset();
    worker.loop->settle();
  }
  for (const auto& listener : impl_->listeners) {
    if (!listener->unix_path.empty()) ::unlink(listener->unix_path.c_str());
  }
}

std::size_t Runtime::loops() const { return impl_->workers.size(); }

http::Loop& Runtime::loop(std::size_t index) { return *impl_->workers[index].loop; }

http::Connector& Runtime::connector(std::size_t index) { return *impl_->workers[index].connector; }

}  // namespace weir::net
