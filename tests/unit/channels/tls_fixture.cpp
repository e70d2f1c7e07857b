#include "tls_fixture.hpp"

#include "base/system.hpp"

#include <array>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

// A test that takes this long hangs.
constexpr std::chrono::seconds kTimeLimit{60};

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address make_address(const std::string& text, int port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    address.size = sizeof *v4;
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr), 1) << text;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<std::uint16_t>(port));
    address.size = sizeof *v6;
  }
  return address;
}

TlsStream wrap(TlsContext::Side side, const LinkKey& key, Fd socket) {
  auto context = TlsContext::make(side, key);
  EXPECT_TRUE(context) << context.error().message;
  auto stream = context->wrap(std::move(socket));
  EXPECT_TRUE(stream) << stream.error().message;
  return std::move(*stream);
}

bool has_ended(TlsStream::Status status) {
  return status != TlsStream::Status::want_read && status != TlsStream::Status::want_write;
}

}  // namespace

Fd connect_to(const std::string& address, int port) {
  Address to = make_address(address, port);
  Fd socket(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), to.get(), to.size), 0) << address << " port " << port;
  return socket;
}

SocketPair tcp_pair(const std::string& address) {
  Address own = make_address(address, 0);
  const Fd listener(::socket(own.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(listener.get(), own.get(), own.size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), own.get(), &own.size), 0);
  // The port is at the same offset in both families.
  const int port = ntohs(reinterpret_cast<sockaddr_in*>(&own.storage)->sin_port);
  SocketPair pair;
  pair.client = connect_to(address, port);
  pair.server = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(set_nonblocking(pair.client.get()));
  EXPECT_TRUE(set_nonblocking(pair.server.get()));
  return pair;
}

TlsPair tls_pair(const LinkKey& client_key, const LinkKey& server_key) {
  SocketPair sockets = tcp_pair();
  return {wrap(TlsContext::Side::client, client_key, std::move(sockets.client)),
          wrap(TlsContext::Side::server, server_key, std::move(sockets.server))};
}

Handshakes shake_hands(TlsPair& pair) {
  Handshakes ended{TlsStream::Status::want_read, TlsStream::Status::want_read};
  while (true) {
    if (!has_ended(ended.client)) ended.client = pair.client.handshake();
    if (!has_ended(ended.server)) ended.server = pair.server.handshake();
    if (has_ended(ended.client) && has_ended(ended.server)) return ended;
    std::array<pollfd, 2> waiting{
        pollfd{has_ended(ended.client) ? -1 : pair.client.fd(), POLLIN, 0},
        pollfd{has_ended(ended.server) ? -1 : pair.server.fd(), POLLIN, 0}};
    if (::poll(waiting.data(), waiting.size(), 60000) <= 0) {
      ADD_FAILURE() << "the handshake makes no progress";
      return ended;
    }
  }
}

void run_until(EventLoop& loop, const std::function<bool()>& done, const char* what) {
  bool late = false;
  Timer limit(loop, [&] { late = true; });
  limit.start(kTimeLimit);
  while (!done() && !late) loop.run_once();
  ASSERT_FALSE(late) << "timed out while waiting for: " << what;
}

}  // namespace hvdrun
