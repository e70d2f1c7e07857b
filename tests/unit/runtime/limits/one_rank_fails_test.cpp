// One rank fails in a collective that the others have begun: it gets no thread or no memory, or has
// a wrong argument. No rank may hang, and each must get an error.
#include "reporting.hpp"

#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <hvd/agree.h>
#include <hvd/checkpoint.h>
#include <hvd/io.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

namespace libhvd::test {
namespace {

constexpr std::size_t kMuch = std::size_t{64} << 20;

// A sanitizer ends a process that gets no memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// While it exists, this process gets only a few MB of further memory, and no new thread.
class NoMoreMemory {
 public:
  NoMoreMemory() {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit now = before_;
    now.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + kLittle;
    ::setrlimit(RLIMIT_AS, &now);
    // Stacks of ended threads are reused, but not for threads with larger stacks.
    pthread_attr_t large;
    ::pthread_getattr_default_np(&stacks_before_);
    ::pthread_getattr_default_np(&large);
    ::pthread_attr_setstacksize(&large, kMuch);
    ::pthread_setattr_default_np(&large);
    ::pthread_attr_destroy(&large);
  }
  ~NoMoreMemory() {
    ::pthread_setattr_default_np(&stacks_before_);
    ::pthread_attr_destroy(&stacks_before_);
    ::setrlimit(RLIMIT_AS, &before_);
  }
  NoMoreMemory(const NoMoreMemory&) = delete;
  NoMoreMemory& operator=(const NoMoreMemory&) = delete;

