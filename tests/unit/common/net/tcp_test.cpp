#include "common/net/tcp.hpp"

#include "connection_pairs.hpp"

#include <cerrno>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace common {
namespace {

constexpr std::chrono::milliseconds kHour{3'600'000};
constexpr std::chrono::milliseconds kMoment{5};

TEST(ParseAddress, TakesAddressesInDigitsOnly) {
  EXPECT_EQ(parse_address("127.0.0.1", 22)->text(), "127.0.0.1 port 22");
  EXPECT_EQ(parse_address("::1")->text(), "::1 port 0");
  EXPECT_FALSE(parse_address("localhost"));
  EXPECT_FALSE(parse_address(""));
}

TEST(LocalAddress, IsThatOfTheSocket) {
  for (const char* const address : {"127.0.0.1", "::1"}) {
    const test::SocketPair pair = test::tcp_pair(address);
    EXPECT_EQ(local_address(pair.client.get())->host(), address);
    EXPECT_EQ(local_address(pair.client.get())->text(), peer_address(pair.server.get())->text());
  }
  EXPECT_FALSE(local_address(test::local_pair().client.get()));
  EXPECT_FALSE(local_address(-1));
}

TEST(ConnectTcp, ReportsWhatRefusesIt) {
  const Address closed = *local_address(make_listener(*parse_address("127.0.0.1"))->get());
  auto socket = make_tcp_socket(closed);
  ASSERT_TRUE(socket.ok());
  int error = connect_tcp(socket->get(), closed);
  if (error == 0) {
    pollfd ready{socket->get(), POLLOUT, 0};
    ASSERT_EQ(::poll(&ready, 1, 60000), 1);
    error = connect_error(socket->get());
  }
  EXPECT_EQ(error, ECONNREFUSED);
}

// The process there reads nothing, but its kernel answers.
TEST(HasAcknowledged, IfTheOtherKernelAnswers) {
  const test::SocketPair pair = test::tcp_pair();
  EXPECT_TRUE(has_acknowledged(pair.client.get(), kHour)) << "nothing was sent";
  ASSERT_EQ(::send(pair.client.get(), "word", 4, MSG_NOSIGNAL), 4);
  EXPECT_TRUE(has_acknowledged(pair.client.get(), kHour));
}

TEST(HasAcknowledged, NotIfTheOtherKernelIsSilent) {
  const test::SocketPair pair = test::tcp_pair();
  if (!test::fall_silent(pair.server)) GTEST_SKIP() << "TCP_INFO does not show it here";
  ASSERT_EQ(::send(pair.client.get(), "word", 4, MSG_NOSIGNAL), 4);
  while (has_acknowledged(pair.client.get(), kMoment)) ::poll(nullptr, 0, 1);
  EXPECT_TRUE(has_acknowledged(pair.client.get(), kHour)) << "in a longer time it did";
}

// A host is not given up because its silence cannot be seen.
TEST(HasAcknowledged, IfTheKernelCannotSay) {
  const test::SocketPair pair = test::local_pair();
  ASSERT_EQ(::send(pair.client.get(), "word", 4, MSG_NOSIGNAL), 4);
  EXPECT_TRUE(has_acknowledged(pair.client.get(), std::chrono::milliseconds(0)));
  EXPECT_TRUE(has_acknowledged(-1, std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace common
