// Failures of devices and NCCL give the same error on all ranks, and nothing hangs.
#include "device_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hvd/agree.h>
#include <hvd/hvd.hpp>
#include <unistd.h>

namespace libhvd::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

hvd_status sum_of_ones(float* device, const hvd_options& options) {
  return hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_SUM, &options);
}

// Makes a sum on the devices, which fails, and then one of host memory, which must work. Returns
// the outcome of the first.
std::string fail_then_sum(Gpu& gpu, const hvd_options& options) {
  float* const device = gpu.upload(std::vector<float>{1});
  const std::string outcome = text_of(sum_of_ones(device, options));
  float value = 1;
  if (hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr) != HVD_OK)
    return std::string("afterwards: ") + hvd_last_error();
  return outcome;
}

std::vector<std::string> outcomes_of_sum(const GpuJob& job) {
  return run_on_gpus(job, [](int, Gpu& gpu) { return fail_then_sum(gpu, on_cuda()); });
}

TEST(DeviceFailure, HostMemoryOnOneRankIsAMismatch) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) {
    hvd_options options = on_cuda("grad");
    float value = 1;
    float* buffer = gpu.upload(std::vector<float>{1});
    if (rank == 1) {
      options.memory = HVD_HOST;
      buffer = &value;
    }
    const std::string own = text_of(sum_of_ones(buffer, options));
    float* const device = gpu.upload(std::vector<float>{1});
    if (sum_of_ones(device, on_cuda()) != HVD_OK) return std::string(hvd_last_error());
    return gpu.download(device, 1)[0] == 2.0f ? own : "afterwards: wrong";
  });
  EXPECT_THAT(outcomes,
              Each("allreduce \"grad\": the ranks do not agree: the memory is cuda on rank 0 "
                   "and host on rank 1"));
}

TEST(DeviceFailure, HostPointerWithHvdCudaFailsOnEveryRank) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) {
    float value = 1;
    float* const device = gpu.upload(std::vector<float>{1});
    return text_of(sum_of_ones(rank == 1 ? &value : device, on_cuda("grad")));
  });
  EXPECT_THAT(outcomes,
              Each("allreduce \"grad\": rank 1: the buffer is not in device memory, but the "
                   "call says HVD_CUDA"));
}

// In practice an earlier error of a kernel, or a missing driver.
TEST(DeviceFailure, ErrorOfCudaIsReportedOnEveryRank) {
  const auto outcomes = run_on_gpus(
      {.odd_rank = 1, .odd_variables = {{"HVD_DOUBLE_CUDA_FAILS", "cudaPointerGetAttributes"}}},
      [](int, Gpu& gpu) {
        return text_of(sum_of_ones(gpu.upload(std::vector<float>{1}), on_cuda("grad")));
      });
  EXPECT_THAT(outcomes,
              Each("allreduce \"grad\": rank 1: cudaPointerGetAttributes: unknown error (999)"));
}

// libhvd finds the error; the program does not query CUDA.
TEST(DeviceFailure, AnErrorOnOneGpuFailsTheOtherRanks) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) {
    float* const device = gpu.upload(std::vector<float>{1});
    const std::string first = text_of(sum_of_ones(device, on_cuda()));
    if (rank == 1) ::setenv("HVD_DOUBLE_CUDA_FAILS", "cudaEventQuery", 1);
    void* const stream = gpu.new_stream();
    Gate gate(gpu, stream);
    std::string next = "ok";
    while (next == "ok") next = text_of(sum_of_ones(device, on_cuda(nullptr, stream)));
    gate.open();
    return first == "ok" ? next : first;
  });
  EXPECT_THAT(outcomes[0], StartsWith("allreduce: NCCL or CUDA has failed on rank 1 (pid "));
  EXPECT_EQ(outcomes[1], "allreduce: cudaEventQuery: unknown error (999)");
}

TEST(DeviceFailure, ChangingTheDeviceFailsOnEveryRank) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) {
    float* device = gpu.upload(std::vector<float>{1});
    if (sum_of_ones(device, on_cuda()) != HVD_OK) return std::string(hvd_last_error());
    if (rank == 0) gpu.use(5);
    device = gpu.upload(std::vector<float>{1});
    return text_of(sum_of_ones(device, on_cuda()));
  });
  EXPECT_THAT(outcomes, Each("allreduce: rank 0: the buffer is on device 5, but this rank has used "
                             "device 0 before"));
}

TEST(DeviceFailure, CallsForHostMemoryRefuseHvdCuda) {
  const auto outcomes = run_on_gpus({}, [](int, Gpu& gpu) {
    (void)gpu;
    double value = 1;
    const hvd_options options = on_cuda();
    return text_of(hvd_average_metrics(&value, 1, 1, &options));
  });
  EXPECT_THAT(outcomes, Each(HasSubstr("this call is for host memory, but says HVD_CUDA")));
}

