// SPDX-License-Identifier: Apache-2.0
#include "net/resolver.h"

#include <netdb.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "net/runtime.h"

namespace weir::net {
namespace {

constexpr Duration kFresh = std::chrono::seconds(30);
constexpr Duration kUsable = std::chrono::minutes(10);
constexpr std::size_t kMaxNames = 1024;
constexpr std::size_t kMaxWaiting = 16'384;
constexpr std::size_t kThreads = 2;

using Addresses = std::shared_ptr<const std::vector<SocketAddress>>;

Resolver::Answer look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  auto addresses = std::make_shared<std::vector<SocketAddress>>();
  for (const addrinfo* at = found; result == 0 && at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    SocketAddress address;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.size = at->ai_addrlen;
    addresses->push_back(address);
  }
  if (found != nullptr) ::freeaddrinfo(found);
  if (!addresses->empty()) return Addresses(std::move(addresses));
  Error error;
  error.code = ErrorCode::connect_failed;
  error.origin = Origin::provider;
  error.retry = Retry::now_elsewhere;
  error.text = "the name " + host + " has no address: " +
               (result == 0 ? "none is IPv4 or IPv6" : ::gai_strerror(result));
  return fail(std::move(error));
}

}  // namespace

struct Resolver::State {
  struct Waiter {
    EventLoop* loop;
    Done done;
  };
  struct Name {
    Addresses good;
    Instant read = kDawn;  ///< when `good` was read
    std::vector<Waiter> waiters;
    bool under_way = false;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Name> names;
  std::deque<std::string> queue;
  std::size_t waiting = 0;
  bool started = false;
  bool closed = false;

  /// Makes room for one more name: what nobody waits for may go.
  bool make_room() {
    if (names.size() < kMaxNames) return true;
    std::erase_if(names, [](const auto& entry) { return !entry.second.under_way; });
    return names.size() < kMaxNames;
  }
};

Resolver::Resolver() : state_(std::make_shared<State>()) {}

Resolver::~Resolver() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->names.clear();
  state_->changed.notify_all();
}

void Resolver::resolve(EventLoop& loop, const std::string& host, Done done) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->started) {
    state_->started = true;
    // Threads are started with the first name: most test setups and all literal addresses need
    // none.
    for (std::size_t count = 0; count < kThreads; ++count) {
      std::thread([state = state_] { work(state); }).detach();
    }
  }
  if (state_->waiting >= kMaxWaiting || !state_->make_room()) {
    Error error;
    error.code = ErrorCode::overloaded;
    error.text = "too many names are being looked up; is the name server answering?";
    loop.post([done = std::move(done), error] { done(fail(error)); });
    return;
  }
  State::Name& name = state_->names[host];
  if (name.good != nullptr && monotonic_now() - name.read < kFresh) {
    loop.post([done = std::move(done), good = name.good] { done(good); });
    return;
  }
  name.waiters.push_back({&loop, std::move(done)});
  ++state_->waiting;
  if (name.under_way) return;
  name.under_way = true;
  state_->queue.push_back(host);
  state_->changed.notify_one();
}

void Resolver::work(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->closed || !state->queue.empty(); });
    if (state->closed) return;
    const std::string host = std::move(state->queue.front());
    state->queue.pop_front();
    lock.unlock();
    Answer answer = look_up(host);
    lock.lock();
    if (state->closed) return;
    State::Name& name = state->names[host];
    const Instant now = monotonic_now();
    if (answer) {
      name.good = *answer;
      name.read = now;
    } else if (name.good != nullptr && now - name.read < kUsable) {
      answer = Answer(name.good);
    }
    name.under_way = false;
    state->waiting -= name.waiters.size();
    for (State::Waiter& waiter : name.waiters) {
      waiter.loop->post([done = std::move(waiter.done), answer] { done(answer); });
    }
    name.waiters.clear();
  }
}

}  // namespace weir::net
