// TCP sockets (common/net/tcp.hpp) with time limits, and names of hosts. The functions block the
// calling thread until their deadline. Errors: HVD_ERROR_TIMEOUT if it is over, HVD_ERROR_PEER if
// the other side has closed the connection, HVD_ERROR_SYSTEM otherwise.
#pragma once

#include "base/error.hpp"
#include "common/clock.hpp"
#include "common/fd.hpp"
#include "common/net/address.hpp"
#include "common/net/connection.hpp"
#include "common/sha256.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

// Returns the addresses of a name, with port 0. With AI_NUMERICHOST the name must be an address in
// digits, and no server is asked. Error (HVD_ERROR_ENVIRONMENT): it has none.
Result<std::vector<Address>> resolve(const std::string& host, int flags = 0);

// Returns the addresses for every interface of this host: IPv6, which also takes IPv4, then IPv4
// alone.
std::vector<Address> any_address();

// Listens on an address, see make_listener(). On an error `taken` says whether another program
// listens there.
Result<Fd> listen_on(const Address& address);
Result<Fd> listen_on(const Address& address, bool& taken);

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

// Starts TLS between two ranks on a socket, with the key of their connection. See Tls::start().
Result<std::unique_ptr<Tls>> start_tls(int socket, Tls::Side side, const Digest& key,
                                       std::uint64_t records_per_key = Tls::kRecordsPerKey);

// Makes the handshake of TLS on a connection, and returns the connection over TLS.
Result<Connection> secure(Fd socket, Tls::Side side, const Digest& key, const Deadline& deadline);

}  // namespace libhvd
