#include "job/restart.hpp"

#include "job/plan.hpp"

#include <utility>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(Restart, FollowsFailedRanksLostAgentsAndStartTimeouts) {
  const std::pair<EndKind, bool> table[] = {
      {EndKind::stopped_early, false}, {EndKind::succeeded, false},
      {EndKind::rank_failed, true},    {EndKind::agent_lost, true},
      {EndKind::start_timeout, true},  {EndKind::exit_timeout, false},
      {EndKind::interrupted, false},   {EndKind::output_failed, false},
      {EndKind::refused, false},
  };
  for (const auto& [kind, restarted] : table)
    EXPECT_EQ(is_worth_a_restart(kind), restarted) << static_cast<int>(kind);
}

TEST(Restart, DoesNotFollowErrorsThatWouldRecur) {
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

// Returns the hosts that are left of three after an attempt.
Allocation left_after(const LostHosts& lost) {
  UsableHosts hosts(three_hosts());
  hosts.attempt_ended(three_hosts(), lost);
  return hosts.allocation();
}

using Names = std::vector<std::string>;

TEST(UsableHosts, ExcludeLostHosts) {
  EXPECT_EQ(names(left_after({})), (Names{"a", "b", "c"}));
  EXPECT_EQ(names(left_after({{"b"}, {}})), (Names{"a", "c"}));
  EXPECT_EQ(names(left_after({{"b"}, {"c"}})), Names{"a"});
}

TEST(UsableHosts, KeepTheHostOfTheLauncher) {
  auto allocation = three_hosts();
  allocation.hosts[1].is_this_machine = true;
  UsableHosts hosts(allocation);
  hosts.attempt_ended(allocation, {{"b"}, {"a", "c"}});
  EXPECT_EQ(names(hosts.allocation()), Names{"b"});
}

TEST(UsableHosts, TakeBackPossiblyHealthyHostsOnce) {
  UsableHosts hosts(three_hosts());
  hosts.attempt_ended(three_hosts(), {{"a"}, {"c"}});
  EXPECT_EQ(hosts.take_back(), Names{"c"}) << "a does not answer";
  EXPECT_EQ(names(hosts.allocation()), (Names{"b", "c"}));
  hosts.attempt_ended(hosts.allocation(), {{}, {"c"}});
  EXPECT_EQ(names(hosts.allocation()), Names{"b"});
  EXPECT_EQ(hosts.take_back(), Names{}) << "c was lost twice in a row";
}

TEST(UsableHosts, TakeBackAHostAgainAfterASuccessfulAttempt) {
  UsableHosts hosts(three_hosts());
  hosts.attempt_ended(three_hosts(), {{}, {"c"}});
  hosts.take_back();
  hosts.attempt_ended(three_hosts(), {});
  hosts.attempt_ended(three_hosts(), {{}, {"c"}});
  EXPECT_EQ(hosts.take_back(), Names{"c"});
}

TEST(UsableHosts, DropASecondNameOfTheSameHost) {
  UsableHosts hosts(three_hosts());
  auto used = three_hosts();
  used.hosts.pop_back();
  used.hosts[0].slots = 4;
  hosts.attempt_ended(used, {{}, {"a"}});
  EXPECT_EQ(hosts.take_back(), Names{"a"});
  EXPECT_EQ(names(hosts.allocation()), (Names{"a", "b"}));
  EXPECT_EQ(hosts.allocation().hosts[0].slots, 4);
}

TEST(PlaceRanks, KeepsTheNumberOfRanksOnTheRemainingHosts) {
  JobSpec spec;  // without -np; the first attempt had one rank per slot, six
  Plan plan{left_after({{"b"}, {}}), {}, 4};
  const auto placed = place_ranks(spec, plan);
  ASSERT_TRUE(placed) << placed.error().message;
  EXPECT_EQ(plan.placement.size, 4);
  ASSERT_EQ(plan.placement.hosts.size(), 2u);
  EXPECT_EQ(plan.placement.hosts[1].host, "c");
  EXPECT_EQ(plan.placement.hosts[1].ranks.front().rank, 2);
}

TEST(PlaceRanks, FailsWhenTheRanksDoNotFit) {
  Plan plan{left_after({{"b", "c"}, {}}), {}, 4};
  EXPECT_FALSE(place_ranks({}, plan));
  plan.allocation.hosts.clear();
  plan.size = 1;
  EXPECT_FALSE(place_ranks({}, plan));
}

TEST(PlaceRanks, RespectsRanksPerHost) {
  JobSpec spec;
  spec.ranks_per_host = 1;
  Plan plan{left_after({{"b"}, {}}), {}, 3};
  EXPECT_FALSE(place_ranks(spec, plan));
  plan.size = 2;
  EXPECT_TRUE(place_ranks(spec, plan));
}

}  // namespace
}  // namespace hvdrun
