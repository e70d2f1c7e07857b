// Outputs on the device that the caller allocates once the number of rows is known.
#include "device_support.hpp"

#include <cstdint>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

using testing::Each;

// An allocator of the program.
struct Allocated {
  Gpu& gpu;
  std::function<void*(std::size_t rows)> way = {};  // none: device memory
  int calls = 0;
  std::size_t rows = 0;
  void* memory = nullptr;

  static void* allocate(void* context, std::size_t rows) {
    auto& self = *static_cast<Allocated*>(context);
    ++self.calls;
    self.rows = rows;
    self.memory = self.way ? self.way(rows) : self.gpu.allocate(rows * sizeof(std::int32_t));
    return self.memory;
  }
  hvd_options options(const char* name, void* stream = nullptr) {
    hvd_options options = on_cuda(name, stream);
    options.allocate = allocate;
    options.allocate_context = this;
    return options;
  }
  std::vector<std::int32_t> values(void* stream = nullptr) {
    return gpu.download(static_cast<std::int32_t*>(memory), rows, stream);
  }
};

using Values = std::vector<std::int32_t>;

enum class Way { blocking, background };

hvd_status wait_for(hvd_status submitted, const hvd_handle& handle) {
  return submitted == HVD_OK ? hvd_wait(handle) : submitted;
}

// Gathers rows[r] rows of each rank r.
hvd_status gather(Way way, Gpu& gpu, int rank, const std::vector<std::size_t>& rows,
                  const hvd_options& options) {
  const std::size_t own = rows[static_cast<std::size_t>(rank)];
  const std::int32_t* const input = gpu.upload(Values(own, rank));
  if (way == Way::blocking)
    return hvd_allgather(input, own, 1, HVD_INT32, nullptr, 0, nullptr, &options);
  hvd_handle handle = 0;
  return wait_for(
      hvd_allgather_async(input, own, 1, HVD_INT32, nullptr, 0, nullptr, &options, &handle),
      handle);
}

Values gathered(const std::vector<std::size_t>& rows) {
  Values all;
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    all.insert(all.end(), rows[rank], static_cast<std::int32_t>(rank));
  return all;
}

// Sends r + peer rows from rank r to each peer.
hvd_status swap_rows(Way way, Gpu& gpu, int rank, int size, const hvd_options& options) {
  std::vector<std::size_t> splits;
  Values values;
  for (int peer = 0; peer < size; ++peer) {
    splits.push_back(static_cast<std::size_t>(rank + peer));
    values.insert(values.end(), splits.back(), 100 * rank + peer);
  }
  const std::int32_t* const input = gpu.upload(values);
  if (way == Way::blocking)
    return hvd_alltoall(input, splits.data(), values.size(), 1, HVD_INT32, nullptr, 0, nullptr,
                        &options);
  hvd_handle handle = 0;
  return wait_for(hvd_alltoall_async(input, splits.data(), values.size(), 1, HVD_INT32, nullptr, 0,
                                     nullptr, &options, &handle),
                  handle);
}

Values swapped(int rank, int size) {
  Values values;
  for (int peer = 0; peer < size; ++peer)
    for (int row = 0; row < rank + peer; ++row) values.push_back(100 * peer + rank);
  return values;
}

// Returns jobs with a GPU for each rank, and one with all ranks on one GPU, where rows go through
// host memory.
std::vector<GpuJob> jobs() {
  return {{.size = 2}, {.size = 4}, {.size = 3, .devices = {1, 1, 1}}, {.size = 1}};
}

std::string check_rows(Way way, Gpu& gpu, int rank, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> uneven;
  for (std::size_t each = 0; each < ranks; ++each) uneven.push_back(3 * each);
  for (const auto& rows :
       {std::vector<std::size_t>(ranks, 5), uneven, std::vector<std::size_t>(ranks, 0)}) {
    Allocated result{gpu};
    if (gather(way, gpu, rank, rows, result.options("rows")) != HVD_OK) return hvd_last_error();
    if (result.calls != 1 || result.values() != gathered(rows)) return "allgather";
  }
  Allocated result{gpu};
  if (swap_rows(way, gpu, rank, size, result.options("experts")) != HVD_OK) return hvd_last_error();
  return result.calls == 1 && result.values() == swapped(rank, size) ? "ok" : "alltoall";
}

TEST(DeviceOutput, HoldsTheRowsOfAllRanks) {
  for (const GpuJob& job : jobs()) {
    EXPECT_THAT(run_on_gpus(job,
                            [&](int rank, Gpu& gpu) {
                              testing::internal::CaptureStderr();
                              std::string outcome = check_rows(Way::blocking, gpu, rank, job.size);
                              if (outcome == "ok")
                                outcome = check_rows(Way::background, gpu, rank, job.size);
                              testing::internal::GetCapturedStderr();
                              return outcome;
                            }),
                Each("ok"))
        << job.size << " ranks";
  }
}

