// A grouped allreduce on device memory needs few exchanges, with NCCL and through host memory.
#include "device_support.hpp"
#include "gpu/image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

using testing::Each;

// Tensors of these lengths. All elements of tensor i are i + rank.
struct Tensors {
  Tensors(Gpu& gpu, int rank, std::vector<std::size_t> its_lengths)
      : lengths(std::move(its_lengths)) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto value = static_cast<float>(i + static_cast<std::size_t>(rank));
      buffers.push_back(gpu.upload(std::vector<float>(lengths[i], value)));
    }
  }
  hvd_status sum() {
    const hvd_options options = on_cuda("group");
    return hvd_grouped_allreduce(lengths.size(), buffers.data(), buffers.data(), lengths.data(),
                                 HVD_FLOAT32, HVD_SUM, &options);
  }
  // Returns "ok", or the first tensor that is not the sum over two ranks.
  std::string check(Gpu& gpu) const {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::vector<float> expected(lengths[i], static_cast<float>(2 * i + 1));
      if (gpu.download(static_cast<float*>(buffers[i]), lengths[i]) != expected)
        return "tensor " + std::to_string(i) + " is wrong";
    }
    return "ok";
  }

  std::vector<std::size_t> lengths;
  std::vector<void*> buffers;
};

TEST(DeviceGroup, SmallTensorsNeedOneExchange) {
  for (const bool kernels : {true, false}) {
    GpuJob job;
    if (!kernels) job.variables = {{"HVD_CUDA_DRIVER", "/nowhere/libcuda.so"}};
    const auto outcomes = run_on_gpus(job, [](int rank, Gpu& gpu) -> std::string {
      Tensors tensors(gpu, rank, std::vector<std::size_t>(161, 512));
      Counter groups("HVD_DOUBLE_NCCL_GROUPS");
      if (tensors.sum() != HVD_OK) return hvd_last_error();
      const std::string outcome = tensors.check(gpu);
      return outcome == "ok" ? std::to_string(groups.take()) + " exchange" : outcome;
    });
    EXPECT_THAT(outcomes, Each("1 exchange")) << (kernels ? "packed" : "as a group of NCCL");
  }
}

// Large tensors are not packed, and one tensor has no elements. The small ones before and after a
// large one are packed.
TEST(DeviceGroup, LargeTensorsDivideAGroupIntoSeveralExchanges) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) -> std::string {
    Tensors tensors(gpu, rank, {1, 77, 0, 300'000, 300'001, 5, 262'144});
    Counter groups("HVD_DOUBLE_NCCL_GROUPS");
    if (tensors.sum() != HVD_OK) return hvd_last_error();
    const std::string outcome = tensors.check(gpu);
    return outcome == "ok" ? std::to_string(groups.take()) + " exchanges" : outcome;
  });
  EXPECT_THAT(outcomes, Each("3 exchanges"));
}

// The CPU waits once until all tensors are in host memory, and once until they are back.
TEST(DeviceGroup, OnOneGpuWaitsForTheStreamTwice) {
  const auto outcomes = run_on_gpus({.devices = {0, 0}}, [](int rank, Gpu& gpu) -> std::string {
    Tensors tensors(gpu, rank, std::vector<std::size_t>(161, 512));
    Counter waits("HVD_DOUBLE_SYNCHRONIZED");
    if (tensors.sum() != HVD_OK) return hvd_last_error();
    const std::size_t waited = waits.take();
    const std::string outcome = tensors.check(gpu);
    return outcome == "ok" ? std::to_string(waited) + " waits" : outcome;
  });
  EXPECT_THAT(outcomes, Each("2 waits"));
}

TEST(DeviceGroup, OnOneGpuInPlaceNeedsHostMemoryOnce) {
  constexpr std::size_t kCount = 100'000;
  const auto bytes = std::to_string(kCount * sizeof(float));
  const auto outcomes =
      run_on_gpus({.devices = {0, 0}, .variables = {{"HVD_DOUBLE_PINNED_BYTES", bytes}}},
                  [](int rank, Gpu& gpu) -> std::string {
                    Tensors tensors(gpu, rank, {kCount});
                    if (tensors.sum() != HVD_OK) return hvd_last_error();
                    return tensors.check(gpu);
                  });
  EXPECT_THAT(outcomes, Each("ok"));
}

}  // namespace
}  // namespace libhvd::test
