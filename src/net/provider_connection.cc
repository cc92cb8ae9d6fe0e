// SPDX-License-Identifier: Apache-2.0
#include "net/provider_connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weir::net {
namespace {

constexpr http::HeadLimits kHeadLimits{.bytes = std::size_t{64} << 10U};
constexpr std::uint8_t kMaxInformational = 16;
constexpr int kReadsPerTurn = 64;
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kSpares = 0;  // so that a use after the end is seen
#else
constexpr std::size_t kSpares = 256;
#endif

/// Freed memory of exchanges, kept per thread for the next one.
struct Spares {
  std::vector<void*> blocks;
  ~Spares() {
    for (void* block : blocks) ::operator delete(block);
  }
};
thread_local Spares spares;

}  // namespace

ProviderExchange::ProviderExchange(const http::Endpoint& endpoint, std::string_view head,
                                   std::span<const std::string_view> body, http::ResponseSink& sink,
                                   Instant now)
    : sink_(sink),
      started_(now),
      connect_timeout_(endpoint.connect_timeout),
      first_byte_timeout_(endpoint.first_byte_timeout),
      idle_timeout_(endpoint.idle_timeout),
      total_timeout_(endpoint.total_timeout),
      to_head_(head.starts_with("HEAD ")) {
  pieces_[0] = head;
  piece_count_ = 1;
  size_ = head.size();
  for (const std::string_view piece : body) {
    size_ += piece.size();
    if (piece_count_ < kPieces) {
      pieces_[piece_count_++] = piece;
    } else {
      more_pieces_.push_back(piece);
    }
  }
}

ProviderExchange::~ProviderExchange() {
  if (connection_ != nullptr) connection_->abandon();
}

void* ProviderExchange::operator new(std::size_t size) {
  if (spares.blocks.empty()) return ::operator new(size);
  void* const block = spares.blocks.back();
  spares.blocks.pop_back();
  return block;
}

void ProviderExchange::operator delete(void* memory, std::size_t /*size*/) {
  if (spares.blocks.size() < kSpares) {
    spares.blocks.push_back(memory);
  } else {
    ::operator delete(memory);
  }
}

void ProviderExchange::pause(bool paused) {
  if (paused_ == paused) return;
  paused_ = paused;
  if (connection_ != nullptr) connection_->set_paused(paused);
}

std::optional<Duration> ProviderExchange::round_trip() const {
  return connection_ == nullptr ? std::nullopt : connection_->round_trip();
}

std::size_t ProviderExchange::rest(std::size_t written, std::span<std::string_view> into) const {
  std::size_t count = 0;
  const auto add = [&](std::string_view piece) {
    const std::size_t skipped = std::min(written, piece.size());
    written -= skipped;
    piece.remove_prefix(skipped);
    if (!piece.empty() && count < into.size()) into[count++] = piece;
  };
  for (std::size_t at = 0; at < piece_count_; ++at) add(pieces_[at]);
  for (const std::string_view piece : more_pieces_) add(piece);
  return count;
}

ProviderConnection::ProviderConnection(PooledConnector& connector, Pool& pool, std::uint64_t id)
    : connector_(connector),
      loop_(connector.loop_),
      pool_(pool),
      id_(id),
      timer_(
          connector.loop_, [](void* self) { static_cast<ProviderConnection*>(self)->on_timer(); },
          this),
      since_(connector.loop_.now()) {}

ProviderConnection::~ProviderConnection() = default;

void ProviderConnection::open(ProviderExchange& exchange) {
  exchange_ = &exchange;
  exchange.connection_ = this;
  keep_time();
  if (pool_.connections > pool_.endpoint.pool_size) {
    fail_later(error_of(ErrorCode::overloaded,
                        "all " + std::to_string(pool_.endpoint.pool_size) +
                            " connections per loop are in use; raise the limit or send less"));
    return;
  }
  if (pool_.literal) {
    addresses_ = std::make_shared<std::vector<SocketAddress>>(1, *pool_.literal);
    connect_next(0);
    return;
  }
  connector_.resolving_[id_] = this;
  connector_.resolver_.resolve(loop_, pool_.endpoint.host,
                               [connector = &connector_, id = id_](const Resolver::Answer& answer) {
                                 const auto found = connector->resolving_.find(id);
                                 if (found == connector->resolving_.end()) return;
                                 ProviderConnection* const connection = found->second;
                                 connector->resolving_.erase(found);
                                 connection->resolved(answer);
                               });
}