 private:
  static constexpr std::size_t kLittle = std::size_t{2} << 20;
  rlimit before_{};
  pthread_attr_t stacks_before_{};
};

// Makes the body of a job of two: rank 0 makes `call`; then rank 1 makes `failing_call`, once rank
// 0 has left hvd_init. Each reports the outcome, then that of an allreduce.
Job::Body on_two(const std::function<hvd_status()>& call,
                 const std::function<hvd_status()>& failing_call) {
  const auto started = std::make_shared<Signal>();
  return [=](int rank, const Child::Report& report) {
    hvd::init();
    if (rank == 0) started->notify();
    if (rank == 1) started->await();
    report(code_and_text_of(rank == 1 ? failing_call() : call()));
    std::int32_t one = 1;
    const hvd_status status = hvd_allreduce(&one, &one, 1, HVD_INT32, HVD_SUM, nullptr);
    report(status == HVD_OK ? "sum " + std::to_string(one) : code_and_text_of(status));
    hvd_shutdown();
  };
}

void expect_lines(Job& job, int rank, const std::vector<std::string>& beginnings) {
  for (const std::string& beginning : beginnings) {
    const std::string line = job.rank(rank).line().value_or("nothing");
    EXPECT_TRUE(line.starts_with(beginning)) << "rank " << rank << ": " << line;
  }
}

hvd_status named_barrier() {
  const hvd_options options = named("b");
  return hvd_barrier(&options);
}

TEST(OneRankFails, NoThreadForTheEngineFailsOnEveryRank) {
  if (kSanitized) GTEST_SKIP();
  Job job(2, on_two(named_barrier, [] {
            const NoMoreMemory limit;
            return named_barrier();
          }));
  expect_lines(job, 0,
               {"4 barrier \"b\": libhvd cannot continue in rank 1 (pid ",
                "4 allreduce: libhvd cannot continue in rank 1 (pid "});
  expect_lines(job, 1,
               {"8 hvd_barrier: cannot start the thread that runs collectives: ",
                "8 allreduce: libhvd cannot continue in rank 1 (pid "});
}

TEST(OneRankFails, NoThreadForTheEngineFailsAJoinOnEveryRank) {
  if (kSanitized) GTEST_SKIP();
  Job job(2, on_two([] { return hvd_join(nullptr); },
                    [] {
                      const NoMoreMemory limit;
                      return hvd_join(nullptr);
                    }));
  expect_lines(job, 0, {"4 "});
  expect_lines(job, 1, {"8 "});
}

// The options have a shape that is too long to be copied.
TEST(OneRankFails, NoMemoryForTheOptionsFailsOnlyThisCall) {
  if (kSanitized) GTEST_SKIP();
  for (const char* name : {static_cast<const char*>(nullptr), "x"}) {
    const auto sum = [=](bool failing) {
      std::string shape = "[1]";
      if (failing) shape.resize(kMuch, 'x');
      hvd_options options{};
      options.struct_size = sizeof options;
      options.name = name;
      options.shape = shape.c_str();
      std::int32_t one = 1;
      hvd_handle first = 0;  // starts the engine's thread before memory is limited
      hvd_barrier_async(nullptr, &first);
      hvd_wait(first);
      if (!failing) return hvd_allreduce(&one, &one, 1, HVD_INT32, HVD_SUM, &options);
      const NoMoreMemory limit;
      return hvd_allreduce(&one, &one, 1, HVD_INT32, HVD_SUM, &options);
    };
    Job job(2, on_two([=] { return sum(false); }, [=] { return sum(true); }));
    for (const int rank : {0, 1}) {
      const std::string title = name == nullptr ? "allreduce" : "allreduce \"x\"";
      expect_lines(job, rank, {"1 " + title + ": rank 1: out of memory", "sum 2"});
    }
  }
}

// The lists of a group are copied before the rank takes part in the call.
TEST(OneRankFails, NoMemoryForAListEndsAllCollectives) {
  if (kSanitized) GTEST_SKIP();
  const auto reduce = [](std::size_t tensors) {
    const std::vector<void*> lists(tensors);
    const std::vector<std::size_t> lengths(tensors);
    const NoMoreMemory limit;
    return hvd_grouped_allreduce(tensors, lists.data(), lists.data(), lengths.data(), HVD_INT32,
                                 HVD_SUM, nullptr);
  };
  Job job(2, on_two([=] { return reduce(1); }, [=] { return reduce(kMuch / sizeof(void*)); }));
  expect_lines(job, 0, {"4 grouped_allreduce: libhvd cannot continue in rank 1 (pid "});
  expect_lines(job, 1, {"8 hvd_grouped_allreduce: out of memory"});
}

TEST(OneRankFails, NoMemoryForCheckpointItemsGivesTheSameStatusOnEveryRank) {
  if (kSanitized) GTEST_SKIP();
  const TemporaryFolder folder;
  const auto save = [&](std::size_t count) {
    hvd_checkpoints* checkpoints = nullptr;
    if (const hvd_status opened =
            hvd_checkpoints_open(folder.path().c_str(), nullptr, &checkpoints);
        opened != HVD_OK)
      return opened;
    const std::vector<hvd_tensor_view> items(count);
    const NoMoreMemory limit;
    return hvd_checkpoints_save(checkpoints, items.data(), count, 1, nullptr);
  };
  Job job(2,
          on_two([=] { return save(0); }, [=] { return save(kMuch / sizeof(hvd_tensor_view)); }));
  expect_lines(job, 0, {"8 hvd_checkpoints_save: rank 1: out of memory", "sum 2"});
  expect_lines(job, 1, {"8 hvd_checkpoints_save: out of memory", "sum 2"});
}

// Makes every collective while one rank sets options.fault.
TEST(OneRankFails, AFaultOptionOfOneRankFailsOnEveryRank) {
  using Call = std::function<hvd_status(const hvd_options*, hvd_handle*)>;
  std::int32_t value[2] = {1, 1};
  std::size_t sizes[2];
  void* output[1] = {value};
  const void* input[1] = {value};
  const std::size_t lengths[1] = {2};
  const std::vector<std::pair<std::string, Call>> calls{
      {"allreduce",
       [&](auto* o, auto* h) {
         return hvd_allreduce_async(value, value, 2, HVD_INT32, HVD_SUM, o, h);
       }},
      {"grouped_allreduce",
       [&](auto* o, auto* h) {
         return hvd_grouped_allreduce_async(1, input, output, lengths, HVD_INT32, HVD_SUM, o, h);
       }},
      {"broadcast",
       [&](auto* o, auto* h) { return hvd_broadcast_async(value, 2, HVD_INT32, 0, o, h); }},
      {"allgather",
       [&](auto* o, auto* h) {
         return hvd_allgather_async(value, 0, 1, HVD_INT32, nullptr, 0, sizes, o, h);
       }},
      {"reducescatter",
       [&](auto* o, auto* h) {
         return hvd_reducescatter_async(value, 0, 1, HVD_INT32, HVD_SUM, nullptr, o, h);
       }},
      {"alltoall",
       [&](auto* o, auto* h) {
         return hvd_alltoall_async(value, nullptr, 0, 1, HVD_INT32, nullptr, 0, sizes, o, h);
       }},
      {"barrier", [&](auto* o, auto* h) { return hvd_barrier_async(o, h); }},
  };
  Job job(2, [&](int rank, const Child::Report& report) {
    hvd::init();
    for (const auto& [kind, call] : calls) {
      hvd_options options = named("t");
      if (rank == 1) options.fault = "its file is gone";
      hvd_handle handle = 0;
      // Rank 1 waits only for the next call of this name.
      hvd_status status = call(&options, rank == 1 ? nullptr : &handle);
      if (status == HVD_OK) status = hvd_wait(handle);
      report(code_and_text_of(status));
      options.fault = nullptr;
      status = call(&options, &handle);
      if (status == HVD_OK) status = hvd_wait(handle);
      report(code_and_text_of(status));
    }
    hvd_shutdown();
  });
  for (const auto& [kind, call] : calls) {
    expect_lines(job, 0, {"1 " + kind + " \"t\": rank 1: its file is gone", "ok"});
    expect_lines(job, 1, {"1 hvd_" + kind + "_async: its file is gone", "ok"});
  }
}

TEST(OneRankFails, ANullHandleOfOneRankFailsOnEveryRank) {
  Job job(2, on_two(named_barrier, [] {
            const hvd_options options = named("b");
            return hvd_barrier_async(&options, nullptr);
          }));
  expect_lines(job, 0, {"1 barrier \"b\": rank 1: handle is null", "sum 2"});
  expect_lines(job, 1, {"1 hvd_barrier_async: handle is null", "sum 2"});
}

TEST(OneRankFails, AFaultOptionInABlockingCallFailsOnEveryRank) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.fault = "its input is gone";
  Job job(2, on_two([] { return hvd_barrier(nullptr); }, [&] { return hvd_barrier(&options); }));
  for (const int rank : {0, 1})
    expect_lines(job, rank, {"1 barrier: rank 1: its input is gone", "sum 2"});
}

// These calls use a small broadcast, whose root does not wait. Still, io.h and agree.h promise the
// same status on all ranks.
TEST(OneRankFails, ANullPointerOfOneRankGivesTheSameStatusOnEveryRank) {
  const auto body = +[](void*, const char**) -> hvd_status { return HVD_OK; };
  Job on_root(2, on_two([=] { return hvd_on_root(body, nullptr, 0, nullptr); },
                        [] { return hvd_on_root(nullptr, nullptr, 0, nullptr); }));
  const TemporaryFolder folder;
  hvd_log* log = nullptr;
  const std::string path = folder.file("log");
  Job log_open(2, on_two([&] { return hvd_log_open(path.c_str(), &log, nullptr); },
                         [&] { return hvd_log_open(path.c_str(), nullptr, nullptr); }));
  hvd_early_stopping state{};
  state.struct_size = sizeof state;
  state.mode = HVD_BEST_MIN;
  Job stopping(
      2, on_two([&] { return hvd_early_stopping_update(&state, 1, nullptr, nullptr, nullptr); },
                [] { return hvd_early_stopping_update(nullptr, 1, nullptr, nullptr, nullptr); }));
  for (const int rank : {0, 1}) {
    expect_lines(on_root, rank, {"1 broadcast \"outcome\": rank 1: hvd_on_root: a null", "sum 2"});
    expect_lines(log_open, rank,
                 {"1 broadcast \"outcome\": rank 1: hvd_log_open: a null", "sum 2"});
    expect_lines(stopping, rank, {"1 broadcast \"early_stopping\": rank 1: hvd_early", "sum 2"});
  }
}

TEST(OneRankFails, AnExceptionInTheRootsBodyFailsOnEveryRank) {
  const auto body = +[](void*, const char**) -> hvd_status { throw std::runtime_error("oh"); };
  const auto call = [=] { return hvd_on_root(body, nullptr, 0, nullptr); };
  Job job(2, on_two(call, call));
  expect_lines(job, 0, {"8 oh", "sum 2"});
  expect_lines(job, 1, {"8 rank 0: oh", "sum 2"});
}

}  // namespace
}  // namespace libhvd::test
