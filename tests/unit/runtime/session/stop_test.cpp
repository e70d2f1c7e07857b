// Ranks agree to stop at the same step, as threads and as processes.
#include "session/agree.hpp"
#include "session/signal_watch.hpp"
#include "support.hpp"

#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>

#include <gtest/gtest.h>
#include <hvd/agree.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace libhvd {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

TEST(AgreeStop, EveryRankLearnsTheReasonsOfAllRanks) {
  test::run_ranks(4, [](Communicator& communicator) {
    StopSigns own;
    own.seconds_left = 100 + communicator.rank();
    if (communicator.rank() == 1) own.signum = SIGTERM;
    if (communicator.rank() == 2) own.time = true;
    if (communicator.rank() == 3) own.requested = true;
    const auto stop = agree_stop(communicator, own, {});
    ASSERT_TRUE(stop.ok()) << stop.error().message;
    EXPECT_EQ(stop->reasons, HVD_STOP_SIGNAL | HVD_STOP_TIME | HVD_STOP_REQUESTED);
    EXPECT_EQ(stop->signum, SIGTERM);
    EXPECT_EQ(stop->seconds_left, 100);
    EXPECT_EQ(describe_stop(*stop),
              "signal 15 (SIGTERM), time is nearly up (100 s left), the program asked for it");
  });
}

TEST(AgreeStop, ReturnsNoReasonsIfNoRankHasOne) {
  test::run_ranks(2, [](Communicator& communicator) {
    StopSigns own;
    own.seconds_left = kUnknown;
    const auto stop = agree_stop(communicator, own, {});
    ASSERT_TRUE(stop.ok());
    EXPECT_EQ(stop->reasons, 0u);
    EXPECT_EQ(stop->seconds_left, kUnknown);
    EXPECT_EQ(describe_stop(*stop), "");
  });
}

TEST(SignalWatch, RefusesSignalsThatCannotBeWatched) {
  SignalWatch watch;
  for (const int signum : {0, -1, SIGKILL, SIGSTOP, SIGSEGV, NSIG}) {
    const auto outcome = watch.watch(signum);
    ASSERT_FALSE(outcome.ok()) << signum;
    EXPECT_EQ(outcome.error().message, "signal " + std::to_string(signum) + " cannot be watched");
  }
}

TEST(SignalWatch, RemembersSignalsAndRestoresTheHandlerAtTheEnd) {
  struct sigaction before {};
  ::sigaction(SIGUSR2, nullptr, &before);
  {
    SignalWatch watch;
    ASSERT_TRUE(watch.watch(SIGUSR2).ok());
    ASSERT_TRUE(watch.watch(SIGUSR2).ok());
    EXPECT_EQ(SignalWatch::highest_arrived(), 0);
    ::raise(SIGUSR2);
    EXPECT_EQ(SignalWatch::highest_arrived(), SIGUSR2);
  }
  EXPECT_EQ(SignalWatch::highest_arrived(), 0);
  struct sigaction after {};
  ::sigaction(SIGUSR2, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

// One rank gets the signal. All stop at the same step.
TEST(StoppingJob, StopsAtOneStepAfterASignalToOneRank) {
  constexpr int kSize = 3;
  test::Job job(kSize, [](int rank, const test::Child::Report& report) {
    hvd::init();
    hvd::watch_signal(SIGTERM);
    report("ready");
    for (std::uint64_t step = 1;; ++step) {
      if (rank == 1 && step == 40) ::kill(::getpid(), SIGTERM);
      if (const auto stop = hvd::agree_stop(step)) {
        report("step " + std::to_string(step) + ": " + stop.text());
        break;
      }
    }
    hvd::shutdown();
    ::raise(SIGTERM);  // as when hvdrun's signal reaches this rank last
  });
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "ready");
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "step 40: signal 15 (SIGTERM)");
    EXPECT_EQ(job.rank(rank).wait(), 0);
  }
}

TEST(StoppingJob, ASecondCtrlCEndsTheProgram) {
  test::Job job(1, [](int, const test::Child::Report& report) {
    hvd::init();
    hvd::watch_signal(SIGINT);
    ::raise(SIGINT);
    report("still here");
    ::raise(SIGINT);
    report("and still");
  });
  EXPECT_EQ(job.rank(0).line().value_or("nothing"), "still here");
  const int status = job.rank(0).wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

// SLURM says when the job ends; the program says how long its last checkpoint takes.
TEST(StoppingJob, StopsWhenTimeIsNearlyUp) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto end = std::chrono::duration_cast<std::chrono::seconds>(now).count() + 1000;
  test::Job job(
      2,
      [](int, const test::Child::Report& report) {
        hvd::init();
        const auto early = hvd::agree_stop(1, {.seconds_needed = 10});
        const auto late = hvd::agree_stop(2, {.seconds_needed = 1001});
        const bool sensible = hvd::time_left() <= 1000 && hvd::time_left() > 0;
        report(early.text() + "|" + std::to_string(late.reasons()) + (sensible ? "|sensible" : ""));
        hvd::shutdown();
      },
      {{"SLURM_JOB_END_TIME", std::to_string(end)}});
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"),
              "|" + std::to_string(HVD_STOP_TIME) + "|sensible");
  }
}

TEST(StoppingJob, RefusesAStructOfAnotherSize) {
  test::Job job(1, [](int, const test::Child::Report& report) {
    hvd::init();
    hvd_stop stop{};
    const hvd_status status = hvd_agree_stop(1, 0, 0, &stop, nullptr);
    report(std::to_string(status) + " " + hvd_last_error());
    hvd::shutdown();
  });
  const auto line = job.rank(0).line().value_or("nothing");
  EXPECT_NE(line.find("struct_size must be sizeof(hvd_stop)"), std::string::npos) << line;
}

}  // namespace
}  // namespace libhvd
