// Async collectives on device memory: any order of submission, and the order of the stream.
#include "device_support.hpp"
#include "gpu/image.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

using testing::Each;
using testing::HasSubstr;

std::string sum_in_opposite_orders(Gpu& gpu, int rank) {
  constexpr std::size_t kTensors = 20;
  std::array<float*, kTensors> tensors{};
  std::array<hvd_handle, kTensors> handles{};
  void* const stream = gpu.new_stream();
  for (std::size_t i = 0; i < kTensors; ++i)
    tensors[i] = gpu.upload(std::vector<float>(100, static_cast<float>(i)));
  for (std::size_t i = 0; i < kTensors; ++i) {
    const std::size_t own = rank == 0 ? i : kTensors - 1 - i;
    const std::string name = "layer" + std::to_string(own);
    const hvd_options options = on_cuda(name.c_str(), stream);
    if (hvd_allreduce_async(tensors[own], tensors[own], 100, HVD_FLOAT32, HVD_SUM, &options,
                            &handles[own]) != HVD_OK)
      return hvd_last_error();
  }
  for (const hvd_handle handle : handles) {
    if (hvd_wait(handle) != HVD_OK) return hvd_last_error();
  }
  for (std::size_t i = 0; i < kTensors; ++i) {
    const std::vector<float> expected(100, 2 * static_cast<float>(i));
    if (gpu.download(tensors[i], 100, stream) != expected) return "layer" + std::to_string(i);
  }
  return "ok";
}

// Returns what rank 0 says about gradients that are `difference` apart. A late GPU does nothing in
// the first 15 steps.
std::vector<std::string> train_on_equal_data(float difference, bool late = false) {
  return run_on_gpus({}, [=](int rank, Gpu& gpu) -> std::string {
    testing::internal::CaptureStderr();
    void* const stream = gpu.new_stream();
    float* const gradient = gpu.upload(std::vector<float>(1000));
    std::vector<std::vector<float>> values;
    for (int step = 0; step < 20; ++step)
      values.emplace_back(1000,
                          static_cast<float>(step + 1) + static_cast<float>(rank) * difference);
    Gate gate(gpu, stream);
    for (int step = 0; step < 20; ++step) {
      if (step == (late ? 15 : 0)) gate.open();
      if (step == 15) gpu.synchronize(stream);  // so the samples are on the host in the next round
      const std::vector<float>& own = values[static_cast<std::size_t>(step)];
      gpu.copy(gradient, own.data(), own.size() * sizeof(float), stream);
      hvd_options options = on_cuda("gradient", stream);
      options.gradients = 1;
      if (hvd_allreduce(gradient, gradient, 1000, HVD_FLOAT32, HVD_SUM, &options) != HVD_OK)
        return hvd_last_error();
    }
    gpu.synchronize(stream);
    const std::string text = testing::internal::GetCapturedStderr();
    return text.substr(0, text.find(';'));
  });
}

TEST(DeviceAsync, EqualGradientsAreNoticed) {
  const auto noticed = testing::ElementsAre(
      "hvd: warning: all 2 ranks computed the same gradients in 10 "
      "steps, so they train on the same data",
      "");
  EXPECT_THAT(train_on_equal_data(0), noticed);
  EXPECT_THAT(train_on_equal_data(0, true), noticed) << "the program is far ahead of its GPU";
  EXPECT_THAT(train_on_equal_data(0.5f), Each(""));
}

TEST(DeviceAsync, RanksMaySubmitInOppositeOrders) {
  EXPECT_THAT(run_on_gpus({}, [](int rank, Gpu& gpu) { return sum_in_opposite_orders(gpu, rank); }),
              Each("ok"));
}