void ProviderConnection::resolved(const Resolver::Answer& answer) {
  if (!answer) {
    fail(answer.error());
    return;
  }
  addresses_ = *answer;
  connect_next(0);
}

void ProviderConnection::connect_next(int last_error) {
  stream_.close();
  while (next_address_ < addresses_->size()) {
    SocketAddress address = (*addresses_)[next_address_++];
    address.set_port(pool_.endpoint.port);
    Fd fd = provider_socket(address);
    if (!fd.valid() ||
        (::connect(fd.get(), address.get(), address.size) != 0 && errno != EINPROGRESS)) {
      last_error = errno;
      continue;
    }
    stream_ = Stream(std::move(fd));
    state_ = State::connecting;
    if (loop_.watch(stream_.fd(), *this)) {
      share_time();
      return;
    }
    last_error = errno;
  }
  connect_error_ = last_error;
  fail_later(error_of(ErrorCode::connect_failed,
                      std::string("no connection: ") + std::strerror(last_error)));
}

void ProviderConnection::share_time() {
  // An address that swallows everything must leave time for the others of its name.
  const auto left = static_cast<std::int64_t>(addresses_->size() - next_address_);
  const Duration rest =
      saturating_sub(saturating_add(since_, exchange_->connect_timeout_), loop_.now());
  next_try_ = left == 0 ? kNever : saturating_add(loop_.now(), rest / (left + 1));
  keep_time();
}

void ProviderConnection::connected() {
  if (!pool_.endpoint.tls) {
    begin();
    return;
  }
  Result<TlsContext*> context = connector_.tls_context(pool_.endpoint.ca_file);
  if (!context) {
    fail(error_of(ErrorCode::tls_failed, context.error().text));
    return;
  }
  Result<std::unique_ptr<TlsStream>> tls =
      TlsStream::create(**context, stream_.fd(), pool_.endpoint.host, pool_.ticket);
  if (!tls) {
    fail(error_of(ErrorCode::tls_failed, tls.error().text));
    return;
  }
  stream_.secure(std::move(*tls));
  state_ = State::securing;
  go_on_securing();
}

void ProviderConnection::go_on_securing() {
  std::string why;
  switch (stream_.tls()->handshake(why)) {
    case TlsStream::Step::again: return;
    case TlsStream::Step::done: begin(); return;
    case TlsStream::Step::failed: fail(error_of(ErrorCode::tls_failed, std::move(why))); return;
  }
}

void ProviderConnection::reuse(ProviderExchange& exchange) {
  reused_ = true;
  exchange_ = &exchange;
  exchange.connection_ = this;
  begin();
}

void ProviderConnection::begin() {
  state_ = State::busy;
  since_ = loop_.now();
  any_byte_ = false;
  head_done_ = false;
  sent_now_ = false;
  informational_ = 0;
  written_ = 0;
  parser_.reset();
  decoder_.reset();
  // Written at the turn's end beside the other requests of the turn: a peer that was woken for the
  // first is still awake for the next, so waking it is paid for once.
  write_due_ = true;
  loop_.defer(*this);
  keep_time();
}

void ProviderConnection::write_request() {
  write_due_ = false;
  while (written_ < exchange_->size_) {
    std::array<std::string_view, 16> pieces;
    const std::size_t count = exchange_->rest(written_, pieces);
    const Io io = stream_.write(std::span(pieces).first(count));
    if (io.bytes > 0) since_ = loop_.now();
    written_ += io.bytes;
    if (io.state == Io::State::would_block) break;
    if (io.state != Io::State::ok) {
      // The peer may have answered before it closed; what it said is read first.
      readable_ = true;
      peer_closed_ = true;
      loop_.defer(*this);
      return;
    }
  }
  if (written_ == exchange_->size_ && !exchange_->sent_told_) sent_now_ = true;
  keep_time();
}

