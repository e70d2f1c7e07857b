// TLS between two ends within this process.
#include "common/net/connection.hpp"
#include "common/net/openssl_library.hpp"
#include "connection_pairs.hpp"

#include <array>
#include <cerrno>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace common {
namespace {

using Handshake = Result<short, std::string>;

// Runs the handshake of both ends. Returns their last results; 0: the end is ready.
std::pair<Handshake, Handshake> shake_hands(Tls& client, Tls& server) {
  Handshake first = short{1};
  Handshake second = short{1};
  for (int turn = 0; turn < 10; ++turn) {
    if (first.ok() && *first != 0) first = client.handshake();
    if (second.ok() && *second != 0) second = server.handshake();
  }
  return {first, second};
}

TEST(TlsTest, RefusesAPeerWithAnotherKey) {
  const test::SocketPair sockets = test::local_pair();
  auto client = Tls::start(sockets.client.get(), Tls::Side::client, TlsKey{"job", {1}});
  auto server = Tls::start(sockets.server.get(), Tls::Side::server, TlsKey{"job", {2}});
  ASSERT_TRUE(client.ok() && server.ok());
  const auto [first, second] = shake_hands(**client, **server);
  EXPECT_FALSE(first.ok());
  EXPECT_FALSE(second.ok());
}

TEST(TlsTest, RefusesAPeerWithAKeyOfAnotherName) {
  const test::SocketPair sockets = test::local_pair();
  auto client = Tls::start(sockets.client.get(), Tls::Side::client, TlsKey{"another job", {1}});
  auto server = Tls::start(sockets.server.get(), Tls::Side::server, TlsKey{"job", {1}});
  ASSERT_TRUE(client.ok() && server.ok());
  const auto [first, second] = shake_hands(**client, **server);
  EXPECT_FALSE(first.ok());
  EXPECT_FALSE(second.ok());
}

// The first message of a client shows whether it has the key.
TEST(TlsTest, KnowsWhetherTheClientHasShownTheKey) {
  for (const std::uint8_t key : {std::uint8_t{1}, std::uint8_t{2}}) {
    const test::SocketPair sockets = test::local_pair();
    auto client = Tls::start(sockets.client.get(), Tls::Side::client, TlsKey{"job", {key}});
    auto server = Tls::start(sockets.server.get(), Tls::Side::server, TlsKey{"job", {1}});
    ASSERT_TRUE(client.ok() && server.ok());
    EXPECT_EQ(*(*server)->handshake(), POLLIN);
    EXPECT_FALSE((*server)->client_has_shown_key());
    EXPECT_EQ(*(*client)->handshake(), POLLIN);
    const Handshake answered = (*server)->handshake();
    EXPECT_EQ(answered.ok(), key == 1);
    EXPECT_EQ((*server)->client_has_shown_key(), key == 1);
  }
}

TEST(TlsTest, DistinguishesAnEndFromACut) {
  for (const bool proper : {true, false}) {
    test::ConnectionPair ends = test::connect_pair(true);
    if (proper) ends[0].end_sending();
    ends[0].close();
    char byte = 0;
    EXPECT_EQ(ends[1].receive(&byte, 1), 0);
    EXPECT_EQ(ends[1].has_ended_properly(), proper);
  }
}

TEST(TlsTest, DetectsChangedData) {
  const test::SocketPair near = test::local_pair();
  const test::SocketPair far = test::local_pair();
  auto client = Tls::start(near.client.get(), Tls::Side::client, TlsKey{"job", {1}});
  auto server = Tls::start(far.server.get(), Tls::Side::server, TlsKey{"job", {1}});
  ASSERT_TRUE(client.ok() && server.ok());
  std::vector<std::uint8_t> bytes(4096);
  bool change = false;
  const auto carry = [&](const Fd& from, const Fd& to) {
    const ssize_t count = ::recv(from.get(), bytes.data(), bytes.size(), 0);
    if (count <= 0) return;
    if (change) bytes[static_cast<std::size_t>(count) / 2] ^= 1;
    ASSERT_EQ(::send(to.get(), bytes.data(), static_cast<std::size_t>(count), 0), count);
  };
  Handshake first = short{1};
  Handshake second = short{1};
  while (*first != 0 || *second != 0) {
    if (*first != 0) first = (*client)->handshake();
    carry(near.server, far.client);
    if (*second != 0) second = (*server)->handshake();
    carry(far.client, near.server);
    ASSERT_TRUE(first.ok() && second.ok());
  }
  const std::string text = "gradients of layer 1";
  std::string come(text.size(), ' ');
  ASSERT_EQ((*client)->send(text.data(), text.size()), static_cast<ssize_t>(text.size()));
  carry(near.server, far.client);
  ASSERT_EQ((*server)->receive(come.data(), come.size()), static_cast<ssize_t>(text.size()));
  EXPECT_EQ(come, text);
  ASSERT_EQ((*client)->send(text.data(), text.size()), static_cast<ssize_t>(text.size()));
  change = true;
  carry(near.server, far.client);
  EXPECT_EQ((*server)->receive(come.data(), come.size()), -1);
  EXPECT_EQ(errno, EBADMSG);
  EXPECT_EQ((*server)->receive(come.data(), come.size()), -1) << "later data must be refused too";
  EXPECT_EQ(errno, EBADMSG);
}

// Data that was sent before the end arrives first. Then the end is like that of any connection.
TEST(TlsTest, EndsLikeAConnectionWithoutTls) {
  for (const bool encrypted : {false, true}) {
    test::ConnectionPair ends = test::connect_pair(encrypted);
    ASSERT_EQ(ends[0].send("last", 4), 4);
    ends[0].close();
    char come[5] = "";
    EXPECT_EQ(ends[1].receive(come, 4), 4);
    EXPECT_STREQ(come, "last");
    EXPECT_EQ(ends[1].receive(come, 4), 0);
    EXPECT_EQ(ends[1].send("late", 4), -1);
    EXPECT_EQ(errno, EPIPE);
  }
}

// Both ends write parts that are sent in pieces, and often change their keys.
TEST(TlsTest, CarriesPartsBothWaysThroughSmallBuffers) {
  test::ConnectionPair ends = test::connect_pair(true, true, 2);
  std::vector<std::uint32_t> sent(300'000);
  std::iota(sent.begin(), sent.end(), 0u);
  const auto exchange = [&](const Connection& end) {
    std::vector<std::uint32_t> come(sent.size());
    const auto parts_of = [](std::vector<std::uint32_t>& values) {
      constexpr std::size_t kFirst = 25;
      constexpr std::size_t kSecond = 3000;
      return std::array{
          iovec{values.data(), kFirst * 4}, iovec{values.data() + kFirst, kSecond * 4},
          iovec{values.data() + kFirst + kSecond, (values.size() - kFirst - kSecond) * 4}};
    };
    const auto left = [](const auto& parts) {
      std::size_t bytes = 0;
      for (const iovec& part : parts) bytes += part.iov_len;
      return bytes;
    };
    const auto skip = [](auto& parts, ssize_t count) {
      if (count < 0) {
        EXPECT_EQ(errno, EAGAIN);
        return;
      }
      auto bytes = static_cast<std::size_t>(count);
      for (iovec& part : parts) {
        const std::size_t taken = std::min(bytes, part.iov_len);
        part.iov_base = static_cast<std::byte*>(part.iov_base) + taken;
        part.iov_len -= taken;
        bytes -= taken;
      }
    };
    auto out = parts_of(sent);
    auto in = parts_of(come);
    while (left(out) > 0 || left(in) > 0) {
      if (left(out) > 0) skip(out, end.send(out));
      if (left(in) > 0) skip(in, end.receive(in));
    }
    EXPECT_EQ(come, sent);
  };
  std::thread there([&] { exchange(ends[1]); });
  exchange(ends[0]);
  there.join();
}

// Both ends write until the buffers are full, at any place between two records or keys. Then they
// read.
TEST(TlsTest, ReadsEvenIfANewKeyCannotBeSent) {
  for (std::size_t bytes = 1; bytes < 100; ++bytes) {
    test::ConnectionPair ends = test::connect_pair(true, true, 1);
    const std::vector<char> message(bytes, 'm');
    std::array<std::size_t, 2> sent{};
    for (const std::size_t end : {0u, 1u}) {
      while (ends[end].send(message.data(), bytes) > 0) sent[end] += bytes;
      ASSERT_EQ(errno, EAGAIN);
      ASSERT_GT(sent[end], 0u);
    }
    for (const std::size_t end : {0u, 1u}) {
      std::vector<char> come(sent[1 - end]);
      ASSERT_EQ(ends[end].receive(come.data(), come.size()), static_cast<ssize_t>(come.size()))
          << "of messages of " << bytes << " bytes";
    }
    // The message for which there was no room can be sent now.
    ASSERT_EQ(ends[0].send(message.data(), bytes), static_cast<ssize_t>(bytes));
    std::vector<char> come(bytes);
    ASSERT_EQ(ends[1].receive(come.data(), bytes), static_cast<ssize_t>(bytes));
    ASSERT_EQ(come, message);
  }
}

TEST(TlsTest, NamesTheMissingPackage) {
  const auto library = OpensslLibrary::load("libssl-that-there-is-not.so.3");
  ASSERT_FALSE(library.ok());
  EXPECT_NE(library.error().find("package libssl3"), std::string::npos) << library.error();
  const auto other = OpensslLibrary::load("libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().find("BIO_"), std::string::npos) << other.error();
}

}  // namespace
}  // namespace common