// Sums many small tensors of all lengths and alignments, so that several are ready together. They
// are more than one launch of a kernel takes.
std::string sum_small_tensors(Gpu& gpu, int rank) {
  constexpr std::size_t kTensors = 400;
  const auto offset = [](std::size_t i) { return i % 3; };
  const auto count = [](std::size_t i) { return i % 7 == 0 ? i * 20 : i % 50; };
  std::vector<float*> tensors;
  for (std::size_t i = 0; i < kTensors; ++i)
    tensors.push_back(
        gpu.upload(std::vector<float>(offset(i) + count(i) + 1, static_cast<float>(i + 1))));
  std::vector<hvd_handle> handles(kTensors);
  for (int step = 0; step < 2; ++step) {
    for (std::size_t k = 0; k < kTensors; ++k) {
      const std::size_t i = rank == 0 ? k : kTensors - 1 - k;
      const std::string name = "t" + std::to_string(i);
      const hvd_options options = on_cuda(name.c_str());
      float* const tensor = tensors[i] + offset(i);
      if (hvd_allreduce_async(tensor, tensor, count(i), HVD_FLOAT32, HVD_SUM, &options,
                              &handles[i]) != HVD_OK)
        return hvd_last_error();
    }
    for (const hvd_handle handle : handles) {
      if (hvd_wait(handle) != HVD_OK) return hvd_last_error();
    }
  }
  for (std::size_t i = 0; i < kTensors; ++i) {
    const std::size_t end = offset(i) + count(i) + 1;
    const std::vector<float> values = gpu.download(tensors[i], end);
    const auto own = static_cast<float>(i + 1);
    for (std::size_t k = 0; k < end; ++k) {
      const bool inside = k >= offset(i) && k + 1 < end;
      if (values[k] != (inside ? 4 * own : own))
        return "t" + std::to_string(i) + "[" + std::to_string(k) + "] is " +
               std::to_string(values[k]);
    }
  }
  return "ok";
}

std::vector<std::string> sum_and_report_packing(GpuJob job) {
  return run_on_gpus(job, [](int rank, Gpu& gpu) {
    Counter launches("HVD_DOUBLE_LAUNCHES");
    const std::string outcome = sum_small_tensors(gpu, rank);
    return outcome + (launches.take() > 0 ? ", packed" : "");
  });
}

TEST(DeviceAsync, SmallTensorsArePacked) {
  EXPECT_THAT(sum_and_report_packing({}), Each(kernel_image() != nullptr ? "ok, packed" : "ok"));
}

TEST(DeviceAsync, SmallTensorsAreGroupedIfOneRankLacksTheKernel) {
  EXPECT_THAT(sum_and_report_packing(
                  {.odd_rank = 1, .odd_variables = {{"HVD_CUDA_DRIVER", "/nowhere/libcuda.so"}}}),
              Each("ok"));
}

TEST(DeviceAsync, SmallTensorsAreSummedOnOneGpu) {
  EXPECT_THAT(sum_and_report_packing({.devices = {0, 0}}), Each("ok"));
}

// Either all packed tensors are written or none, so that none is reduced twice.
TEST(DeviceAsync, NoHostMemoryFailsPackedTensorsAndLeavesThemUnchanged) {
  const auto outcomes = run_on_gpus(
      {.devices = {0, 0},
       .odd_rank = 1,
       .odd_variables = {{"HVD_DOUBLE_CUDA_FAILS", "cudaMallocHost"}}},
      [](int, Gpu& gpu) {
        std::array<float*, 5> tensors{};
        std::array<hvd_handle, 5> handles{};
        for (float*& tensor : tensors) tensor = gpu.upload(std::vector<float>{1});
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          const std::string name = "t" + std::to_string(i);
          const hvd_options options = on_cuda(name.c_str());
          (void)hvd_allreduce_async(tensors[i], tensors[i], 1, HVD_FLOAT32, HVD_SUM, &options,
                                    &handles[i]);
        }
        int failed = 0, changed = 0;
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          failed += hvd_wait(handles[i]) != HVD_OK ? 1 : 0;
          changed += gpu.download(tensors[i], 1)[0] != 1.0f ? 1 : 0;
        }
        return std::to_string(failed) + " failed, " + std::to_string(changed) + " changed";
      });
  EXPECT_THAT(outcomes, Each("5 failed, 0 changed"));
}

TEST(DeviceAsync, AMismatchFailsOnlyItsTensor) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) {
    std::array<float*, 5> tensors{};
    std::array<hvd_handle, 5> handles{};
    for (float*& tensor : tensors) tensor = gpu.upload(std::vector<float>(10, 1.0f));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::string name = "t" + std::to_string(i);
      const hvd_options options = on_cuda(name.c_str());
      const std::size_t count = i == 2 && rank == 1 ? 9 : 10;
      (void)hvd_allreduce_async(tensors[i], tensors[i], count, HVD_FLOAT32, HVD_SUM, &options,
                                &handles[i]);
    }
    std::string own;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const bool right = hvd_wait(handles[i]) == HVD_OK;
      own += right ? std::to_string(static_cast<int>(gpu.download(tensors[i], 10)[9])) : "x";
    }
    return own;
  });
  EXPECT_THAT(outcomes, Each("22x22"));
}

