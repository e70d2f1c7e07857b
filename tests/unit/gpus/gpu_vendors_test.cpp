// Tests that a row of the table is all that a vendor needs: a made-up one, from the inventory to a
// rank's environment and the agent's record; and hosts with GPUs of two vendors.
#include "gpus/gpu_vendors.hpp"

#include "agent/host_watch.hpp"
#include "gpus/acme/acme_gpus.hpp"
#include "gpus/nvidia/fake_nvml.hpp"
#include "gpus/nvidia/nvidia_gpus.hpp"
#include "job/rank_environment.hpp"
#include "resources/inventory.hpp"
#include "resources/place.hpp"

#include <chrono>
#include <csignal>
#include <map>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr const char* kNoNvml = "libnvidia-ml-is-not-here.so.1";

HostInventory inventory_of(const GpuVendors& vendors, const Environment& environment = {}) {
  InventorySources sources;
  sources.gpu_vendors = vendors;
  sources.topology_file = HVD_TEST_TOPOLOGY;
  auto inventory = local_inventory(environment, sources);
  EXPECT_TRUE(inventory) << inventory.error().message;
  return inventory ? *inventory : HostInventory{};
}

Placement place_ranks(const HostInventory& inventory, const GpuVendors& vendors, GpuBind bind) {
  Host host;
  host.name = "n1";
  host.slots = static_cast<int>(inventory.gpus.size());
  host.inventory = inventory;
  Allocation allocation;
  allocation.hosts = {host};
  JobSpec spec;
  spec.gpu_bind = bind;
  auto placement = place(spec, allocation, vendors);
  EXPECT_TRUE(placement) << placement.error().message;
  return placement ? *placement : Placement{};
}

std::map<std::string, std::string> environment_of(const Placement& placement, std::size_t rank) {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value, reason] :
       rank_environment({}, {}, {}, placement, 0, placement.hosts.at(0).ranks.at(rank)))
    variables.emplace(name, value);
  return variables;
}

TEST(GpuVendors, AreFoundByName) {
  EXPECT_EQ(gpu_vendors().front().name, "NVIDIA");
  EXPECT_EQ(find_gpu_vendor("NVIDIA"), &gpu_vendors().front());
  EXPECT_EQ(find_gpu_vendor("ACME"), nullptr);
  EXPECT_EQ(find_gpu_vendor(""), nullptr);
}

TEST(GpuVendors, AMadeUpVendorsCardReachesItsRank) {
  const GpuVendors vendors{acme_gpus()};
  const auto inventory = inventory_of(vendors);
  EXPECT_EQ(inventory.gpu_vendor, "ACME");
  EXPECT_EQ(inventory.gpu_source, "ACME");
  ASSERT_EQ(inventory.gpus.size(), 2u);
  EXPECT_EQ(inventory.gpus[1].numa_node, 1);

  const auto placement = place_ranks(inventory, vendors, GpuBind::single);
  const auto& rank = placement.hosts.at(0).ranks.at(1);
  EXPECT_EQ(rank.device_name, "GPU 1 (ACME 1, 0000:9a:00.0)");
  EXPECT_EQ(rank.numa_nodes, std::vector{1});
  const auto variables = environment_of(placement, 1);
  EXPECT_EQ(variables.at("ACME_CARDS"), "b");
  EXPECT_EQ(variables.at("HVD_LOCAL_DEVICE"), "0");
  EXPECT_FALSE(variables.contains("CUDA_VISIBLE_DEVICES"));
}

TEST(GpuVendors, AMadeUpVendorsVariableIsLeftAloneWhereRanksSeeAllCards) {
  const GpuVendors vendors{acme_gpus()};
  const auto inventory = inventory_of(vendors, {{"ACME_CARDS", "b"}});
  ASSERT_EQ(inventory.gpus.size(), 1u);
  const auto variables = environment_of(place_ranks(inventory, vendors, GpuBind::all), 0);
  EXPECT_FALSE(variables.contains("ACME_CARDS"));
  EXPECT_EQ(variables.at("HVD_LOCAL_DEVICE"), "0");
}

