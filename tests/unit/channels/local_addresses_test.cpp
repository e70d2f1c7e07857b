#include "channels/local_addresses.hpp"

#include "run_until.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using Addresses = std::vector<std::string>;

const std::vector<NamedAddress> kMachine{{"lo", "127.0.0.1"},   {"lo", "::1"},
                                         {"eth0", "10.0.0.5"},  {"eth0", "fd00::5"},
                                         {"ib0", "172.16.0.5"}, {"eth0", "10.0.0.5"}};

TEST(OwnAddresses, FollowTheOrderOfTheNamedInterfaces) {
  EXPECT_EQ(addresses_of_interfaces(kMachine, "ib0,eth0").value(),
            (Addresses{"172.16.0.5", "10.0.0.5", "fd00::5"}));
  EXPECT_EQ(addresses_of_interfaces(kMachine, "lo").value(), (Addresses{"127.0.0.1", "::1"}));
}

TEST(OwnAddresses, ErrorListsTheExistingInterfaces) {
  for (const std::string names : {"eth1", "eth0,eth1", "eth0,", ""}) {
    const auto addresses = addresses_of_interfaces(kMachine, names);
    ASSERT_FALSE(addresses) << names;
    EXPECT_NE(addresses.error().message.find("it has lo, eth0, ib0"), std::string::npos)
        << addresses.error().message;
    EXPECT_EQ(addresses.error().exit_code, kExitUsage);
  }
}

TEST(OwnAddresses, PutLoopbackLast) {
  EXPECT_EQ(all_addresses(kMachine),
            (Addresses{"10.0.0.5", "fd00::5", "172.16.0.5", "127.0.0.1", "::1"}));
}

TEST(OwnAddresses, IncludeLoopbackOnlyIfThereAreNoOthers) {
  EXPECT_EQ(without_loopback({"127.0.1.1", "10.0.0.5", "::1", "10.0.0.5"}), Addresses{"10.0.0.5"});
  EXPECT_EQ(without_loopback({"127.0.1.1", "::1"}), (Addresses{"127.0.1.1", "::1"}));
  EXPECT_TRUE(without_loopback({}).empty());
}

TEST(OwnAddresses, OfThisMachineIncludeLoopback) {
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

TEST(RouteProbe, FindsTheLocalAddressOfTheRoute) {
  EXPECT_EQ(probe({"127.0.0.1"}, std::chrono::seconds(60)), Addresses{"127.0.0.1"});
  EXPECT_EQ(probe({"::1"}, std::chrono::seconds(60)), Addresses{"::1"});
}

TEST(RouteProbe, IgnoresNamesThatCannotBeResolved) {
  EXPECT_EQ(probe({"no such name", "127.0.0.1"}, std::chrono::seconds(60)), Addresses{"127.0.0.1"});
}

TEST(RouteProbe, CanBeCancelled) {
  EventLoop loop;
  auto started = RouteProbe::start(loop, {"127.0.0.1"}, std::chrono::seconds(60),
                                   [](const Addresses&) { FAIL() << "the probe was cancelled"; });
  ASSERT_TRUE(started);
  started->reset();
  loop.run();  // returns, since no event is pending
}

}  // namespace
}  // namespace hvdrun