TEST(DeviceFailure, InvalidMemoryAndStreamOptionsFail) {
  const auto outcomes = run_on_gpus({}, [](int, Gpu& gpu) {
    hvd_options options = on_cuda();
    options.memory = 7;
    const std::string memory = text_of(sum_of_ones(nullptr, options));
    options = on_cuda(nullptr, gpu.new_stream());
    options.memory = HVD_HOST;
    return memory + " | " + text_of(sum_of_ones(nullptr, options));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("the memory 7 is none of HVD_HOST, HVD_CUDA"),
                                   HasSubstr("a stream is for HVD_CUDA only"))));
}

TEST(DeviceFailure, MissingCudaOnOneRankFailsOnEveryRank) {
  const auto outcomes = outcomes_of_sum(
      {.odd_rank = 1, .odd_variables = {{"HVD_CUDA_LIBRARY", "/nowhere/libcudart.so"}}});
  EXPECT_THAT(outcomes, Each(AllOf(StartsWith("allreduce: rank 1: HVD_CUDA_LIBRARY cannot be "
                                              "opened: /nowhere/libcudart.so"))));
}

TEST(DeviceFailure, MissingNcclOnOneRankFailsOnEveryRank) {
  const auto outcomes = outcomes_of_sum(
      {.odd_rank = 0, .odd_variables = {{"HVD_NCCL_LIBRARY", "/nowhere/libnccl.so"}}});
  EXPECT_THAT(outcomes,
              Each(AllOf(StartsWith("allreduce: NCCL, which device memory needs, is "
                                    "missing: rank 0: HVD_NCCL_LIBRARY cannot be opened"))));
}

TEST(DeviceFailure, DifferentNcclVersionsFailOnEveryRank) {
  const auto outcomes = outcomes_of_sum(
      {.size = 4, .odd_rank = 2, .odd_variables = {{"HVD_DOUBLE_NCCL_VERSION", "22703"}}});
  EXPECT_THAT(outcomes,
              Each(HasSubstr("the ranks have different versions of NCCL, which would hang: "
                             "2.27.3 on rank 2, 2.28.9 on ranks 0-1,3")));
}

TEST(DeviceFailure, TooOldNcclFailsOnEveryRank) {
  const auto outcomes = outcomes_of_sum({.variables = {{"HVD_DOUBLE_NCCL_VERSION", "21000"}}});
  EXPECT_THAT(outcomes, Each(HasSubstr("ranks 0-1: NCCL is 2.10.0; it must be 2.14.0 or later")));
}

TEST(DeviceFailure, FailedDeviceQueryFailsOnEveryRank) {
  const auto outcomes = outcomes_of_sum(
      {.odd_rank = 1, .odd_variables = {{"HVD_DOUBLE_CUDA_FAILS", "cudaDeviceGetPCIBusId"}}});
  EXPECT_THAT(outcomes, Each("allreduce: the device cannot be used: rank 1: "
                             "cudaDeviceGetPCIBusId: unknown error (999)"));
}

TEST(DeviceFailure, FailedNcclUniqueIdFailsOnEveryRank) {
  const auto outcomes = outcomes_of_sum(
      {.odd_rank = 0, .odd_variables = {{"HVD_DOUBLE_NCCL_FAILS", "ncclGetUniqueId"}}});
  EXPECT_THAT(outcomes, Each("allreduce: rank 0: ncclGetUniqueId: system error"));
}

TEST(DeviceFailure, FailedNcclInitOfOneRankFailsOnEveryRank) {
  const auto outcomes = outcomes_of_sum(
      {.size = 4, .odd_rank = 1, .odd_variables = {{"HVD_DOUBLE_NCCL_INIT", "fail"}}});
  EXPECT_THAT(outcomes,
              Each(AllOf(StartsWith("allreduce: NCCL cannot start: "),
                         HasSubstr("rank 1: ncclCommInitRankConfig: system error"),
                         HasSubstr("ranks 0,2-3: ncclCommInitRankConfig: remote error"))));
}

TEST(DeviceFailure, HangingNcclInitTimesOutOnEveryRank) {
  const auto outcomes = outcomes_of_sum({.variables = {{"HVD_NCCL_TIMEOUT", "1"}},
                                         .odd_rank = 1,
                                         .odd_variables = {{"HVD_DOUBLE_NCCL_INIT", "hang"}}});
  EXPECT_THAT(outcomes, Each("allreduce: NCCL cannot start: ranks 0-1: ncclCommInitRankConfig: "
                             "not all ranks have come within the time"));
}

TEST(DeviceFailure, NoPinnedMemoryOnOneRankFailsOnEveryRank) {
  const auto outcomes =
      outcomes_of_sum({.devices = {0, 0},
                       .odd_rank = 1,
                       .odd_variables = {{"HVD_DOUBLE_CUDA_FAILS", "cudaMallocHost"}}});
  EXPECT_THAT(outcomes, Each("allreduce: rank 1: cudaMallocHost: out of memory (2)"));
}

