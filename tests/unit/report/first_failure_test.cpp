#include "report/first_failure.hpp"

#include "base/result.hpp"

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
  rank.failure.reported = true;
  rank.failure.text = "ValueError: x";
  rank.failure.before_stop = true;
  rank.failed_after = after;
  return rank;
}

RankReport because_of_a_peer(RankReport rank) {
  rank.failure.reported = true;
  rank.failure.text = "Error: rank 1 has left";
  rank.failure.because_of_peer = true;
  rank.failure.before_stop = true;
  return rank;
}

RankReport stopped(RankReport rank) {
  rank.stopped_by_us = true;
  return rank;
}

TEST(FirstFailure, EarliestFailureWinsAmongExitCodes) {
  const std::vector<RankReport> ranks{exited(1), exited(3), exited(0)};
  EXPECT_EQ(find_first_failure(ranks, {2, 1, 0}), 1u);
  EXPECT_EQ(find_first_failure(ranks, {0, 1, 2}), 0u);
}

TEST(FirstFailure, ALostConnectionIsNoCauseIfAnotherRankFailed) {
  auto lost = exited(1);
  lost.last_stderr = {"  File \"t.py\", line 3", "    f()",
                      "RuntimeError: Connection closed by peer"};
  EXPECT_EQ(find_first_failure({lost, exited(3)}, {0, 1}), 1u);
  EXPECT_EQ(find_first_failure({lost, exited(0)}, {0, 1}), 0u);
}

TEST(FirstFailure, SignalWinsOverAnEarlierExitCode) {
  const std::vector<RankReport> ranks{exited(1), killed(SIGSEGV), exited(1)};
  EXPECT_EQ(find_first_failure(ranks, {0, 2, 1}), 1u);
}

TEST(FirstFailure, AbortWinsOverAnExitCodeButNotOverASignal) {
  auto aborted = exited(7);
  aborted.abort_code = 7;
  EXPECT_EQ(find_first_failure({exited(1), aborted}, {0, 1}), 1u);
  EXPECT_EQ(find_first_failure({killed(SIGKILL), aborted}, {1, 0}), 0u);
  aborted = stopped(killed(SIGTERM));
  aborted.abort_code = 7;  // hvdrun's signal ended it before its own exit
  EXPECT_EQ(find_first_failure({exited(1), aborted}, {0, 1}), 1u);
  EXPECT_EQ(exit_code_of(aborted), 7);
}

TEST(FirstFailure, RankThatHvdrunStoppedIsNotBlamed) {
  EXPECT_EQ(find_first_failure({stopped(killed(SIGTERM)), exited(2)}, {0, 1}), 1u);
  EXPECT_EQ(find_first_failure({stopped(killed(SIGTERM)), exited(0)}, {0, 1}), std::nullopt);
  EXPECT_EQ(find_first_failure({RankReport{}}, {}), std::nullopt);
}

TEST(FirstFailure, EarliestReportedErrorWins) {
  EXPECT_EQ(find_first_failure({raised(3), raised(1), raised(2)}, {0, 2, 1}), 1u);
  EXPECT_EQ(find_first_failure({raised(1), killed(SIGSEGV)}, {0, 1}), 1u);
}

TEST(FirstFailure, FailureBecauseOfAPeerComesLast) {
  EXPECT_EQ(find_first_failure({because_of_a_peer(exited(1)), exited(3)}, {0, 1}), 1u);
  EXPECT_EQ(find_first_failure({because_of_a_peer(killed(SIGABRT)), exited(3)}, {0, 1}), 1u);
  EXPECT_EQ(find_first_failure({because_of_a_peer(exited(1)), exited(0)}, {1, 0}), 0u)
      << "no other rank failed";
  EXPECT_FALSE(failed_by_itself(stopped(because_of_a_peer(killed(SIGTERM)))));
}

TEST(FirstFailure, RankThatAbortsAfterAPeersDeathComesLast) {
  auto aborted = killed(SIGABRT);  // an uncaught C++ exception
  aborted.error_of_peer = true;
  aborted.failed_after = 1;
  auto dead = killed(SIGKILL);
  dead.failed_after = 2;
  EXPECT_EQ(find_first_failure({aborted, dead}, {0, 1}), 1u);
  auto crashed = aborted;
  crashed.signal = SIGSEGV;
  EXPECT_EQ(find_first_failure({crashed, dead}, {0, 1}), 0u) << "an end of its own";
}

TEST(FirstFailure, RankThatReportedAnErrorBeforeItWasStoppedIsBlamed) {
  auto ending = stopped(raised(1));
  ending.signal = SIGTERM;
  EXPECT_EQ(find_first_failure({because_of_a_peer(exited(1)), ending}, {0, 1}), 1u);
  EXPECT_EQ(exit_code_of(ending), 1);
  ending.failure.before_stop = false;  // it failed because it was stopped
  EXPECT_EQ(find_first_failure({because_of_a_peer(exited(1)), ending}, {0, 1}), 0u);
}

// All ranks fail in the same way. hvdrun stops one of them after its report and before its exit.
TEST(JudgeEnd, UsesTheExitCodeOfAnotherRankIfTheFirstFailureWasStopped) {
  auto ending = stopped(raised(1));
  ending.signal = SIGTERM;
  auto other = raised(2);
  other.exit_code = 2;
  const auto verdict = judge_end(StopCause{}, std::nullopt, {ending, other}, {1, 0});
  EXPECT_EQ(verdict.first_failure, 0u);
  EXPECT_EQ(verdict.exit_code, 2);
  const auto alone = judge_end(StopCause{}, std::nullopt, {ending, exited(0)}, {1, 0});
  EXPECT_EQ(alone.exit_code, 1);
}

