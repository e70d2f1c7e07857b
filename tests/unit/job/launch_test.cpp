#include "job/launch.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

Placement two_hosts() {
  Placement placement;
  placement.size = 3;
  placement.hosts = {{"n1", {}}, {"n2", {}}};
  for (int rank = 0; rank < 3; ++rank) {
    RankPlacement placed;
    placed.rank = rank;
    placed.local_rank = rank % 2;
    placed.cpus = {rank};
    placement.hosts[rank < 2 ? 0 : 1].ranks.push_back(placed);
  }
  return placement;
}

TEST(InputReceivers, AreWhatStdinSays) {
  EXPECT_EQ(input_receivers({InputSpec::To::none, 0}, 3), std::vector<int>{});
  EXPECT_EQ(input_receivers({InputSpec::To::rank, 2}, 3), std::vector{2});
  EXPECT_EQ(input_receivers({InputSpec::To::all, 0}, 3), (std::vector{0, 1, 2}));
}

TEST(LaunchMessage, TellsAnAgentOfItsOwnRanksAndOfAllHosts) {
  JobSpec spec;
  spec.program = "/bin/train";
  spec.command = {"train", "--fast"};
  spec.input.rank = 2;
  spec.stop.grace = std::chrono::milliseconds(300);
  const JobIdentity identity{"id", "key", "n1", "29500"};
  const auto first = launch_message(spec, two_hosts(), identity, {{"HOME", "/h"}}, 0);
  const auto second = launch_message(spec, two_hosts(), identity, {{"HOME", "/h"}}, 1);

  ASSERT_EQ(first.hosts.size(), 2u);
  EXPECT_EQ(first.hosts[1].ranks, std::vector{2});
  EXPECT_EQ(first.arguments, spec.command);
  EXPECT_EQ(first.kill_signal, SIGTERM);
  EXPECT_EQ(first.grace.count(), 300);
  ASSERT_EQ(first.ranks.size(), 2u);
  EXPECT_EQ(first.ranks[1].cpus, std::vector{1});
  EXPECT_FALSE(first.ranks[0].wants_input);
  EXPECT_TRUE(first.hold_master_port) << "rank 0 is there";

  EXPECT_EQ(second.host_index, 1);
  ASSERT_EQ(second.ranks.size(), 1u);
  EXPECT_TRUE(second.ranks[0].wants_input);
  EXPECT_FALSE(second.hold_master_port);
}

}  // namespace
}  // namespace hvdrun
