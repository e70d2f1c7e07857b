// A rank that has joined contributes zeros to the sums of the others, whose tensors are on GPUs.
#include "device_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

using testing::Each;
using testing::HasSubstr;

// Returns the first element of the sum (or another operation) of ones; -1 after an error.
float reduce_ones(Gpu& gpu, const char* name, hvd_op op = HVD_SUM) {
  float* const device = gpu.upload(std::vector<float>(1000, 1));
  hvd_handle handle = 0;
  const hvd_options options = on_cuda(name);
  if (hvd_allreduce_async(device, device, 1000, HVD_FLOAT32, op, &options, &handle) != HVD_OK)
    return -1;
  if (hvd_wait(handle) != HVD_OK) return -1;
  return gpu.download(device, 1000)[999];
}

std::string join() {
  int last = -1;
  return text_of(hvd_join(&last));
}

// Rank r makes 2 r calls and joins. With `before` the GPUs are connected first.
std::string reduce_uneven(Gpu& gpu, int rank, int size, bool before) {
  if (before && reduce_ones(gpu, "first") != static_cast<float>(size)) return "first is wrong";
  for (int call = 0; call < 2 * rank; ++call) {
    const auto callers = static_cast<float>(size - 1 - call / 2);
    const std::string name = "step" + std::to_string(call);
    const hvd_op op = call % 2 == 0 ? HVD_SUM : HVD_AVERAGE;
    const float expected = op == HVD_SUM ? callers : callers / static_cast<float>(size);
    const float got = reduce_ones(gpu, name.c_str(), op);
    if (got < 0) return hvd_last_error();
    if (got != expected) return name + " is " + std::to_string(got);
  }
  if (const std::string joined = join(); joined != "ok") return joined;
  return reduce_ones(gpu, "last") == static_cast<float>(size) ? "ok" : "last is wrong";
}

TEST(DeviceJoin, ContributesZerosToSumsAndAverages) {
  for (const bool before : {true, false}) {
    EXPECT_THAT(
        run_on_gpus({.size = 3},
                    [&](int rank, Gpu& gpu) { return reduce_uneven(gpu, rank, 3, before); }),
        Each("ok"))
        << (before ? "after" : "before") << " the GPUs were connected";
  }
}

TEST(DeviceJoin, ContributesZerosOnOneGpu) {
  EXPECT_THAT(run_on_gpus({.size = 3, .devices = {0, 0, 0}},
                          [&](int rank, Gpu& gpu) { return reduce_uneven(gpu, rank, 3, true); }),
              Each("ok"));
}

// Encrypted, because the double of NCCL is for one host.
TEST(DeviceJoin, ContributesZerosOnTwoHosts) {
  EXPECT_THAT(run_on_gpus({.size = 3, .variables = {{"HVD_DATA_TLS", "1"}}, .hosts = {0, 1, 0}},
                          [&](int rank, Gpu& gpu) { return reduce_uneven(gpu, rank, 3, true); }),
              Each("ok"));
}

TEST(DeviceJoin, ContributesZerosToAGroup) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) -> std::string {
    if (rank == 1) return join();
    const std::vector<std::size_t> lengths{3, 300'000, 77};
    std::vector<void*> buffers;
    for (const std::size_t count : lengths)
      buffers.push_back(gpu.upload(std::vector<float>(count, 5)));
    const hvd_options options = on_cuda("group");
    if (hvd_grouped_allreduce(3, buffers.data(), buffers.data(), lengths.data(), HVD_FLOAT32,
                              HVD_SUM, &options) != HVD_OK)
      return hvd_last_error();
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (gpu.download(static_cast<float*>(buffers[i]), lengths[i])[lengths[i] - 1] != 5.0f)
        return "tensor " + std::to_string(i) + " is wrong";
    }
    return join();
  });
  EXPECT_THAT(outcomes, Each("ok"));
}

// Zeros are not neutral for a maximum.
TEST(DeviceJoin, FailsOtherReductions) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) -> std::string {
    if (rank == 1) return join();
    if (reduce_ones(gpu, "most", HVD_MAX) != -1) return "no error";
    const std::string error = hvd_last_error();
    const std::string joined = join();
    return joined == "ok" ? error : joined;
  });
  EXPECT_THAT(outcomes[0], HasSubstr("rank 1 has joined, with which only an allreduce with sum or "
                                     "average can go on"));
  EXPECT_EQ(outcomes[1], "ok");
}

}  // namespace
}  // namespace libhvd::test
