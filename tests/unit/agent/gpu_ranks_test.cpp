#include "agent/gpu_ranks.hpp"

#include <cstdint>
#include <map>
#include <optional>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using Memory = std::map<int, std::uint64_t>;

// Processes 10 to 19 belong to rank 1, 20 to 29 to rank 2, and others to no rank.
std::optional<int> rank_of(int pid) {
  const int rank = pid / 10;
  return rank == 1 || rank == 2 ? std::optional(rank) : std::nullopt;
}

TEST(GpuRanks, AddUpTheProcessesOfEachRank) {
  GpuRanks ranks(rank_of);
  ranks.add({{{10, 100}, {11, 50}, {20, 30}, {99, 1000}}});
  EXPECT_EQ(ranks.peak_memory(), (Memory{{1, 150}, {2, 30}}));
}

TEST(GpuRanks, KeepThePeakOverSamples) {
  GpuRanks ranks(rank_of);
  ranks.add({{{10, 100}, {11, 50}}});
  ranks.add({{{10, 120}}});
  EXPECT_EQ(ranks.peak_memory(), (Memory{{1, 150}})) << "not the sum of each process's peak";
  ranks.add({{{12, 151}}});
  ranks.add({{}});
  EXPECT_EQ(ranks.peak_memory(), (Memory{{1, 151}}));
}

TEST(GpuRanks, ReportTheGpuWhereARankUsesMost) {
  GpuRanks ranks(rank_of);
  ranks.add({{{10, 100}, {20, 500}}, {{10, 700}}});
  EXPECT_EQ(ranks.peak_memory(), (Memory{{1, 700}, {2, 500}}));
}

TEST(GpuRanks, IgnoreUnknownMemory) {
  GpuRanks ranks(rank_of);
  ranks.add({{{10, std::nullopt}, {20, std::nullopt}, {21, 5}}});
  EXPECT_EQ(ranks.peak_memory(), (Memory{{2, 5}}));
}

TEST(GpuRanks, DetectARankThatUsedAllGpus) {
  GpuRanks one(rank_of);
  one.add({{{10, 1}}});
  EXPECT_FALSE(one.one_used_all()) << "the host has one GPU";

  GpuRanks several(rank_of);
  EXPECT_FALSE(several.one_used_all());
  several.add({{{10, 1}}, {{20, 1}}});
  EXPECT_FALSE(several.one_used_all());
  several.add({{{99, 1}}, {{11, std::nullopt}}});
  EXPECT_TRUE(several.one_used_all()) << "its processes together, over several samples";
}

}  // namespace
}  // namespace hvdrun
