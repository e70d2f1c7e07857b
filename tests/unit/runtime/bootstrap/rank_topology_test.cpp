#include "bootstrap/rank_topology.hpp"

#include <gtest/gtest.h>

namespace libhvd {
namespace {

// Makes the infos of ranks on hosts of these sizes, with all fields that a launcher can set.
std::vector<RankInfo> make_job(const std::vector<int>& sizes) {
  std::vector<RankInfo> infos;
  for (std::size_t node = 0; node < sizes.size(); ++node) {
    for (int local = 0; local < sizes[node]; ++local) {
      RankInfo info;
      info.rank = static_cast<int>(infos.size());
      info.local_rank = local;
      info.local_size = sizes[node];
      info.node_rank = static_cast<int>(node);
      info.node_count = static_cast<int>(sizes.size());
      infos.push_back(info);
    }
  }
  for (auto& info : infos) info.size = static_cast<int>(infos.size());
  return infos;
}

TEST(Topology, CrossRankNumbersTheHostsWithTheSameLocalRank) {
  const auto infos = make_job({2, 1, 3});
  const auto last = make_topology(infos, 4);  // host 2, local rank 1
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->node_rank, 2);
  EXPECT_EQ(last->local_rank, 1);
  EXPECT_EQ(last->local_size, 3);
  EXPECT_EQ(last->cross_rank, 1);  // host 1 has no local rank 1
  EXPECT_EQ(last->cross_size, 2);
  EXPECT_EQ(last->node_count, 3);
  EXPECT_FALSE(last->is_homogeneous);
  EXPECT_TRUE(make_topology(make_job({2, 2}), 0)->is_homogeneous);
}

TEST(Topology, WithoutALauncherAllRanksAreOnOneHost) {
  std::vector<RankInfo> infos(3);
  for (int rank = 0; rank < 3; ++rank) {
    infos[static_cast<std::size_t>(rank)].rank = rank;
    infos[static_cast<std::size_t>(rank)].size = 3;
  }
  const auto topology = make_topology(infos, 2);
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology->local_rank, 2);
  EXPECT_EQ(topology->local_size, 3);
  EXPECT_EQ(topology->node_count, 1);
  EXPECT_EQ(topology->cross_size, 1);
}

TEST(Topology, HostNumbersMayHaveGaps) {
  auto infos = make_job({1, 1});
  infos[0].node_rank = 3;
  infos[1].node_rank = 8;
  EXPECT_EQ(make_topology(infos, 1)->node_rank, 1);
}

TEST(Topology, RefusesTwoRanksWithTheSameLocalRank) {
  auto infos = make_job({2});
  infos[1].local_rank = 0;
  const auto topology = make_topology(infos, 0);
  ASSERT_FALSE(topology.ok());
  EXPECT_EQ(topology.error().message, "ranks 0 and 1 both have local rank 0 on host 0");
}

TEST(Topology, RefusesRanksThatDisagreeOnTheSize) {
  auto infos = make_job({2});
  infos[1].size = 3;
  EXPECT_FALSE(make_topology(infos, 0).ok());
}

TEST(RankInfo, IsUnchangedByEncodingAndDecoding) {
  RankInfo info;
  info.rank = 3;
  info.size = 7;
  info.local_size = 4;
  const auto back = decode_rank_info(encode_rank_info(info));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->rank, 3);
  EXPECT_EQ(back->size, 7);
  EXPECT_EQ(back->local_size, 4);
  EXPECT_FALSE(back->local_rank);
  EXPECT_FALSE(decode_rank_info("1 2 three").ok());
}

}  // namespace
}  // namespace libhvd
