// Collectives on device memory give the results of host memory, in the order of the stream.
#include "device_support.hpp"
#include "gpu/image.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hvd/float16.hpp>

namespace libhvd::test {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

// Returns a number so small that every type holds every result exactly.
double element_of(int rank, std::size_t i) {
  return 1 + rank + static_cast<double>(i % 2);
}

double reduced(hvd_op op, int size, std::size_t i) {
  double value = element_of(0, i);
  for (int rank = 1; rank < size; ++rank) {
    const double own = element_of(rank, i);
    if (op == HVD_MIN) value = std::min(value, own);
    if (op == HVD_MAX) value = std::max(value, own);
    if (op == HVD_PRODUCT) value *= own;
    if (op == HVD_SUM || op == HVD_AVERAGE) value += own;
  }
  return op == HVD_AVERAGE ? value / size : value;
}

template <class T>
T converted(double value) {
  if constexpr (std::is_class_v<T>) return T(static_cast<float>(value));
  return static_cast<T>(value);
}
template <>
hvd::float16 converted(double value) {
  return hvd::float16(static_cast<float>(value));
}
template <>
hvd::bfloat16 converted(double value) {
  return hvd::bfloat16(static_cast<float>(value));
}

template <class T>
std::string check_allreduce(Gpu& gpu, int rank, int size, hvd_type type, hvd_op op) {
  constexpr std::size_t kCount = 1000;
  std::vector<T> input(kCount);
  for (std::size_t i = 0; i < kCount; ++i) input[i] = converted<T>(element_of(rank, i));
  T* const device = gpu.upload(input);
  const hvd_options options = on_cuda("tensor");
  if (hvd_allreduce(device, device, kCount, type, op, &options) != HVD_OK) return hvd_last_error();
  const std::vector<T> output = gpu.download(device, kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const T expected = converted<T>(reduced(op, size, i));
    if (std::memcmp(&output[i], &expected, sizeof expected) != 0)
      return "type " + std::to_string(type) + ", op " + std::to_string(op) + ": element " +
             std::to_string(i) + " is wrong";
  }
  return "ok";
}

std::string check_all_allreduces(Gpu& gpu, int rank, int size) {
  for (const hvd_op op : {HVD_AVERAGE, HVD_SUM, HVD_MIN, HVD_MAX, HVD_PRODUCT}) {
    for (const std::string& outcome :
         {check_allreduce<std::uint8_t>(gpu, rank, size, HVD_UINT8, op),
          check_allreduce<std::int8_t>(gpu, rank, size, HVD_INT8, op),
          check_allreduce<std::uint16_t>(gpu, rank, size, HVD_UINT16, op),
          check_allreduce<std::int16_t>(gpu, rank, size, HVD_INT16, op),
          check_allreduce<std::int32_t>(gpu, rank, size, HVD_INT32, op),
          check_allreduce<std::int64_t>(gpu, rank, size, HVD_INT64, op),
          check_allreduce<hvd::float16>(gpu, rank, size, HVD_FLOAT16, op),
          check_allreduce<float>(gpu, rank, size, HVD_FLOAT32, op),
          check_allreduce<double>(gpu, rank, size, HVD_FLOAT64, op),
          check_allreduce<hvd::bfloat16>(gpu, rank, size, HVD_BFLOAT16, op)}) {
      if (outcome != "ok") return outcome;
    }
  }
  return "ok";
}

TEST(Device, AllreduceSupportsEveryTypeAndOperation) {
  for (const int size : {1, 2, 4}) {
    EXPECT_THAT(
        run_on_gpus({.size = size},
                    [=](int rank, Gpu& gpu) { return check_all_allreduces(gpu, rank, size); }),
        Each("ok"))
        << size << " ranks";
  }
}

TEST(Device, AllreduceOfBoolsGives0Or1) {
  EXPECT_THAT(
      run_on_gpus({},
                  [](int rank, Gpu& gpu) -> std::string {
                    const std::vector<std::uint8_t> input{0, static_cast<std::uint8_t>(rank), 2};
                    std::uint8_t* const device = gpu.upload(input);
                    const hvd_options options = on_cuda();
                    if (hvd_allreduce(device, device, 3, HVD_BOOL, HVD_SUM, &options) != HVD_OK)
                      return hvd_last_error();
                    const std::vector<std::uint8_t> expected{0, 1, 1};
                    return gpu.download(device, 3) == expected ? "ok" : "wrong";
                  }),
      Each("ok"));
}

std::string check_factors(Gpu& gpu, int rank) {
  hvd_options options = on_cuda("scaled");
  options.prescale = 0.5;
  options.postscale = 3;
  float* const device = gpu.upload(std::vector<float>{2.0f * static_cast<float>(rank + 1)});
  if (hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_SUM, &options) != HVD_OK)
    return hvd_last_error();
  if (gpu.download(device, 1)[0] != 9.0f) return "sum";  // (1 + 2) * 3
  if (hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_AVERAGE, &options) != HVD_OK)
    return hvd_last_error();
  if (gpu.download(device, 1)[0] != 13.5f) return "average";
  // A factor that float16 cannot represent, and one of a maximum, go through host memory.
  options.postscale = 1.0 / 3;
  options.prescale = 0;
  auto* const halves = gpu.upload(std::vector<hvd::float16>{hvd::float16(1500.0f)});
  if (hvd_allreduce(halves, halves, 1, HVD_FLOAT16, HVD_SUM, &options) != HVD_OK)
    return hvd_last_error();
  if (static_cast<float>(gpu.download(halves, 1)[0]) != 1000.0f) return "third";
  if (hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_MAX, &options) != HVD_OK)
    return hvd_last_error();
  return gpu.download(device, 1)[0] == 4.5f ? "ok" : "maximum";
}

