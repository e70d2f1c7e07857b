// Adasum on device memory: libhvd's kernels and NCCL, against the paper's formula in float64.
#include "device_support.hpp"
#include "gpu/image.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hvd/float16.hpp>

namespace libhvd::test {
namespace {

using testing::Each;
using testing::HasSubstr;
using Doubles = std::vector<double>;

// Returns an element of gradients that have different directions and lengths.
double gradient_of(int rank, std::size_t i) {
  return std::sin(static_cast<double>(i) * (rank + 1)) * (1 + rank) / 4;
}

template <class T>
T narrowed(double value) {
  if constexpr (sizeof(T) == 2)
    return T(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

template <class T>
double widened(T value) {
  if constexpr (sizeof(T) == 2)
    return static_cast<double>(static_cast<float>(value));
  else
    return static_cast<double>(value);
}

// Returns the adaptive sum of the tensors of ranks `first` to `first + count - 1`.
template <class T>
Doubles reference(int first, int count, std::size_t length) {
  if (count == 1) {
    Doubles own(length);
    for (std::size_t i = 0; i < length; ++i) own[i] = widened(narrowed<T>(gradient_of(first, i)));
    return own;
  }
  const Doubles a = reference<T>(first, count / 2, length);
  const Doubles b = reference<T>(first + count / 2, count / 2, length);
  const auto dot = [](const Doubles& one, const Doubles& other) {
    return std::inner_product(one.begin(), one.end(), other.begin(), 0.0);
  };
  const double of_a = dot(a, a) > 0 ? 1 - dot(a, b) / (2 * dot(a, a)) : 1;
  const double of_b = dot(b, b) > 0 ? 1 - dot(a, b) / (2 * dot(b, b)) : 1;
  Doubles sum(length);
  for (std::size_t i = 0; i < length; ++i) sum[i] = of_a * a[i] + of_b * b[i];
  return sum;
}

template <class T>
std::string check(Gpu& gpu, int rank, int size, hvd_type type, std::size_t count, double error,
                  double scale = 1) {
  std::vector<T> input(count);
  for (std::size_t i = 0; i < count; ++i) input[i] = narrowed<T>(gradient_of(rank, i));
  T* const from = gpu.upload(input);
  T* const to = gpu.upload(std::vector<T>(count));
  hvd_options options = on_cuda("tensor");
  options.postscale = scale;
  if (hvd_allreduce(from, to, count, type, HVD_ADASUM, &options) != HVD_OK) return hvd_last_error();
  const std::vector<T> output = gpu.download(to, count);
  const Doubles expected = reference<T>(0, size, count);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::abs(widened(output[i]) - scale * expected[i]) > error)
      return "type " + std::to_string(type) + ", " + std::to_string(count) +
             " elements: " + std::to_string(widened(output[i])) + " instead of " +
             std::to_string(expected[i]) + " at " + std::to_string(i);
  }
  return "ok";
}

std::string check_types_and_lengths(Gpu& gpu, int rank, int size) {
  // 100'001 elements are several blocks of threads for each rank.
  for (const std::size_t count : {1u, 3u, 1000u, 100'001u}) {
    for (const std::string& outcome :
         {check<float>(gpu, rank, size, HVD_FLOAT32, count, 1e-6),
          check<double>(gpu, rank, size, HVD_FLOAT64, count, 1e-12),
          check<hvd::float16>(gpu, rank, size, HVD_FLOAT16, count, 2e-3),
          check<hvd::bfloat16>(gpu, rank, size, HVD_BFLOAT16, count, 2e-2),
          check<float>(gpu, rank, size, HVD_FLOAT32, count, 1e-6, 0.5)}) {
      if (outcome != "ok") return outcome;
    }
  }
  return "ok";
}

TEST(DeviceAdasum, MatchesThePapersFormulaForEveryTypeAndLength) {
  for (const int size : {1, 2, 4}) {
    EXPECT_THAT(
        run_on_gpus({.size = size},
                    [=](int rank, Gpu& gpu) { return check_types_and_lengths(gpu, rank, size); }),
        Each("ok"))
        << size << " ranks";
  }
}

TEST(DeviceAdasum, GivesRightResultsWithoutKernels) {
  EXPECT_THAT(run_on_gpus({.variables = {{"HVD_CUDA_DRIVER", "/nowhere/libcuda.so"}}},
                          [](int rank, Gpu& gpu) { return check_types_and_lengths(gpu, rank, 2); }),
              Each("ok"));
}

// The dot product of any two ranks' tensors is 0, and rank 3 has only zeros.
TEST(DeviceAdasum, AddsOrthogonalTensors) {
  EXPECT_THAT(run_on_gpus({.size = 4},
                          [](int rank, Gpu& gpu) -> std::string {
                            std::vector<float> own(4, 0);
                            if (rank < 3) own[static_cast<std::size_t>(rank)] = 5;
                            float* const device = gpu.upload(own);
                            const hvd_options options = on_cuda();
                            if (hvd_allreduce(device, device, 4, HVD_FLOAT32, HVD_ADASUM,
                                              &options) != HVD_OK)
                              return hvd_last_error();
                            const std::vector<float> expected{5, 5, 5, 0};
                            return gpu.download(device, 4) == expected ? "ok" : "wrong";
                          }),
              Each("ok"));
}

// A call launches four kernels, and the CPU waits for none of them.
TEST(DeviceAdasum, RunsOnTheStreamWithoutBlockingTheCpu) {
  if (kernel_image() == nullptr) GTEST_SKIP() << "libhvd was built without nvcc";
  const TemporaryFolder folder;
  EXPECT_THAT(
      run_on_gpus(
          {.odd_rank = 0, .odd_variables = {{"HVD_DOUBLE_LAUNCHES", folder.file("launches")}}},
          [](int rank, Gpu& gpu) -> std::string {
            void* const stream = gpu.new_stream();
            float* const device = gpu.upload(std::vector<float>(100, rank == 0 ? 1.f : 2.f));
            const hvd_options options = on_cuda(nullptr, stream);
            // The first call connects the GPUs.
            const auto call = [&] {
              return hvd_allreduce(device, device, 100, HVD_FLOAT32, HVD_ADASUM, &options);
            };
            if (call() != HVD_OK) return hvd_last_error();
            gpu.synchronize(stream);
            Gate gate(gpu, stream);
            if (call() != HVD_OK) return hvd_last_error();
            const bool waits = !gpu.is_idle(stream);
            gate.open();
            gpu.synchronize(stream);
            return waits ? "ok" : "the stream is idle";
          }),
      Each("ok"));
  std::ifstream launches(folder.file("launches"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(launches), {}), std::string(8, 'x'));
}

TEST(DeviceAdasum, RefusesANumberOfRanksThatIsNoPowerOfTwo) {
  EXPECT_THAT(run_on_gpus({.size = 3},
                          [](int, Gpu& gpu) -> std::string {
                            float* const device = gpu.upload(std::vector<float>(8));
                            const hvd_options options = on_cuda();
                            return text_of(hvd_allreduce(device, device, 8, HVD_FLOAT32, HVD_ADASUM,
                                                         &options));
                          }),
              Each(HasSubstr("a power of two, not for 3")));
}

TEST(DeviceAdasum, NoMemoryOnOneDeviceFailsOnEveryRank) {
  if (kernel_image() == nullptr) GTEST_SKIP() << "libhvd was built without nvcc";
  EXPECT_THAT(
      run_on_gpus({.odd_rank = 1, .odd_variables = {{"HVD_DOUBLE_CUDA_FAILS", "cudaMalloc:1"}}},
                  [](int, Gpu& gpu) -> std::string {
                    float* const device = gpu.upload(std::vector<float>(8));
                    const hvd_options options = on_cuda();
                    return text_of(
                        hvd_allreduce(device, device, 8, HVD_FLOAT32, HVD_ADASUM, &options));
                  }),
      Each(HasSubstr("no device memory")));
}

}  // namespace
}  // namespace libhvd::test
