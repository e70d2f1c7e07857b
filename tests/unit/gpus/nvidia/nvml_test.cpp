// Tests the real code that loads NVML with a double of the library.
#include "gpus/nvidia/nvml.hpp"

#include "gpus/nvidia/fake_nvml.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(ScanNvml, DescribesEveryGpu) {
  const FakeNvml nvml(
      "GPU-aa,00000000:3B:00.0,NVIDIA H200,150754820096;GPU-bb,10001:AF:00.0,NVIDIA L40S,48");
  const NvmlScan scan = scan_nvml(HVD_NVML_DOUBLE);
  ASSERT_TRUE(scan.loaded) << scan.problem;
  ASSERT_EQ(scan.gpus.size(), 2u);
  EXPECT_EQ(scan.gpus[0].uuid, "GPU-aa");
  EXPECT_EQ(scan.gpus[0].pci_address, "0000:3b:00.0");
  EXPECT_EQ(scan.gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(scan.gpus[0].memory_bytes, 150754820096u);
  EXPECT_FALSE(scan.gpus[0].mig_enabled);
  EXPECT_EQ(scan.gpus[1].pci_address, "10001:af:00.0");
}

TEST(ScanNvml, FindsTheLibraryInTheSearchPath) {
  const FakeNvml nvml("GPU-aa,0000:3b:00.0,NVIDIA H200,1");
  EXPECT_EQ(scan_nvml().gpus.size(), 1u);
}

TEST(ScanNvml, ListsMigDevices) {
  const FakeNvml nvml(
      "GPU-aa,0000:3b:00.0,A100,80;MIG-1,,A100 MIG 3g.40gb,40;MIG-2,,A100 MIG 3g.40gb,39;"
      "GPU-bb,0000:5e:00.0,A100,80,mig");
  const NvmlScan scan = scan_nvml(HVD_NVML_DOUBLE);
  ASSERT_EQ(scan.gpus.size(), 2u);
  ASSERT_EQ(scan.gpus[0].mig_devices.size(), 2u);
  EXPECT_EQ(scan.gpus[0].mig_devices[1].uuid, "MIG-2");
  EXPECT_EQ(scan.gpus[0].mig_devices[1].memory_bytes, 39u);
  EXPECT_TRUE(scan.gpus[1].mig_enabled);
  EXPECT_TRUE(scan.gpus[1].mig_devices.empty());
}

TEST(ScanNvml, OmitsALostGpu) {
  const FakeNvml nvml("GPU-aa,0000:3b:00.0,H200,1,lost;GPU-bb,0000:5e:00.0,H200,1");
  const NvmlScan scan = scan_nvml(HVD_NVML_DOUBLE);
  ASSERT_EQ(scan.gpus.size(), 1u);
  EXPECT_EQ(scan.gpus[0].uuid, "GPU-bb");
  EXPECT_EQ(scan.lost, std::vector<int>{0});
}

TEST(ScanNvml, AcceptsAMachineWithoutADriver) {
  const NvmlScan scan = scan_nvml("libnvidia-ml-is-not-here.so.1");
  EXPECT_FALSE(scan.loaded);
  EXPECT_FALSE(scan.broken);
  EXPECT_EQ(scan.problem, "no NVIDIA driver (libnvidia-ml-is-not-here.so.1 was not found)");

  constexpr int kDriverNotLoaded = 9;
  const FakeNvml nvml(kDriverNotLoaded);
  EXPECT_FALSE(scan_nvml(HVD_NVML_DOUBLE).broken);
}

TEST(ScanNvml, ReportsABrokenDriver) {
  constexpr int kMismatch = 18;
  const FakeNvml nvml(kMismatch);
  const NvmlScan scan = scan_nvml(HVD_NVML_DOUBLE);
  EXPECT_FALSE(scan.loaded);
  EXPECT_TRUE(scan.broken);
  EXPECT_EQ(scan.problem, "NVML does not start: Driver/library version mismatch");
}

TEST(ScanNvml, ReportsALibraryThatLacksAFunction) {
  const NvmlScan scan = scan_nvml("libm.so.6");
  EXPECT_FALSE(scan.loaded);
  EXPECT_TRUE(scan.broken);
  EXPECT_EQ(scan.problem, "libm.so.6 lacks nvmlInit_v2: the NVIDIA driver is too old");
}

}  // namespace
}  // namespace hvdrun
