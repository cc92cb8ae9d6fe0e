// SPDX-License-Identifier: Apache-2.0
#include "net/server_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "http/writer.h"

namespace weir::net {
namespace {

constexpr std::size_t kLowWater = std::size_t{16} << 10U;
/// What a session writes in a turn goes out at the turn's end up to this much, beside what the
/// turn's other sessions write: a peer is then woken once for all, and a head shares its segment
/// with its body.
constexpr std::size_t kLate = kLowWater;
/// A body this large is given its whole room only once this much of it has come, so that heads
/// alone cannot spend the budget of buffers.
constexpr std::size_t kFirstRoom = std::size_t{256} << 10U;
/// The least rate of a body, once the idle time-out has passed. Units: bytes per second.
constexpr std::int64_t kLeastRate = 1024;
/// How long a client may still be sending after its answer: between two reads, and in all.
constexpr Duration kLinger = std::chrono::seconds(5);
constexpr Duration kLingerAtMost = std::chrono::seconds(30);
constexpr std::size_t kLeastDrain = std::size_t{1} << 20U;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kCloseField = "connection: close\r\n";

}  // namespace

ServerConnection::ServerConnection(Server& server, Stream stream, std::string peer)
    : server_(server),
      loop_(server.loop_),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      idle_timer_(
          server.loop_, [](void* self) { static_cast<ServerConnection*>(self)->on_idle_timer(); },
          this),
      session_timer_(
          server.loop_,
          [](void* self) {
            auto* const connection = static_cast<ServerConnection*>(self);
            if (connection->session_ != nullptr && !connection->finished_) {
              connection->session_->on_timer();
            }
          },
          this) {}

ServerConnection::~ServerConnection() = default;

void ServerConnection::start(bool refused) {
  refused_ = refused;
  if (!loop_.watch(stream_.fd(), *this)) {
    close();
    return;
  }
  idle_timer_.set(loop_.now() + server_.limits_.header_timeout);
  if (refused) {
    refuse(503, ErrorCode::overloaded,
           "all connections this server allows are in use; try again or raise "
           "server.limits.connections");
  }
}

void ServerConnection::on_ready(std::uint32_t events) {
  if (state_ == State::closed) return;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) broken_ = true;
  if ((events & EPOLLRDHUP) != 0) peer_closed_ = true;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = true;
  if ((events & EPOLLOUT) != 0 && buffered() > 0) flush();
  if (state_ == State::serving && (peer_closed_ || broken_)) {
    // A response whose last bytes are still on their way may be wanted by one that only closed its
    // sending side. One that closes it before the answer has begun may be a client that says in
    // this way that its request is whole; one that closes it later has gone.
    if (!broken_ && (finished_ || half_closed_)) return;
    if (!broken_ && !head_written_) {
      ask_who_is_there();
      return;
    }
    if (!broken_ && late_) write_late();
    broken();
    return;
  }
  go_on();
}

// A client that has closed its sending side and one that has left look the same until something is
// sent to them: the kernel of the second answers with a reset. An interim answer may be sent at any
// time and every client of HTTP/1.1 has to pass it over.
// Source: RFC 9110 section 15.2, read 2026-12-01.
void ServerConnection::ask_who_is_there() {
  half_closed_ = true;
  if (block_ != nullptr && block_->head.minor_version > 0) write_now(std::array{kContinue});
}

void ServerConnection::go_on() {
  while (true) {
    switch (state_) {
      case State::head:
        if (!read_head()) return;
        break;
      case State::body:
        if (!read_body()) return;
        break;
      case State::lingering: linger(); return;
      case State::serving:
      case State::closed: return;
    }
  }
}

std::size_t ServerConnection::read_some(char* into, std::size_t size) {
  if (!readable_) return 0;
  const Io io = stream_.read(into, size);
  if (io.state == Io::State::would_block) {
    readable_ = false;
    return 0;
  }
  if (io.state != Io::State::ok) {
    close();
    return 0;
  }
  if (io.bytes < size && !peer_closed_ && !broken_) readable_ = false;
  return io.bytes;
}

