// Tests PMIx over several hosts with real servers and real programs. Each host is a process.
#include "../temporary_folder.hpp"
#include "simulated_hosts/pmix_job_on_hosts.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>
#include <pmix_version.h>
#include <sys/wait.h>

#ifdef __SANITIZE_THREAD__
// For many ranks, libpmix's shared memory (ds21) holds more than 64 locks at once. The sanitizer's
// deadlock detector cannot follow that many and ends the process.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "detect_deadlocks=0";
}
#endif

namespace hvdrun {
namespace {

class PmixHosts : public ::testing::Test {
 protected:
  // Runs a scenario of tests/programs/pmix_exchange.c.
  JobEnd run(const std::string& scenario, std::vector<int> ranks_per_host) {
    job_.ranks_per_host = std::move(ranks_per_host);
    job_.arguments = {HVDRUN_TEST_PROGRAMS "/pmix_exchange", scenario};
    return run_job();
  }

  JobEnd run_job() {
    job_.folder = folder_.path() / std::to_string(runs_++);
    std::filesystem::create_directories(job_.folder);
    auto end = run_on_hosts(job_);
    EXPECT_TRUE(end) << end.error().message;
    return end ? std::move(*end) : JobEnd{};
  }

  void expect_all_succeeded(const JobEnd& end) {
    for (std::size_t rank = 0; rank < end.ranks.size(); ++rank)
      EXPECT_EQ(end.ranks[rank].wait_status, 0)
          << "rank " << rank << ": " << end.ranks[rank].output;
  }

  TemporaryFolder folder_;
  JobOnHosts job_;
  int runs_ = 0;
};

const std::vector<int> kUneven{4, 3, 1, 1};
// In libpmix 5.0 only the first rank of a host learns that a fence has failed (_mdxcbfunc in
// src/server/pmix_server.c of 5.0.7).
const std::vector<int> kForFailures =
    PMIX_VERSION_MAJOR == 5 ? std::vector<int>{1, 1, 1, 1} : kUneven;
// libpmix's name for PMIX_ERR_LOST_CONNECTION.
const std::string kLostConnection =
    PMIX_VERSION_MAJOR == 5 ? "PMIX_ERR_LOST_CONNECTION\n" : "LOST_CONNECTION\n";

TEST_F(PmixHosts, CollectingFenceGivesEveryRankAllData) {
  expect_all_succeeded(run("collected", kUneven));
}

TEST_F(PmixHosts, GetAfterAPlainFenceRequestsTheData) {
  expect_all_succeeded(run("direct", kUneven));
}

TEST_F(PmixHosts, GetWaitsUntilTheDataIsPut) {
  expect_all_succeeded(run("unfenced", kUneven));
}

TEST_F(PmixHosts, ThirtyFencesInARowSucceed) {
  const auto end = run("in_a_row", kUneven);
  expect_all_succeeded(end);
  EXPECT_GE(end.exchanged, 30 * kUneven.size());
}

TEST_F(PmixHosts, FencesOfSomeRanksSucceed) {
  expect_all_succeeded(run("groups", kUneven));
}

TEST_F(PmixHosts, ConcurrentFencesSucceed) {
  expect_all_succeeded(run("in_flight", kUneven));
}

TEST_F(PmixHosts, TwentyConsecutiveJobsSucceed) {
  for (int i = 0; i < 20; ++i) expect_all_succeeded(run("collected", {1, 2}));
}

TEST_F(PmixHosts, FenceWithinOneHostSendsNothingToTheLauncher) {
  const auto end = run("groups", {5});
  expect_all_succeeded(end);
  EXPECT_EQ(end.exchanged, 0u);
}

TEST_F(PmixHosts, EveryRankKnowsThePlacementOfAllRanks) {
  const auto end = run("places", kUneven);
  expect_all_succeeded(end);
  ASSERT_EQ(end.ranks.size(), 9u);
  EXPECT_EQ(end.ranks[0].output,
            "host 0 of 4, peers 0,1,2,3 of 4, 0 on host0 as 0, 8 on host3 as 0\n");
  EXPECT_EQ(end.ranks[5].output,
            "host 1 of 4, peers 4,5,6 of 3, 5 on host1 as 1, 8 on host3 as 0\n");
}

TEST_F(PmixHosts, FenceTimeoutGivesEveryRankTheSameStatus) {
  expect_all_succeeded(run("late", kForFailures));
}

TEST_F(PmixHosts, GetCanBeRepeatedAfterATimeout) {
  expect_all_succeeded(run("late_put", kUneven));
}

TEST_F(PmixHosts, GetOfAKeyThatIsNeverPutFails) {
  expect_all_succeeded(run("never_put", kUneven));
}

TEST_F(PmixHosts, DataOfARankOutlivesTheRank) {
  expect_all_succeeded(run("legacy", kUneven));
}

TEST_F(PmixHosts, RankDeathInAFenceReleasesTheOtherRanks) {
  for (int i = 0; i < 5; ++i) {
    const auto end = run("death", kUneven);
    ASSERT_EQ(end.ranks.size(), 9u);
    EXPECT_TRUE(WIFSIGNALED(end.ranks[0].wait_status)) << end.ranks[0].output;
    for (std::size_t rank = 1; rank < end.ranks.size(); ++rank)
      EXPECT_EQ(end.ranks[rank].wait_status, 0) << end.ranks[rank].output;
  }
}

TEST_F(PmixHosts, LostHostFailsTheFencesThatWaitForIt) {
  std::size_t came = 0;
  job_.on_exchange = [&](std::size_t, const Frame& frame, const auto& kill_host) {
    if (frame.type == FrameType::fence && ++came == 3) kill_host(3);
  };
  const auto end = run("absence", kForFailures);
  ASSERT_GE(end.ranks.size(), 4u);
  for (std::size_t rank = 0; rank + 1 < end.ranks.size(); ++rank)
    EXPECT_EQ(end.ranks[rank].output, kLostConnection) << "rank " << rank;
}

TEST_F(PmixHosts, GetFromALostHostFails) {
  job_.on_exchange = [](std::size_t, const Frame& frame, const auto& kill_host) {
    if (frame.type == FrameType::modex_request) kill_host(3);
  };
  const auto end = run("silence", kUneven);
  ASSERT_EQ(end.ranks.size(), 9u);
  EXPECT_EQ(end.ranks[0].output, kLostConnection);
}

// With more than 32 ranks on a host, libpmix passes shared data through shared memory.
TEST_F(PmixHosts, HostWithMoreThan32RanksSucceeds) {
  expect_all_succeeded(run("collected", {34, 2}));
}

#ifdef HVDRUN_HAS_EXAMPLES
TEST_F(PmixHosts, HelloExampleRunsOverSeveralHosts) {
  job_.ranks_per_host = kUneven;
  job_.arguments = {HVDRUN_HELLO};
  const auto end = run_job();
  expect_all_succeeded(end);
  EXPECT_EQ(end.ranks.at(0).output, "rank 0 of 9\nthe ranks add up to 36\n");
}
#endif

#ifdef HVDRUN_HAS_OPENMPI
TEST_F(PmixHosts, OpenMpiProgramRunsOverSeveralHosts) {
  job_.ranks_per_host = kUneven;
  job_.arguments = {HVDRUN_TEST_PROGRAMS "/mpi_allreduce"};
  const auto end = run_job();
  expect_all_succeeded(end);
  EXPECT_EQ(end.ranks.at(8).output, "rank 8 of 9: sum 45\n");
}
#endif

}  // namespace
}  // namespace hvdrun
