// The C ABI in jobs of several processes that find each other through the environment.
#include "common/status_page.h"
#include "support.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using libhvd::test::Job;
using Report = libhvd::test::Child::Report;

// Makes a rank's body that reports what `body` returns, or the error that it throws.
Job::Body reporting(const std::function<std::string()>& body) {
  return [body](int, const Report& report) {
    try {
      report(body());
    } catch (const hvd::Error& error) {
      report(std::to_string(error.status()) + " " + error.what());
    }
  };
}

void expect_from_all(Job& job, int size, const std::string& text) {
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), text) << "rank " << rank;
  }
}

TEST(ForkedJob, CollectivesGiveRightResults) {
  Job job(4, reporting([] {
            hvd::init();
            const int sum = hvd::allreduce(hvd::rank() + 1, hvd::Op::sum, "ranks");
            std::vector<int> own(static_cast<std::size_t>(hvd::rank()), hvd::rank());
            const auto all = hvd::allgather(std::span(own));
            const int total = std::accumulate(all.begin(), all.end(), 0);
            const int from_2 = hvd::broadcast(hvd::rank() * 10, 2);
            hvd::barrier();
            const bool place = hvd::local_rank() == hvd::rank() && hvd::local_size() == 4 &&
                               hvd::cross_size() == 1 && hvd::node_count() == 1;
            hvd::shutdown();
            return std::to_string(sum) + " " + std::to_string(total) + " " +
                   std::to_string(from_2) + (place ? " placed" : " misplaced");
          }));
  expect_from_all(job, 4, "10 14 20 placed");
  EXPECT_TRUE(job.memory().entries().empty());  // no segment is left
}

TEST(ForkedJob, RegisteredPagesOfTheProgramCanBeReduced) {
  Job job(2, reporting([] {
            constexpr std::size_t kBytes = 64 * 4096;
            hvd::init();
            void* const memory = std::aligned_alloc(4096, kBytes);
            const std::span values(static_cast<int*>(memory), kBytes / sizeof(int));
            std::iota(values.begin(), values.end(), 0);
            {
              const hvd::Registration shared(std::as_writable_bytes(values));
              hvd::allreduce(values, hvd::Op::sum);
            }
            hvd::allreduce(values, hvd::Op::sum);
            bool right = true;
            for (int i = 0; i < static_cast<int>(values.size()); ++i)
              right = right && values[static_cast<std::size_t>(i)] == 4 * i;
            std::free(memory);
            hvd::shutdown();
            return std::string(right ? "right" : "wrong");
          }));
  expect_from_all(job, 2, "right");
}

TEST(ForkedJob, RunsManySessions) {
  Job job(3, reporting([] {
            for (int round = 0; round < 100; ++round) {
              hvd::init();
              const int sum = hvd::allreduce(round, hvd::Op::sum);
              hvd::shutdown();
              if (sum != 3 * round) return std::string("wrong sum");
            }
            return std::string("done");
          }));
  expect_from_all(job, 3, "done");
  EXPECT_TRUE(job.memory().entries().empty());
}

TEST(ForkedJob, ARankThatExitsIsReportedAsLeft) {
  Job job(2, [](int rank, const Report& report) {
    hvd::init();
    if (rank == 1) std::exit(0);  // runs the exit handlers, unlike _exit
    const bool failed = hvd_barrier(nullptr) == HVD_ERROR_PEER;
    report(failed && std::strstr(hvd_last_error(), "has left") ? "left" : hvd_last_error());
  });
  EXPECT_EQ(job.rank(0).line(), "left");
}

TEST(ForkedJob, AKilledRankIsNamed) {
  Job job(3, [](int rank, const Report& report) {
    hvd::init();
    hvd::barrier();
    if (rank == 1) ::raise(SIGKILL);
    const bool failed = hvd_barrier(nullptr) == HVD_ERROR_PEER;
    const std::string text = hvd_last_error();
    report(failed && text.starts_with("barrier: rank 1 (pid ") ? "named" : text);
    // The job has failed, but this rank may continue alone.
    report(hvd_shutdown() == HVD_OK ? "shut down" : hvd_last_error());
  });
  for (const int survivor : {0, 2}) {
    EXPECT_EQ(job.rank(survivor).line(), "named");
    EXPECT_EQ(job.rank(survivor).line(), "shut down");
  }
}