bool ServerConnection::read_head() {
  if (block_ == nullptr) {
    if (!readable_ && ahead_.empty()) return false;
    block_ = server_.take_block();
    if (!ahead_.empty()) {
      if (ahead_.size() > block_->capacity && !server_.grow(*block_, ahead_.size())) {
        refuse(503, ErrorCode::overloaded, "the server's buffers are full; try again later");
        return true;
      }
      std::memcpy(block_->bytes.get(), ahead_.data(), ahead_.size());
      block_->filled = ahead_.size();
      ahead_.clear();
      if (take_head()) return true;
    }
  }
  if (block_->filled == block_->capacity) {
    const std::size_t room = server_.limits_.header + Server::kBlockSize;
    if (block_->capacity >= room || !server_.grow(*block_, room)) {
      refuse(503, ErrorCode::overloaded, "the server's buffers are full; try again later");
      return true;
    }
  }
  const std::size_t got =
      read_some(block_->bytes.get() + block_->filled, block_->capacity - block_->filled);
  if (got == 0) {
    // An idle connection gives its buffer back.
    if (state_ == State::head && block_->filled == 0) server_.give_block(std::move(block_));
    return state_ == State::closed;
  }
  if (block_->filled == 0) idle_timer_.set(loop_.now() + server_.limits_.header_timeout);
  block_->filled += got;
  return take_head() || readable_;
}

bool ServerConnection::take_head() {
  ReadBlock& block = *block_;
  const http::HeadLimits limits{.bytes = server_.limits_.header};
  switch (block.parser.parse({block.bytes.get(), block.filled}, block.head, limits)) {
    case http::Progress::more: return false;
    case http::Progress::refused: {
      const http::Fault& fault = block.parser.fault();
      refuse(fault.status, fault.error.code, fault.error.text);
      return true;
    }
    case http::Progress::done: break;
  }
  active_ = true;
  server_.active_.fetch_add(1, std::memory_order_relaxed);
  keep_alive_ = block.head.keep_alive;
  if (block.head.content_length > server_.limits_.body) {
    refuse_large_body();
    return true;
  }
  if (const std::optional<std::string> answer = server_.handler_->on_head(block.head)) {
    // What answers HEAD has the head of an answer and no body.
    const std::size_t end =
        block.head.method == "HEAD" ? answer->find("\r\n\r\n") : std::string::npos;
    send_last(std::string_view(*answer).substr(0, end == std::string::npos ? end : end + 4));
    return true;
  }
  prepare_body();
  return true;
}

void ServerConnection::prepare_body() {
  ReadBlock& block = *block_;
  const std::size_t head_size = block.parser.length();
  state_ = State::body;
  body_size_ = 0;
  body_since_ = loop_.now();
  const std::size_t came = block.filled - head_size;
  if (block.head.body == http::BodyKind::none) return;
  if (block.head.expect_continue && came == 0) write_now(std::array{kContinue});
  idle_timer_.set(loop_.now() + server_.limits_.idle_timeout);
  if (block.head.body == http::BodyKind::chunked) {
    decoder_.reset();
    const std::string early(block.bytes.get() + head_size, came);
    block.filled = head_size;
    take_chunks(early);
    return;
  }
  const std::size_t needed = head_size + block.head.content_length + http::kBodyPadding;
  if (needed > block.capacity) make_room(std::min(needed, head_size + kFirstRoom));
}

