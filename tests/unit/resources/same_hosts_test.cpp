#include "resources/same_hosts.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

Host host(const std::string& name, std::optional<int> slots) {
  Host made;
  made.name = made.address = name;
  made.slots = slots;
  made.slots_fixed = slots.has_value();
  return made;
}

TEST(SameHosts, AddTheSlotsOfBothNames) {
  Allocation allocation;
  allocation.hosts = {host("n1", 2), host("n2", 1), host("10.0.0.1", 3)};
  const auto notes =
      join_same_hosts(allocation, {{"n1", "A"}, {"n2", "B"}, {"10.0.0.1", "A"}, {"other", "B"}});
  ASSERT_TRUE(notes) << notes.error().message;
  EXPECT_EQ(*notes,
            std::vector<std::string>{"n1 and 10.0.0.1 are names of one host: it has 5 slots"});
  ASSERT_EQ(allocation.hosts.size(), 2u);
  EXPECT_EQ(allocation.hosts[0].slots, 5);
  EXPECT_EQ(allocation.hosts[1].slots, 1);
}

TEST(SameHosts, WithoutNumbersHaveOneSlotPerName) {
  Allocation allocation;
  allocation.hosts = {host("n1", {}), host("n1.cluster", {})};
  ASSERT_TRUE(join_same_hosts(allocation, {{"n1", "A"}, {"n1.cluster", "A"}}));
  ASSERT_EQ(allocation.hosts.size(), 1u);
  EXPECT_EQ(allocation.hosts[0].slots, 2);
}

TEST(SameHosts, AreNotMergedIfTheMachineIsUnknown) {
  Allocation allocation;
  allocation.hosts = {host("n1", 1), host("n2", 1), host("n3", 1)};
  ASSERT_TRUE(join_same_hosts(allocation, {{"n1", ""}, {"n2", ""}}));
  EXPECT_EQ(allocation.hosts.size(), 3u);
}

TEST(SameHosts, AreRefusedIfOnlyOneHasANumberOfSlots) {
  Allocation allocation;
  allocation.hosts = {host("n1", 1), host("n2", {})};
  const auto joined = join_same_hosts(allocation, {{"n1", "A"}, {"n2", "A"}});
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().exit_code, kExitUsage);
}

}  // namespace
}  // namespace hvdrun