TEST(Device, FactorsAreAppliedToSumsAveragesAndMaxima) {
  EXPECT_THAT(run_on_gpus({}, [](int rank, Gpu& gpu) { return check_factors(gpu, rank); }),
              Each("ok"));
}

std::string check_broadcast(Gpu& gpu, int rank) {
  // NCCL cannot add 16-bit integers, but can move them.
  const std::vector<std::int16_t> values(777, static_cast<std::int16_t>(rank + 100));
  std::int16_t* const device = gpu.upload(values);
  const hvd_options options = on_cuda("weights");
  if (hvd_broadcast(device, values.size(), HVD_INT16, 1, &options) != HVD_OK)
    return hvd_last_error();
  return gpu.download(device, values.size()) == std::vector<std::int16_t>(777, 101) ? "ok"
                                                                                    : "broadcast";
}

// Gathers rows[r] rows of 3 elements of each rank r.
std::string check_allgather(Gpu& gpu, int rank, const std::vector<std::size_t>& rows) {
  const std::size_t own = rows[static_cast<std::size_t>(rank)];
  std::int32_t* const input = gpu.upload(std::vector<std::int32_t>(own * 3, rank));
  const std::size_t total = std::accumulate(rows.begin(), rows.end(), std::size_t{0});
  auto* const output = static_cast<std::int32_t*>(gpu.allocate((total + 1) * 3 * 4));
  std::vector<std::size_t> received(rows.size());
  const hvd_options options = on_cuda("rows");
  if (hvd_allgather(input, own, 3, HVD_INT32, output, total, received.data(), &options) != HVD_OK)
    return hvd_last_error();
  std::vector<std::int32_t> expected;
  for (std::size_t from = 0; from < rows.size(); ++from)
    expected.insert(expected.end(), rows[from] * 3, static_cast<std::int32_t>(from));
  if (received != rows) return "allgather: rows by rank";
  return gpu.download(output, total * 3) == expected ? "ok" : "allgather";
}

std::string check_reducescatter(Gpu& gpu, int rank, int size, std::size_t rows) {
  std::vector<float> values(rows * 2);
  std::iota(values.begin(), values.end(), 0.0f);
  float* const input = gpu.upload(values);
  const auto ranks = static_cast<std::size_t>(size);
  const auto self = static_cast<std::size_t>(rank);
  const std::size_t share = rows / ranks + (self < rows % ranks ? 1 : 0);
  const std::size_t begin = self * (rows / ranks) + std::min(self, rows % ranks);
  auto* const output = static_cast<float*>(gpu.allocate((share + 1) * 8));
  const hvd_options options = on_cuda("shares");
  if (hvd_reducescatter(input, rows, 2, HVD_FLOAT32, HVD_SUM, output, &options) != HVD_OK)
    return hvd_last_error();
  const std::vector<float> result = gpu.download(output, share * 2);
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result[i] != static_cast<float>(size) * values[begin * 2 + i]) return "reducescatter";
  }
  return "ok";
}

