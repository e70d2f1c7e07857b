#include "resources/inventory.hpp"

#include "../temporary_folder.hpp"
#include "gpus/nvidia/fake_nvml.hpp"
#include "gpus/nvidia/nvidia_gpus.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr const char* kTwoGpus =
    "GPU-aa,0000:17:00.0,NVIDIA H200,150754820096;GPU-bb,0000:9a:00.0,NVIDIA H200,150754820096";

InventorySources with_double() {
  InventorySources sources;
  sources.gpu_vendors = {nvidia_gpus(HVD_NVML_DOUBLE)};
  return sources;
}

TEST(LocalInventory, ReadsCoresFromThisMachine) {
  InventorySources sources;
  sources.gpu_vendors = {nvidia_gpus("libnvidia-ml-is-not-here.so.1")};
  const auto inventory = local_inventory({}, sources);
  ASSERT_TRUE(inventory) << inventory.error().message;
  EXPECT_FALSE(inventory->cores.empty());
  EXPECT_TRUE(inventory->gpus.empty());
  EXPECT_EQ(inventory->gpu_vendor, "");
  EXPECT_EQ(inventory->topology_file, "");
  EXPECT_EQ(inventory->gpu_source,
            "no NVIDIA driver (libnvidia-ml-is-not-here.so.1 was not found)");
}

TEST(LocalInventory, FindsTheNodeOfAGpuInSysfs) {
  const FakeNvml nvml(kTwoGpus);
  const TemporaryFolder sysfs;
  std::filesystem::create_directories(sysfs.path() / "bus/pci/devices/0000:9a:00.0");
  std::ofstream(sysfs.path() / "bus/pci/devices/0000:9a:00.0/numa_node") << "1\n";
  auto sources = with_double();
  sources.sysfs = sysfs.path();
  const auto inventory = local_inventory({}, sources);
  ASSERT_TRUE(inventory) << inventory.error().message;
  ASSERT_EQ(inventory->gpus.size(), 2u);
  EXPECT_EQ(inventory->gpus[0].numa_node, std::nullopt);
  EXPECT_EQ(inventory->gpus[1].numa_node, 1);
}

TEST(LocalInventory, FindsTheNodeOfAGpuInATopologyFile) {
  const FakeNvml nvml(kTwoGpus);
  const auto inventory = local_inventory({{"HVD_TOPOLOGY", HVD_TEST_TOPOLOGY}}, with_double());
  ASSERT_TRUE(inventory) << inventory.error().message;
  EXPECT_EQ(inventory->cores.size(), 64u);
  EXPECT_EQ(inventory->topology_file, HVD_TEST_TOPOLOGY);
  ASSERT_EQ(inventory->gpus.size(), 2u);
  EXPECT_EQ(inventory->gpus[0].numa_node, 0);
  EXPECT_EQ(inventory->gpus[1].numa_node, 1);
}

TEST(LocalInventory, FollowsTheGivenCudaVisibleDevices) {
  const FakeNvml nvml("GPU-aa,0000:17:00.0,NVIDIA H200,1;GPU-bb,0000:9a:00.0,NVIDIA L40S,1");
  const auto none = local_inventory({{"CUDA_VISIBLE_DEVICES", ""}}, with_double());
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->gpus.empty());

  const auto one = local_inventory(
      {{"CUDA_VISIBLE_DEVICES", "1"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}, with_double());
  ASSERT_TRUE(one);
  ASSERT_EQ(one->gpus.size(), 1u);
  EXPECT_EQ(one->gpus[0].name, "NVIDIA L40S");

  const auto unset = local_inventory({}, with_double());
  ASSERT_TRUE(unset);
  EXPECT_TRUE(unset->gpus_need_list);
}

TEST(LocalInventory, RecordsAnErrorOfTheDriverAsANote) {
  constexpr int kMismatch = 18;
  const FakeNvml nvml(kMismatch);
  const auto inventory = local_inventory({}, with_double());
  ASSERT_TRUE(inventory);
  EXPECT_EQ(inventory->notes,
            std::vector<std::string>{
                "NVML does not start: Driver/library version mismatch; no GPU is used"});
}

TEST(LocalInventory, FailsOnABadTopologyFile) {
  const auto inventory = local_inventory({{"HVD_TOPOLOGY", "/nonexistent/node.xml"}});
  ASSERT_FALSE(inventory);
  EXPECT_EQ(inventory.error().message,
            "cannot open the topology file /nonexistent/node.xml: No such file or directory");
}

TEST(LocalMachine, HasTheMachinesName) {
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  const auto machine = local_machine({});
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->name, name);
}

}  // namespace
}  // namespace hvdrun