// Also tries a call with a name, which the engine carries out.
TEST(ForkedJob, AForkedChildMayOnlyMakeQueries) {
  for (const bool with_name : {false, true}) {
    libhvd::test::Signal initialised;  // of rank 0: the child's calls would fail its hvd_init
    Job job(2, [&](int rank, const Report& report) {
      hvd_options options{};
      options.struct_size = sizeof options;
      options.name = with_name ? "b" : nullptr;
      hvd::init();
      if (rank == 0) initialised.notify();
      if (rank == 1) {
        initialised.await();
        const pid_t child = ::fork();
        if (child == 0) {
          report("child is rank " + std::to_string(hvd_rank()));
          report(std::to_string(hvd_init()) + " " + std::to_string(hvd_shutdown()) + " " +
                 std::to_string(hvd_set_step(1)) + " " + std::to_string(hvd_barrier(&options)));
          std::exit(0);  // its exit handlers must not end the parent's session
        }
        ::waitpid(child, nullptr, 0);
      }
      const hvd_status status = hvd_barrier(&options);
      report(std::to_string(status) + " " + hvd_last_error());
    });
    EXPECT_EQ(job.rank(1).line(), "child is rank 1");
    EXPECT_EQ(job.rank(1).line(), "9 9 9 9");
    const std::string what = with_name ? "barrier \"b\"" : "barrier";
    const std::string line = job.rank(0).line().value_or("");
    EXPECT_TRUE(line.starts_with("4 " + what + ": a process forked by rank 1 (pid ")) << line;
  }
}

TEST(ForkedJob, DifferentJobKeysFailInitWithinTheTimeout) {
  Job job(2,
          [](int rank, const Report& report) {
            if (rank == 1) ::setenv("HVD_JOB_KEY", std::string(64, 'b').c_str(), 1);
            const hvd_status status = hvd_init();
            report(std::to_string(status) + " " + hvd_last_error());
          },
          {{"HVD_START_TIMEOUT", "1"}});
  const std::string rank_0 = job.rank(0).line().value_or("");
  EXPECT_TRUE(rank_0.starts_with("7 hvd_init: rank 1 did not come to rank 0 within 1 s")) << rank_0;
  EXPECT_TRUE(
      job.rank(1).line().value_or("").starts_with("7 hvd_init: rank 1 did not find rank 0"));
}

TEST(ForkedJob, AMissingSegmentFolderFailsInitOnEveryRank) {
  Job job(3,
          [](int, const Report& report) {
            report(hvd_init() == HVD_OK ? "success" : hvd_last_error());
          },
          {{"HVD_SHM_DIR", "/nonexistent"}, {"HVD_HOSTNAME", "here"}});
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(job.rank(rank).line().value_or("").starts_with(
        "hvd_init: rank 0 on here: cannot create shared memory as /nonexistent/"));
  }
}

TEST(ForkedJob, ZeroIsAValidFactor) {
  Job job(
      2, reporting([] {
        hvd::init();
        hvd::Options options;
        options.prescale = 0;
        const double before = hvd::allreduce(1e305, hvd::Op::sum, options);
        options = {};
        options.postscale = 0;
        const double after = hvd::allreduce(1e305, hvd::Op::max, options);
        // In C a factor of 0 is 1 unless has_factors says otherwise.
        hvd_options from_c{};
        from_c.struct_size = sizeof from_c;
        float unset = 2;
        (void)hvd_allreduce(&unset, &unset, 1, HVD_FLOAT32, HVD_MAX, &from_c);
        from_c.has_factors = 1;
        from_c.prescale = 1;
        float set = 2;
        (void)hvd_allreduce(&set, &set, 1, HVD_FLOAT32, HVD_MAX, &from_c);
        hvd::shutdown();
        return std::string(before == 0 && after == 0 && unset == 2 && set == 0 ? "right" : "wrong");
      }));
  expect_from_all(job, 2, "right");
}

// A file with one status page, which rank 0 of a job writes.
class StatusFile {
 public:
  StatusFile() {
    hvd_status_page page{};
    page.magic = HVD_STATUS_MAGIC;
    page.version = HVD_STATUS_VERSION;
    std::string bytes(HVD_STATUS_PAGE_SIZE, '\0');
    std::memcpy(bytes.data(), &page, sizeof page);
    std::ofstream(path()) << bytes;
  }
  void use_for(int rank) const {
    if (rank == 0) ::setenv("HVD_STATUS", (path() + "@0").c_str(), 1);
  }
  hvd_status_page read() const {
    hvd_status_page page{};
    std::ifstream(path()).read(reinterpret_cast<char*>(&page), sizeof page);
    return page;
  }

 private:
  std::string path() const { return folder_.file("status"); }
  libhvd::test::TemporaryFolder folder_;
};

