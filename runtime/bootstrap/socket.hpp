// TCP with time limits. Every socket is non-blocking and close-on-exec.
#pragma once

#include "base/connection.hpp"
#include "base/result.hpp"
#include "common/clock.hpp"
#include "common/fd.hpp"
#include "common/sha256.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/socket.h>

namespace libhvd {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  Address with_port(std::uint16_t port) const;
  std::uint16_t port() const;
  bool is_loopback() const;
  std::string host() const;  // "127.0.0.1"
  std::string text() const;  // "127.0.0.1 port 29501"
};

bool same_host(const Address& a, const Address& b);

// What the name resolves to, port 0. Error (HVD_ERROR_ENVIRONMENT): nothing.
Result<std::vector<Address>> resolve(const std::string& host);

// Every interface of this host: IPv6 that takes IPv4 too, then IPv4 alone.
std::vector<Address> any_address();

// Connections are accepted once they have sent something. `taken`: somebody else listens there.
Result<Fd> listen_on(const Address& address);
Result<Fd> listen_on(const Address& address, bool& taken);

// This side's address of a connection or listener; IPv4 in its own form. Nothing: there is none.
std::optional<Address> local_address(const Fd& socket);

// The next connection; nothing in it when none is waiting. Error: there is no room for it, in the
// table of open files say, or the listener is none.
Result<Fd> accept_from(const Fd& listener);

Result<Fd> connect_to(const Address& address, const Deadline& deadline);

// All of it, or an error: HVD_ERROR_TIMEOUT, or HVD_ERROR_PEER when the other side has closed.
Result<void> send_all(const Fd& socket, Bytes data, const Deadline& deadline);
Result<void> send_all(const Connection& connection, Bytes data, const Deadline& deadline);
Result<void> receive_all(const Fd& socket, std::span<std::uint8_t> data, const Deadline& deadline);
Result<void> receive_all(const Connection& connection, std::span<std::uint8_t> data,
                         const Deadline& deadline);

// Returns when there is something to receive, or the other side has closed. HVD_ERROR_TIMEOUT.
Result<void> wait_for_data(const Fd& socket, const Deadline& deadline);

// What is there now, without waiting: bytes received (0: nothing yet). HVD_ERROR_PEER: closed.
Result<std::size_t> receive_some(const Fd& socket, std::span<std::uint8_t> data);
Result<std::size_t> receive_some(const Connection& connection, std::span<std::uint8_t> data);

// The handshake of TLS on a connection that is to be over it from here on.
Result<Connection> secure(Fd socket, Tls::Side side, const Digest& key, const Deadline& deadline);

}  // namespace libhvd
