#include "job/blame.hpp"

#include <csignal>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

RankReport exited(int code) {
  RankReport rank;
  rank.exited = true;
  rank.exit_code = code;
  return rank;
}

RankReport killed(int signal) {
  RankReport rank;
  rank.exited = true;
  rank.signal = signal;
  return rank;
}

RankReport raised(double after) {
  RankReport rank = exited(1);
  rank.failure.text = "ValueError: x";
  rank.failure.before_stop = true;
  rank.failed_after = after;
  return rank;
}

RankReport for_a_peer(RankReport rank) {
  rank.failure.text = "Error: rank 1 has left";
  rank.failure.because_of_peer = true;
  rank.failure.before_stop = true;
  return rank;
}

RankReport stopped(RankReport rank) {
  rank.stopped_by_us = true;
  return rank;
}

TEST(Blame, TheFirstFailureInTimeAmongEquals) {
  const std::vector<RankReport> ranks{exited(1), exited(3), exited(0)};
  EXPECT_EQ(find_culprit(ranks, {2, 1, 0}), 1u);
  EXPECT_EQ(find_culprit(ranks, {0, 1, 2}), 0u);
}

TEST(Blame, ASignalComesBeforeAnExitCodeThatWasHeardFirst) {
  const std::vector<RankReport> ranks{exited(1), killed(SIGSEGV), exited(1)};
  EXPECT_EQ(find_culprit(ranks, {0, 2, 1}), 1u);
}

TEST(Blame, AnAbortComesBeforeAnExitCodeAndAfterASignal) {
  auto aborted = exited(7);
  aborted.abort_code = 7;
  EXPECT_EQ(find_culprit({exited(1), aborted}, {0, 1}), 1u);
  EXPECT_EQ(find_culprit({killed(SIGKILL), aborted}, {1, 0}), 0u);
  aborted = stopped(killed(SIGTERM));
  aborted.abort_code = 7;  // our signal was faster than its own exit
  EXPECT_EQ(find_culprit({exited(1), aborted}, {0, 1}), 1u);
  EXPECT_EQ(exit_code_of(aborted), 7);
}

TEST(Blame, NobodyWhomWeStopped) {
  EXPECT_EQ(find_culprit({stopped(killed(SIGTERM)), exited(2)}, {0, 1}), 1u);
  EXPECT_EQ(find_culprit({stopped(killed(SIGTERM)), exited(0)}, {0, 1}), std::nullopt);
  EXPECT_EQ(find_culprit({RankReport{}}, {}), std::nullopt);
}

TEST(Blame, WhoTellsFirstAmongThoseThatTell) {
  EXPECT_EQ(find_culprit({raised(3), raised(1), raised(2)}, {0, 2, 1}), 1u);
  EXPECT_EQ(find_culprit({raised(1), killed(SIGSEGV)}, {0, 1}), 1u);
}

TEST(Blame, FailingForAPeerComesLast) {
  EXPECT_EQ(find_culprit({for_a_peer(exited(1)), exited(3)}, {0, 1}), 1u);
  EXPECT_EQ(find_culprit({for_a_peer(killed(SIGABRT)), exited(3)}, {0, 1}), 1u);
  EXPECT_EQ(find_culprit({for_a_peer(exited(1)), exited(0)}, {1, 0}), 0u) << "there is no other";
  EXPECT_FALSE(failed_by_itself(stopped(for_a_peer(killed(SIGTERM)))));
}

TEST(Blame, WhoWasStoppedAfterItHadTold) {
  auto ending = stopped(raised(1));
  ending.signal = SIGTERM;
  EXPECT_EQ(find_culprit({for_a_peer(exited(1)), ending}, {0, 1}), 1u);
  EXPECT_EQ(exit_code_of(ending), 1);
  ending.failure.before_stop = false;  // a consequence of being stopped
  EXPECT_EQ(find_culprit({for_a_peer(exited(1)), ending}, {0, 1}), 0u);
}

TEST(Blame, LeavingWithoutFinalizeIsAFailure) {
  auto left = exited(0);
  left.lost_connection = true;
  EXPECT_EQ(find_culprit({exited(1), left}, {0, 1}), 1u);
  EXPECT_EQ(exit_code_of(left), 1);
}

TEST(Blame, TheExitCodeIsTheRanksOwnAndNeverZero) {
  EXPECT_EQ(exit_code_of(exited(3)), 3);
  EXPECT_EQ(exit_code_of(killed(SIGKILL)), 137);
  auto aborted = exited(0);
  aborted.abort_code = 256;  // 0 in eight bits
  EXPECT_EQ(exit_code_of(aborted), 1);
  aborted.abort_code = 7;
  EXPECT_EQ(exit_code_of(aborted), 7);
}

}  // namespace
}  // namespace hvdrun
