// A rank whose GPU is late for a call is reported, because the other ranks' GPUs wait for it.
#include "device_support.hpp"

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

// Redirects the process's stderr to a file.
class StderrFile {
 public:
  StderrFile() : path_(std::string(std::getenv("HVD_SHM_DIR")) + "/stderr" + own()) {
    const Fd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (::dup2(file.get(), STDERR_FILENO) < 0) std::abort();
  }
  // Returns all lines so far.
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Waits for a line with the text, and returns it.
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

// The GPU of rank 1 is blocked before "grad". Later calls must not be named.
TEST(DeviceStall, IsReportedByTheRankWhoseGpuIsLate) {
  const auto outcomes = run_on_gpus({.variables = {{"HVD_STALL_CHECK_TIME_SECONDS", "1"}}},
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
  EXPECT_EQ(outcomes[0], "ok");
  EXPECT_EQ(outcomes[1],
            "hvd: the GPU of rank 1 has not come to allreduce \"grad\", 1 s after the call");
}

// In a process set the GPU of rank 0 waits for rank 1's. A call of all ranks comes after it. Only
// rank 1 must be blamed.
TEST(DeviceStall, InAProcessSetIsBlamedOnlyOnTheLateRank) {
  const auto outcomes = run_on_gpus(
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
  EXPECT_EQ(outcomes[0], "ok");
  EXPECT_EQ(outcomes[1],
            "hvd: the GPU of rank 1 has not come to allreduce \"in the set\", 1 s after the call");
  EXPECT_EQ(outcomes[2], "ok");
}

// Runs two ranks whose GPUs sum a tensor, but that of rank 1 never starts. Returns the outcome of
// `next` on rank 0, after its GPU has given up.
std::string outcome_after_stall(
    const std::function<hvd_status(float* device, void* stream)>& next) {
  auto variables = doubles();
  variables["HVD_STALL_CHECK_TIME_SECONDS"] = "1";
  variables["HVD_STALL_SHUTDOWN_TIME_SECONDS"] = "1";
  Job job(
      2,
      [&](int rank, const Child::Report& report) {
        Gpu gpu(rank);
        hvd::init();
        void* const stream = gpu.new_stream();
        float* const device = gpu.upload(std::vector<float>{1});
        if (rank == 1)
          gpu.call(
              stream, [](void*) { ::pause(); }, nullptr);
        report(text_of(sum(device, "grad", stream)));
        if (rank == 1) ::pause();
        gpu.synchronize(stream);
        report(text_of(next(device, stream)));
      },
      variables);
  EXPECT_EQ(job.rank(0).line(), "ok");
  EXPECT_EQ(job.rank(1).line(), "ok");
  return job.rank(0).line().value_or("");
}

TEST(DeviceStall, ThatLastsTooLongFailsTheNextCall) {
  const auto next = [](float* device, void* stream) { return sum(device, "next", stream); };
  EXPECT_THAT(outcome_after_stall(next),
              AllOf(StartsWith("allreduce \"next\": the GPU of rank 0 (pid "),
                    HasSubstr("has waited too long for those of other ranks")));
}

// The call had succeeded, and the program need not make another one that would return the error.
TEST(DeviceStall, ThatLostResultsFailsTheShutdown) {
  EXPECT_THAT(outcome_after_stall([](float*, void*) { return hvd_shutdown(); }),
              StartsWith("hvd_shutdown: results of earlier calls on the GPU are lost: the GPU of "
                         "rank 0 (pid "));
}

// During a capture, CUDA refuses queries from threads that have not changed their capture mode.
TEST(DeviceStall, IsDetectedWhileAGraphIsCaptured) {
  const auto outcomes = run_on_gpus(
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
  EXPECT_THAT(outcomes, testing::Each("ok"));
}

}  // namespace
}  // namespace libhvd::test
