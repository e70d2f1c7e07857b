#include "job/restart.hpp"

#include <utility>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(Restart, FollowsFailuresThatNobodyAskedFor) {
  const std::pair<EndKind, bool> table[] = {
      {EndKind::well, false},          {EndKind::rank_failed, true},
      {EndKind::agent_lost, true},     {EndKind::start_timeout, true},
      {EndKind::exit_timeout, false},  {EndKind::interrupted, false},
      {EndKind::output_failed, false}, {EndKind::refused, false},
  };
  for (const auto& [kind, restarted] : table)
    EXPECT_EQ(is_worth_a_restart(kind), restarted) << static_cast<int>(kind);
}

TEST(Restart, DoesNotFollowWhatAnAgentWouldMeetAgain) {
  EXPECT_EQ(kind_of_agent_failure(kExitLauncher), EndKind::agent_lost);
  EXPECT_EQ(kind_of_agent_failure(kExitUsage), EndKind::refused);
  EXPECT_EQ(kind_of_agent_failure(kExitNotExecutable), EndKind::refused);
  EXPECT_EQ(kind_of_agent_failure(kExitNotFound), EndKind::refused);
}

Host host(const std::string& name, int slots) {
  HostInventory inventory;
  for (const int pu : {0, 1, 2, 3}) inventory.cores.push_back({0, 0, {pu}});
  Host made;
  made.name = name;
  made.slots = slots;
  made.slots_source = "-H";
  made.slots_fixed = true;
  made.inventory = std::move(inventory);
  return made;
}

std::vector<std::string> names(const Allocation& allocation) {
  std::vector<std::string> found;
  for (const auto& each : allocation.hosts) found.push_back(each.name);
  return found;
}

Allocation three_hosts() {
  Allocation allocation;
  allocation.hosts = {host("a", 2), host("b", 2), host("c", 2)};
  return allocation;
}

TEST(RemainingHosts, LeavesOutTheLost) {
  EXPECT_EQ(names(remaining_hosts(three_hosts(), {}, "a")),
            (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(names(remaining_hosts(three_hosts(), {"b"}, "a")),
            (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(names(remaining_hosts(three_hosts(), {"b", "c"}, "x")), std::vector<std::string>{"a"});
}

TEST(RemainingHosts, KeepsTheOneThatHvdrunRunsOn) {
  EXPECT_EQ(names(remaining_hosts(three_hosts(), {"a", "b", "c"}, "b")),
            std::vector<std::string>{"b"});
}

TEST(PlaceAgain, PutsAsManyRanksOnWhatIsLeft) {
  JobSpec spec;  // whose -np was left to the slots, six
  const auto rest = remaining_hosts(three_hosts(), {"b"}, "a");
  const auto placement = place_again(spec, rest, 4);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement->size, 4);
  ASSERT_EQ(placement->hosts.size(), 2u);
  EXPECT_EQ(placement->hosts[1].host, "c");
  EXPECT_EQ(placement->hosts[1].ranks.front().rank, 2);
}

TEST(PlaceAgain, SaysWhenTheyDoNotFit) {
  const auto rest = remaining_hosts(three_hosts(), {"b", "c"}, "a");
  const auto placement = place_again({}, rest, 4);
  ASSERT_FALSE(placement);
  EXPECT_EQ(placement.error().message.find("4 ranks do not fit on what is left: "), 0u)
      << placement.error().message;
  EXPECT_FALSE(place_again({}, remaining_hosts(three_hosts(), {"a", "b", "c"}, "x"), 1));
}

TEST(PlaceAgain, KeepsToTheRanksOfEachHost) {
  JobSpec spec;
  spec.ranks_per_host = 1;
  EXPECT_FALSE(place_again(spec, remaining_hosts(three_hosts(), {"b"}, "a"), 3));
  EXPECT_TRUE(place_again(spec, remaining_hosts(three_hosts(), {"b"}, "a"), 2));
}

}  // namespace
}  // namespace hvdrun