// Sends r + peer rows from rank r to each peer. Their elements are 100 * sender + receiver.
std::string check_alltoall(Gpu& gpu, int rank, int size) {
  std::vector<std::size_t> splits;
  std::vector<std::int64_t> values, expected;
  std::vector<std::size_t> coming;
  for (int peer = 0; peer < size; ++peer) {
    const auto count = static_cast<std::size_t>(rank + peer);
    splits.push_back(count);
    values.insert(values.end(), count, 100 * rank + peer);
    coming.push_back(count);
    expected.insert(expected.end(), count, 100 * peer + rank);
  }
  std::int64_t* const input = gpu.upload(values);
  auto* const output = static_cast<std::int64_t*>(gpu.allocate((expected.size() + 1) * 8));
  std::vector<std::size_t> received(coming.size());
  const hvd_options options = on_cuda("experts");
  if (hvd_alltoall(input, splits.data(), values.size(), 1, HVD_INT64, output, expected.size(),
                   received.data(), &options) != HVD_OK)
    return hvd_last_error();
  if (received != coming) return "alltoall: received";
  return gpu.download(output, expected.size()) == expected ? "ok" : "alltoall";
}

std::string check_moves(Gpu& gpu, int rank, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> uneven(ranks);
  std::iota(uneven.begin(), uneven.end(), std::size_t{0});
  for (const std::string& outcome :
       {check_broadcast(gpu, rank), check_allgather(gpu, rank, std::vector<std::size_t>(ranks, 5)),
        check_allgather(gpu, rank, uneven), check_reducescatter(gpu, rank, size, 4 * ranks),
        check_reducescatter(gpu, rank, size, 4 * ranks + 1),
        check_reducescatter(gpu, rank, size, 1), check_alltoall(gpu, rank, size)}) {
    if (outcome != "ok") return outcome;
  }
  return text_of(hvd_barrier(nullptr));
}

TEST(Device, BroadcastAllgatherReducescatterAndAlltoallWork) {
  for (const int size : {2, 4}) {
    EXPECT_THAT(run_on_gpus({.size = size},
                            [=](int rank, Gpu& gpu) { return check_moves(gpu, rank, size); }),
                Each("ok"))
        << size << " ranks";
  }
}

TEST(Device, SeveralRanksOnOneGpuGoThroughHostMemory) {
  for (const int size : {2, 4}) {
    const auto outcomes = run_on_gpus(
        {.size = size, .devices = std::vector<int>(static_cast<std::size_t>(size), 3)},
        [=](int rank, Gpu& gpu) -> std::string {
          testing::internal::CaptureStderr();
          std::string own = check_all_allreduces(gpu, rank, size);
          if (own == "ok") own = check_moves(gpu, rank, size);
          const std::string line = testing::internal::GetCapturedStderr();
          return own == "ok" ? (rank == 0 ? line.substr(0, line.find('\n')) : own + line) : own;
        });
    EXPECT_EQ(outcomes[0], "hvd: ranks 0-" + std::to_string(size - 1) +
                               " share a GPU, which NCCL cannot do: their collectives on device "
                               "memory go through host memory");
    for (std::size_t rank = 1; rank < outcomes.size(); ++rank) EXPECT_EQ(outcomes[rank], "ok");
  }
}

GpuJob ranks_on_one_gpu(const char* host_of_0, const char* host_of_1) {
  return {.devices = {3, 3},
          .variables = {{"NCCL_HOSTID", host_of_0}},
          .odd_rank = 1,
          .odd_variables = {{"NCCL_HOSTID", host_of_1}}};
}

