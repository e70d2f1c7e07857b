#include "commands/batch_shape.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

struct Asked {
  std::optional<int> ranks = std::nullopt;
  std::optional<int> nodes = std::nullopt;
  std::optional<int> ranks_per_host = std::nullopt;
  std::optional<int> cpus_per_rank = std::nullopt;
  std::optional<int> gpus_per_node = std::nullopt;
  std::optional<int> cpus_per_node = std::nullopt;
};

Result<BatchShape> shape_of(const Asked& asked) {
  JobSpec job;
  BatchSpec batch;
  job.ranks = asked.ranks;
  job.ranks_per_host = asked.ranks_per_host;
  job.cpus_per_rank = asked.cpus_per_rank;
  batch.nodes = asked.nodes;
  batch.gpus_per_node = asked.gpus_per_node;
  batch.cpus_per_node = asked.cpus_per_node;
  return batch_shape(job, batch);
}

std::string text_of(const Asked& asked) {
  const auto shape = shape_of(asked);
  return shape ? describe(*shape) : shape.error().message;
}

TEST(BatchShape, HasOneRankPerGpu) {
  EXPECT_EQ(text_of({.ranks = 16, .gpus_per_node = 4, .cpus_per_node = 160}),
            "16 ranks: 4 nodes × 4 GPUs, 40 CPUs per rank");
  EXPECT_EQ(text_of({.ranks = 2, .gpus_per_node = 4, .cpus_per_node = 160}),
            "2 ranks: 1 node × 2 GPUs, 40 CPUs per rank");
  EXPECT_EQ(text_of({.ranks = 6, .gpus_per_node = 4, .cpus_per_node = 160}),
            "6 ranks: 2 nodes × 3 GPUs, 40 CPUs per rank");
  EXPECT_EQ(text_of({.ranks = 40, .nodes = 3, .cpus_per_node = 16}),
            "40 ranks: 3 nodes, at most 14 ranks on each, 1 CPU per rank");
  EXPECT_EQ(text_of({.nodes = 4, .gpus_per_node = 4, .cpus_per_node = 160}),
            "16 ranks: 4 nodes × 4 GPUs, 40 CPUs per rank");
  EXPECT_EQ(text_of({.ranks = 4, .nodes = 4, .gpus_per_node = 4}),
            "4 ranks: 4 nodes × 1 GPU, 1 CPU per rank");
  EXPECT_EQ(text_of({.ranks = 4, .cpus_per_rank = 8, .gpus_per_node = 4, .cpus_per_node = 160}),
            "4 ranks: 1 node × 4 GPUs, 8 CPUs per rank");
}

TEST(BatchShape, SharesTheCpusThatSinfoGaveWithTheGpusThatItGave) {
  JobSpec job;
  BatchSpec batch;
  batch.gpus_per_node = 8;  // the user's
  batch.cpus_per_node = 16;
  batch.gpus_beside_cpus = 4;
  job.ranks = 2;
  EXPECT_EQ(batch_shape(job, batch).value().cpus_per_rank, 4);
  job.ranks = 8;
  EXPECT_EQ(batch_shape(job, batch).value().cpus_per_rank, 2) << "all ranks are on one node";
}

TEST(BatchShape, HasPlacesForSparesAndForAsManyRanksAsMayCome) {
  JobSpec job;
  BatchSpec batch;
  job.ranks = 4;
  job.elastic.min_ranks = 2;
  job.elastic.spares = 1;
  batch.gpus_per_node = 2;
  auto shape = batch_shape(job, batch);
  ASSERT_TRUE(shape);
  EXPECT_EQ(describe(*shape), "4 ranks, places for 5: 3 nodes × 2 GPUs, 1 CPU per rank");
  EXPECT_TRUE(shape->survives_nodes);
  job.elastic.spares = 0;
  job.elastic.max_ranks = 8;
  shape = batch_shape(job, batch);
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->ranks, 4);
  EXPECT_EQ(shape->nodes, 4);
}

TEST(BatchShape, NodesMayBeUneven) {
  const auto shape = shape_of({.ranks = 7, .gpus_per_node = 4});
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->nodes, 2);
  EXPECT_EQ(shape->ranks_per_node, 4);
  EXPECT_EQ(shape->gpus_per_node, 4);
}

TEST(BatchShape, OneRankPerHostUsesAllGpus) {
  EXPECT_EQ(text_of({.ranks = 2, .ranks_per_host = 1, .gpus_per_node = 4, .cpus_per_node = 160}),
            "2 ranks: 2 nodes × 4 GPUs × 1 rank, 160 CPUs per rank");
}

TEST(BatchShape, HasRanksPerNodeWithoutGpus) {
  EXPECT_EQ(text_of({.ranks = 8}), "8 ranks: 1 CPU per rank");
  EXPECT_EQ(text_of({.ranks = 8, .gpus_per_node = 0}), "8 ranks: 1 CPU per rank");
  EXPECT_EQ(text_of({.ranks = 8, .nodes = 2}), "8 ranks: 2 nodes × 4 ranks, 1 CPU per rank");
  EXPECT_EQ(text_of({.ranks = 8, .nodes = 2, .cpus_per_node = 16}),
            "8 ranks: 2 nodes × 4 ranks, 4 CPUs per rank");
  EXPECT_EQ(text_of({.ranks = 8, .cpus_per_rank = 4, .cpus_per_node = 16}),
            "8 ranks: 2 nodes × 4 ranks, 4 CPUs per rank");
  EXPECT_EQ(text_of({.ranks = 2, .cpus_per_rank = 32, .cpus_per_node = 16}),
            "2 ranks: 2 nodes × 1 rank, 32 CPUs per rank");
}

TEST(BatchShape, ErrorsNameWhatDoesNotFit) {
  EXPECT_EQ(text_of({.ranks = 16, .nodes = 2, .gpus_per_node = 4}),
            "16 ranks do not fit on 2 nodes with 4 GPUs each: --nodes 4, or fewer ranks");
  EXPECT_EQ(text_of({.ranks = 3, .nodes = 2, .ranks_per_host = 1}),
            "3 ranks do not fit on 2 nodes with 1 rank each: --nodes 3, or fewer ranks");
  EXPECT_EQ(text_of({.ranks = 2, .nodes = 4}),
            "2 ranks on 4 nodes, 1 each: only 2 nodes would have any; --nodes 2");
  EXPECT_EQ(text_of({.ranks = 9, .nodes = 4, .gpus_per_node = 4}),
            "9 ranks on 4 nodes, 3 each: only 3 nodes would have any; --nodes 3");
  EXPECT_EQ(
      text_of({.ranks = 8, .ranks_per_host = 4, .gpus_per_node = 2}),
      "--ranks-per-host 4 on nodes with 2 GPUs: ranks would share GPUs, which --oversubscribe "
      "allows");
  EXPECT_EQ(text_of({.ranks = 2147483647, .gpus_per_node = 2}),
            "2147483647 ranks are more than hvdrun can start");
  EXPECT_EQ(text_of({.nodes = 2000000000, .gpus_per_node = 2000000000}),
            "2000000000 nodes with 2000000000 ranks each are more than hvdrun can start");
  EXPECT_EQ(text_of({}), "how many ranks? -np N, or --nodes N with --gpus-per-node K");
  EXPECT_EQ(text_of({.nodes = 2}), "how many ranks? -np N, or --nodes N with --gpus-per-node K");
}

}  // namespace
}  // namespace hvdrun
