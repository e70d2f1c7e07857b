#include "resources/bind_cores.hpp"

#include "common/text.hpp"
#include "fake_hosts.hpp"
#include "model/rank_set.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr int kUnknown = -1;

std::vector<Locality> near_nodes(const std::vector<int>& nodes) {
  std::vector<Locality> near(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i] >= 0) near[i].numa_node = nodes[i];
  return near;
}

// Returns the cores of each rank, such as "0-1 2-3"; "-" for a rank that is not bound.
std::string brief(const CoreBinding& binding) {
  std::string text;
  for (const auto& cores : binding.cores)
    text += (text.empty() ? "" : " ") + (cores.empty() ? "-" : fold_ranks(cores));
  return text;
}

struct BindingCase {
  const char* what;
  int nodes;
  int cores_per_node;
  std::vector<int> near;  // the NUMA node of each rank's GPU
  BindTo bind_to;
  std::optional<int> cpus_per_rank;
  const char* expected;
};

const std::vector<int> kFourAndFour = {0, 0, 0, 0, 1, 1, 1, 1};
const std::vector<int> kTwoWithoutGpu(2, kUnknown);
const std::vector<int> kFourWithoutGpu(4, kUnknown);

TEST(BindCores, GivesEachRankItsCores) {
  const auto automatic = BindTo::automatic;
  const auto core = BindTo::core;
  const auto numa = BindTo::numa;
  const BindingCase cases[] = {
      {"none", 2, 8, kFourAndFour, BindTo::none, {}, "- - - - - - - -"},
      {"a host's only rank", 2, 8, {0}, automatic, {}, "-"},
      {"a host's only rank, core", 2, 8, {0}, core, {}, "-"},
      {"a host's only rank, numa", 2, 8, {0}, numa, {}, "-"},
      {"a host's only rank, --cpus-per-rank", 2, 8, {0}, automatic, 4, "-"},
      {"a host's only rank, core and --cpus-per-rank", 2, 8, {1}, core, 4, "8-11"},

      {"equal parts", 1, 8, kTwoWithoutGpu, automatic, {}, "0-3 4-7"},
      {"one core each", 1, 2, kTwoWithoutGpu, automatic, {}, "0 1"},
      {"uneven parts", 1, 8, {-1, -1, -1}, automatic, {}, "0-1 2-4 5-7"},
      {"parts within nodes", 2, 3, kFourWithoutGpu, automatic, {}, "0 1-2 3 4-5"},
      {"more ranks than cores", 1, 2, kFourWithoutGpu, automatic, {}, "- - - -"},
      {"one core", 1, 1, kTwoWithoutGpu, automatic, {}, "- -"},

      {"GPUs on both nodes",
       2,
       16,
       kFourAndFour,
       automatic,
       {},
       "0-3 4-7 8-11 12-15 16-19 20-23 24-27 28-31"},
      {"GPUs on both nodes in turn", 2, 4, {1, 0, 1, 0}, automatic, {}, "4-5 0-1 6-7 2-3"},
      {"GPUs on both nodes, parts that differ",
       2,
       6,
       kFourAndFour,
       automatic,
       {},
       "0 1-2 3 4-5 6 7-8 9 10-11"},
      {"GPUs on one node: the other node's cores are distributed",
       2,
       8,
       {0, 0, 0, 0},
       automatic,
       {},
       "0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15"},
      {"GPUs on one node, core: the other node's cores stay idle",
       2,
       8,
       {0, 0, 0, 0},
       core,
       {},
       "0-1 2-3 4-5 6-7"},
      {"3 on one node, 1 on the other",
       2,
       8,
       {0, 0, 0, 1},
       automatic,
       {},
       "0-1,12-13 2-4,14 5-7,15 8-11"},
      {"3 on one node, 1 on the other, core", 2, 8, {0, 0, 0, 1}, core, {}, "0-1 2-4 5-7 8-15"},
      {"unknown nodes", 2, 4, {-1, -1}, core, {}, "0-3 4-7"},
      {"one node known", 2, 4, {-1, 0}, automatic, {}, "4-7 0-3"},
      {"one node known, core", 2, 4, {-1, 0}, core, {}, "4-7 0-3"},
      {"a node whose cores the job may not use", 1, 8, {3, 3}, automatic, {}, "0-3 4-7"},
      {"a node whose cores the job may not use, core", 1, 8, {3, 3}, core, {}, "0-3 4-7"},
      {"a node with too few cores, core", 2, 2, {0, 0, 0}, core, {}, "2 0 1,3"},

      {"--cpus-per-rank", 2, 8, kFourWithoutGpu, automatic, 3, "0-2 4-6 8-10 12-14"},
      {"--cpus-per-rank near the GPU", 2, 8, {1, 0}, automatic, 2, "8-9 0-1"},
      {"--cpus-per-rank, more than the node has", 2, 4, {0, 0}, core, 4, "0-1,4-5 2-3,6-7"},
      {"--cpus-per-rank, more than the host has", 1, 4, kTwoWithoutGpu, automatic, 3, "- -"},

      {"numa near the GPU", 2, 4, {0, 1, 0}, numa, {}, "0-3 4-7 0-3"},
      {"numa without GPU", 2, 4, kFourWithoutGpu, numa, {}, "0-3 0-3 4-7 4-7"},
      {"numa, more ranks than cores", 2, 1, kFourWithoutGpu, numa, {}, "0 0 1 1"},
      {"numa, a part on both nodes", 2, 3, {-1, -1, -1}, numa, {}, "0-2 3-5 3-5"},
      {"numa, a node whose cores the job may not use", 2, 2, {7, 7}, numa, {}, "0-1 2-3"},
      {"numa, one node", 1, 4, kTwoWithoutGpu, numa, {}, "- -"},
  };
  for (const auto& test : cases) {
    FakeHost made;
    made.nodes = test.nodes;
    made.cores_per_node = test.cores_per_node;
    const auto binding = bind_cores(*make_host(made).inventory, "n1", near_nodes(test.near),
                                    test.bind_to, test.cpus_per_rank);
    ASSERT_TRUE(binding) << test.what << ": " << binding.error().message;
    EXPECT_EQ(brief(*binding), test.expected) << test.what;
  }
}

