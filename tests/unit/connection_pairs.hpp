// Both ends of a connection within this process, for tests.
#pragma once

#include "common/net/connection.hpp"
#include "common/net/tcp.hpp"
#include "socket_pair.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace common::test {

struct SocketPair {
  Fd client;
  Fd server;
};

// Returns a pair that is connected without a network. Both are non-blocking.
inline SocketPair local_pair() {
  auto [client, server] = test_tools::make_socket_pair(SOCK_NONBLOCK);
  return {std::move(client), std::move(server)};
}

// Connects over an address of loopback. Both are non-blocking.
inline SocketPair tcp_pair(const std::string& address = "127.0.0.1") {
  const Address any = *parse_address(address);
  const Fd listener(::socket(any.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(listener.get(), any.get(), any.length), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  const Address own = *local_address(listener.get());
  SocketPair pair;
  pair.client = std::move(*make_tcp_socket(own));
  EXPECT_EQ(connect_tcp(pair.client.get(), own), 0);
  pair.server = accept_tcp(listener.get());  // waits
  EXPECT_TRUE(pair.server);
  pollfd connected{pair.client.get(), POLLOUT, 0};
  EXPECT_EQ(::poll(&connected, 1, 60000), 1);
  EXPECT_EQ(connect_error(pair.client.get()), 0);
  return pair;
}

// Makes this end silent: its kernel drops what arrives, as if its host were gone. Returns false if
// TCP_INFO cannot show that, as under an emulator.
inline bool fall_silent(const Fd& socket) {
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 &&
         ::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         size > offsetof(tcp_info, tcpi_last_ack_recv);
}

inline const TlsKey kTestKey{"test", {7}};

using ConnectionPair = std::array<Connection, 2>;

// Makes the handshake of TLS: the client's end, then the server's.
inline ConnectionPair secure_pair(SocketPair pair,
                                  std::uint64_t records_per_key = Tls::kRecordsPerKey) {
  auto client = Tls::start(pair.client.get(), Tls::Side::client, kTestKey, records_per_key);
  auto server = Tls::start(pair.server.get(), Tls::Side::server, kTestKey, records_per_key);
  EXPECT_TRUE(client.ok() && server.ok()) << (client.ok() ? "" : client.error());
  for (bool done = false; !done;) {
    const auto first = (*client)->handshake();
    const auto second = (*server)->handshake();
    EXPECT_TRUE(first.ok() && second.ok());
    if (!first.ok() || !second.ok()) break;
    done = *first == 0 && *second == 0;
  }
  return {Connection(std::move(pair.client), std::move(*client)),
          Connection(std::move(pair.server), std::move(*server))};
}

// Returns a pair, over TLS if `encrypted`. With `little` the ends hold as little as the system
// allows, so that no test passes only because a connection holds what is not read. Over TLS a key
// is replaced after `records_per_key` records.
inline ConnectionPair connect_pair(bool encrypted, bool little = false,
                                   std::uint64_t records_per_key = Tls::kRecordsPerKey) {
  SocketPair pair = local_pair();
  constexpr int kLeast = 1;  // see socket(7)
  for (const Fd* end : {&pair.client, &pair.server}) {
    if (!little) continue;
    EXPECT_EQ(::setsockopt(end->get(), SOL_SOCKET, SO_SNDBUF, &kLeast, sizeof kLeast), 0);
  }
  if (!encrypted) return {std::move(pair.client), std::move(pair.server)};
  return secure_pair(std::move(pair), records_per_key);
}

}  // namespace common::test