TEST(Device, RanksOnOneGpuWithDifferentHostIdsUseNccl) {
  GpuJob job = ranks_on_one_gpu("twin0", "twin1");
  const auto body = [](int rank, Gpu& gpu) -> std::string {
    testing::internal::CaptureStderr();
    std::string own = check_all_allreduces(gpu, rank, 2);
    if (own == "ok") own = check_moves(gpu, rank, 2);
    return own + testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(run_on_gpus(job, body), Each("ok"));
  job.variables["HVD_DOUBLE_NCCL_FAILS"] = "ncclAllReduce";
  EXPECT_THAT(run_on_gpus(job, body), Each(HasSubstr("NCCL")));
}

TEST(Device, RanksOnOneGpuWithTheSameHostIdGoThroughHostMemory) {
  const auto outcomes = run_on_gpus(ranks_on_one_gpu("one", "one"), [](int rank, Gpu& gpu) {
    testing::internal::CaptureStderr();
    const std::string own = check_all_allreduces(gpu, rank, 2);
    return own + testing::internal::GetCapturedStderr();
  });
  EXPECT_THAT(outcomes[0], StartsWith("okhvd: ranks 0-1 share a GPU"));
  EXPECT_EQ(outcomes[1], "ok");
}

// NCCL does not encrypt, so it must not be used between hosts. On one host nothing changes.
TEST(Device, EncryptedDataGoesThroughHostMemory) {
  for (const auto& hosts : {std::vector<int>{0, 0, 1}, std::vector<int>{0, 0, 0}}) {
    const auto outcomes =
        run_on_gpus({.size = 3, .variables = {{"HVD_DATA_TLS", "1"}}, .hosts = hosts},
                    [](int rank, Gpu& gpu) -> std::string {
                      testing::internal::CaptureStderr();
                      std::string own = check_all_allreduces(gpu, rank, 3);
                      if (own == "ok") own = check_moves(gpu, rank, 3);
                      const std::string line = testing::internal::GetCapturedStderr();
                      return own + line.substr(0, line.find('\n'));
                    });
    EXPECT_EQ(outcomes[0], hosts.back() == 1
                               ? "okhvd: HVD_DATA_TLS=1, and libhvd's connections of NCCL are not "
                                 "encrypted: collectives on device memory go through host memory"
                               : "ok");
    for (const std::size_t rank : {1u, 2u}) EXPECT_EQ(outcomes[rank], "ok");
  }
}

TEST(Device, ACallReturnsBeforeTheStreamReachesIt) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) -> std::string {
    void* const stream = gpu.new_stream();
    float* const device = gpu.upload(std::vector<float>{0});
    const float late = static_cast<float>(rank + 1);
    // The gate delays the input: a call that did not wait for the stream would read 0.
    Gate gate(gpu, stream);
    gpu.copy(device, &late, sizeof late, stream);
    const hvd_options options = on_cuda("late", stream);
    for (int call = 0; call < 3; ++call) {
      if (hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_SUM, &options) != HVD_OK)
        return hvd_last_error();
    }
    if (gpu.is_idle(stream)) return "the stream has not waited";
    gate.open();
    return gpu.download(device, 1, stream)[0] == 12.0f ? "ok" : "wrong";
  });
  EXPECT_THAT(outcomes, Each("ok"));
}

TEST(Device, WorksOnAThreadWithAnotherCurrentDevice) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) -> std::string {
    float* const device = gpu.upload(std::vector<float>{1});
    std::string own;
    std::thread([&] {
      gpu.use(7);
      const hvd_options options = on_cuda();
      own = text_of(hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_SUM, &options));
    }).join();
    if (own != "ok") return own;
    (void)rank;
    return gpu.download(device, 1)[0] == 2.0f ? "ok" : "wrong";
  });
  EXPECT_THAT(outcomes, Each("ok"));
}

// A thread that has not used CUDA has device 0 but no context, so the driver would refuse its
// kernels.
TEST(Device, KernelsAreLoadedOnAThreadThatHasNotUsedCuda) {
  if (kernel_image() == nullptr) GTEST_SKIP() << "libhvd was built without nvcc";
  const auto outcomes = run_on_gpus({}, [](int, Gpu& gpu) -> std::string {
    float* const device = gpu.upload(std::vector<float>{1});
    Counter launches("HVD_DOUBLE_LAUNCHES");
    std::string own;
    std::thread([&] {
      const hvd_options options = on_cuda();
      own = text_of(hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_ADASUM, &options));
    }).join();
    if (own != "ok") return own;
    return launches.take() > 0 ? "ok" : "no kernel was launched";
  });
  EXPECT_THAT(outcomes, Each("ok"));
}

// Since CUDA 12 cudaSetDevice makes a context, which takes memory of the other rank's GPU.
TEST(Device, ARankMakesNoContextOnTheGpuOfAnother) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) -> std::string {
    float* const device = gpu.upload(std::vector<float>{1, 1});
    const hvd_options options = on_cuda("background");
    hvd_handle handle = 0;
    if (hvd_allreduce_async(device, device, 1, HVD_FLOAT32, HVD_SUM, &options, &handle) != HVD_OK ||
        hvd_wait(handle) != HVD_OK)
      return hvd_last_error();
    std::string own;
    std::thread([&] {
      const hvd_options blocking = on_cuda("blocking");
      own = text_of(hvd_allreduce(device + 1, device + 1, 1, HVD_FLOAT32, HVD_SUM, &blocking));
    }).join();
    if (own != "ok") return own;
    gpu.synchronize();
    return gpu.has_context(1 - rank) ? "it has one" : "ok";
  });
  EXPECT_THAT(outcomes, Each("ok"));
}

