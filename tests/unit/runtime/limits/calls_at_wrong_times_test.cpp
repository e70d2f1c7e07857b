// Every call before hvd_init, after hvd_shutdown and in a forked child.
#include "reporting.hpp"

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {
bool in_forked_child = false;
}

// Switches off the leak sanitizer's check at the end of a forked child
// (sanitizer/lsan_interface.h). The check takes locks that another thread may have held at the
// fork.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() {
  return in_forked_child ? 1 : 0;
}

namespace libhvd::test {
namespace {

// Makes each call that needs a session, and returns their names and statuses.
std::vector<std::pair<std::string, hvd_status>> call_all() {
  float value = 0;
  std::size_t number = 0;
  std::uint32_t bits = 0;
  std::uint64_t step = 0;
  double seconds = 0;
  int done = 0;
  void* memory = nullptr;
  hvd_handle handle = 0;
  return {
      {"hvd_allreduce", hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr)},
      {"hvd_broadcast", hvd_broadcast(&value, 1, HVD_FLOAT32, 0, nullptr)},
      {"hvd_allgather", hvd_allgather(&value, 1, 1, HVD_FLOAT32, &value, 1, &number, nullptr)},
      {"hvd_reducescatter", hvd_reducescatter(&value, 1, 1, HVD_FLOAT32, HVD_SUM, &value, nullptr)},
      {"hvd_alltoall",
       hvd_alltoall(&value, &number, 0, 1, HVD_FLOAT32, &value, 1, nullptr, nullptr)},
      {"hvd_barrier", hvd_barrier(nullptr)},
      {"hvd_allreduce_async",
       hvd_allreduce_async(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr, &handle)},
      {"hvd_broadcast_async", hvd_broadcast_async(&value, 1, HVD_FLOAT32, 0, nullptr, &handle)},
      {"hvd_allgather_async",
       hvd_allgather_async(&value, 1, 1, HVD_FLOAT32, &value, 1, nullptr, nullptr, &handle)},
      {"hvd_reducescatter_async",
       hvd_reducescatter_async(&value, 1, 1, HVD_FLOAT32, HVD_SUM, &value, nullptr, &handle)},
      {"hvd_alltoall_async", hvd_alltoall_async(&value, nullptr, 0, 1, HVD_FLOAT32, &value, 1,
                                                nullptr, nullptr, &handle)},
      {"hvd_barrier_async", hvd_barrier_async(nullptr, &handle)},
      {"hvd_poll", hvd_poll(1, &done)},
      {"hvd_wait_for", hvd_wait_for(1, 0.0, &done)},
      {"hvd_wait", hvd_wait(1)},
      {"hvd_alloc", hvd_alloc(100, &memory)},
      {"hvd_register", hvd_register(memory, 4096)},
      {"hvd_notice", hvd_notice(&bits, &step)},
      {"hvd_time_left", hvd_time_left(&seconds)},
      {"hvd_shutdown", hvd_shutdown()},
      {"hvd_rank", hvd_rank() == -HVD_ERROR_NOT_INITIALIZED ? HVD_ERROR_NOT_INITIALIZED : HVD_OK},
      {"hvd_size", hvd_size() == -HVD_ERROR_NOT_INITIALIZED ? HVD_ERROR_NOT_INITIALIZED : HVD_OK},
  };
}

// The same of the calls that report progress, which need no session.
std::vector<std::pair<std::string, hvd_status>> report_progress() {
  hvd_progress_values progress{};
  progress.struct_size = sizeof progress;
  return {
      {"hvd_set_step", hvd_set_step(1)},         {"hvd_set_epoch", hvd_set_epoch(1)},
      {"hvd_add_samples", hvd_add_samples(1)},   {"hvd_set_metric", hvd_set_metric("loss", 1)},
      {"hvd_progress", hvd_progress(&progress)},
  };
}

// Returns the calls that give another status; "" if there are none.
std::string calls_without(hvd_status wanted) {
  std::string others;
  for (const auto& [name, status] : call_all()) {
    if (status != wanted) others += name + " gives " + std::to_string(status) + "; ";
  }
  for (const auto& [name, status] : report_progress()) {
    if (status != HVD_OK) others += name + " gives " + std::to_string(status) + "; ";
  }
  return others;
}

TEST(CallsAtWrongTimes, BeforeInitAndAfterShutdownFail) {
  Job job(1, reporting([] {
            std::string text = calls_without(HVD_ERROR_NOT_INITIALIZED);
            hvd::init();
            std::vector<float> values(1);
            hvd::allreduce_async(std::span(values), hvd::Op::sum).wait();
            hvd::shutdown();
            text += calls_without(HVD_ERROR_NOT_INITIALIZED);
            return text.empty() ? "ok" : text;
          }));
  expect_from_all(job, "ok");
}

// Makes all calls in a forked child. Only the queries may succeed. No call may wait for the
// engine's thread, which the child lacks, or for a lock that was held at the fork.
std::string check_calls_in_child() {
  const hvd_handle old_ones[] = {1, 2};
  std::string text;
  for (const hvd_handle handle : old_ones) {
    if (hvd_wait(handle) != HVD_ERROR_FORKED) text += "hvd_wait of an old handle; ";
  }
  for (const auto& [name, status] : report_progress()) {
    if (status != HVD_ERROR_FORKED) text += name + " gives " + std::to_string(status) + "; ";
  }
  for (const auto& [name, status] : call_all()) {
    const bool is_query = name == "hvd_rank" || name == "hvd_size";
    if (status != (is_query ? HVD_OK : HVD_ERROR_FORKED))
      text += name + " gives " + std::to_string(status) + "; ";
  }
  return text.empty() ? "ok" : text;
}

TEST(CallsAtWrongTimes, InAForkedChildFailAndDoNotHang) {
  libhvd::test::Signal initialised;  // of rank 0: the child's calls would fail its hvd_init
  Job job(2, [&](int rank, const Child::Report& report) {
    hvd::init();
    if (rank == 0) initialised.notify();
    std::vector<float> values(1000, 1);
    hvd_handle pending = 0;
    (void)hvd_allreduce_async(values.data(), values.data(), values.size(), HVD_FLOAT32, HVD_SUM,
                              nullptr, &pending);
    if (rank == 1) {
      initialised.await();
      const pid_t child = ::fork();
      if (child == 0) {
        in_forked_child = true;
        report(check_calls_in_child());
        std::exit(0);  // its exit handlers must not end the parent's session
      }
      ::waitpid(child, nullptr, 0);
    }
    // The child has called collectives, so this job's collectives fail.
    const hvd_status status = hvd_barrier(nullptr);
    report(status == HVD_ERROR_PEER ? "failed" : code_and_text_of(status));
    const hvd_status waited = hvd_wait(pending);
    report(waited == HVD_OK || waited == HVD_ERROR_PEER ? "ended" : code_and_text_of(waited));
    report(code_and_text_of(hvd_shutdown()));
  });
  EXPECT_EQ(job.rank(1).line(), "ok");
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job.rank(rank).line(), "failed");
    EXPECT_EQ(job.rank(rank).line(), "ended");
    EXPECT_EQ(job.rank(rank).line(), "ok");
  }
}

// The child uses no collectives, like a data loader. It asks for its size, and ends.
TEST(CallsAtWrongTimes, AForkedChildWithoutCallsIsHarmless) {
  Job job(2, reporting([] {
            hvd::init();
            std::vector<float> values(1000, 1);
            auto pending = hvd::allreduce_async(std::span(values), hvd::Op::sum, "pending");
            const pid_t child = ::fork();
            if (child == 0) {
              in_forked_child = true;
              if (hvd_size() != 2) ::_exit(1);
              std::exit(0);  // a sanitizer may change the exit code, but not to 1
            }
            int status = 0;
            ::waitpid(child, &status, 0);
            pending.wait();
            const int sum = hvd::allreduce(1, hvd::Op::sum);
            hvd::shutdown();
            return std::string(WEXITSTATUS(status) != 1 && sum == 2 && values[999] == 2 ? "ok"
                                                                                        : "not ok");
          }));
  expect_from_all(job, "ok");
}

}  // namespace
}  // namespace libhvd::test
