#include "job/plan.hpp"

#include "job/host_addresses.hpp"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(NamedRanks, AcceptsRanksOfTheJob) {
  JobSpec job;
  EXPECT_TRUE(check_named_ranks(job, 1));
  job.output.only_ranks = RankSet::parse("0,2-3").value();
  job.input.rank = 3;
  EXPECT_TRUE(check_named_ranks(job, 4));
}

TEST(NamedRanks, RefusesRanksThatTheJobDoesNotHave) {
  JobSpec job;
  job.output.only_ranks = RankSet::parse("0,9").value();
  EXPECT_EQ(check_named_ranks(job, 2).error().message,
            "--only-rank names rank 9, but the job has 2 ranks: its ranks are 0-1");
  EXPECT_EQ(check_named_ranks(job, 2).error().exit_code, kExitUsage);
  job.elastic.replaces = true;  // ranks with higher numbers may come
  EXPECT_TRUE(check_named_ranks(job, 2));
  job.output.only_ranks.reset();
  job.input.rank = 5;
  EXPECT_EQ(check_named_ranks(job, 1).error().message,
            "--stdin names rank 5, but the job has 1 rank: its only rank is 0");
  job.input.to = InputSpec::To::all;
  EXPECT_TRUE(check_named_ranks(job, 1));
}

TEST(NamedRanks, RefusesToLeaveMoreRanksThanTheJobHas) {
  JobSpec job;
  job.elastic.min_ranks = 3;
  EXPECT_TRUE(check_named_ranks(job, 3));
  const auto refused = check_named_ranks(job, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "--min-np 3 is more than the 2 ranks of the job");
  EXPECT_EQ(refused.error().exit_code, kExitUsage);
}

Host host(const std::string& name, std::optional<int> slots, int cores) {
  Host host;
  host.name = host.address = name;
  host.slots = slots;
  if (slots) host.slots_fixed = true;
  if (cores > 0) {
    host.inventory.emplace();
    for (int pu = 0; pu < cores; ++pu) host.inventory->cores.push_back({0, 0, {pu}});
  }
  return host;
}

std::vector<std::string> names(const std::vector<Host>& hosts) {
  std::vector<std::string> names;
  for (const auto& host : hosts) names.push_back(host.name);
  return names;
}

TEST(Plan, StartsOnlyTheHostsOfTheProvisionalPlacement) {
  JobSpec spec;
  spec.ranks = 3;
  Plan plan;
  plan.allocation.hosts = {host("a", 2, 0), host("b", 2, 0), host("c", 2, 0)};
  ASSERT_TRUE(place_ranks(spec, plan));
  EXPECT_FALSE(is_final(plan.placement));
  EXPECT_EQ(names(hosts_to_start(plan)), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(expected_ranks(plan, "a"), 2u);
  EXPECT_EQ(expected_ranks(plan, "c"), 0u);
  EXPECT_FALSE(plan.size);
}

TEST(Plan, IsFinalWhenEveryHostHasSentItsInventory) {
  JobSpec spec;
  Plan plan;
  plan.allocation.hosts = {host("a", {}, 0), host("b", {}, 0)};
  ASSERT_TRUE(place_ranks(spec, plan));
  EXPECT_EQ(names(hosts_to_start(plan)), (std::vector<std::string>{"a", "b"})) << "all are asked";
  take_inventory(spec, "a", *host("", {}, 3).inventory, plan);
  take_inventory(spec, "b", *host("", {}, 1).inventory, plan);
  ASSERT_TRUE(place_ranks(spec, plan));
  EXPECT_TRUE(is_final(plan.placement));
  EXPECT_EQ(plan.size, 4);
  EXPECT_EQ(expected_ranks(plan, "a"), 3u);
  EXPECT_EQ(expected_ranks(plan, "b"), 1u);
}

// A host turns out to have less than SLURM's variables had promised.
TEST(Plan, PlacesNothingOnHostsWithoutAnAgent) {
  JobSpec spec;
  spec.ranks = 2;
  spec.elastic.spares = 1;
  Plan plan;
  plan.allocation.hosts = {host("a", 2, 0), host("b", 1, 0), host("c", 1, 0)};
  ASSERT_TRUE(place_ranks(spec, plan));
  ASSERT_EQ(names(hosts_to_start(plan)), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(expected_ranks(plan, "b"), 1u) << "the spare";
  plan.allocation.hosts[0].slots = 1;
  for (const char* const name : {"a", "b"})
    take_inventory(spec, name, *host("", {}, 4).inventory, plan);
  const std::set<std::string> asked{"a", "b"};
  ASSERT_TRUE(place_ranks_on(spec, asked, plan));
  EXPECT_TRUE(is_final(plan.placement));
  EXPECT_EQ(names(hosts_to_start(plan)), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(plan.allocation.hosts[2].slots, 1) << "a restart may use it";

  plan.size.reset();
  spec.ranks = 3;
  EXPECT_EQ(place_ranks_on(spec, asked, plan).error().message.substr(0, 19), "3 ranks for 2 slots");
}

TEST(HostAddresses, AreTheNameOfThisHostAndTheTypedAddressOfOthers) {
  auto first = host("n1.cluster", 1, 1);
  first.is_this_machine = true;
  first.address = "localhost";
  EXPECT_EQ(address_name(first), "n1.cluster");
  first.is_this_machine = false;
  first.address = "n1";
  EXPECT_EQ(address_name(first), "n1");
}

TEST(HostAddresses, AreResolvedForRank0AndWithTensorflowForEveryHost) {
  JobSpec spec;
  std::vector<Host> hosts{host("a", 1, 1)};
  hosts[0].address = "a";
  const auto names = [&] {
    AgentOptions options;
    ask_for_facts(spec, hosts, options);
    return options.names;
  };
  EXPECT_TRUE(names().empty()) << "one host";
  hosts.push_back(host("b", 1, 1));
  hosts[1].address = "b";
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
  spec.frameworks.insert(Framework::tensorflow);
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace hvdrun
