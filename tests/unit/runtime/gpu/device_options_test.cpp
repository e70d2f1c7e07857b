// The C++ API on device memory: hvd::Options with a memory and a stream.
#include "device_support.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hvd/hvd.hpp>

namespace libhvd::test {
namespace {

using testing::Each;
using Floats = std::vector<float>;

// Makes every collective, blocking and async, with the same options on one stream.
std::string use_every_collective(Gpu& gpu, int rank) {
  hvd::Options options("gradient");
  options.memory = hvd::Memory::cuda;
  options.stream = gpu.new_stream();
  float* const values = gpu.upload(Floats{1, static_cast<float>(rank)}, options.stream);
  float* const output = gpu.upload(Floats(4), options.stream);
  const std::span<float> two(values, 2), four(output, 4);
  const auto read = [&](const float* from, std::size_t count) {
    return gpu.download(from, count, options.stream);
  };
  const Floats zeros(4);
  const auto both = [&](auto&& blocking, auto&& later, const Floats& expected) {
    blocking();
    const bool first = read(output, expected.size()) == expected;
    gpu.copy(output, zeros.data(), 4 * sizeof(float), options.stream);
    later();
    return first && read(output, expected.size()) == expected;
  };
  using hvd::Op;
  if (!both([&] { hvd::allreduce(two, four.first(2), Op::sum, options); },
            [&] { hvd::allreduce_async(two, four.first(2), Op::sum, options).get(); }, {2, 1}))
    return "allreduce";
  if (!both([&] { hvd::allgather(two, four, options); },
            [&] { hvd::allgather_async(two, four, options).get(); }, {1, 0, 1, 1}))
    return "allgather";
  const float part = rank == 0 ? 2 : 1;
  if (!both([&] { hvd::reducescatter(two, four, Op::sum, options); },
            [&] { hvd::reducescatter_async(two, four, Op::sum, options).get(); }, {part}))
    return "reducescatter";
  const std::vector<std::size_t> splits{1, 1};
  const Floats swapped = rank == 0 ? Floats{1, 1} : Floats{0, 1};
  if (!both([&] { hvd::alltoall(two, splits, four, options); },
            [&] { hvd::alltoall_async(two, splits, four, options).get(); }, swapped))
    return "alltoall";
  const Floats own(4, static_cast<float>(rank + 1));
  const auto fill = [&] { gpu.copy(output, own.data(), 4 * sizeof(float), options.stream); };
  if (!both([&] { fill(), hvd::broadcast(four, 1, options); },
            [&] { fill(), hvd::broadcast_async(four, 1, options).get(); }, {2, 2, 2, 2}))
    return "broadcast";
  try {
    hvd::allgather(two, options);
    return "a vector of values in device memory";
  } catch (const hvd::Error& error) {
    if (error.status() != HVD_ERROR_INVALID_ARGUMENT) return error.what();
  }
  return "ok";
}

TEST(DeviceOptions, EveryCollectiveWorksOnAStream) {
  EXPECT_THAT(run_on_gpus({}, [](int rank, Gpu& gpu) { return use_every_collective(gpu, rank); }),
              Each("ok"));
}

}  // namespace
}  // namespace libhvd::test
