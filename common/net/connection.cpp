#include "common/net/connection.hpp"

#include <array>
#include <cstring>

#include <sys/socket.h>

namespace common {
namespace {

// Calls `move` for each part, until a part is not moved whole. Returns the number of bytes.
template <class Move>
ssize_t move_parts(std::span<const iovec> parts, Move move) {
  ssize_t moved = 0;
  for (const iovec& part : parts) {
    if (part.iov_len == 0) continue;
    const ssize_t count = move(part);
    if (count <= 0) return moved > 0 ? moved : count;
    moved += count;
    if (static_cast<std::size_t>(count) < part.iov_len) break;
  }
  return moved;
}

// Sends all parts in one record if they fit, for a small head with a small body.
ssize_t send_parts(Tls& tls, std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  if (bytes > Tls::kMostRecord)
    return move_parts(parts,
                      [&](const iovec& part) { return tls.send(part.iov_base, part.iov_len); });
  std::array<std::byte, Tls::kMostRecord> together;  // NOLINT: filled by memcpy
  std::size_t filled = 0;
  for (const iovec& part : parts) {
    if (part.iov_len > 0) std::memcpy(together.data() + filled, part.iov_base, part.iov_len);
    filled += part.iov_len;
  }
  return tls.send(together.data(), filled);
}

}  // namespace

ssize_t Connection::send(const void* data, std::size_t bytes) const {
  if (!tls_ || !socket_) return ::send(socket_.get(), data, bytes, MSG_NOSIGNAL);
  return tls_->send(data, bytes);
}

ssize_t Connection::receive(void* data, std::size_t bytes) const {
  if (!tls_ || !socket_) return ::recv(socket_.get(), data, bytes, 0);
  return tls_->receive(data, bytes);
}

ssize_t Connection::send(std::span<iovec> parts) const {
  if (tls_ && socket_) return send_parts(*tls_, parts);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
}

ssize_t Connection::receive(std::span<iovec> parts) const {
  if (tls_ && socket_)
    return move_parts(
        parts, [&](const iovec& part) { return tls_->receive(part.iov_base, part.iov_len); });
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::recvmsg(socket_.get(), &message, 0);
}

void Connection::end_sending() const {
  if (tls_ && socket_) tls_->end_sending();
  ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace common
