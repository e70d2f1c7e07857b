#include "base/result.hpp"
#include "channels/tcp_connection.hpp"
#include "common/fd.hpp"

#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

TEST(Route, OfSshIsWhatItSays) {
  EXPECT_EQ(route_of_ssh("10.0.0.1 40312 10.0.0.2 22"), "10.0.0.1:40312 > 10.0.0.2:22");
  EXPECT_EQ(route_of_ssh("fd00::1 40312 fd00::2 22"), "[fd00::1]:40312 > [fd00::2]:22");
  EXPECT_EQ(route_of_ssh("10.0.0.1 40312 10.0.0.2"), "");
  EXPECT_EQ(route_of_ssh(nullptr), "");
}

TEST(Route, OfASocketNamesBothEnds) {
  const Fd listening(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listening.get(), generic, size), 0);
  ASSERT_EQ(::listen(listening.get(), 1), 0);
  ASSERT_EQ(::getsockname(listening.get(), generic, &size), 0);
  const Fd agent(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(::connect(agent.get(), generic, size), 0);
  const std::string launcher = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(route_of_socket(agent.get()).rfind(launcher + " < 127.0.0.1:", 0), 0u)
      << route_of_socket(agent.get());
  EXPECT_EQ(route_of_socket(-1), "? < ?");
}

}  // namespace
}  // namespace hvdrun