void ProviderConnection::tell_sent() {
  if (!sent_now_ || exchange_ == nullptr) return;
  sent_now_ = false;
  exchange_->sent_told_ = true;
  exchange_->sink_.on_sent();
}

void ProviderConnection::run_deferred() {
  if (state_ == State::closed) return;
  if (failure_) {
    fail(*std::exchange(failure_, std::nullopt));
    return;
  }
  if (write_due_ && state_ == State::busy) write_request();
  tell_sent();
  if (state_ == State::busy && readable_) read_response();
}

void ProviderConnection::on_ready(std::uint32_t events) {
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) peer_closed_ = true;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = true;
  switch (state_) {
    case State::resolving:
    case State::closed: return;
    case State::connecting: {
      if (failure_) return;
      const int error = pending_error(stream_.fd());
      if (error != 0) {
        readable_ = false;
        peer_closed_ = false;
        connect_next(error);
        return;
      }
      if ((events & EPOLLOUT) != 0) connected();
      break;
    }
    case State::securing: go_on_securing(); break;
    case State::idle: drain_idle(); return;
    case State::busy:
      if (written_ < exchange_->size_) write_request();
      tell_sent();
      break;
  }
  if (state_ == State::busy && readable_) read_response();
}

void ProviderConnection::read_response() {
  auto& scratch = loop_.scratch();
  for (int reads = 0; state_ == State::busy && readable_ && !exchange_->paused_; ++reads) {
    if (reads == kReadsPerTurn) {
      timer_.set(loop_.now());  // the others on this loop have their turn first
      return;
    }
    const Io io = stream_.read(scratch.data(), scratch.size());
    if (io.state == Io::State::would_block) {
      readable_ = false;
      break;  // the timer may stand at a former turn's end
    }
    if (io.state != Io::State::ok) {
      lost(io);
      return;
    }
    since_ = loop_.now();
    if (stream_.short_read_drains() && io.bytes < scratch.size() && !peer_closed_) {
      readable_ = false;
    }
    take_in(scratch.data(), io.bytes);
  }
  if (state_ == State::busy) keep_time();
}

void ProviderConnection::drain_idle() {
  // Nothing may come on an idle connection but its end, or a TLS ticket, which yields no bytes.
  char byte = 0;
  const Io io = stream_.read(&byte, 1);
  readable_ = false;
  if (io.state != Io::State::would_block) close();
}

void ProviderConnection::take_in(char* bytes, std::size_t size) {
  any_byte_ = true;
  if (head_done_) {
    take_body(bytes, size);
    return;
  }
  std::string_view view(bytes, size);
  if (!partial_.empty()) {
    partial_.append(view);
    view = partial_;
  }
  if (!take_head(view)) return;
  // The head's bytes stay where they are until its body's first bytes were handed on.
  take_body(const_cast<char*>(view.data()), view.size());
}

bool ProviderConnection::take_head(std::string_view& bytes) {
  while (true) {
    const http::Progress progress = parser_.parse(bytes, head_, kHeadLimits, exchange_->to_head_);
    if (progress == http::Progress::more) {
      if (bytes.data() != partial_.data()) {
        partial_.assign(bytes);
      } else {
        partial_.resize(bytes.size());
      }
      return false;
    }
    if (progress == http::Progress::refused) {
      fail(error_of(ErrorCode::bad_response, parser_.fault().error.text));
      return false;
    }
    if (head_.status >= 200) break;
    if (head_.status == 101 || ++informational_ > kMaxInformational) {
      fail(error_of(ErrorCode::bad_response, "an answer with an unexpected status 1xx"));
      return false;
    }
    partial_ = std::string(bytes.substr(parser_.length()));
    bytes = partial_;
    parser_.reset();
    if (bytes.empty()) return false;
  }
  head_done_ = true;
  left_ = head_.body == http::BodyKind::length ? head_.content_length : 0;
  const std::string_view raw = bytes.substr(0, parser_.length());
  bytes.remove_prefix(parser_.length());
  exchange_->sink_.on_head(head_, raw);
  return state_ == State::busy;
}

