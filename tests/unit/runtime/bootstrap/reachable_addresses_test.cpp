#include "bootstrap/reachable_addresses.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

std::vector<std::string> hosts_of(const std::vector<Address>& addresses) {
  std::vector<std::string> hosts;
  for (const Address& address : addresses) hosts.push_back(address.host());
  return hosts;
}

bool holds_loopback(const Result<std::vector<Address>>& addresses) {
  if (!addresses.ok()) return false;
  const auto hosts = hosts_of(*addresses);
  return std::find(hosts.begin(), hosts.end(), "127.0.0.1") != hosts.end();
}

TEST(Interfaces, AreFoundByNameNetworkOrAddress) {
  EXPECT_TRUE(holds_loopback(addresses_named("lo")));
  EXPECT_TRUE(holds_loopback(addresses_named("127.0.0.0/8")));
  EXPECT_TRUE(holds_loopback(addresses_named("127.0.0.1")));
  EXPECT_TRUE(holds_loopback(addresses_named("0.0.0.0/0")));
  EXPECT_TRUE(holds_loopback(addresses_named("nosuch0,lo")));
  EXPECT_EQ(addresses_named("")->size(), 0u);
}

TEST(Interfaces, UnknownOnesFailWithAListOfTheOthers) {
  for (const std::string wanted :
       {"nosuch0", "240.0.0.0/24", "127.0.0.1/33", "127.0.0.1/", "127.0.0.1/x", "/8", "a.b.c.d"}) {
    const auto addresses = addresses_named(wanted);
    ASSERT_FALSE(addresses.ok()) << wanted;
    EXPECT_EQ(addresses.error().status, HVD_ERROR_ENVIRONMENT);
    EXPECT_NE(addresses.error().message.find("lo (127.0.0.1)"), std::string::npos);
  }
}

TEST(Interfaces, ListenOnTheAddressOfAnExistingConnection) {
  const auto known = resolve("240.0.0.7")->front().with_port(4711);
  const auto addresses = reachable_addresses("", known);
  ASSERT_TRUE(addresses.ok());
  EXPECT_EQ(hosts_of(*addresses), std::vector<std::string>{"240.0.0.7"});
  EXPECT_EQ(addresses->front().port(), 0);
}

TEST(Interfaces, LoopbackIsUsedOnlyWithoutOthers) {
  const auto addresses = reachable_addresses("", std::nullopt);
  ASSERT_TRUE(addresses.ok());
  ASSERT_FALSE(addresses->empty());
  for (const Address& address : *addresses) {
    EXPECT_EQ(address.is_loopback(), addresses->front().is_loopback());
  }
}

TEST(Interfaces, AddressesOfTheHostItselfAreTriedLast) {
  auto addresses = *resolve("127.0.0.1");
  addresses.push_back(resolve("240.0.0.7")->front());    // no network of ours
  addresses.push_back(resolve("127.0.0.200")->front());  // one of ours
  sort_by_nearness(addresses);
  EXPECT_EQ(hosts_of(addresses),
            (std::vector<std::string>{"127.0.0.200", "240.0.0.7", "127.0.0.1"}));
}

}  // namespace
}  // namespace libhvd
