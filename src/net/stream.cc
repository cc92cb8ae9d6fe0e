// SPDX-License-Identifier: Apache-2.0
#include "net/stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

#include "net/tls.h"

namespace weir::net {

Stream::Stream() = default;
Stream::Stream(Fd fd) : fd_(std::move(fd)) {}
Stream::~Stream() = default;
Stream::Stream(Stream&& other) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept = default;

void Stream::secure(std::unique_ptr<TlsStream> tls) { tls_ = std::move(tls); }

void Stream::close() {
  tls_.reset();
  fd_.close();
}

void Stream::reset() {
  if (!fd_.valid()) return;
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

Io Stream::read(char* into, std::size_t size) {
  if (tls_ != nullptr) return tls_->read(into, size);
  ssize_t got = 0;
  do {
    got = ::recv(fd_.get(), into, size, 0);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return {Io::State::ok, static_cast<std::size_t>(got), 0};
  if (got == 0) return {Io::State::end, 0, 0};
  if (errno == EAGAIN) return {Io::State::would_block, 0, 0};
  return {Io::State::failed, 0, errno};
}

Io Stream::write(std::span<const std::string_view> pieces) {
  if (tls_ != nullptr) return tls_->write(pieces);
  std::size_t total = 0;
  while (!pieces.empty()) {
    std::array<iovec, 16> vectors;
    std::size_t count = 0;
    std::size_t asked = 0;
    for (; count < pieces.size() && count < vectors.size(); ++count) {
      // The kernel only reads from them; iovec has no const form.
      vectors[count] = {const_cast<char*>(pieces[count].data()), pieces[count].size()};
      asked += pieces[count].size();
    }
    if (asked == 0) break;
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    ssize_t sent = 0;
    do {
      sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN) return {Io::State::failed, total, errno};
    if (sent > 0) total += static_cast<std::size_t>(sent);
    if (sent < 0 || static_cast<std::size_t>(sent) < asked) {
      return {total > 0 ? Io::State::ok : Io::State::would_block, total, 0};
    }
    pieces = pieces.subspan(count);
  }
  return {Io::State::ok, total, 0};
}

}  // namespace weir::net