// libhvd reports a failed exit without a text, before other ranks can notice it.
TEST(FirstFailure, RankThatWasStoppedDuringItsFailedExitIsBlamed) {
  auto ending = stopped(killed(SIGTERM));
  ending.failure = {true, "", false, true, 0};
  ending.failed_after = 1;
  auto peer = exited(2);
  peer.failure = {true, "", true, true, 0};
  peer.failed_after = 2;
  EXPECT_EQ(find_first_failure({peer, ending}, {0, 1}), 1u);
  EXPECT_EQ(exit_code_of(ending), 1);
  ending.signal = 0;
  ending.exit_code = 3;  // hvdrun's signal came too late to change it
  EXPECT_EQ(exit_code_of(ending), 3);
}

TEST(FirstFailure, ExitWithoutFinalizeIsAFailure) {
  auto left = exited(0);
  left.lost_connection = true;
  EXPECT_EQ(find_first_failure({exited(1), left}, {0, 1}), 1u);
  EXPECT_EQ(exit_code_of(left), 1);
}

TEST(FirstFailure, ExitCodeOfAFailedRankIsNeverZero) {
  EXPECT_EQ(exit_code_of(exited(3)), 3);
  EXPECT_EQ(exit_code_of(killed(SIGKILL)), 137);
  auto aborted = exited(0);
  aborted.abort_code = 256;  // 0 in eight bits
  EXPECT_EQ(exit_code_of(aborted), 1);
  aborted.abort_code = 7;
  EXPECT_EQ(exit_code_of(aborted), 7);
}

// --- the end of an attempt -----------------------------------------------------------------------

const StopCause kAgentLost{EndKind::agent_lost, "the agent on n2 was lost", kExitLauncher};

TEST(JudgeEnd, SucceedsOnlyIfEveryRankExitedWith0) {
  EXPECT_EQ(judge_end({}, {}, {exited(0), exited(0)}, {0, 1}).exit_code, 0);
  EXPECT_EQ(judge_end({}, {}, {exited(0), exited(3)}, {0, 1}).exit_code, 3);
  EXPECT_EQ(judge_end({}, {}, {}, {}).exit_code, kExitLauncher);
}

TEST(JudgeEnd, RankStoppedByItsAgentIsAFailure) {
  const auto verdict = judge_end({}, {}, {exited(0), stopped(killed(SIGTERM))}, {0, 1});
  EXPECT_EQ(verdict.exit_code, kExitLauncher);
  EXPECT_EQ(verdict.kind, EndKind::agent_lost);
  EXPECT_NE(verdict.reason.find("was stopped by its agent"), std::string::npos) << verdict.reason;
}

TEST(JudgeEnd, RankWithAnUnknownEndIsAFailure) {
  const auto verdict = judge_end({}, {}, {exited(0), RankReport{}}, {0});
  EXPECT_EQ(verdict.exit_code, kExitLauncher);
  EXPECT_NE(verdict.reason.find("ended in an unknown way"), std::string::npos) << verdict.reason;
}

TEST(JudgeEnd, InterruptOrTimeoutAfterEveryRankSucceededIsIgnored) {
  const std::vector<RankReport> ranks{exited(0), exited(0)};
  for (const auto kind : {EndKind::interrupted, EndKind::exit_timeout, EndKind::start_timeout})
    EXPECT_EQ(judge_end(StopCause{kind, "x", 1}, {}, ranks, {0, 1}).exit_code, 0);
  EXPECT_EQ(judge_end(kAgentLost, {}, ranks, {0, 1}).exit_code, kExitLauncher)
      << "output of its ranks may be missing";
}

TEST(JudgeEnd, ProgramThatStoppedEarlyHasNotSucceeded) {
  std::vector<RankReport> ranks{exited(0), exited(0)};
  ranks[1].counters.had_to_stop = true;
  const auto verdict = judge_end({}, {}, ranks, {0, 1});
  EXPECT_EQ(verdict.kind, EndKind::stopped_early);
  EXPECT_EQ(verdict.exit_code, kExitTimeout);
  EXPECT_EQ(verdict.reason, "the program stopped before its end");
  EXPECT_FALSE(verdict.first_failure);
  ranks[0] = exited(3);
  EXPECT_EQ(judge_end({}, {}, ranks, {0, 1}).exit_code, 3) << "a failure takes precedence";
}

TEST(JudgeEnd, CauseWithoutAnExitCodeIsAFailure) {
  EXPECT_EQ(judge_end(StopCause{EndKind::refused, "x", 0}, {}, {exited(1)}, {0}).exit_code,
            kExitLauncher);
}

TEST(JudgeEnd, RanksThatFailedAfterAHostWasLostAreNotBlamed) {
  std::vector<RankReport> ranks{exited(1), RankReport{}};
  ranks[0].failed_after = 14;
  const auto verdict = judge_end(StopCause{}, LostHost{10, kAgentLost}, ranks, {0});
  EXPECT_EQ(verdict.reason, "the agent on n2 was lost");
  EXPECT_EQ(verdict.kind, EndKind::agent_lost);
  EXPECT_FALSE(verdict.first_failure);
  ranks[0].failed_after = 9;
  EXPECT_EQ(judge_end(StopCause{}, LostHost{10, kAgentLost}, ranks, {0}).first_failure, 0u)
      << "it failed before the host was lost";
}

}  // namespace
}  // namespace hvdrun
