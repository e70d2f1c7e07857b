// Addresses and TCP sockets with time limits. Every socket is non-blocking and close-on-exec. The
// functions block the calling thread until their deadline. Errors: HVD_ERROR_TIMEOUT if it is over,
// HVD_ERROR_PEER if the other side has closed the connection, HVD_ERROR_SYSTEM otherwise.
#pragma once

#include "base/connection.hpp"
#include "base/error.hpp"
#include "common/clock.hpp"
#include "common/fd.hpp"
#include "common/sha256.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

// Returns whether both have the same IP address, whatever the ports.
bool same_host(const Address& a, const Address& b);

// Returns the addresses of a name, with port 0. With AI_NUMERICHOST the name must be an address in
// digits, and no server is asked. Error (HVD_ERROR_ENVIRONMENT): it has none.
Result<std::vector<Address>> resolve(const std::string& host, int flags = 0);

// Returns the addresses for every interface of this host: IPv6, which also takes IPv4, then IPv4
// alone.
std::vector<Address> any_address();

// Listens on an address. The kernel hands over connections only once they have sent something. On
// an error `taken` says whether another program listens there.
Result<Fd> listen_on(const Address& address);
Result<Fd> listen_on(const Address& address, bool& taken);

// Returns this side's address of a connection or listener. A mapped IPv4 address is returned as
// IPv4. Returns nullopt if the socket has no address.
std::optional<Address> local_address(const Fd& socket);

// Returns the next connection, or an empty Fd if none is waiting. Error: there is no room for it
// (too many files are open, for example), or `listener` does not listen.
Result<Fd> accept_from(const Fd& listener);

// Begins to connect. The socket becomes writable when it is connected or refused; end_connect then
// returns which.
Result<Fd> begin_connect(const Address& address);
Result<void> end_connect(const Fd& socket, const Address& address);

// Connects to an address.
Result<Fd> connect_to(const Address& address, const Deadline& deadline);

// Send or receive all of the data.
Result<void> send_all(const Fd& socket, Bytes data, const Deadline& deadline);
Result<void> send_all(const Connection& connection, Bytes data, const Deadline& deadline);
Result<void> receive_all(const Fd& socket, std::span<std::uint8_t> data, const Deadline& deadline);
Result<void> receive_all(const Connection& connection, std::span<std::uint8_t> data,
                         const Deadline& deadline);

// Returns when there is something to receive, or the other side has closed the connection.
Result<void> wait_for_data(const Fd& socket, const Deadline& deadline);

// Receives what has arrived, without waiting. Returns the number of bytes; 0 if there are none yet.
Result<std::size_t> receive_some(const Fd& socket, std::span<std::uint8_t> data);
Result<std::size_t> receive_some(const Connection& connection, std::span<std::uint8_t> data);

// Makes the handshake of TLS on a connection, and returns the connection over TLS.
Result<Connection> secure(Fd socket, Tls::Side side, const Digest& key, const Deadline& deadline);

}  // namespace libhvd
