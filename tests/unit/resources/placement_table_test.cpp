#include "resources/placement_table.hpp"

#include "fake_hosts.hpp"
#include "resources/place.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

Allocation two_hosts() {
  FakeHost first;
  first.nodes = 2;
  first.cores_per_node = 2;
  first.gpu_nodes = {0, 1};
  FakeHost second;
  second.name = "longer-name";
  second.cores_per_node = 1;
  Allocation allocation;
  allocation.source = "-H";
  allocation.hosts = {make_host(first), make_host(second)};
  return allocation;
}

TEST(PlacementTable, ShowsRanksAndTheirHosts) {
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

TEST(PlacementTable, SaysWhyHostsWereChosenAndWhichAreNotInspectedYet) {
  Allocation allocation;
  allocation.source = "SLURM job 7";
  allocation.reasons = {"SLURM_JOB_NODELIST=n[1-3] is 3 hosts"};
  for (const auto* name : {"n1", "n2", "n3"}) {
    Host host;
    host.name = name;
    host.slots = 2;
    host.slots_source = "2 GPUs, SLURM_GPUS_PER_NODE";
    host.share.cpus = 16;
    host.share.gpus = 2;
    host.share.gpus_source = "SLURM_GPUS_PER_NODE";
    allocation.hosts.push_back(host);
  }
  allocation.hosts[2].port = 2222;
  allocation.hosts[2].user = "bob";
  JobSpec spec;
  spec.ranks_per_host = 1;
  EXPECT_EQ(placement_table(allocation, place(spec, allocation).value()),
            "3 ranks on 3 hosts; hosts from: SLURM job 7\n"
            "  why: SLURM_JOB_NODELIST=n[1-3] is 3 hosts\n"
            "  n[1-2], each: 2 slots (2 GPUs, SLURM_GPUS_PER_NODE), 16 CPUs, 2 GPUs "
            "(SLURM_GPUS_PER_NODE), not looked at yet\n"
            "  n3: 2 slots (2 GPUs, SLURM_GPUS_PER_NODE), 16 CPUs, 2 GPUs (SLURM_GPUS_PER_NODE), "
            "not looked at yet, as bob, port 2222\n"
            "\n"
            "RANK  HOST  LOCAL  GPU    CPUS  NUMA\n"
            "0     n1    0      GPU 0  -     -\n"
            "1     n2    0      GPU 0  -     -\n"
            "2     n3    0      GPU 0  -     -\n");
  spec.elastic.spares = 1;
  EXPECT_TRUE(placement_table(allocation, place(spec, allocation).value())
                  .ends_with("2      n3    0      GPU 0  -     -\n"
                             "spare  n1    1      GPU 1  -     -\n"));
}

TEST(PlacementTable, ShowsHostsWithUnknownSlots) {
  Allocation allocation;
  allocation.source = "-H";
  Host host;
  host.name = "n1";
  host.slots_source = "not known before it is asked";
  allocation.hosts = {host};
  const auto text = placement_table(allocation, place({}, allocation).value());
  EXPECT_EQ(text.rfind("1 host, ranks not placed yet; hosts from: -H\n"
                       "  n1: slots not known before it is asked\n"
                       "\nnote: how many slots n1 has",
                       0),
            0u)
      << text;
}

TEST(PlacementTable, ShowsSparesOfManyHosts) {
  Allocation allocation;
  allocation.source = "-H";
  for (int i = 1; i <= 20; ++i) {
    FakeHost made;
    made.name = "n" + std::to_string(i);
    made.cores_per_node = 1;
    allocation.hosts.push_back(make_host(made));
  }
  JobSpec spec;
  spec.ranks = 18;
  spec.elastic.spares = 2;
  const auto table = placement_table(allocation, place(spec, allocation).value());
  EXPECT_TRUE(table.starts_with("18 ranks on 18 hosts; ")) << table;
  EXPECT_TRUE(
      table.ends_with("\nspares: 1 on each of n[19-20]\n"
                      "\nnote: n[19-20] have only spares (--spares)\n"))
      << table;
}

TEST(PlacementTable, FoldsManyHosts) {
  Allocation allocation;
  allocation.source = "-H";
  for (int i = 1; i <= 20; ++i) {
    FakeHost made;
    made.name = "n" + std::to_string(i);
    made.cores_per_node = i == 20 ? 1 : 2;
    allocation.hosts.push_back(make_host(made));
  }
  EXPECT_EQ(placement_table(allocation, place({}, allocation).value()),
            "39 ranks on 20 hosts; hosts from: -H\n"
            "  n[1-19], each: 2 slots (cores), 2 cores, 1 NUMA node, 0 GPUs (no NVIDIA driver)\n"
            "  n20: 1 slot (cores), 1 core, 1 NUMA node, 0 GPUs (no NVIDIA driver)\n"
            "\n"
            "RANKS  HOSTS    EACH\n"
            "0-37   n[1-19]  2\n"
            "38     n20      1\n"
            "\n"
            "on each of n[1-19]\n"
            "LOCAL  GPU  CPUS  NUMA\n"
            "0      -    0     -\n"
            "1      -    1     -\n");
}

TEST(BindingsLines, AreInTheOrderOfRanks) {
  Allocation allocation;
  FakeHost made;
  made.cores_per_node = 2;
  allocation.hosts = {make_host(made)};
  made.name = "n2";
  allocation.hosts.push_back(make_host(made));
  allocation.hosts[1].inventory.reset();
  JobSpec spec;
  spec.map_by = MapBy::node;
  EXPECT_EQ(bindings_lines(allocation, place(spec, allocation).value()),
            (std::vector<std::string>{
                "rank 0 on n1: CPUs 0 (1 core, package 0, NUMA 0)",
                "rank 1 on n2: not known before the host is asked",
                "rank 2 on n1: CPUs 1 (1 core, package 0, NUMA 0)",
                "rank 3 on n2: not known before the host is asked",
            }));
}

TEST(BindingsLines, ListTheCoresAndTheGpuOfEachRank) {
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
