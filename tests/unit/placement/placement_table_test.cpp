#include "placement/placement_table.hpp"

#include "made_hosts.hpp"
#include "placement/place.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

Allocation two_hosts() {
  MadeHost first;
  first.nodes = 2;
  first.cores_per_node = 2;
  first.gpu_nodes = {0, 1};
  MadeHost second;
  second.name = "longer-name";
  second.cores_per_node = 1;
  return {"-H", {make_host(first), make_host(second)}};
}

TEST(PlacementTable, ShowsRanksAndWhereTheyComeFrom) {
  const auto allocation = two_hosts();
  const auto placement = place({}, allocation);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement_table(allocation, *placement),
            "3 ranks on 2 hosts; hosts from: -H\n"
            "  n1: 2 slots (GPUs), 4 cores, 2 NUMA nodes, 2 GPUs (NVML)\n"
            "  longer-name: 1 slot (cores), 1 core, 1 NUMA node, 0 GPUs (no NVIDIA driver)\n"
            "\n"
            "RANK  HOST         LOCAL  GPU    CPUS  NUMA\n"
            "0     n1           0      GPU 0  0-1   0\n"
            "1     n1           1      GPU 1  2-3   1\n"
            "2     longer-name  0      -      -     -\n");
}

TEST(PlacementTable, EndsWithTheNotes) {
  const auto allocation = two_hosts();
  JobSpec spec;
  spec.ranks = 4;
  const auto placement = place(spec, allocation);
  ASSERT_TRUE(placement) << placement.error().message;
  const std::string text = placement_table(allocation, *placement);
  const std::string end = "\n\nnote: 2 ranks on longer-name share 1 core\n";
  ASSERT_GE(text.size(), end.size());
  EXPECT_EQ(text.substr(text.size() - end.size()), end) << text;
}

TEST(BindingsLines, SayWhatEveryRankIsBoundTo) {
  const auto allocation = two_hosts();
  const auto placement = place({}, allocation);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(bindings_lines(allocation, *placement),
            (std::vector<std::string>{
                "rank 0 on n1: CPUs 0-1 (2 cores, package 0, NUMA 0), GPU 0",
                "rank 1 on n1: CPUs 2-3 (2 cores, package 1, NUMA 1), GPU 1",
                "rank 2 on longer-name: not bound",
            }));
}

}  // namespace
}  // namespace hvdrun