bool ServerConnection::read_body() {
  ReadBlock& block = *block_;
  if (block.head.body == http::BodyKind::chunked) {
    auto& scratch = loop_.scratch();
    const std::size_t got = read_some(scratch.data(), scratch.size());
    if (got == 0) return state_ == State::closed;
    take_chunks({scratch.data(), got});
    return true;
  }
  const std::size_t end = block.parser.length() + block.head.content_length;
  const std::size_t needed = end + http::kBodyPadding;
  if (block.capacity < needed && (block.filled == block.capacity || block.filled >= end)) {
    if (!make_room(needed)) return true;
  }
  if (block.filled >= end) {
    body_size_ = block.head.content_length;
    if (block.filled > end) ahead_.assign(block.bytes.get() + end, block.filled - end);
    block.filled = end;
    serve();
    return true;
  }
  const std::size_t got =
      read_some(block.bytes.get() + block.filled, block.capacity - block.filled);
  if (got == 0) return state_ == State::closed;
  block.filled += got;
  return true;
}

void ServerConnection::take_chunks(std::string_view bytes) {
  ReadBlock& block = *block_;
  const std::size_t head_size = block.parser.length();
  http::Progress progress = http::Progress::more;
  while (!bytes.empty() && progress == http::Progress::more) {
    std::string_view data;
    progress = decoder_.next(bytes, data);
    if (data.empty()) continue;
    const std::size_t needed = block.filled + data.size() + http::kBodyPadding;
    if (block.filled - head_size + data.size() > server_.limits_.body) {
      refuse_large_body();
      return;
    }
    if (needed > block.capacity && !make_room(std::max(needed, 2 * block.capacity))) return;
    std::memcpy(block.bytes.get() + block.filled, data.data(), data.size());
    block.filled += data.size();
  }
  if (progress == http::Progress::refused) {
    refuse(400, ErrorCode::malformed, std::string(decoder_.why()));
  } else if (progress == http::Progress::done) {
    body_size_ = block.filled - head_size;
    ahead_.assign(bytes);
    serve();
  }
}

bool ServerConnection::make_room(std::size_t capacity) {
  ReadBlock& block = *block_;
  const std::size_t head_size = block.parser.length();
  if (!server_.grow(block, capacity)) {
    refuse(503, ErrorCode::overloaded, "the server's buffers are full; try again later");
    return false;
  }
  // The head's views pointed into the former buffer. What parsed once parses again.
  block.parser.reset();
  block.parser.parse({block.bytes.get(), head_size}, block.head, {.bytes = server_.limits_.header});
  return true;
}

void ServerConnection::refuse_large_body() {
  refuse(413, ErrorCode::too_large,
         "the request's body is larger than the " + std::to_string(server_.limits_.body) +
             " bytes that server.limits.body allows");
}

void ServerConnection::serve() {
  ReadBlock& block = *block_;
  std::memset(block.bytes.get() + block.filled, 0,
              std::min(http::kBodyPadding, block.capacity - block.filled));
  if (broken_) {
    close();  // nobody is there to read an answer
    return;
  }
  state_ = State::serving;
  finished_ = false;
  aborted_ = false;
  above_low_ = false;
  head_written_ = false;
  idle_timer_.set(kNever);
  const http::Request request{
      block.head, {block.bytes.get() + block.parser.length(), body_size_}, peer_};
  std::unique_ptr<http::Session> session = server_.handler_->on_request(request, *this);
  if (session == nullptr && !finished_ && !aborted_) {
    refuse(500, ErrorCode::internal, "nothing here serves this request");
    return;
  }
  session_ = std::move(session);
  if (!peer_closed_ || finished_ || aborted_) return;
  half_closed_ = true;
  if (!head_written_) ask_who_is_there();
}

void ServerConnection::write(std::span<const std::string_view> pieces) {
  if (state_ != State::serving || finished_ || aborted_ || broken_) return;
  if (!head_written_ && !pieces.empty()) {
    head_written_ = true;
    const std::size_t line = pieces.front().find("\r\n");
    if (server_.draining_ && keep_alive_ && line != std::string_view::npos) {
      // The handler took the connection to go on; the field goes behind the status line.
      const std::string_view first = pieces.front();
      write_now(std::array{first.substr(0, line + 2), kCloseField, first.substr(line + 2)});
      keep_alive_ = false;
      pieces = pieces.subspan(1);
    }
  }
  write_now(pieces);
}