TEST(DeviceAsync, RanksMaySubmitInOppositeOrdersOnOneGpu) {
  EXPECT_THAT(run_on_gpus({.devices = {1, 1}},
                          [](int rank, Gpu& gpu) { return sum_in_opposite_orders(gpu, rank); }),
              Each("ok"));
}

// The stream writes the input late. A copy of the result is enqueued before the result exists.
TEST(DeviceAsync, WaitOrdersTheStreamWithoutBlockingTheCpu) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) -> std::string {
    void* const stream = gpu.new_stream();
    float* const device = gpu.upload(std::vector<float>{0});
    const float late = static_cast<float>(rank + 1);
    Gate gate(gpu, stream);
    gpu.copy(device, &late, sizeof late, stream);
    const hvd_options options = on_cuda("late", stream);
    hvd_handle handle = 0;
    if (hvd_allreduce_async(device, device, 1, HVD_FLOAT32, HVD_SUM, &options, &handle) != HVD_OK ||
        hvd_wait(handle) != HVD_OK)
      return hvd_last_error();
    float result = 0;
    gpu.copy(&result, device, sizeof result, stream);
    if (gpu.is_idle(stream)) return "the stream has not waited";
    gate.open();
    gpu.synchronize(stream);
    return result == 3.0f ? "ok" : "wrong: " + std::to_string(result);
  });
  EXPECT_THAT(outcomes, Each("ok"));
}

TEST(DeviceAsync, OtherCollectivesGiveRightResults) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) -> std::string {
    auto* const all = static_cast<float*>(gpu.allocate(8));
    auto* const share = static_cast<float*>(gpu.allocate(4));
    auto* const mixed = static_cast<float*>(gpu.allocate(8));
    float* const root = gpu.upload(std::vector<float>{static_cast<float>(5 + rank)});
    float* const own = gpu.upload(std::vector<float>{static_cast<float>(rank)});
    float* const two = gpu.upload(std::vector<float>{10, 20.0f + static_cast<float>(rank)});
    std::array<hvd_handle, 4> handles{};
    const hvd_options options = on_cuda();
    if (hvd_broadcast_async(root, 1, HVD_FLOAT32, 1, &options, &handles[0]) != HVD_OK ||
        hvd_allgather_async(own, 1, 1, HVD_FLOAT32, all, 2, nullptr, &options, &handles[1]) !=
            HVD_OK ||
        hvd_reducescatter_async(two, 2, 1, HVD_FLOAT32, HVD_SUM, share, &options, &handles[2]) !=
            HVD_OK ||
        hvd_alltoall_async(two, nullptr, 2, 1, HVD_FLOAT32, mixed, 2, nullptr, &options,
                           &handles[3]) != HVD_OK)
      return hvd_last_error();
    for (const hvd_handle handle : handles) {
      if (hvd_wait(handle) != HVD_OK) return hvd_last_error();
    }
    if (gpu.download(root, 1)[0] != 6.0f) return "broadcast";
    if (gpu.download(all, 2) != std::vector<float>{0, 1}) return "allgather";
    if (gpu.download(share, 1)[0] != (rank == 0 ? 20.0f : 41.0f)) return "reducescatter";
    const std::vector<float> expected =
        rank == 0 ? std::vector<float>{10, 10} : std::vector<float>{20, 21};
    return gpu.download(mixed, 2) == expected ? "ok" : "alltoall";
  });
  EXPECT_THAT(outcomes, Each("ok"));
}

TEST(DeviceAsync, AFailedCudaEventFailsOnEveryRank) {
  const auto outcomes = run_on_gpus(
      {.odd_rank = 1, .odd_variables = {{"HVD_DOUBLE_CUDA_FAILS", "cudaEventCreateWithFlags"}}},
      [](int, Gpu& gpu) {
        float* const device = gpu.upload(std::vector<float>{1});
        const hvd_options options = on_cuda("g");
        hvd_handle handle = 0;
        const hvd_status status =
            hvd_allreduce_async(device, device, 1, HVD_FLOAT32, HVD_SUM, &options, &handle);
        return status == HVD_OK ? text_of(hvd_wait(handle)) : hvd_last_error();
      });
  EXPECT_THAT(outcomes, Each(HasSubstr("rank 1: cudaEventCreateWithFlags: unknown error (999)")));
}