TEST(GpuVendors, OnlyAVendorWithAnOrderVariableHasItSet) {
  for (const auto& vendor : {acme_gpus(), nvidia_gpus(kNoNvml)}) {
    HostInventory inventory;
    inventory.gpu_vendor = vendor.name;
    inventory.gpus.resize(1);
    inventory.gpus[0].visible = "0";
    inventory.gpus_need_list = true;
    const auto variables = environment_of(place_ranks(inventory, {vendor}, GpuBind::all), 0);
    EXPECT_EQ(variables.at(vendor.variables.visible), "0");
    EXPECT_EQ(variables.contains("CUDA_DEVICE_ORDER"), vendor.name == "NVIDIA");
    EXPECT_FALSE(variables.contains(""));
  }
}

TEST(GpuVendors, AMadeUpVendorsCardsAreWatched) {
  const pid_t rank = ::fork();
  ASSERT_NE(rank, -1);
  if (rank == 0)
    for (;;) ::pause();
  const GpuVendors vendors{nvidia_gpus(kNoNvml), acme_gpus(rank)};
  const auto inventory = inventory_of(vendors);
  RankProcess process;
  process.rank = 3;
  process.pid = rank;
  GpuRecorder recorder;
  recorder.start(inventory.gpu_vendor, {watched_name(inventory.gpus.at(1))}, {process}, vendors);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (recorder.record().gpus.empty() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto record = recorder.record();
  ::kill(rank, SIGKILL);
  ::waitpid(rank, nullptr, 0);
  ASSERT_EQ(record.gpus.size(), 1u);
  EXPECT_EQ(record.gpus[0].uuid, "0000:9a:00.0");
  EXPECT_EQ(record.gpus[0].busy_percent, 50);
  EXPECT_EQ(record.rank_memory, (std::map<int, std::uint64_t>{{3, 7}}));
}

TEST(GpuVendors, OfTwoWithGpusTheFirstIsUsedAndTheOtherIsNamed) {
  const FakeNvml nvml("GPU-aa,0000:17:00.0,NVIDIA H200,1");
  const auto inventory = inventory_of({nvidia_gpus(HVD_NVML_DOUBLE), acme_gpus()});
  EXPECT_EQ(inventory.gpu_vendor, "NVIDIA");
  ASSERT_EQ(inventory.gpus.size(), 1u);
  EXPECT_EQ(inventory.gpu_source, "NVML");
  EXPECT_EQ(inventory.notes, std::vector<std::string>{
                                 "2 GPUs of ACME are not used, since ranks use GPUs of NVIDIA"});

  const auto other = inventory_of({acme_gpus(), nvidia_gpus(HVD_NVML_DOUBLE)});
  EXPECT_EQ(other.gpu_vendor, "ACME");
  EXPECT_EQ(other.notes,
            std::vector<std::string>{"1 GPU of NVIDIA is not used, since ranks use GPUs of ACME"});
}

TEST(GpuVendors, TheSecondIsUsedIfTheFirstHasNoGpu) {
  const auto inventory = inventory_of({nvidia_gpus(kNoNvml), acme_gpus()});
  EXPECT_EQ(inventory.gpu_vendor, "ACME");
  EXPECT_EQ(inventory.gpus.size(), 2u);
  EXPECT_TRUE(inventory.notes.empty());
}

// SLURM sets the variables of all vendors.
TEST(GpuVendors, AVariableAloneDoesNotHideTheGpusOfAnotherVendor) {
  const Environment environment{{"CUDA_VISIBLE_DEVICES", "0,1"}};
  const auto seen = inventory_of({nvidia_gpus(kNoNvml), acme_gpus()}, environment);
  EXPECT_EQ(seen.gpu_vendor, "ACME");
  EXPECT_TRUE(seen.notes.empty());
  const auto trusted = inventory_of({nvidia_gpus(kNoNvml), no_acme_gpus()}, environment);
  EXPECT_EQ(trusted.gpu_vendor, "NVIDIA");
  EXPECT_EQ(trusted.gpus.size(), 2u);
  EXPECT_EQ(trusted.gpu_source, "CUDA_VISIBLE_DEVICES=0,1");
}

TEST(GpuVendors, WithoutGpusTheSourceSaysWhyForEach) {
  const auto inventory = inventory_of({nvidia_gpus("libm.so.6"), no_acme_gpus()});
  EXPECT_EQ(inventory.gpu_vendor, "");
  EXPECT_EQ(inventory.gpu_source,
            "libm.so.6 lacks nvmlInit_v2: the NVIDIA driver is too old; no ACME driver");
  EXPECT_EQ(inventory.notes.size(), 1u);
}

}  // namespace
}  // namespace hvdrun
