// Tests which GPU, cores and memory each rank gets.
#include "common/text.hpp"
#include "fake_jobs.hpp"
#include "model/rank_set.hpp"
#include "resources/place.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Returns "device/CUDA_VISIBLE_DEVICES" of each rank.
std::string devices(const JobSpec& spec, const Host& host) {
  const auto placement = place(spec, allocation_with(host));
  if (!placement) return placement.error().message;
  std::string text;
  for (const auto& rank : placement->hosts[0].ranks)
    text += fmt::format("{}{}/{}", text.empty() ? "" : " ",
                        rank.device ? std::to_string(*rank.device) : "-",
                        rank.visible_devices.value_or("-"));
  return text;
}

TEST(Place, AssignsDevicesByGpuBind) {
  Host host = make_host(gpu_host({0, 1}));
  JobSpec spec;
  EXPECT_EQ(devices(spec, host), "0/- 1/-");
  spec.gpu_bind = GpuBind::single;
  EXPECT_EQ(devices(spec, host), "0/0 0/1");
  spec.gpu_bind = GpuBind::none;
  EXPECT_EQ(devices(spec, host), "-/- -/-");
}

TEST(Place, SharesDevicesWhenOversubscribed) {
  const Host host = make_host(gpu_host({0, 1}));
  JobSpec spec = job(4);
  spec.oversubscribe = true;
  EXPECT_EQ(devices(spec, host), "0/- 1/- 0/- 1/-");
  spec.gpu_bind = GpuBind::single;
  EXPECT_EQ(devices(spec, host), "0/0 0/1 0/0 0/1");
  EXPECT_EQ(place(spec, allocation_with(host))->notes,
            std::vector<std::string>{"4 ranks on n1 share 2 GPUs"});
}

TEST(Place, KeepsTheCallersNameOfEachGpu) {
  Host host = make_host(gpu_host({0, 1}));
  host.inventory->gpus[0].visible = "GPU-bb";
  host.inventory->gpus[1].visible = "GPU-aa";
  JobSpec spec;
  spec.gpu_bind = GpuBind::single;
  EXPECT_EQ(devices(spec, host), "0/GPU-bb 0/GPU-aa");
}

TEST(Place, NumbersOfGpusThatDifferAreInPciOrder) {
  Host host = make_host(gpu_host({0, 1}));
  const auto is_ordered = [&](bool needs_list, std::string visible) {
    host.inventory->gpus_need_list = needs_list;
    host.inventory->gpus[0].visible = std::move(visible);
    return place(JobSpec(), allocation_with(host))->hosts[0].ranks[0].in_pci_order;
  };
  EXPECT_TRUE(is_ordered(true, "0"));
  EXPECT_FALSE(is_ordered(true, "GPU-aa"));
  EXPECT_FALSE(is_ordered(false, "0"));
}

TEST(Place, ListsGpusWhoseOrderIsUnknown) {
  Host host = make_host(gpu_host({0, 1}));
  host.inventory->gpus[0].visible = "GPU-bb";
  host.inventory->gpus[1].visible = "GPU-aa";
  host.inventory->gpus_need_list = true;
  JobSpec spec;
  EXPECT_EQ(devices(spec, host), "0/GPU-bb,GPU-aa 1/GPU-bb,GPU-aa");
  spec.gpu_bind = GpuBind::none;
  EXPECT_EQ(devices(spec, host), "-/- -/-");
}

TEST(Place, AssignsOneMigDevicePerRank) {
  Host host = make_host(gpu_host({0, 1}));
  host.inventory->gpus[0].visible = "MIG-1";
  host.inventory->gpus[1].visible = "MIG-2";
  host.inventory->single_because = "CUDA shows a process one MIG device";
  EXPECT_EQ(devices({}, host), "0/MIG-1 0/MIG-2");
  EXPECT_EQ(place({}, allocation_with(host))->notes,
            std::vector<std::string>{
                "n1: CUDA shows a process one MIG device, so each rank sees only its own"});
}

TEST(Place, DoesNotLimitRanksByGpusWithGpuBindNone) {
  const Host host = make_host(gpu_host({0, 1}));
  JobSpec spec = job(3);
  spec.gpu_bind = GpuBind::none;
  EXPECT_EQ(devices(spec, host), "-/- -/- -/-");
}

TEST(Place, DescribesTheGpuOfEachRank) {
  Host host = make_host(gpu_host({0, 1, 1}));
  host.inventory->gpus[0].name = "NVIDIA H200";
  host.inventory->gpus[0].pci_address = "0000:3b:00.0";
  host.inventory->gpus[1].visible = "5";
  const auto placement = place({}, allocation_with(host));
  ASSERT_TRUE(placement);
  const auto& ranks = placement->hosts[0].ranks;
  EXPECT_EQ(ranks[0].device_name, "GPU 0 (NVIDIA H200, 0000:3b:00.0)");
  EXPECT_EQ(ranks[1].device_name, "GPU 1 (5)");
  EXPECT_EQ(ranks[2].device_name, "GPU 2");
  EXPECT_EQ(ranks[2].gpu, 2);
}

// Returns "CPUs@NUMA nodes" of each rank.
std::string bindings(const JobSpec& spec, const FakeHost& made) {
  const auto placement = place(spec, allocation_of({made}));
  if (!placement) return placement.error().message;
  std::string text;
  for (const auto& rank : placement->hosts[0].ranks)
    text += fmt::format("{}{}@{}", text.empty() ? "" : " ", fold_ranks(rank.cpus),
                        fold_ranks(rank.numa_nodes));
  return text;
}

TEST(Place, BindsAllThreadsOfACoreAndTheMemoryOfItsNode) {
  FakeHost made = gpu_host({0, 1});
  made.cores_per_node = 2;
  made.threads = 2;
  EXPECT_EQ(bindings({}, made), "0-1,4-5@0 2-3,6-7@1");
}

TEST(Place, BindsMemoryOnlyToAPartOfTheNodes) {
  FakeHost made = gpu_host({0, 0});
  made.cores_per_node = 4;
  EXPECT_EQ(bindings({}, made), "0-1,4-5@ 2-3,6-7@");  // on both nodes
  EXPECT_EQ(bindings({}, cpu_host(2)), "0@ 1@");       // there is one node
  EXPECT_EQ(bindings(job(1), made), "@");
}

TEST(Place, IgnoresTheNodesOfGpusWithGpuBindNone) {
  JobSpec spec;
  spec.gpu_bind = GpuBind::none;
  FakeHost made = gpu_host({1, 1});
  made.cores_per_node = 2;
  EXPECT_EQ(bindings(spec, made), "0-1@0 2-3@1");
}
}  // namespace
}  // namespace hvdrun