void ProviderConnection::take_body(char* bytes, std::size_t size) {
  const std::string_view view(bytes, size);
  switch (head_.body) {
    case http::BodyKind::none: complete(size == 0); return;
    case http::BodyKind::length: {
      const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(left_, size));
      left_ -= taken;
      if (taken > 0) exchange_->sink_.on_body(view.substr(0, taken));
      if (state_ == State::busy && left_ == 0) complete(taken == size);
      break;
    }
    case http::BodyKind::chunked: take_chunks(bytes, size); break;
    case http::BodyKind::until_close:
      if (size > 0) exchange_->sink_.on_body(view);
      break;
  }
  if (state_ == State::busy) partial_.clear();
}

void ProviderConnection::take_chunks(char* bytes, std::size_t size) {
  // Chunks of one read are moved together, so that they are handed on as one.
  std::string_view left(bytes, size);
  char* start = nullptr;
  std::size_t filled = 0;
  http::Progress progress = http::Progress::more;
  while (!left.empty() && progress == http::Progress::more) {
    std::string_view data;
    progress = decoder_.next(left, data);
    if (data.empty()) continue;
    if (start == nullptr) {
      start = bytes + (data.data() - bytes);
    } else {
      std::memmove(start + filled, data.data(), data.size());
    }
    filled += data.size();
  }
  if (filled > 0) exchange_->sink_.on_body({start, filled});
  if (state_ != State::busy) return;
  if (progress == http::Progress::refused) {
    fail(error_of(ErrorCode::bad_response, std::string(decoder_.why())));
  } else if (progress == http::Progress::done) {
    complete(left.empty());
  }
}

void ProviderConnection::complete(bool reusable) {
  ProviderExchange& exchange = *exchange_;
  http::ResponseSink& sink = exchange.sink_;
  reusable = reusable && head_.keep_alive && !peer_closed_ && written_ == exchange.size_;
  exchange.connection_ = nullptr;
  exchange_ = nullptr;
  partial_.clear();
  if (partial_.capacity() > 4096) partial_.shrink_to_fit();
  if (reusable) {
    state_ = State::idle;
    since_ = loop_.now();
    link_idle();
    timer_.set(since_ + pool_.endpoint.pool_idle);
  } else {
    close();
  }
  sink.on_end();
}

void ProviderConnection::lost(const Io& io) {
  if (head_done_ && head_.body == http::BodyKind::until_close && io.state == Io::State::end) {
    complete(false);
    return;
  }
  if (reused_ && !any_byte_ && !exchange_->replaced_) {
    ProviderExchange& exchange = *exchange_;
    exchange.replaced_ = true;
    exchange.connection_ = nullptr;
    exchange_ = nullptr;
    PooledConnector& connector = connector_;
    Pool& pool = pool_;
    close();
    connector.open(pool, exchange);
    return;
  }
  std::string text = head_done_  ? "the connection broke off inside the answer"
                     : any_byte_ ? "the connection broke off inside the answer's head"
                                 : "the connection was closed without an answer";
  if (io.error != 0) text += std::string(" (") + std::strerror(io.error) + ")";
  fail(error_of(ErrorCode::connection_lost, std::move(text)));
}

Error ProviderConnection::error_of(ErrorCode code, std::string text) const {
  Error error;
  error.code = code;
  error.origin = code == ErrorCode::overloaded ? Origin::gateway : Origin::provider;
  error.retry = Retry::now_elsewhere;
  error.may_have_been_billed = exchange_ != nullptr && written_ == exchange_->size_;
  const http::Endpoint& endpoint = pool_.endpoint;
  error.text = "provider " + endpoint.name + " (" + endpoint.host + ":" +
               std::to_string(endpoint.port) + "): " + std::move(text);
  return error;
}

http::FailureCause ProviderConnection::cause_of(ErrorCode code) const {
  using http::FailureCause;
  if (code == ErrorCode::connect_failed) {
    if (addresses_ == nullptr) return FailureCause::name;
    if (connect_error_ == ETIMEDOUT) return FailureCause::connect;
    return connect_error_ == ECONNREFUSED ? FailureCause::refused : FailureCause::unreachable;
  }
  if (code == ErrorCode::tls_failed) return FailureCause::tls;
  if (code == ErrorCode::bad_response) return FailureCause::answer;
  if (code == ErrorCode::overloaded) return FailureCause::full;
  if (code != ErrorCode::timed_out) return FailureCause::lost;
  return state_ == State::busy ? FailureCause::slow : FailureCause::connect;
}

