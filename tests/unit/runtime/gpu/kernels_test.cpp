// The source of the kernels in adasum.cu, compiled for the CPU. Each thread of a block is a thread
// of the CPU, and blocks run one after the other.
#include "builtins.hpp"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace {

thread_local std::barrier<>* block_barrier = nullptr;

void __syncthreads() {
  block_barrier->arrive_and_wait();
}

}  // namespace

#include "gpu/adasum.cu"

namespace libhvd::test {
namespace {

using kernels::hvd_adasum_add_up;
using kernels::hvd_adasum_combine;
using kernels::hvd_adasum_factors;
using kernels::hvd_adasum_multiply;

void launch(std::uint64_t blocks, unsigned threads, const std::function<void()>& kernel) {
  for (unsigned block = 0; block < blocks; ++block) {
    std::barrier<> barrier(threads);
    std::vector<std::jthread> running;
    for (unsigned thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, block, thread] {
        threadIdx.x = thread;
        blockIdx.x = block;
        block_barrier = &barrier;
        kernel();
      });
    }
  }
}

double value_of(std::size_t rank, std::size_t i) {
  return std::sin(static_cast<double>(i * (rank + 1))) * static_cast<double>(1 + rank) / 4;
}

// Returns the largest error of the kernels' result.
template <class T>
double error_of(AdasumType type, std::size_t ranks, std::size_t length) {
  constexpr double kScale = 0.5;
  std::vector<T> values(ranks * length);
  const auto wide = [&](std::size_t rank, std::size_t i) {
    const T& value = values[rank * length + i];
    if constexpr (sizeof(T) == 2)
      return static_cast<double>(static_cast<float>(value));
    else
      return static_cast<double>(value);
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < length; ++i) {
      if constexpr (sizeof(T) == 2)
        values[rank * length + i] = T(static_cast<float>(value_of(rank, i)));
      else
        values[rank * length + i] = static_cast<T>(value_of(rank, i));
    }
  }
  std::vector<double> exact(adasum_products(ranks), 0), factors(ranks), expected(length, 0);
  for (std::size_t a = 0; a < ranks; ++a) {
    for (std::size_t b = a; b < ranks; ++b) {
      for (std::size_t i = 0; i < length; ++i)
        exact[adasum_product(a, b, ranks)] += wide(a, i) * wide(b, i);
    }
  }
  adasum_factors(exact.data(), ranks, factors.data());
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t rank = 0; rank < ranks; ++rank)
      expected[i] += kScale * factors[rank] * wide(rank, i);
  }

  const AdasumSlices slices{values.data(), length, static_cast<std::int32_t>(ranks), type};
  const std::uint64_t parts = adasum_blocks(length);
  std::vector<double> partial_sums(exact.size() * parts, NAN), products(exact.size(), NAN);
  std::vector<double> found(ranks, NAN);
  launch(exact.size() * parts, kAdasumThreads,
         [&] { hvd_adasum_multiply(slices, parts, partial_sums.data()); });
  launch(exact.size(), kAdasumThreads,
         [&] { hvd_adasum_add_up(partial_sums.data(), parts, products.data()); });
  launch(1, 1, [&] { hvd_adasum_factors(products.data(), ranks, kScale, found.data()); });
  launch(parts, kAdasumThreads, [&] { hvd_adasum_combine(slices, found.data(), values.data()); });
  double error = 0;
  for (std::size_t i = 0; i < length; ++i)
    error = std::max(error, std::abs(wide(0, i) - expected[i]));
  return error;
}

TEST(Kernels, AdasumMatchesTheResultOfTheHost) {
  EXPECT_LT(error_of<float>(AdasumType::float32, 2, 20'000), 1e-6);
  EXPECT_LT(error_of<double>(AdasumType::float64, 4, 300), 1e-12);
  EXPECT_LT(error_of<hvd::float16>(AdasumType::float16, 2, 300), 1e-3);
  EXPECT_LT(error_of<hvd::bfloat16>(AdasumType::bfloat16, 2, 300), 1e-2);
  EXPECT_EQ(error_of<float>(AdasumType::float32, 1, 0), 0);
  EXPECT_LT(error_of<float>(AdasumType::float32, 8, 1), 1e-6);
}

}  // namespace
}  // namespace libhvd::test
