#include "gpus/nvidia/nvml_watch.hpp"

#include "gpus/nvidia/fake_nvml.hpp"
#include "temporary_folder.hpp"

#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr const char* kGpus =
    "GPU-aa,0000:3b:00.0,H200,100,busy 80 40;GPU-bb,0000:5e:00.0,H200,100,busy 20 90;"
    "GPU-cc,0000:6e:00.0,H200,100;MIG-1,,H200 MIG,50,busy 0 30";
// A GPU with these samples: power cap, power cap with HW thermal slowdown, and two without
// throttling.
constexpr const char* kHotGpu =
    "GPU-aa,0000:3b:00.0,H200,100,busy 80 40 heat 70/91/85/60 power 600000/700000/500000/400000 "
    "clocks 4/4c/2/1";

std::uint64_t seen(const GpuUse& use, ThrottleReason reason) {
  return use.throttling->seen[static_cast<std::size_t>(reason)];
}

TEST(NvmlWatch, SummarizesItsSamples) {
  const FakeNvml nvml(kGpus);
  const auto watch = NvmlWatch::open({"GPU-bb", "GPU-aa"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  EXPECT_EQ(watch->uses()[0].samples, 0u);
  watch->look();
  watch->look();
  const auto uses = watch->uses();
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].uuid, "GPU-bb");
  EXPECT_EQ(uses[0].samples, 2u);
  EXPECT_EQ(uses[0].busy_percent, 20);
  EXPECT_EQ(uses[0].peak_memory_bytes, 90u);
  EXPECT_EQ(uses[1].busy_percent, 80);
}