TEST(DeviceOutput, WorksWhenOnlyOneRankAllocates) {
  EXPECT_THAT(
      run_on_gpus({},
                  [](int rank, Gpu& gpu) -> std::string {
                    const std::vector<std::size_t> rows{1, 2};
                    Allocated result{gpu};
                    if (rank == 1) {
                      if (gather(Way::blocking, gpu, rank, rows, result.options("x")) != HVD_OK)
                        return hvd_last_error();
                    } else {
                      result.rows = 3;
                      result.memory = gpu.allocate(12);
                      const hvd_options options = on_cuda("x");
                      if (hvd_allgather(gpu.upload(Values{0}), 1, 1, HVD_INT32, result.memory, 3,
                                        nullptr, &options) != HVD_OK)
                        return hvd_last_error();
                    }
                    return result.values() == gathered(rows) ? "ok" : "wrong";
                  }),
      Each("ok"));
}

// Checks that only the last rank gets an error, which begins with `wanted`. The others must get
// their rows, and the next calls must work.
std::string check_failed_allocation(Way way, Gpu& gpu, int rank, int size,
                                    const std::function<void*(std::size_t rows)>& allocate_on_last,
                                    const std::string& wanted) {
  const bool odd = rank == size - 1;
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> uneven;
  for (std::size_t each = 0; each < ranks; ++each) uneven.push_back(3 - each % 2);
  for (const auto& rows : {std::vector<std::size_t>(ranks, 5), uneven}) {
    Allocated result{gpu};
    if (odd) result.way = allocate_on_last;
    const hvd_status status = gather(way, gpu, rank, rows, result.options("x"));
    if (odd) {
      if (status != HVD_ERROR_SYSTEM) return "allgather: " + text_of(status);
      if (!std::string(hvd_last_error()).starts_with("allgather \"x\": " + wanted))
        return hvd_last_error();
    } else if (status != HVD_OK || result.values() != gathered(rows)) {
      return "allgather: " + text_of(status);
    }
  }
  Allocated result{gpu};
  if (odd) result.way = allocate_on_last;
  const hvd_status status = swap_rows(way, gpu, rank, size, result.options("x"));
  if (odd) {
    if (status != HVD_ERROR_SYSTEM) return "alltoall: " + text_of(status);
    if (!std::string(hvd_last_error()).starts_with("alltoall \"x\": " + wanted))
      return hvd_last_error();
  } else if (status != HVD_OK || result.values() != swapped(rank, size)) {
    return "alltoall: " + text_of(status);
  }
  return check_rows(way, gpu, rank, size);
}

void expect_failed_allocation(const std::function<void*(std::size_t rows)>& allocate_on_last,
                              const std::string& wanted) {
  for (const GpuJob& job : jobs()) {
    if (job.size == 1) continue;
    for (const Way way : {Way::blocking, Way::background}) {
      EXPECT_THAT(run_on_gpus(job,
                              [&](int rank, Gpu& gpu) {
                                testing::internal::CaptureStderr();
                                std::string outcome = check_failed_allocation(
                                    way, gpu, rank, job.size, allocate_on_last, wanted);
                                testing::internal::GetCapturedStderr();
                                return outcome;
                              }),
                  Each("ok"))
          << job.size << " ranks";
    }
  }
}

TEST(DeviceOutput, HostMemoryFailsOnlyOnThatRank) {
  static std::int32_t on_host[100];
  expect_failed_allocation(
      [](std::size_t) { return on_host; },
      "the output of hvd_options.allocate is not in device memory, but the call says "
      "HVD_CUDA");
}

TEST(DeviceOutput, NoMemoryFailsOnlyOnThatRank) {
  expect_failed_allocation([](std::size_t) { return nullptr; },
                           "no memory: hvd_options.allocate gave none for ");
}

// The input of a rank without memory must still be read in the order of its stream.
TEST(DeviceOutput, ARankWithoutMemoryKeepsTheOrderOfItsStream) {
  const auto outcomes = run_on_gpus({}, [](int rank, Gpu& gpu) -> std::string {
    void* const stream = gpu.new_stream();
    Allocated result{gpu};
    if (rank == 1) result.way = [](std::size_t) { return nullptr; };
    std::int32_t* const input = gpu.upload(Values{0});
    const std::int32_t first = rank + 5;
    const std::int32_t later = 99;
    Gate gate(gpu, stream);
    gpu.copy(input, &first, sizeof first, stream);
    const hvd_options options = result.options("x", stream);
    hvd_handle handle = 0;
    const hvd_status status = wait_for(
        hvd_allgather_async(input, 1, 1, HVD_INT32, nullptr, 0, nullptr, &options, &handle),
        handle);
    if (status != (rank == 1 ? HVD_ERROR_SYSTEM : HVD_OK)) return text_of(status);
    gpu.copy(input, &later, sizeof later, stream);
    if (gpu.is_idle(stream)) return "the stream has not waited";
    gate.open();
    gpu.synchronize(stream);
    return rank == 1 || result.values(stream) == Values{5, 6} ? "ok" : "wrong";
  });
  EXPECT_THAT(outcomes, Each("ok"));
}

}  // namespace
}  // namespace libhvd::test