void ServerConnection::write_now(std::span<const std::string_view> pieces) {
  std::size_t size = 0;
  for (const std::string_view piece : pieces) size += piece.size();
  if (size == 0) return;
  if (state_ == State::serving && (late_ || buffered() == 0) && buffered() + size <= kLate) {
    late_ = true;
    loop_.defer(*this);
    keep(pieces, 0);
    return;
  }
  if (late_) write_late();
  std::size_t sent = 0;
  const bool was_empty = buffered() == 0;
  if (was_empty) {
    const Io io = stream_.write(pieces);
    sent = io.bytes;
    if (io.state == Io::State::failed) {
      broken_ = true;
      loop_.defer(*this);
      return;
    }
  }
  keep(pieces, sent);
  if (buffered() > kLowWater) above_low_ = true;
  if (was_empty && buffered() > 0) idle_timer_.set(loop_.now() + server_.limits_.idle_timeout);
}

void ServerConnection::keep(std::span<const std::string_view> pieces, std::size_t skip) {
  if (out_.empty()) out_ = server_.take_text();
  for (const std::string_view piece : pieces) {
    const std::size_t skipped = std::min(skip, piece.size());
    skip -= skipped;
    out_.append(piece.substr(skipped));
  }
}

void ServerConnection::write_late() {
  late_ = false;
  write_kept();
  if (buffered() > 0) idle_timer_.set(loop_.now() + server_.limits_.idle_timeout);
}

bool ServerConnection::write_kept() {
  const std::size_t before = buffered();
  bool blocked = false;
  while (buffered() > 0 && !blocked && !broken_) {
    const std::string_view rest = std::string_view(out_).substr(out_start_);
    const Io io = stream_.write(std::array{rest});
    out_start_ += io.bytes;
    blocked = io.state == Io::State::would_block;
    if (io.state == Io::State::failed) {
      broken_ = true;
      loop_.defer(*this);
    }
  }
  const bool progress = buffered() < before;
  if (buffered() == 0) {
    server_.give_text(std::move(out_));
    out_start_ = 0;
  } else if (out_start_ > out_.size() / 2) {
    out_.erase(0, out_start_);
    out_start_ = 0;
  }
  return progress;
}

void ServerConnection::flush() {
  const bool first = std::exchange(late_, false);
  const bool progress = write_kept() || first;
  if (broken_) return;
  if (buffered() == 0) {
    if (state_ == State::serving) idle_timer_.set(kNever);
  } else if (progress) {
    idle_timer_.set(loop_.now() + server_.limits_.idle_timeout);
  }
  if (state_ == State::lingering && buffered() == 0) ::shutdown(stream_.fd(), SHUT_WR);
  if (state_ != State::serving) return;
  if (finished_) {
    if (buffered() == 0) loop_.defer(*this);
  } else if (above_low_ && buffered() <= kLowWater && session_ != nullptr) {
    above_low_ = false;
    session_->on_writable();
  }
}

void ServerConnection::finish(bool keep_alive) {
  if (state_ != State::serving || finished_) return;
  finished_ = true;
  keep_alive_ = keep_alive_ && keep_alive;
  loop_.defer(*this);
}

void ServerConnection::abort() {
  if (state_ != State::serving || aborted_) return;
  aborted_ = true;
  loop_.defer(*this);
}

void ServerConnection::run_deferred() {
  if (state_ == State::closed) return;
  if (late_) write_late();
  if (aborted_) {
    session_.reset();
    stream_.reset();
    close();
  } else if (broken_) {
    broken();
  } else if (state_ == State::serving && finished_) {
    exchange_over();
  }
}

