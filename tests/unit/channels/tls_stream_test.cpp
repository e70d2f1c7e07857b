#include "channels/tls_stream.hpp"

#include "tls_fixture.hpp"

#include <array>
#include <string>

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

using Status = TlsStream::Status;

void wait_for(const TlsStream& stream) {
  pollfd waiting{stream.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 60000), 1);
}

std::string read_some(TlsStream& stream) {
  std::array<char, TlsStream::kMaxRecord> buffer;
  while (true) {
    const auto got = stream.read(buffer.data(), buffer.size());
    if (got.status == Status::done) return {buffer.data(), got.bytes};
    if (got.status == Status::closed) return "closed";
    if (got.status == Status::failed) return "failed: " + stream.error();
    wait_for(stream);
  }
}

TEST(TlsStream, CarriesBytesBothWays) {
  const LinkKey key = make_link_key("job");
  TlsPair pair = tls_pair(key, key);
  const auto ended = shake_hands(pair);
  ASSERT_EQ(ended.client, Status::done) << pair.client.error();
  ASSERT_EQ(ended.server, Status::done) << pair.server.error();
  ASSERT_EQ(pair.client.write("ping", 4).bytes, 4u);
  EXPECT_EQ(read_some(pair.server), "ping");
  ASSERT_EQ(pair.server.write("pong", 4).bytes, 4u);
  EXPECT_EQ(read_some(pair.client), "pong");
}

TEST(TlsStream, DistinguishesAnEndFromACut) {
  const LinkKey key = make_link_key("job");
  TlsPair pair = tls_pair(key, key);
  shake_hands(pair);
  pair.client.end_writing();
  EXPECT_EQ(read_some(pair.server), "closed");
  ASSERT_EQ(::shutdown(pair.server.fd(), SHUT_WR), 0);
  EXPECT_EQ(read_some(pair.client), "failed: the connection was cut");
}

TEST(TlsStream, KeysDiffer) {
  EXPECT_NE(make_link_key("a").secret, make_link_key("a").secret);
}

TEST(TlsStream, RefusesAnotherKey) {
  TlsPair pair = tls_pair(make_link_key("job"), make_link_key("job"));
  const auto ended = shake_hands(pair);
  EXPECT_EQ(ended.client, Status::failed);
  EXPECT_EQ(ended.server, Status::failed);
}

TEST(TlsStream, RefusesAnotherIdentity) {
  LinkKey key = make_link_key("job");
  LinkKey other = key;
  other.identity = "another job";
  TlsPair pair = tls_pair(other, key);
  const auto ended = shake_hands(pair);
  EXPECT_EQ(ended.client, Status::failed);
  EXPECT_EQ(ended.server, Status::failed);
}

// A peer that uses plain OpenSSL without a key.
struct Plain {
  SSL_CTX* context;
  SSL* ssl;
  Fd socket;

  Plain(const SSL_METHOD* method, Fd connected)
      : context(SSL_CTX_new(method)), ssl(SSL_new(context)), socket(std::move(connected)) {
    SSL_set_fd(ssl, socket.get());
  }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  ~Plain() {
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
};

TEST(TlsStream, RefusesAClientWithoutAKey) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    SocketPair sockets = tcp_pair();
    Plain client(TLS_client_method(), std::move(sockets.client));
    SSL_set_max_proto_version(client.ssl, version);
    auto context = TlsContext::make(TlsContext::Side::server, make_link_key("job"));
    auto server = context->wrap(std::move(sockets.server));
    EXPECT_NE(SSL_connect(client.ssl), 1);  // its first message is in transit
    wait_for(*server);
    EXPECT_EQ(server->handshake(), Status::failed) << version;
  }
}

// A server without the key cannot use what the client offers, and the client does not trust it.
TEST(TlsStream, RefusesAServerWithoutAKey) {
  SocketPair sockets = tcp_pair();
  auto context = TlsContext::make(TlsContext::Side::client, make_link_key("job"));
  auto client = context->wrap(std::move(sockets.client));
  ASSERT_EQ(client->handshake(), Status::want_read);
  Plain server(TLS_server_method(), std::move(sockets.server));
  pollfd waiting{server.socket.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 60000), 1);
  EXPECT_NE(SSL_accept(server.ssl), 1);
  wait_for(*client);
  EXPECT_EQ(client->handshake(), Status::failed);
}

}  // namespace
}  // namespace hvdrun