// Makes async sums at the same time in three sets that overlap in a circle and in the set of all
// ranks. In between, all ranks make blocking sums.
std::string sum_in_sets(Gpu& gpu, int rank, int rounds) {
  const std::array<std::array<int, 2>, 3> members{{{0, 1}, {1, 2}, {2, 0}}};
  std::array<std::int32_t, 4> sets{};  // the first: all ranks
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (hvd_add_process_set(members[i].data(), 2, &sets[i + 1]) != HVD_OK) return hvd_last_error();
  }
  std::vector<std::int32_t> own;
  for (const std::int32_t set : sets) {
    if (hvd_process_set_included(set) == 1) own.push_back(set);
  }
  void* const stream = gpu.new_stream();
  float* const blocking = gpu.upload(std::vector<float>{0});
  std::vector<float*> tensors;
  for (std::size_t i = 0; i < own.size(); ++i) tensors.push_back(gpu.upload(std::vector<float>{0}));
  std::mt19937 random(static_cast<unsigned>(rank));
  const float one = 1;
  for (int round = 0; round < rounds; ++round) {
    for (float* const tensor : tensors) gpu.copy(tensor, &one, sizeof one, stream);
    gpu.copy(blocking, &one, sizeof one, stream);
    std::vector<std::size_t> order(own.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    const std::size_t before_blocking = random() % (order.size() + 1);
    std::vector<hvd_handle> handles;
    for (std::size_t i = 0; i <= order.size(); ++i) {
      if (i == before_blocking) {
        const hvd_options options = on_cuda(nullptr, stream);
        if (hvd_allreduce(blocking, blocking, 1, HVD_FLOAT32, HVD_SUM, &options) != HVD_OK)
          return hvd_last_error();
      }
      if (i == order.size()) break;
      hvd_options options = on_cuda("sum", stream);
      options.process_set = own[order[i]];
      float* const tensor = tensors[order[i]];
      handles.emplace_back();
      if (hvd_allreduce_async(tensor, tensor, 1, HVD_FLOAT32, HVD_SUM, &options, &handles.back()) !=
          HVD_OK)
        return hvd_last_error();
    }
    for (const hvd_handle handle : handles) {
      if (hvd_wait(handle) != HVD_OK) return hvd_last_error();
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      const float expected = own[i] == 0 ? 3.0f : 2.0f;
      if (gpu.download(tensors[i], 1, stream)[0] != expected)
        return "set " + std::to_string(own[i]) + " in round " + std::to_string(round);
    }
    if (gpu.download(blocking, 1, stream)[0] != 3.0f) return "blocking";
  }
  return "ok";
}

TEST(DeviceAsync, OverlappingSetsMayBeUsedInAnyOrder) {
  EXPECT_THAT(
      run_on_gpus({.size = 3}, [](int rank, Gpu& gpu) { return sum_in_sets(gpu, rank, 200); }),
      Each("ok"));
}

TEST(DeviceAsync, OverlappingSetsMayBeUsedInAnyOrderOnOneGpu) {
  EXPECT_THAT(run_on_gpus({.size = 3, .devices = {0, 0, 0}},
                          [](int rank, Gpu& gpu) { return sum_in_sets(gpu, rank, 20); }),
              Each("ok"));
}

// Rank 0 is in the blocking call while rank 1 still waits for the result of the async call.
TEST(DeviceAsync, ABlockingCallDoesNotBlockAsyncCalls) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) -> std::string {
    void* const stream = gpu.new_stream();
    float* const background = gpu.upload(std::vector<float>{1});
    float* const blocking = gpu.upload(std::vector<float>{1});
    const hvd_options named = on_cuda("background", stream);
    const hvd_options nameless = on_cuda(nullptr, gpu.new_stream());
    hvd_handle handle = 0;
    if (hvd_allreduce_async(background, background, 1, HVD_FLOAT32, HVD_SUM, &named, &handle) !=
        HVD_OK)
      return hvd_last_error();
    if (rank == 1) {
      if (hvd_wait(handle) != HVD_OK) return hvd_last_error();
      if (gpu.download(background, 1, stream)[0] != 2.0f) return "background";
    }
    if (hvd_allreduce(blocking, blocking, 1, HVD_FLOAT32, HVD_SUM, &nameless) != HVD_OK ||
        (rank == 0 && hvd_wait(handle) != HVD_OK))
      return hvd_last_error();
    return gpu.download(blocking, 1, nameless.stream)[0] == 2.0f ? "ok" : "blocking";
  });
  EXPECT_THAT(outcomes, Each("ok"));
}

}  // namespace
}  // namespace libhvd::test
