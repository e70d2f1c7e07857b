// Which GPU a rank uses.
#include "session/local_device.hpp"

#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

Environment variables(std::map<std::string, std::string> values) {
  return [values](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

int device_of_rank(int local_rank, std::map<std::string, std::string> values) {
  const auto given = read_devices(variables(std::move(values)));
  EXPECT_TRUE(given.ok());
  return given.ok() ? local_device(*given, local_rank) : -1;
}

TEST(LocalDevice, IsTheOneThatHvdrunHasChosen) {
  EXPECT_EQ(device_of_rank(1, {{"HVD_LOCAL_DEVICE", "1"}}), 1);
  // --gpu-bind single, a MIG device, --oversubscribe on one GPU
  EXPECT_EQ(device_of_rank(5, {{"HVD_LOCAL_DEVICE", "0"}, {"CUDA_VISIBLE_DEVICES", "5"}}), 0);
  EXPECT_EQ(device_of_rank(5, {{"HVD_LOCAL_DEVICE", "0"}, {"CUDA_VISIBLE_DEVICES", "MIG-a"}}), 0);
  EXPECT_EQ(device_of_rank(5, {{"HVD_LOCAL_DEVICE", "0"}}), 0);
}

TEST(LocalDevice, IsTheLocalRankWithoutHvdrun) {
  EXPECT_EQ(device_of_rank(2, {}), 2);
  EXPECT_EQ(device_of_rank(2, {{"CUDA_VISIBLE_DEVICES", "4,5,6,7"}}), 2);
}

TEST(LocalDevice, IsAlwaysAVisibleDevice) {
  // srun --gpus-per-task=1
  EXPECT_EQ(device_of_rank(2, {{"CUDA_VISIBLE_DEVICES", "0"}}), 0);
  EXPECT_EQ(device_of_rank(3, {{"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b"}}), 1);
  // a wrapper that shows each rank of hvdrun its own GPU
  EXPECT_EQ(device_of_rank(3, {{"HVD_LOCAL_DEVICE", "3"}, {"CUDA_VISIBLE_DEVICES", "3"}}), 0);
  // CUDA ignores what follows an invalid entry.
  EXPECT_EQ(device_of_rank(3, {{"CUDA_VISIBLE_DEVICES", "0,1,-1,2,3"}}), 1);
}

TEST(LocalDevice, IsTheLocalRankWithoutGpus) {
  for (const char* none : {"", "-1", "NoDevFiles"})
    EXPECT_EQ(device_of_rank(2, {{"CUDA_VISIBLE_DEVICES", none}}), 2) << none;
}

TEST(LocalDevice, MustBeANumber) {
  const auto given = read_devices(variables({{"HVD_LOCAL_DEVICE", "cuda:1"}}));
  ASSERT_FALSE(given.ok());
  EXPECT_EQ(given.error().status, HVD_ERROR_ENVIRONMENT);
}

}  // namespace
}  // namespace libhvd