// Checks that automatic binding is never worse than none: the parts are disjoint, cover all cores,
// and differ by at most one core.
TEST(BindCores, AutomaticUsesEveryCoreAndDividesThemEvenly) {
  for (int nodes = 1; nodes <= 3; ++nodes)
    for (int cores_per_node = 1; cores_per_node <= 7; ++cores_per_node)
      for (int ranks = 2; ranks <= nodes * cores_per_node; ++ranks)
        for (int pattern = 0; pattern < 4; ++pattern) {
          const std::string what = fmt::format("{} nodes of {} cores, {} ranks, {}", nodes,
                                               cores_per_node, ranks, pattern);
          std::vector<int> near;
          for (int rank = 0; rank < ranks; ++rank)
            near.push_back(pattern == 0   ? kUnknown
                           : pattern == 1 ? 0
                           : pattern == 2 ? rank % nodes
                                          : rank * nodes / ranks - (rank == 0));
          FakeHost made;
          made.nodes = nodes;
          made.cores_per_node = cores_per_node;
          const auto binding = bind_cores(*make_host(made).inventory, "n1", near_nodes(near),
                                          BindTo::automatic, std::nullopt);
          ASSERT_TRUE(binding) << what;
          const auto least = static_cast<std::size_t>(nodes * cores_per_node / ranks);
          std::vector<int> all;
          for (const auto& cores : binding->cores) {
            EXPECT_TRUE(cores.size() == least || cores.size() == least + 1) << what;
            EXPECT_TRUE(std::is_sorted(cores.begin(), cores.end())) << what;
            all.insert(all.end(), cores.begin(), cores.end());
          }
          std::sort(all.begin(), all.end());
          std::vector<int> every(static_cast<std::size_t>(nodes * cores_per_node));
          std::iota(every.begin(), every.end(), 0);
          EXPECT_EQ(all, every) << what;
        }
}

TEST(BindCores, ReportsTooFewCores) {
  FakeHost made;
  made.cores_per_node = 4;
  const HostInventory inventory = *make_host(made).inventory;
  const auto near = near_nodes(std::vector<int>(6, kUnknown));

  const auto core = bind_cores(inventory, "n1", near, BindTo::core, std::nullopt);
  ASSERT_FALSE(core);
  EXPECT_EQ(core.error().exit_code, kExitUsage);
  EXPECT_EQ(core.error().message,
            "--bind-to core on n1: 6 ranks are too many for 4 cores; use fewer ranks, or "
            "--bind-to none");

  const auto each = bind_cores(inventory, "n1", near, BindTo::core, 2);
  ASSERT_FALSE(each);
  EXPECT_EQ(
      each.error().message,
      "--bind-to core on n1: --cpus-per-rank 2: 6 ranks need 12 cores, and there are 4; use fewer "
      "ranks or fewer cores per rank, or --bind-to none");

  const auto automatic = bind_cores(inventory, "n1", near, BindTo::automatic, 2);
  ASSERT_TRUE(automatic);
  EXPECT_EQ(automatic->notes,
            std::vector<std::string>{"--cpus-per-rank 2: 6 ranks need 12 cores, and there are 4: "
                                     "not bound to cores"});
}

}  // namespace
}  // namespace hvdrun
