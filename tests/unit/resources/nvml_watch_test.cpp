#include "resources/nvml_watch.hpp"

#include "fake_nvml.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr const char* kGpus =
    "GPU-aa,0000:3b:00.0,H200,100,busy 80 40;GPU-bb,0000:5e:00.0,H200,100,busy 20 90;"
    "GPU-cc,0000:6e:00.0,H200,100;MIG-1,,H200 MIG,50,busy 0 30";

TEST(NvmlWatch, SumsUpWhatItSees) {
  const FakeNvml nvml(kGpus);
  const auto watch = NvmlWatch::open({"GPU-bb", "GPU-aa"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  EXPECT_EQ(watch->uses()[0].looks, 0u);
  watch->look();
  watch->look();
  ASSERT_EQ(watch->uses().size(), 2u);
  const GpuUse& use = watch->uses()[0];
  EXPECT_EQ(use.uuid, "GPU-bb");
  EXPECT_EQ(use.looks, 2u);
  EXPECT_TRUE(use.busy_is_known);
  EXPECT_EQ(use.busy_percent, 20);
  EXPECT_EQ(use.peak_memory_bytes, 90u);
  EXPECT_EQ(watch->uses()[1].busy_percent, 80);
}

TEST(NvmlWatch, KnowsOfAMigDeviceItsMemoryOnly) {
  const FakeNvml nvml(kGpus);
  const auto watch = NvmlWatch::open({"MIG-1"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  watch->look();
  EXPECT_FALSE(watch->uses()[0].busy_is_known);
  EXPECT_EQ(watch->uses()[0].peak_memory_bytes, 30u);
}

TEST(NvmlWatch, LeavesOutWhatIsNotThere) {
  const FakeNvml nvml(kGpus);
  const auto watch = NvmlWatch::open({"GPU-zz", "GPU-aa"}, HVD_NVML_DOUBLE);
  ASSERT_NE(watch, nullptr);
  ASSERT_EQ(watch->uses().size(), 1u);
  EXPECT_EQ(watch->uses()[0].uuid, "GPU-aa");
  EXPECT_EQ(NvmlWatch::open({"GPU-zz"}, HVD_NVML_DOUBLE), nullptr);
  EXPECT_EQ(NvmlWatch::open({"GPU-aa"}, "libnvidia-ml-is-not-here.so.1"), nullptr);
}

}  // namespace
}  // namespace hvdrun
