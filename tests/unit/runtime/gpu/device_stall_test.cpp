// A rank whose GPU does not come to a call is reported, because the other ranks' GPUs wait for it.
#include "device_support.hpp"
#include "support.hpp"

#include <array>
#include <fstream>
#include <functional>
#include <iterator>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hvd/hvd.hpp>
#include <unistd.h>

namespace libhvd::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// From here on the process's stderr goes into a file.
class StderrFile {
 public:
  StderrFile() : path_(std::string(std::getenv("HVD_SHM_DIR")) + "/stderr" + own()) {
    const Fd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (::dup2(file.get(), STDERR_FILENO) < 0) std::abort();
  }
  // Returns all that is there.
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Returns the first line with the text, when it is there.
  std::string await(const std::string& text) const {
    while (true) {
      std::ifstream file(path_);
      for (std::string line; std::getline(file, line);)
        if (line.find(text) != std::string::npos && !file.eof()) return line;
      ::usleep(1000);
    }
  }

 private:
  static std::string own() { return std::to_string(::getpid()); }
  std::string path_;
};

hvd_status sum(float* device, const char* name, void* stream) {
  const hvd_options options = on_cuda(name, stream);
  return hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_SUM, &options);
}

// The GPU of rank 1 is held up before "grad"; the calls after it are not the ones to name.
TEST(DeviceStall, IsReportedByTheRankWhoseGpuHasNotCome) {
  const auto said = run_on_gpus({.variables = {{"HVD_STALL_CHECK_TIME_SECONDS", "1"}}},
                                [](int rank, Gpu& gpu) -> std::string {
                                  const StderrFile lines;
                                  void* const stream = gpu.new_stream();
                                  float* const device = gpu.upload(std::vector<float>{1});
                                  if (sum(device, "first", stream) != HVD_OK)
                                    return hvd_last_error();
                                  gpu.synchronize(stream);
                                  std::string line;
                                  {
                                    Gate gate(gpu, stream);
                                    if (rank == 0) gate.open();
                                    for (const char* name : {"grad", "later", "last"}) {
                                      if (sum(device, name, stream) != HVD_OK)
                                        return hvd_last_error();
                                    }
                                    if (rank == 1) line = lines.await("has not come");
                                    gate.open();
                                    gpu.synchronize(stream);
                                  }
                                  if (gpu.download(device, 1)[0] != 16.0f) return "wrong";
                                  return rank == 1 ? line : "ok";
                                });
  EXPECT_EQ(said[0], "ok");
  EXPECT_EQ(said[1],
            "hvd: the GPU of rank 1 has not come to allreduce \"grad\", 1 s after the call");
}

// The GPUs of ranks 0 and 2 wait for rank 1's in one process set; a call of all ranks comes after
// it in the order. Only rank 1 is blamed.
TEST(DeviceStall, OfOneSetIsNotBlamedOnRanksThatWaitInIt) {
  const auto said = run_on_gpus(
      {.size = 3, .variables = {{"HVD_STALL_CHECK_TIME_SECONDS", "1"}}},
      [](int rank, Gpu& gpu) -> std::string {
        const StderrFile lines;
        std::int32_t set = 0;
        const int members[] = {0, 1};
        if (hvd_add_process_set(members, 2, &set) != HVD_OK) return hvd_last_error();
        void* const stream = gpu.new_stream();
        void* const other = gpu.new_stream();
        float* const device = gpu.upload(std::vector<float>{1, 1});
        if (sum(device + 1, "first", other) != HVD_OK) return hvd_last_error();
        std::string line = "ok";
        {
          Gate gate(gpu, stream);
          if (rank != 1) gate.open();
          if (rank != 2) {
            hvd_options options = on_cuda("in the set", stream);
            options.process_set = set;
            if (hvd_allreduce(device, device, 1, HVD_FLOAT32, HVD_SUM, &options) != HVD_OK)
              return hvd_last_error();
          }
          if (sum(device + 1, "of all", other) != HVD_OK) return hvd_last_error();
          if (rank == 1) line = lines.await("has not come");
          gate.open();
          gpu.synchronize(stream);
          gpu.synchronize(other);
        }
        if (rank == 0) {
          // Rank 0 has had as much time as rank 1 to report something.
          return lines.text().empty() ? "ok" : lines.text();
        }
        return line;
      });
  EXPECT_EQ(said[0], "ok");
  EXPECT_EQ(said[1],
            "hvd: the GPU of rank 1 has not come to allreduce \"in the set\", 1 s after the call");
  EXPECT_EQ(said[2], "ok");
}

// Runs two ranks whose GPUs sum a tensor, but that of rank 1 never comes to it. Returns what rank 0
// tells when its GPU has given up: the outcome of `next`.
std::string say_after_the_stall(
    const std::function<hvd_status(float* device, void* stream)>& next) {
  auto variables = doubles();
  variables["HVD_STALL_CHECK_TIME_SECONDS"] = "1";
  variables["HVD_STALL_SHUTDOWN_TIME_SECONDS"] = "1";
  Job job(
      2,
      [&](int rank, const Child::Tell& tell) {
        Gpu gpu(rank);
        hvd::init();
        void* const stream = gpu.new_stream();
        float* const device = gpu.upload(std::vector<float>{1});
        if (rank == 1)
          gpu.call(
              stream, [](void*) { ::pause(); }, nullptr);
        tell(text_of(sum(device, "grad", stream)));
        if (rank == 1) ::pause();
        gpu.synchronize(stream);
        tell(text_of(next(device, stream)));
      },
      variables);
  EXPECT_EQ(job.rank(0).line(), "ok");
  EXPECT_EQ(job.rank(1).line(), "ok");
  return job.rank(0).line().value_or("");
}

TEST(DeviceStall, ThatLastsTooLongIsAnErrorOfTheNextCall) {
  const auto next = [](float* device, void* stream) { return sum(device, "next", stream); };
  EXPECT_THAT(say_after_the_stall(next),
              AllOf(StartsWith("allreduce \"next\": the GPU of rank 0 (pid "),
                    HasSubstr("has waited too long for those of other ranks")));
}

// The call had succeeded, so the program need not make another one that would return the error.
TEST(DeviceStall, ThatLostResultsIsAnErrorOfTheShutdown) {
  EXPECT_THAT(say_after_the_stall([](float*, void*) { return hvd_shutdown(); }),
              StartsWith("hvd_shutdown: results of earlier calls on the GPU are lost: the GPU of "
                         "rank 0 (pid "));
}

// CUDA then refuses questions about the GPU from threads that have not said otherwise.
TEST(DeviceStall, IsLookedForWhileAGraphIsCaptured) {
  const auto said = run_on_gpus(
      {.variables = {{"HVD_DOUBLE_CAPTURES", "1"}, {"HVD_STALL_CHECK_TIME_SECONDS", "1"}}},
      [](int rank, Gpu& gpu) -> std::string {
        const StderrFile lines;
        void* const stream = gpu.new_stream();
        float* const device = gpu.upload(std::vector<float>{1});
        Gate gate(gpu, stream);
        if (rank == 0) gate.open();
        if (sum(device, "grad", stream) != HVD_OK) return hvd_last_error();
        if (rank == 1) lines.await("has not come");
        gate.open();
        gpu.synchronize(stream);
        return text_of(sum(device, "next", stream));
      });
  EXPECT_THAT(said, testing::Each("ok"));
}

}  // namespace
}  // namespace libhvd::test