// Rank 1 has taken part, but cannot copy a result to its device. The other rank has got its result.
TEST(DeviceFailure, FailedCopyToTheDeviceFailsTheOtherRanksNextCall) {
  const auto outcomes = run_on_gpus({.devices = {0, 0}}, [](int rank, Gpu& gpu) {
    float* const device = gpu.upload(std::vector<float>{1, 2});
    const void* const inputs[] = {device, device + 1};
    void* const outputs[] = {device, device + 1};
    const std::size_t lengths[] = {1, 1};
    const hvd_options options = on_cuda();
    if (rank == 1) ::setenv("HVD_DOUBLE_CUDA_FAILS", "cudaMemcpyAsync:2", 1);
    const std::string own =
        text_of(hvd_grouped_allreduce(2, inputs, outputs, lengths, HVD_FLOAT32, HVD_SUM, &options));
    return rank == 1 || own != "ok" ? own : text_of(sum_of_ones(device, options));
  });
  EXPECT_THAT(outcomes[0], StartsWith("allreduce: NCCL or CUDA has failed on rank 1 (pid "));
  EXPECT_EQ(outcomes[1], "cudaMemcpyAsync: unknown error (999)");
}

// Makes calls of which one fails on the GPU. The stream must become idle, and all later calls must
// give the same error.
std::string sum_until_it_fails(Gpu& gpu, int calls) {
  float* const device = gpu.upload(std::vector<float>{1});
  // A late rank may get the error in the same call that causes it on another rank.
  for (int call = 0; call < calls; ++call) (void)sum_of_ones(device, on_cuda());
  gpu.synchronize();
  const std::string first = text_of(sum_of_ones(device, on_cuda()));
  const std::string second = text_of(sum_of_ones(device, on_cuda()));
  return first == second ? first : first + " | then: " + second;
}

TEST(DeviceFailure, AnAsyncErrorOfNcclFailsPendingCallsOnEveryRank) {
  const auto outcomes = run_on_gpus(
      {.size = 4, .odd_rank = 2, .odd_variables = {{"HVD_DOUBLE_NCCL_ASYNC_ERROR", "2"}}},
      [](int, Gpu& gpu) { return sum_until_it_fails(gpu, 2); });
  for (const std::size_t rank : {0u, 1u, 3u}) {
    EXPECT_THAT(outcomes[rank], AllOf(StartsWith("allreduce: NCCL or CUDA has failed on rank 2"),
                                      testing::Not(HasSubstr("then:"))));
  }
  EXPECT_EQ(outcomes[2], "allreduce: NCCL: unhandled cuda error");
}

TEST(DeviceFailure, AFailedNcclCallFailsTheOtherRanksNextCall) {
  const auto outcomes =
      run_on_gpus({.odd_rank = 1, .odd_variables = {{"HVD_DOUBLE_NCCL_FAILS", "ncclAllReduce"}}},
                  [](int rank, Gpu& gpu) {
                    float* const device = gpu.upload(std::vector<float>{1});
                    const std::string first = text_of(sum_of_ones(device, on_cuda()));
                    gpu.synchronize();
                    return rank == 1 ? first : text_of(sum_of_ones(device, on_cuda()));
                  });
  EXPECT_THAT(outcomes[0], StartsWith("allreduce: NCCL or CUDA has failed on rank 1"));
  EXPECT_EQ(outcomes[1], "allreduce: NCCL: internal error");
}

TEST(DeviceFailure, ADeadRankEndsPendingCalls) {
  auto variables = doubles();
  Job job(
      2,
      [](int rank, const Child::Report& report) {
        Gpu gpu(rank);
        hvd::init();
        float* const device = gpu.upload(std::vector<float>{1});
        const hvd_status warm = sum_of_ones(device, on_cuda());
        gpu.synchronize();
        report(text_of(warm));
        // The stream of rank 1 never reaches its part of the call, and rank 1 dies.
        void* const stream = gpu.new_stream();
        if (rank == 1)
          gpu.call(
              stream, [](void*) { ::pause(); }, nullptr);
        const hvd_status pending = sum_of_ones(device, on_cuda(nullptr, stream));
        report(text_of(pending));
        gpu.synchronize(stream);
        report(text_of(sum_of_ones(device, on_cuda())));
        float value = 1;
        report(text_of(hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr)));
      },
      variables);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(job.rank(rank).line(), "ok");
    EXPECT_EQ(job.rank(rank).line(), "ok");
  }
  job.rank(1).kill();
  job.rank(1).wait();
  const std::string wanted = "allreduce: rank 1 (pid ";
  EXPECT_THAT(job.rank(0).line().value_or(""), AllOf(StartsWith(wanted), HasSubstr("has died")));
  EXPECT_THAT(job.rank(0).line().value_or(""), HasSubstr("rank 1 (pid "));
}

}  // namespace
}  // namespace libhvd::test
