#include "channels/local_addresses.hpp"

#include "tls_fixture.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using Addresses = std::vector<std::string>;

const std::vector<NamedAddress> kMachine{{"lo", "127.0.0.1"},   {"lo", "::1"},
                                         {"eth0", "10.0.0.5"},  {"eth0", "fd00::5"},
                                         {"ib0", "172.16.0.5"}, {"eth0", "10.0.0.5"}};

TEST(OwnAddresses, AreThoseOfTheInterfacesInTheirOrder) {
  EXPECT_EQ(addresses_of_interfaces(kMachine, "ib0,eth0").value(),
            (Addresses{"172.16.0.5", "10.0.0.5", "fd00::5"}));
  EXPECT_EQ(addresses_of_interfaces(kMachine, "lo").value(), (Addresses{"127.0.0.1", "::1"}));
}

TEST(OwnAddresses, SayWhichInterfacesThereAre) {
  for (const std::string names : {"eth1", "eth0,eth1", "eth0,", ""}) {
    const auto addresses = addresses_of_interfaces(kMachine, names);
    ASSERT_FALSE(addresses) << names;
    EXPECT_NE(addresses.error().message.find("there are: lo, eth0, ib0"), std::string::npos)
        << addresses.error().message;
    EXPECT_EQ(addresses.error().exit_code, kExitUsage);
  }
}

TEST(OwnAddresses, HaveLoopbackLast) {
  EXPECT_EQ(all_addresses(kMachine),
            (Addresses{"10.0.0.5", "fd00::5", "172.16.0.5", "127.0.0.1", "::1"}));
}

TEST(OwnAddresses, AreOfLoopbackOnlyWithoutOthers) {
  EXPECT_EQ(without_loopback({"127.0.1.1", "10.0.0.5", "::1", "10.0.0.5"}), Addresses{"10.0.0.5"});
  EXPECT_EQ(without_loopback({"127.0.1.1", "::1"}), (Addresses{"127.0.1.1", "::1"}));
  EXPECT_TRUE(without_loopback({}).empty());
}

TEST(OwnAddresses, OfThisMachineHaveLoopback) {
  const auto all = named_addresses();
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_TRUE(std::any_of(all->begin(), all->end(),
                          [](const auto& entry) { return entry.address == "127.0.0.1"; }));
}

std::optional<Addresses> probe(const Addresses& hosts, std::chrono::milliseconds timeout) {
  EventLoop loop;
  std::optional<Addresses> found;
  auto started = RouteProbe::start(loop, hosts, timeout,
                                   [&](const Addresses& addresses) { found = addresses; });
  EXPECT_TRUE(started) << started.error().message;
  run_until(
      loop, [&] { return found.has_value(); }, "an answer");
  return found;
}

TEST(RouteProbe, FindsOurEndOfTheRoute) {
  EXPECT_EQ(probe({"127.0.0.1"}, std::chrono::seconds(60)), Addresses{"127.0.0.1"});
  EXPECT_EQ(probe({"::1"}, std::chrono::seconds(60)), Addresses{"::1"});
}

TEST(RouteProbe, DoesWithoutWhatItCannotResolve) {
  EXPECT_EQ(probe({"no such name", "127.0.0.1"}, std::chrono::seconds(60)), Addresses{"127.0.0.1"});
}

TEST(RouteProbe, CanBeGivenUp) {
  EventLoop loop;
  auto started = RouteProbe::start(loop, {"127.0.0.1"}, std::chrono::seconds(60),
                                   [](const Addresses&) { FAIL() << "nobody asks any more"; });
  ASSERT_TRUE(started);
  started->reset();
  loop.run();  // nothing is left that could happen
}

// As of proc(5); the last words of a line are left out.
std::string tcp_line(const std::string& timer, const std::string& retransmits, int probes) {
  return "   7: 0100007F:0016 0200007F:A4D2 01 00000040:00000000 " + timer + " " + retransmits +
         "     0        " + std::to_string(probes) + " 4711 4 0000000000000000 20 4 30 10 -1";
}

TEST(WaitsInVain, OnceTheKernelHasAskedTwice) {
  const std::vector<std::string> ours{"12", "4711"};
  EXPECT_FALSE(waits_in_vain(tcp_line("00:00000000", "00000000", 0), ours));
  EXPECT_FALSE(waits_in_vain(tcp_line("01:00000014", "00000001", 0), ours)) << "one was lost";
  EXPECT_TRUE(waits_in_vain(tcp_line("01:00000050", "00000002", 0), ours));
  EXPECT_TRUE(waits_in_vain(tcp_line("01:00000050", "0000000A", 0), ours));
  EXPECT_TRUE(waits_in_vain(tcp_line("04:00000050", "00000000", 2), ours)) << "a full window";
  EXPECT_FALSE(waits_in_vain(tcp_line("01:00000050", "00000002", 0), {"12"})) << "another's";
  EXPECT_FALSE(waits_in_vain("  sl  local_address rem_address   st tx_queue rx_queue", ours));
}

// A peer that reads nothing does not answer, but its kernel does.
TEST(WaitsInVain, NotForAPeerThatReadsNothing) {
  const SocketPair pair = tcp_pair();
  ASSERT_EQ(::send(pair.client.get(), "word", 4, MSG_NOSIGNAL), 4);
  EXPECT_FALSE(waits_in_vain(::getpid()));
  EXPECT_FALSE(waits_in_vain(-1)) << "what cannot be seen";
}

}  // namespace
}  // namespace hvdrun