TEST(NvmlWatch, ReportsOnlyTheMemoryOfAMigDevice) {
  const FakeNvml nvml(kGpus);
  const auto watch = NvmlWatch::open({"MIG-1"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  watch->look();
  const auto use = watch->uses()[0];
  EXPECT_EQ(use.peak_memory_bytes, 30u);
  EXPECT_EQ(use.busy_percent, std::nullopt);
  EXPECT_EQ(use.peak_celsius, std::nullopt);
  EXPECT_EQ(use.mean_watts, std::nullopt);
  EXPECT_EQ(use.peak_watts, std::nullopt);
  EXPECT_FALSE(use.throttling);
}

TEST(NvmlWatch, IgnoresUnknownGpus) {
  const FakeNvml nvml(kGpus);
  const auto watch = NvmlWatch::open({"GPU-zz", "GPU-aa"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  ASSERT_EQ(watch->uses().size(), 1u);
  EXPECT_EQ(watch->uses()[0].uuid, "GPU-aa");
  EXPECT_EQ(NvmlWatch::open({"GPU-zz"}, HVD_NVML_DOUBLE), nullptr);
  EXPECT_EQ(NvmlWatch::open({"GPU-aa"}, "libnvidia-ml-is-not-here.so.1"), nullptr);
}

// The parameter is the library of an old driver, of a current one, or of one without the deprecated
// functions.
class NvmlOfADriver : public testing::TestWithParam<const char*> {};

TEST_P(NvmlOfADriver, ReportsTemperaturePowerAndThrottleReasons) {
  const FakeNvml nvml(kHotGpu);
  const auto watch = NvmlWatch::open({"GPU-aa"}, GetParam());
  ASSERT_NE(watch, nullptr);
  for (int i = 0; i < 4; ++i) watch->look();
  const auto use = watch->uses()[0];
  EXPECT_EQ(use.peak_celsius, 91);
  EXPECT_EQ(use.mean_watts, 550);
  EXPECT_EQ(use.peak_watts, 700);
  ASSERT_TRUE(use.throttling);
  EXPECT_EQ(use.throttling->samples, 4u);
  EXPECT_EQ(seen(use, ThrottleReason::power_cap), 2u);
  EXPECT_EQ(seen(use, ThrottleReason::hardware_thermal), 1u);
  EXPECT_EQ(seen(use, ThrottleReason::hardware), 0u) << "the more exact reason is reported instead";
  EXPECT_EQ(seen(use, ThrottleReason::power_brake), 0u);
}
INSTANTIATE_TEST_SUITE_P(Drivers, NvmlOfADriver,
                         testing::Values(HVD_NVML_OLD_DOUBLE, HVD_NVML_DOUBLE,
                                         HVD_NVML_NEW_DOUBLE));

TEST(NvmlWatch, ReportsAHardwareSlowdownWithoutAnExactReason) {
  const FakeNvml nvml("GPU-aa,0000:3b:00.0,H200,100,busy 0 0 clocks 8/88/620");
  const auto watch = NvmlWatch::open({"GPU-aa"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  for (int i = 0; i < 3; ++i) watch->look();
  const auto use = watch->uses()[0];
  for (const auto reason :
       {ThrottleReason::hardware, ThrottleReason::power_brake, ThrottleReason::software_thermal,
        ThrottleReason::board_limit, ThrottleReason::reliability})
    EXPECT_EQ(seen(use, reason), 1u) << static_cast<int>(reason);
}

// NVML may refuse any query: NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_IS_LOST.
TEST(NvmlWatch, ContinuesWithoutARefusedQuery) {
  for (const int error : {3, 4, 13, 15}) {
    const auto refused = "=" + std::to_string(error) + " ";
    for (const std::string question :
         {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage"}) {
      const FakeNvml nvml(kHotGpu);
      nvml.refuse(question + refused);
      const auto watch = NvmlWatch::open({"GPU-aa"}, HVD_NVML_DOUBLE);
      ASSERT_NE(watch, nullptr);
      watch->look();
      const auto use = watch->uses()[0];
      EXPECT_EQ(use.samples, 1u);
      EXPECT_EQ(use.peak_memory_bytes.has_value(), question != "nvmlDeviceGetMemoryInfo");
      EXPECT_EQ(use.busy_percent.has_value(), question != "nvmlDeviceGetUtilizationRates");
      EXPECT_EQ(use.mean_watts.has_value(), question != "nvmlDeviceGetPowerUsage");
      EXPECT_EQ(use.peak_watts.has_value(), question != "nvmlDeviceGetPowerUsage");
      EXPECT_EQ(use.peak_celsius, 70);
      EXPECT_TRUE(use.throttling);
    }
  }
}

TEST(NvmlWatch, UsesTheOlderFunctionIfTheNewOneFails) {
  const FakeNvml nvml(kHotGpu);
  nvml.refuse("nvmlDeviceGetTemperatureV=25 nvmlDeviceGetCurrentClocksEventReasons=13");
  const auto watch = NvmlWatch::open({"GPU-aa"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  watch->look();
  EXPECT_EQ(watch->uses()[0].peak_celsius, 70);
  EXPECT_TRUE(watch->uses()[0].throttling);
  nvml.refuse(
      "nvmlDeviceGetTemperatureV=3 nvmlDeviceGetTemperature=3 "
      "nvmlDeviceGetCurrentClocksEventReasons=3 nvmlDeviceGetCurrentClocksThrottleReasons=3");
  const auto other = NvmlWatch::open({"GPU-aa"}, HVD_NVML_DOUBLE);
  other->look();
  EXPECT_EQ(other->uses()[0].peak_celsius, std::nullopt);
  EXPECT_FALSE(other->uses()[0].throttling);
  EXPECT_EQ(other->uses()[0].mean_watts, 600);
}

// A failed query leaves the summary of the earlier samples unchanged.
TEST(NvmlWatch, KeepsEarlierSamplesAfterAFailedQuery) {
  const FakeNvml nvml(kHotGpu);
  const auto watch = NvmlWatch::open({"GPU-aa"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  watch->look();
  nvml.refuse("nvmlDeviceGetUtilizationRates=15 nvmlDeviceGetPowerUsage=15");
  watch->look();
  EXPECT_EQ(watch->uses()[0].busy_percent, 80);
  EXPECT_EQ(watch->uses()[0].mean_watts, 600);
  EXPECT_EQ(watch->uses()[0].samples, 2u);
}

TEST(NvmlWatch, ListsTheProcessesOfEachGpu) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "pids";
  std::ofstream(file) << "11 5000 GPU-bb\n12 -1\n13\n14 7000 GPU-aa\n";
  const FakeNvml nvml(kGpus);
  nvml.list_processes_of(file);
  const auto watch = NvmlWatch::open({"GPU-aa", "GPU-bb"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  watch->look();
  ASSERT_EQ(watch->processes().size(), 2u);
  const auto& on_aa = watch->processes()[0];
  ASSERT_EQ(on_aa.size(), 3u);
  EXPECT_EQ(on_aa[0].pid, 12);
  EXPECT_EQ(on_aa[0].memory_bytes, std::nullopt) << "NVML_VALUE_NOT_AVAILABLE";
  EXPECT_EQ(on_aa[1].memory_bytes, std::nullopt) << "0";
  EXPECT_EQ(on_aa[2].pid, 14);
  EXPECT_EQ(on_aa[2].memory_bytes, 7000u);
  EXPECT_EQ(watch->processes()[1][0].memory_bytes, 5000u);

  nvml.refuse("nvmlDeviceGetComputeRunningProcesses_v3=4");
  watch->look();
  EXPECT_TRUE(watch->processes()[0].empty());
  EXPECT_EQ(watch->uses()[0].samples, 2u);
}

TEST(NvmlWatch, ListsManyProcesses) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "pids";
  std::ofstream list(file);
  for (int pid = 1; pid <= 1000; ++pid) list << pid << " 100\n";
  list.close();
  const FakeNvml nvml(kGpus);
  nvml.list_processes_of(file);
  const auto watch = NvmlWatch::open({"GPU-aa"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  watch->look();
  ASSERT_EQ(watch->processes()[0].size(), 1000u);
  EXPECT_EQ(watch->processes()[0].back().pid, 1000);
}

TEST(NvmlWatch, ListsNoProcessesForAnOldDriver) {
  const FakeNvml nvml(kGpus);
  const auto watch = NvmlWatch::open({"GPU-aa"}, HVD_NVML_OLD_DOUBLE);
  ASSERT_NE(watch, nullptr);
  watch->look();
  EXPECT_TRUE(watch->processes()[0].empty());
  EXPECT_EQ(watch->uses()[0].peak_memory_bytes, 40u);
}

}  // namespace
}  // namespace hvdrun