void ServerConnection::exchange_over() {
  session_timer_.set(kNever);
  session_.reset();
  if (block_ != nullptr && readable_ && keep_alive_ && ahead_.empty() &&
      block_->capacity == Server::kBlockSize) {
    block_->filled = 0;  // the next request is there already
    block_->parser.reset();
  } else {
    server_.give_block(std::move(block_));
  }
  if (buffered() > 0) return;
  end_active();
  if (broken_) {
    close();
  } else if (!keep_alive_ || (server_.draining_ && ahead_.empty() && !readable_)) {
    state_ = State::lingering;
    ::shutdown(stream_.fd(), SHUT_WR);
    linger_until_ = loop_.now() + kLingerAtMost;
    idle_timer_.set(loop_.now() + kLinger);
    linger();
  } else {
    next_request();
  }
}

void ServerConnection::next_request() {
  state_ = State::head;
  idle_timer_.set(loop_.now() + server_.limits_.idle_timeout);
  if (readable_ || !ahead_.empty()) go_on();
}

void ServerConnection::refuse(std::uint16_t status, ErrorCode code, std::string text) {
  Error error;
  error.code = code;
  error.origin = Origin::client;
  error.text = std::move(text);
  send_last(server_.handler_->on_refusal(status, error));
}

void ServerConnection::send_last(std::string_view answer) {
  state_ = State::lingering;
  session_timer_.set(kNever);
  ahead_.clear();
  write_now(std::array{answer});
  end_active();
  server_.give_block(std::move(block_));
  if (state_ == State::closed) return;
  if (buffered() == 0) ::shutdown(stream_.fd(), SHUT_WR);
  linger_until_ = loop_.now() + kLingerAtMost;
  idle_timer_.set(loop_.now() + kLinger);
}

void ServerConnection::linger() {
  // Closing with unread bytes would reset the connection and could take the answer with it, so
  // what the client still sends is read and thrown away, within bounds: a body somewhat above the
  // limit is read to its end, so that its sender gets to read the refusal.
  const std::size_t bound = 2 * std::max(server_.limits_.body, kLeastDrain);
  auto& scratch = loop_.scratch();
  while (state_ == State::lingering) {
    const std::size_t got = read_some(scratch.data(), scratch.size());
    if (got == 0) return;
    drained_ += got;
    if (drained_ > bound) {
      close();
    } else {
      idle_timer_.set(std::min(loop_.now() + kLinger, linger_until_));
    }
  }
}

void ServerConnection::broken() {
  if (session_ != nullptr) {
    const std::unique_ptr<http::Session> session = std::move(session_);
    if (!finished_) {
      broken_ = true;  // what it writes from here on goes nowhere
      session->on_peer_gone();
    }
  }
  close();
}

void ServerConnection::on_idle_timer() {
  switch (state_) {
    case State::closed: return;
    case State::head:
      if (block_ != nullptr && block_->filled > 0) {
        refuse(408, ErrorCode::timed_out, "the request's head did not come in time");
      } else {
        close();
      }
      return;
    case State::body: {
      const std::size_t came = block_->filled - block_->parser.length();
      const Instant due = body_since_ + server_.limits_.idle_timeout +
                          std::chrono::seconds(static_cast<std::int64_t>(came) / kLeastRate);
      if (due > loop_.now()) {
        idle_timer_.set(due);
      } else {
        refuse(408, ErrorCode::timed_out, "the request's body did not come in time");
      }
      return;
    }
    case State::serving: broken(); return;  // it does not read its answer
    case State::lingering: close(); return;
  }
}

void ServerConnection::drain() {
  if (state_ == State::head && block_ == nullptr && !readable_ && ahead_.empty()) close();
}

void ServerConnection::end() {
  if (late_) write_late();
  if (session_ != nullptr) {
    broken();
  } else {
    close();
  }
}

void ServerConnection::end_active() {
  if (!active_) return;
  active_ = false;
  server_.active_.fetch_sub(1, std::memory_order_relaxed);
}

void ServerConnection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  idle_timer_.set(kNever);
  session_timer_.set(kNever);
  end_active();
  server_.give_block(std::move(block_));
  stream_.close();
  server_.drop(*this);
}

}  // namespace weir::net