void ProviderConnection::fail(Error error) {
  http::Failure failure;
  failure.cause = cause_of(error.code);
  failure.error = std::move(error);
  failure.request_sent = written_ > 0;
  failure.response_started = head_done_;
  http::ResponseSink& sink = exchange_->sink_;
  exchange_->connection_ = nullptr;
  exchange_ = nullptr;
  close();
  sink.on_failure(failure);
}

void ProviderConnection::fail_later(Error error) {
  failure_ = std::move(error);
  loop_.defer(*this);
}

void ProviderConnection::abandon() {
  if (exchange_ != nullptr) exchange_->connection_ = nullptr;
  exchange_ = nullptr;
  if (state_ == State::idle) unlink_idle();
  close();
}

void ProviderConnection::set_paused(bool paused) {
  if (state_ != State::busy) return;
  since_ = loop_.now();
  keep_time();
  // Reading goes on at the end of the turn: `pause` is called from inside other callbacks.
  if (!paused && readable_) loop_.defer(*this);
}

std::optional<Duration> ProviderConnection::round_trip() const {
  return stream_.open() ? round_trip_of(stream_.fd()) : std::nullopt;
}

Instant ProviderConnection::deadline() const {
  const Instant total = saturating_add(exchange_->started_, exchange_->total_timeout_);
  Instant phase = kNever;
  if (state_ != State::busy) {
    phase = saturating_add(since_, exchange_->connect_timeout_);
    if (state_ == State::connecting) phase = std::min(phase, next_try_);
  } else if (written_ < exchange_->size_ || head_done_) {
    if (!exchange_->paused_) phase = saturating_add(since_, exchange_->idle_timeout_);
  } else {
    phase = saturating_add(since_, exchange_->first_byte_timeout_);
  }
  return std::min(total, phase);
}

bool ProviderConnection::out_of_time() const {
  return exchange_ != nullptr &&
         saturating_add(exchange_->started_, exchange_->total_timeout_) <= loop_.now();
}

void ProviderConnection::keep_time() { timer_.set(deadline()); }

void ProviderConnection::on_timer() {
  if (state_ == State::closed || failure_) return;
  if (state_ == State::busy && readable_ && !exchange_->paused_ && !out_of_time()) {
    read_response();
    return;
  }
  if (state_ == State::connecting && next_address_ < addresses_->size() && !out_of_time() &&
      next_try_ <= loop_.now()) {
    connect_next(ETIMEDOUT);
    return;
  }
  if (exchange_ == nullptr) {
    unlink_idle();
    close();
    return;
  }
  const Instant due = deadline();
  if (due > loop_.now()) {
    timer_.set(due);
    return;
  }
  std::string text = out_of_time()                 ? "the time for the whole exchange is over"
                     : state_ != State::busy       ? "no connection in time"
                     : written_ < exchange_->size_ ? "it stopped taking the request"
                     : head_done_                  ? "it stopped sending its answer"
                                                   : "no answer in time";
  fail(error_of(ErrorCode::timed_out, std::move(text)));
}

void ProviderConnection::close() {
  if (state_ == State::closed) return;
  if (state_ == State::idle && (newer_ != nullptr || older_ != nullptr || pool_.newest == this)) {
    unlink_idle();
  }
  state_ = State::closed;
  timer_.set(kNever);
  stream_.close();
  connector_.drop(*this);
}

void ProviderConnection::link_idle() {
  newer_ = nullptr;
  older_ = pool_.newest;
  if (older_ != nullptr) older_->newer_ = this;
  pool_.newest = this;
  if (pool_.oldest == nullptr) pool_.oldest = this;
}

void ProviderConnection::unlink_idle() {
  (newer_ != nullptr ? newer_->older_ : pool_.newest) = older_;
  (older_ != nullptr ? older_->newer_ : pool_.oldest) = newer_;
  newer_ = nullptr;
  older_ = nullptr;
}

}  // namespace weir::net
