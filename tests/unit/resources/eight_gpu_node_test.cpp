// Tests everything from a saved topology and a double of NVML to the placement. The node has 2
// sockets of 32 cores with 2 threads each, and 4 GPUs per socket. The file was made with
//   lstopo --input "pack:2 numa:1 core:32 pu:2(indexes=…)" --of xml
// and the GPUs were added to it.
#include "common/text.hpp"
#include "gpus/nvidia/nvidia_gpus.hpp"
#include "model/rank_set.hpp"
#include "resources/find_allocation.hpp"
#include "resources/place.hpp"
#include "resources/placement_table.hpp"

#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr const char* kPciAddresses[] = {"0000:17:00.0", "0000:2a:00.0", "0000:3d:00.0",
                                         "0000:5d:00.0", "0000:9a:00.0", "0000:ab:00.0",
                                         "0000:ba:00.0", "0000:db:00.0"};

class EightGpuNode : public testing::Test {
 protected:
  void SetUp() override {
    std::string devices;
    int number = 0;
    for (const char* address : kPciAddresses)
      devices += fmt::format("GPU-{}0000,{},NVIDIA H200,150754820096;", number++, address);
    ::setenv("HVD_FAKE_NVML", devices.c_str(), 1);
  }
  void TearDown() override { ::unsetenv("HVD_FAKE_NVML"); }

  Result<Allocation> allocate(const JobSpec& spec, const Environment& environment) {
    InventorySources sources;
    sources.gpu_vendors = {nvidia_gpus(HVD_NVML_DOUBLE)};
    sources.topology_file = HVD_TEST_TOPOLOGY;
    HVD_TRY(HostInventory inventory, local_inventory(environment, sources));
    return find_allocation(spec, {}, environment, LocalMachine{"n1", std::move(inventory)});
  }

  // Returns "CPUs@NUMA nodes:GPU" of each rank, one per line.
  std::string placed(JobSpec spec, const Environment& environment = {}) {
    spec.dry_run = true;
    const auto allocation = allocate(spec, environment);
    if (!allocation) return allocation.error().message;
    const auto placement = place(spec, *allocation);
    if (!placement) return placement.error().message;
    std::string text;
    for (const auto& rank : placement->hosts[0].ranks)
      text += fmt::format(
          "{}@{}:{}\n", fold_ranks(rank.cpus), fold_ranks(rank.numa_nodes),
          rank.gpu ? allocation->hosts[0].inventory->gpus.at(*rank.gpu).pci_address : "");
    return text;
  }
};

TEST_F(EightGpuNode, BindsEachOfEightRanksNearItsGpu) {
  EXPECT_EQ(placed({}),
            "0-7,64-71@0:0000:17:00.0\n"
            "8-15,72-79@0:0000:2a:00.0\n"
            "16-23,80-87@0:0000:3d:00.0\n"
            "24-31,88-95@0:0000:5d:00.0\n"
            "32-39,96-103@1:0000:9a:00.0\n"
            "40-47,104-111@1:0000:ab:00.0\n"
            "48-55,112-119@1:0000:ba:00.0\n"
            "56-63,120-127@1:0000:db:00.0\n");
}

TEST_F(EightGpuNode, GivesThreeRanksOnOneSocketTheCoresOfBoth) {
  JobSpec spec;
  spec.ranks = 3;
  EXPECT_EQ(placed(spec),
            "0-9,32-42,64-73,96-106@:0000:17:00.0\n"
            "10-20,43-52,74-84,107-116@:0000:2a:00.0\n"
            "21-31,53-63,85-95,117-127@:0000:3d:00.0\n");
  spec.bind_to = BindTo::core;
  EXPECT_EQ(placed(spec),
            "0-9,64-73@0:0000:17:00.0\n"
            "10-20,74-84@0:0000:2a:00.0\n"
            "21-31,85-95@0:0000:3d:00.0\n");
  spec.bind_to = BindTo::numa;
  EXPECT_EQ(placed(spec),
            "0-31,64-95@0:0000:17:00.0\n"
            "0-31,64-95@0:0000:2a:00.0\n"
            "0-31,64-95@0:0000:3d:00.0\n");
}

TEST_F(EightGpuNode, FollowsCudaVisibleDevices) {
  EXPECT_EQ(placed({}, {{"CUDA_VISIBLE_DEVICES", "7,GPU-0"}}), "@:0000:db:00.0\n");
  EXPECT_EQ(placed({}, {{"CUDA_VISIBLE_DEVICES", "GPU-7,GPU-0"}}),
            "32-63,96-127@1:0000:db:00.0\n"
            "0-31,64-95@0:0000:17:00.0\n");
}

TEST_F(EightGpuNode, DoesNotBindTheOnlyRankOfAHost) {
  JobSpec spec;
  spec.ranks_per_host = 1;
  EXPECT_EQ(placed(spec), "@:0000:17:00.0\n");
}

TEST_F(EightGpuNode, FollowsCpusPerRank) {
  JobSpec spec;
  spec.ranks = 2;
  spec.cpus_per_rank = 2;
  EXPECT_EQ(placed(spec), "0-1,64-65@0:0000:17:00.0\n16-17,80-81@0:0000:2a:00.0\n");
  spec.cpus_per_rank = 33;
  spec.bind_to = BindTo::core;
  EXPECT_EQ(
      placed(spec),
      "--bind-to core on n1: --cpus-per-rank 33: 2 ranks need 66 cores, and there are 64; use "
      "fewer ranks or fewer cores per rank, or --bind-to none");
}

TEST_F(EightGpuNode, RefusesMoreRanksThanGpus) {
  JobSpec spec;
  spec.ranks = 9;
  EXPECT_EQ(placed(spec).rfind("9 ranks for 8 GPUs: n1 has 8 GPUs (NVML)", 0), 0u) << placed(spec);
}

TEST_F(EightGpuNode, UsesNoGpuIfCudaVisibleDevicesIsEmpty) {
  JobSpec spec;
  spec.ranks = 2;
  EXPECT_EQ(placed(spec, {{"CUDA_VISIBLE_DEVICES", ""}}), "0-31,64-95@0:\n32-63,96-127@1:\n");
}

TEST_F(EightGpuNode, PrintsTheNode) {
  JobSpec spec;
  spec.dry_run = true;
  spec.ranks = 2;
  spec.bind_to = BindTo::core;
  const auto allocation = allocate(spec, {});
  ASSERT_TRUE(allocation) << allocation.error().message;
  const auto placement = place(spec, *allocation);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement_table(*allocation, *placement),
            fmt::format("2 ranks on 1 host; hosts from: this machine\n"
                        "  n1: 8 slots (8 GPUs), 64 cores, 2 NUMA nodes from {}, 8 GPUs (NVML)\n"
                        "\n"
                        "RANK  HOST  LOCAL  GPU                                CPUS         NUMA\n"
                        "0     n1    0      GPU 0 (NVIDIA H200, 0000:17:00.0)  0-15,64-79   0\n"
                        "1     n1    1      GPU 1 (NVIDIA H200, 0000:2a:00.0)  16-31,80-95  0\n",
                        HVD_TEST_TOPOLOGY));
  EXPECT_EQ(bindings_lines(*allocation, *placement)[1],
            "rank 1 on n1: CPUs 16-31,80-95 (16 cores, package 0, NUMA 0), GPU 1 (NVIDIA H200, "
            "0000:2a:00.0)");
}

}  // namespace
}  // namespace hvdrun