TEST(ForkedJob, WritesItsStatusPage) {
  const StatusFile file;
  Job job(2, [&](int rank, const Report& report) {
    file.use_for(rank);
    hvd::init();
    hvd::set_step(5);
    hvd::allreduce(1.0, hvd::Op::sum, "loss");
    std::vector<int> values(5000);
    (void)hvd_broadcast(values.data(), values.size(), HVD_INT32, 7, nullptr);
    hvd::shutdown();
    report("done");
  });
  expect_from_all(job, 2, "done");
  const hvd_status_page page = file.read();
  EXPECT_EQ(page.attached, 2u);
  EXPECT_EQ(page.step, 5u);
  EXPECT_EQ(page.collectives, 1u);
  EXPECT_EQ(page.collective_active, 0u);
  EXPECT_STREQ(page.collective_name, "broadcast");
  EXPECT_NE(std::strstr(page.error_text, "the root 7"), nullptr);
}

// What two ranks do before they exit with code 3, and whether the status page still has the error.
struct ErrorCase {
  const char* what;
  std::function<void()> body;
  bool error_remains;
  bool shuts_down = false;
};

void allreduce_of(std::size_t count, const char* name) {
  std::vector<float> values(3);
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = name;
  (void)hvd_allreduce(values.data(), values.data(), count, HVD_FLOAT32, HVD_SUM, &options);
}
void mismatch(const char* name) {
  allreduce_of(hvd::rank() == 0 ? 1 : 2, name);
}
hvd_handle submit(std::size_t count, const char* name) {
  static std::vector<float> values(3);
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = name;
  hvd_handle handle = 0;
  (void)hvd_allreduce_async(values.data(), values.data(), count, HVD_FLOAT32, HVD_SUM, &options,
                            &handle);
  return handle;
}

TEST(ForkedJob, StatusPageDropsAnErrorAfterALaterSuccess) {
  const std::vector<ErrorCase> cases = {
      {"an error at the end", [] { mismatch("wrong"); }, true},
      {"an error at the end of a call without a name", [] { mismatch(nullptr); }, true},
      {"the same collective",
       [] {
         mismatch("wrong");
         allreduce_of(1, "right");
       },
       false},
      {"the same collective without a name",
       [] {
         mismatch(nullptr);
         allreduce_of(1, nullptr);
       },
       false},
      {"another collective on data",
       [] {
         mismatch("wrong");
         float value = 0;
         (void)hvd_broadcast(&value, 1, HVD_FLOAT32, 0, nullptr);
       },
       false},
      {"only a barrier and hvd_shutdown",
       [] {
         mismatch("wrong");
         hvd::barrier();
         hvd::shutdown();
       },
       true, true},
      {"a collective that began before the error",
       [] {
         const hvd_handle right = submit(1, "right");
         const hvd_handle wrong = submit(hvd::rank() == 0 ? 1 : 2, "wrong");
         (void)hvd_wait(wrong);
         (void)hvd_wait(right);
       },
       true},
      {"a collective in the background that began after it",
       [] {
         mismatch("wrong");
         (void)hvd_wait(submit(1, "right"));
       },
       false},
      {"the same function",
       [] {
         (void)hvd_set_metric(nullptr, 1);
         (void)hvd_set_metric("loss", 1);
       },
       false},
      {"an error of another function",
       [] {
         (void)hvd_set_metric(nullptr, 1);
         allreduce_of(1, "right");
       },
       true},
      {"a query",
       [] {
         (void)hvd_process_set_rank(7);
         allreduce_of(1, "right");
       },
       false},
      {"hvd_init after an error before it",
       [] {
         hvd::shutdown();
         (void)hvd_rank();
         hvd::init();
       },
       false},
  };
  for (const ErrorCase& handled : cases) {
    SCOPED_TRACE(handled.what);
    const StatusFile file;
    Job job(2, [&](int rank, const Report&) {
      file.use_for(rank);
      hvd::init();
      handled.body();
      std::exit(3);
    });
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(WEXITSTATUS(job.rank(rank).wait()), 3);
    const hvd_status_page page = file.read();
    EXPECT_EQ(page.error_text[0] != '\0', handled.error_remains) << page.error_text;
    // The exit is blamed on the error only if the program did not call hvd_shutdown.
    EXPECT_EQ(page.failure_ns != 0, handled.error_remains && !handled.shuts_down);
  }
}

TEST(ForkedJob, ACrashOnTheEnginesThreadRunsTheProgramsHandler) {
  Job job(2, [](int, const Report&) {
    std::signal(SIGSEGV, [](int) { ::_exit(42); });
    hvd::init();
    auto* const page =
        static_cast<float*>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    hvd_options options{};
    options.struct_size = sizeof options;
    options.name = "bad";
    hvd_handle handle = 0;
    (void)hvd_allreduce_async(page, page, 1000, HVD_FLOAT32, HVD_SUM, &options, &handle);
    (void)hvd_wait(handle);
  });
  for (int rank = 0; rank < 2; ++rank) {
    const int status = job.rank(rank).wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
  }
}

}  // namespace
