// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "net/fd.h"

namespace weir::net {

/// How one read or write went.
struct Io {
  enum class State : std::uint8_t {
    ok,           ///< some bytes moved (for a write: perhaps not all)
    would_block,  ///< none; an edge will come
    end,          ///< the peer closed its side in order
    failed,       ///< the connection is broken
  };
  State state = State::ok;
  std::size_t bytes = 0;
  int error = 0;  ///< errno of `failed`, 0 for a TLS fault
};

class TlsStream;

/// A connected, non-blocking socket, with or without TLS: the narrow waist between HTTP and the
/// operating system.
class Stream {
 public:
  Stream();
  explicit Stream(Fd fd);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;

  Io read(char* into, std::size_t size);
  /// Writes the pieces as one; `bytes` of the result counts over all of them.
  Io write(std::span<const std::string_view> pieces);
  /// Whether a read shorter than asked for means that nothing is left to read.
  [[nodiscard]] bool short_read_drains() const { return tls_ == nullptr; }

  void secure(std::unique_ptr<TlsStream> tls);
  [[nodiscard]] TlsStream* tls() const { return tls_.get(); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool open() const { return fd_.valid(); }
  void close();
  /// Closes so that the peer sees a reset, not an end.
  void reset();

 private:
  Fd fd_;
  std::unique_ptr<TlsStream> tls_;
};

}  // namespace weir::net
