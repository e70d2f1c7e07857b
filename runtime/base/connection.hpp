// A connected, non-blocking stream socket to another process, plain or over TLS. One thread at a
// time. Errors are errno, as of send(2) and recv(2).
#pragma once

#include "base/tls.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <sys/types.h>
#include <sys/uio.h>

namespace libhvd {

class Connection {
 public:
  Connection() = default;
  Connection(Fd socket) : socket_(std::move(socket)) {}  // NOLINT(google-explicit-constructor)
  // `tls`: its handshake is done.
  Connection(Fd socket, std::unique_ptr<Tls> tls)
      : socket_(std::move(socket)), tls_(std::move(tls)) {}

  explicit operator bool() const { return static_cast<bool>(socket_); }
  const Fd& socket() const { return socket_; }
  int get() const { return socket_.get(); }

  // Closes the descriptor without a message to the other end. Safe in a forked child, whatever
  // other threads were doing.
  void close() { socket_.reset(); }

  // Like send(2) with MSG_NOSIGNAL, recv(2), sendmsg(2) and recvmsg(2). Over TLS: like Tls::send
  // and Tls::receive.
  ssize_t send(const void* data, std::size_t bytes) const;
  ssize_t receive(void* data, std::size_t bytes) const;
  ssize_t send(std::span<iovec> parts) const;
  ssize_t receive(std::span<iovec> parts) const;

 private:
  Fd socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace libhvd
