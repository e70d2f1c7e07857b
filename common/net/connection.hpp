// A connected, non-blocking stream socket to another process: unencrypted, or over TLS. Owns the
// socket. One thread at a time.
#pragma once

#include "common/fd.hpp"
#include "common/net/tls.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <sys/types.h>
#include <sys/uio.h>

namespace common {

class Connection {
 public:
  Connection() = default;
  Connection(Fd socket) : socket_(std::move(socket)) {}  // NOLINT(google-explicit-constructor)
  // A connection over TLS whose handshake is done.
  Connection(Fd socket, std::unique_ptr<Tls> tls)
      : socket_(std::move(socket)), tls_(std::move(tls)) {}

  explicit operator bool() const { return static_cast<bool>(socket_); }
  const Fd& socket() const { return socket_; }
  int get() const { return socket_.get(); }

  // Closes the descriptor and touches nothing else; sends nothing to the other end. So a forked
  // child may call it, whatever other threads were doing.
  void close() { socket_.reset(); }

  // Like send(2) with MSG_NOSIGNAL, recv(2), sendmsg(2) and recvmsg(2). Over TLS like the functions
  // of Tls.
  ssize_t send(const void* data, std::size_t bytes) const;
  ssize_t receive(void* data, std::size_t bytes) const;
  ssize_t send(std::span<iovec> parts) const;
  ssize_t receive(std::span<iovec> parts) const;

  // Ends this side's direction. Over TLS the other end can see that nothing was cut off.
  void end_sending() const;

  // Returns whether a connection whose receive() has returned 0 was ended by the other end. Returns
  // true without TLS, which alone can show that it was cut.
  bool has_ended_properly() const { return !tls_ || tls_->has_ended_properly(); }

 private:
  Fd socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace common
