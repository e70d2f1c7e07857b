#include "agent/held_ports.hpp"

#include "agent/descriptor_limit.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

TEST(HeldPorts, AreReservedButTheProgramCanListenOnThem) {
  const auto ports = hold_ports(1, 0);
  ASSERT_TRUE(ports) << ports.error().message;
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(ports->front().number));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(socket.get(), 1), 0);
}

TEST(HeldPorts, OfTheUserAreTriedBeforeTheStart) {
  const Fd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(other.get(), generic, size), 0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  ASSERT_EQ(::getsockname(other.get(), generic, &size), 0);
  LaunchMessage job;
  job.ranks.emplace_back();
  job.ranks[0].environment = {{"MASTER_PORT", std::to_string(ntohs(address.sin_port))}};
  EXPECT_NE(taken_port_warning(job, {}).find("has the port of -x MASTER_PORT="), std::string::npos);
  job.ranks[0].rank = 1;
  EXPECT_EQ(taken_port_warning(job, {}), "") << "rank 0 listens there, on another host";
  const auto held = hold_ports(1, 0);
  ASSERT_TRUE(held);
  job.ranks[0].rank = 0;
  job.ranks[0].environment = {{"MASTER_PORT", std::to_string(held->front().number)}};
  EXPECT_EQ(taken_port_warning(job, *held), "");
}

// Among so many ports, a dozen would be next to the master port by chance.
TEST(HeldPorts, ExcludePortsNextToTheMasterPort) {
  constexpr int kCount = 3000;
  raise_descriptor_limit(kCount + 200);
  const auto first = [](int given) {
    const auto ports = hold_ports(kCount, given);
    EXPECT_TRUE(ports) << ports.error().message;
    const int master = given != 0 ? given : ports->front().number;
    for (std::size_t i = 1; i < ports->size(); ++i)
      EXPECT_GT(std::abs((*ports)[i].number - master), kPortsLeftToProgram) << master;
    return ports->front().number;
  };
  first(first(0));
}

}  // namespace
}  // namespace hvdrun