// NCCL would add in its own order.
TEST(Device, ReproducibleSumsGoThroughHostMemory) {
  const auto outcomes = run_on_gpus(
      {.size = 3, .variables = {{"HVD_REPRODUCIBLE", "1"}}}, [](int rank, Gpu& gpu) -> std::string {
        testing::internal::CaptureStderr();
        Counter exchanges("HVD_DOUBLE_NCCL_GROUPS");
        std::string own = check_all_allreduces(gpu, rank, 3);
        const std::size_t of_reductions = exchanges.take();
        float* const device = gpu.upload(std::vector<float>{1e8f, -1e8f, 1});
        float* const share = gpu.upload(std::vector<float>{0});
        const void* const inputs[] = {device, device + 1};
        void* const outputs[] = {device, device + 1};
        const std::size_t lengths[] = {1, 1};
        const hvd_options options = on_cuda("sums");
        if (hvd_grouped_allreduce(2, inputs, outputs, lengths, HVD_FLOAT32, HVD_SUM, &options) !=
                HVD_OK ||
            hvd_reducescatter(device, 3, 1, HVD_FLOAT32, HVD_SUM, share, &options) != HVD_OK)
          own = hvd_last_error();
        const std::size_t of_sums = exchanges.take();
        const std::string line = testing::internal::GetCapturedStderr();
        if (own != "ok") return own;
        if (of_reductions == 0) return "NCCL does nothing";
        if (of_sums != 0) return "NCCL adds";
        return rank == 0 ? line.substr(0, line.find('\n')) : "ok" + line;
      });
  EXPECT_EQ(outcomes[0],
            "hvd: HVD_REPRODUCIBLE=1, and NCCL adds in an order of its own: sums of floating point "
            "numbers on device memory go through host memory");
  EXPECT_EQ(outcomes[1], "ok");
  EXPECT_EQ(outcomes[2], "ok");
}

TEST(Device, MissingKernelsOnOneRankAreReportedWithTheReason) {
  if (kernel_image() == nullptr) GTEST_SKIP() << "libhvd was built without nvcc";
  const auto outcomes =
      run_on_gpus({.odd_rank = 1, .odd_variables = {{"HVD_CUDA_DRIVER", "/nowhere/libcuda.so"}}},
                  [](int, Gpu& gpu) -> std::string {
                    testing::internal::CaptureStderr();
                    float* const device = gpu.upload(std::vector<float>{1});
                    const hvd_options options = on_cuda();
                    const std::string own =
                        text_of(hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_SUM, &options));
                    return own + ' ' + testing::internal::GetCapturedStderr();
                  });
  EXPECT_THAT(outcomes[0],
              testing::StartsWith("ok hvd: without libhvd's own kernels small tensors are "
                                  "not packed, and Adasum goes through host memory: rank "
                                  "1: HVD_CUDA_DRIVER cannot be opened"));
  EXPECT_EQ(outcomes[1], "ok ");
}

TEST(Device, ZeroElementsAreAccepted) {
  EXPECT_THAT(run_on_gpus({},
                          [](int, Gpu&) {
                            const hvd_options options = on_cuda("nothing");
                            return text_of(
                                hvd_allreduce(nullptr, nullptr, 0, HVD_FLOAT32, HVD_SUM, &options));
                          }),
              Each("ok"));
}

TEST(Device, WorksAgainAfterShutdownAndInit) {
  EXPECT_THAT(run_on_gpus({},
                          [](int, Gpu& gpu) -> std::string {
                            for (int round = 0; round < 3; ++round) {
                              float* const device = gpu.upload(std::vector<float>{1});
                              const hvd_options options = on_cuda();
                              if (hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_SUM,
                                                &options) != HVD_OK)
                                return hvd_last_error();
                              if (gpu.download(device, 1)[0] != 2.0f) return "wrong";
                              if (hvd_shutdown() != HVD_OK || hvd_init() != HVD_OK)
                                return hvd_last_error();
                            }
                            return "ok";
                          }),
              Each("ok"));
}

}  // namespace
}  // namespace libhvd::test
