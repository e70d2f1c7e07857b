#include "slurm/partitions.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(Partitions, ReadsTheOutputOfSinfo) {
  const auto partitions = parse_partitions(
      "debug*|16|2|30:00|(null)\ngpu|160|1|infinite|gpu:v100:4(S:0-1),nvme:1\n"
      "mixed|32|1|1-00:00:00|gpu:a100:2(S:0,2),gpu:t4:1(S:1)\n"
      "nonsense\n|4|1||\nempty|0|1||\nfew|8+|1|1:00|gpu:2\n");
  ASSERT_EQ(partitions.size(), 4u);
  EXPECT_EQ(partitions[0].partition, "debug");
  EXPECT_TRUE(partitions[0].is_default);
  EXPECT_EQ(partitions[0].gpus, 0);
  EXPECT_EQ(partitions[1].gpus, 4);
  EXPECT_EQ(partitions[1].cpus, 160);
  EXPECT_FALSE(partitions[1].is_default);
  EXPECT_EQ(partitions[2].gpus, 3);
  EXPECT_EQ(partitions[3].cpus, 8);
}

TEST(Partitions, FindsAPartitionWhoseNodesAreAlikeAndTheLargestNode) {
  const auto partitions = parse_partitions(
      "a*|16|4|1:00|gpu:4\nb|8|1|1:00|(null)\nb|8|2|1:00|(null)\n"
      "c|8|1|1:00|gpu:1\nc|4|1|1:00|gpu:2\n");
  EXPECT_EQ(find_partition(partitions, "")->partition, "a");
  EXPECT_EQ(find_partition(partitions, "b")->cpus, 8);
  EXPECT_EQ(find_partition(partitions, "b")->nodes, 3);
  EXPECT_FALSE(find_partition(partitions, "c"));
  EXPECT_FALSE(find_partition(partitions, "d"));
  EXPECT_FALSE(find_partition({}, ""));
  EXPECT_EQ(largest_node(partitions, "c")->gpus, 2);
  EXPECT_EQ(largest_node(partitions, "c")->cpus, 8);
  EXPECT_EQ(largest_node(partitions, "c")->nodes, 2);
  EXPECT_FALSE(largest_node(partitions, "d"));
}

TEST(Partitions, DescribesTheNodesOfAPartition) {
  const auto partitions =
      parse_partitions("a*|16|4|1:00:00|gpu:4\nc|8|1|infinite|gpu:1\nc|4|1|infinite|(null)\n");
  EXPECT_EQ(describe_partition(partitions, ""),
            "partition a has 4 nodes with 16 CPUs and 4 GPUs each, for at most 1:00:00 (sinfo)");
  EXPECT_EQ(describe_partition(partitions, "c"),
            "partition c has 1 node with 8 CPUs and 1 GPU, 1 node with 4 CPUs (sinfo)");
  EXPECT_EQ(describe_partition(partitions, "d"), "");
}

}  // namespace
}  // namespace hvdrun
