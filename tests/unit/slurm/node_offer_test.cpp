#include "slurm/slurm_command.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(NodeOffers, ReadsWhatSinfoPrints) {
  const auto offers = parse_partitions(
      "debug*|16|2|(null)\ngpu|160|1|gpu:v100:4(S:0-1),nvme:1\n"
      "mixed|32|1|gpu:a100:2(S:0,2),gpu:t4:1(S:1)\n"
      "nonsense\n|4|1|\nempty|0|1|\nfew|8+|1|gpu:2\n");
  ASSERT_EQ(offers.size(), 4u);
  EXPECT_EQ(offers[0].partition, "debug");
  EXPECT_TRUE(offers[0].is_default);
  EXPECT_EQ(offers[0].gpus, 0);
  EXPECT_EQ(offers[1].gpus, 4);
  EXPECT_EQ(offers[1].cpus, 160);
  EXPECT_FALSE(offers[1].is_default);
  EXPECT_EQ(offers[2].gpus, 3);
  EXPECT_EQ(offers[3].cpus, 8);
}

TEST(NodeOffers, OfOnePartitionWhoseNodesAreAlike) {
  const auto offers =
      parse_partitions("a*|16|4|gpu:4\nb|8|1|(null)\nb|8|2|(null)\nc|8|1|gpu:1\nc|8|1|gpu:2\n");
  EXPECT_EQ(offer_of(offers, "")->partition, "a");
  EXPECT_EQ(offer_of(offers, "b")->cpus, 8);
  EXPECT_EQ(offer_of(offers, "b")->nodes, 3);
  EXPECT_FALSE(offer_of(offers, "c"));
  EXPECT_FALSE(offer_of(offers, "d"));
  EXPECT_FALSE(offer_of({}, ""));
}

}  // namespace
}  // namespace hvdrun
