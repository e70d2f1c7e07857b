#include "report/generations_end.hpp"

#include "base/result.hpp"

#include <csignal>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

RankReport ended(int code, int signal = 0) {
  RankReport rank;
  rank.exited = true;
  rank.exit_code = code;
  rank.signal = signal;
  rank.host = "n1";
  return rank;
}

RankReport ended_by_hvdrun() {
  auto rank = ended(0, SIGKILL);
  rank.stopped_by_us = true;
  return rank;
}

const RankReport kKilled = ended(0, SIGKILL);
const RankReport kSucceeded = ended(0);

// The generations of a job of three members: each with its losses, and whether it has committed.
GenerationsReport generations(const std::vector<std::vector<std::size_t>>& losses,
                              const std::vector<bool>& committed) {
  GenerationsReport report;
  report.first_members = 3;
  std::vector<std::size_t> members{0, 1, 2};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    GenerationReport generation;
    generation.members = members;
    generation.committed = committed[i];
    for (const auto member : losses[i]) {
      generation.lost.push_back({member, "did not come to generation 2 within 120 s"});
      std::erase(members, member);
    }
    report.generations.push_back(generation);
  }
  return report;
}

TEST(JudgeGenerations, SucceedsIfTheLastGenerationDoes) {
  const auto verdict =
      judge_generations(std::nullopt, std::nullopt, {kSucceeded, kKilled, kSucceeded}, {1, 0, 2},
                        generations({{1}, {}}, {false, false}));
  EXPECT_EQ(verdict.kind, EndKind::succeeded);
  EXPECT_EQ(verdict.exit_code, 0);
}

TEST(JudgeGenerations, FailsIfAMemberOfTheLastGenerationDoes) {
  const auto verdict =
      judge_generations(std::nullopt, std::nullopt, {kSucceeded, ended(3), kSucceeded}, {0, 1, 2},
                        generations({{1}}, {true}));
  EXPECT_EQ(verdict.kind, EndKind::rank_failed);
  EXPECT_EQ(verdict.first_failure, 1u);
  EXPECT_EQ(verdict.exit_code, 3);
}

TEST(JudgeGenerations, FailsIfAMemberFailsAfterItHasLeft) {
  const auto verdict =
      judge_generations(std::nullopt, std::nullopt, {ended(3), kKilled, kSucceeded}, {1, 2, 0},
                        generations({{1}, {}}, {true, true}));
  EXPECT_EQ(verdict.first_failure, 0u);
  EXPECT_EQ(verdict.exit_code, 3);
}

// Rank 1's agent is lost at 5 s. Rank 0 fails at 4 s or at 6 s. Rank 2 alone is too few.
TEST(JudgeGenerations, ALostAgentIsToBlameBeforeALaterFailure) {
  auto report = generations({{1, 0}}, {false});
  report.lost_agents = {{{1}, "the agent on n2 was lost", 5}};
  const StopCause too_few{EndKind::rank_failed, "1 rank is left, fewer than --min-np 2", {}};
  for (const double failed_after : {4.0, 6.0}) {
    auto failed = kKilled;
    failed.failed_after = failed_after;
    const auto verdict = judge_generations(
        too_few, std::nullopt, {failed, RankReport{}, ended_by_hvdrun()}, {0, 2}, report);
    EXPECT_EQ(verdict.reason, failed_after < 5 ? "" : "the agent on n2 was lost");
    EXPECT_EQ(verdict.exit_code, failed_after < 5 ? kExitSignalBase + SIGKILL : kExitLauncher);
    EXPECT_EQ(verdict.kind, failed_after < 5 ? EndKind::rank_failed : EndKind::agent_lost);
  }
}

TEST(JudgeGenerations, ALostAgentIsNotToBlameIfTheOthersHaveContinued) {
  auto report = generations({{1}, {}}, {true, true});
  report.lost_agents = {{{1}, "the agent on n2 was lost", 5}};
  const auto success = judge_generations(std::nullopt, std::nullopt,
                                         {kSucceeded, RankReport{}, kSucceeded}, {0, 2}, report);
  EXPECT_EQ(success.kind, EndKind::succeeded);
  report = generations({{1}, {0, 2}}, {true, true});
  report.lost_agents = {{{1}, "the agent on n2 was lost", 5}};
  auto failed = kKilled;
  failed.failed_after = 9;
  const auto verdict =
      judge_generations(std::nullopt, std::nullopt, {failed, RankReport{}, failed}, {0, 2}, report);
  EXPECT_EQ(verdict.first_failure, 0u);
}

TEST(JudgeGenerations, TheFirstLossOfAChainIsToBlame) {
  // Each loss causes the next one: the same sample fails on each rank.
  const auto verdict =
      judge_generations(std::nullopt, std::nullopt, {ended(3), ended(4), kKilled}, {1, 0, 2},
                        generations({{1}, {0}, {2}}, {false, false, false}));
  EXPECT_EQ(verdict.first_failure, 1u);
  EXPECT_EQ(verdict.exit_code, 4);
}

TEST(JudgeGenerations, ALossThatWasRepairedIsNotToBlame) {
  const auto verdict =
      judge_generations(std::nullopt, std::nullopt, {ended(3), ended(4), kKilled}, {1, 0, 2},
                        generations({{1}, {0}, {2}}, {true, true, false}));
  EXPECT_EQ(verdict.first_failure, 0u);
  EXPECT_EQ(verdict.exit_code, 3);
}

TEST(JudgeGenerations, AmongTheLossesOfAGenerationTheWorstIsToBlame) {
  const auto verdict = judge_generations(std::nullopt, std::nullopt, {ended(1), kKilled, ended(1)},
                                         {0, 1, 2}, generations({{0, 1, 2}}, {false}));
  EXPECT_EQ(verdict.first_failure, 1u);
  EXPECT_EQ(verdict.exit_code, 128 + SIGKILL);
}

TEST(JudgeGenerations, NamesAMemberThatHvdrunHadToEnd) {
  const StopCause cause{EndKind::rank_failed, "", std::nullopt};
  const auto verdict = judge_generations(cause, std::nullopt,
                                         {ended_by_hvdrun(), ended_by_hvdrun(), ended_by_hvdrun()},
                                         {1, 0, 2}, generations({{1}, {}}, {false, false}));
  EXPECT_EQ(verdict.first_failure, std::nullopt);
  EXPECT_EQ(verdict.reason, "rank 0 on n1 did not come to generation 2 within 120 s");
  EXPECT_EQ(verdict.exit_code, kExitLauncher);
}

RankReport failed_for_another() {
  auto rank = ended(1);
  rank.failure.reported = rank.failure.because_of_peer = true;
  return rank;
}

TEST(JudgeGenerations, NamesAMemberThatHvdrunHadToEndBeforeOneThatFailedForIt) {
  const StopCause cause{EndKind::rank_failed, "", std::nullopt};
  const auto verdict = judge_generations(
      cause, std::nullopt, {failed_for_another(), ended_by_hvdrun(), failed_for_another()},
      {1, 0, 2}, generations({{1, 0}}, {false}));
  EXPECT_EQ(verdict.first_failure, std::nullopt);
  EXPECT_EQ(verdict.reason, "rank 0 on n1 did not come to generation 2 within 120 s");
}

TEST(JudgeGenerations, BlamesARankThatEndedWhenTheJobCouldNotContinue) {
  // Rank 2 closed its connections first, so the others ended before it.
  const auto verdict =
      judge_generations(StopCause{}, std::nullopt, {failed_for_another(), kSucceeded, ended(3)},
                        {0, 2, 1}, generations({{0}}, {false}));
  EXPECT_EQ(verdict.first_failure, 2u);
}

TEST(JudgeGenerations, BlamesAHostThatWasLostBeforeARankFailedForIt) {
  auto failed = failed_for_another();
  failed.failed_after = 4;
  const LostHost lost{2, {EndKind::agent_lost, "the agent on n2 was lost", kExitLauncher}};
  const auto verdict =
      judge_generations(StopCause{}, lost, {failed, ended_by_hvdrun(), ended_by_hvdrun()},
                        {0, 1, 2}, generations({{0}}, {false}));
  EXPECT_EQ(verdict.reason, "the agent on n2 was lost");
}

TEST(JudgeGenerations, ALossAtTheStartIsTheFirst) {
  auto report = generations({{0}}, {false});
  report.lost_at_start.push_back({1, "died"});
  const auto verdict = judge_generations(
      std::nullopt, std::nullopt, {ended(3), ended(4), ended_by_hvdrun()}, {1, 0, 2}, report);
  EXPECT_EQ(verdict.exit_code, 4);
}

TEST(JudgeGenerations, ANewcomerThatWasInNoGenerationDecidesNothing) {
  const auto verdict = judge_generations(std::nullopt, std::nullopt,
                                         {kSucceeded, kSucceeded, kSucceeded, ended_by_hvdrun()},
                                         {0, 1, 2, 3}, generations({{}}, {true}));
  EXPECT_EQ(verdict.kind, EndKind::succeeded);
}

TEST(JudgeGenerations, AnInterruptIsAnInterrupt) {
  const StopCause cause{EndKind::interrupted, "interrupted", kExitInterrupt};
  const auto verdict =
      judge_generations(cause, std::nullopt, {kKilled, ended_by_hvdrun(), ended_by_hvdrun()},
                        {0, 1, 2}, generations({{0}, {}}, {false, false}));
  EXPECT_EQ(verdict.exit_code, kExitInterrupt);
}

TEST(DescribeRepair, NamesTheLostAndTheRenumbered) {
  Repair repair{{{3, "n2", "killed by SIGKILL"}}, 7, 1204, 0.0085, {{7, 3}}};
  EXPECT_EQ(
      describe_repair(repair),
      "rank 3 on n2 was lost (killed by SIGKILL): 7 ranks continue from step 1204 after 9 ms; "
      "rank 7 is now rank 3 in the program");
  repair.lost[0].how.clear();
  EXPECT_EQ(
      describe_repair(repair),
      "rank 3 on n2 has left: 7 ranks continue from step 1204 after 9 ms; rank 7 is now rank 3 "
      "in the program");
  repair.lost[0].how = "killed by SIGKILL";
  repair.lost.push_back({4, "n1", "exit code 1"});
  repair.size = 1;
  repair.pause_seconds = 2;
  repair.renumbered.push_back({5, 4});
  EXPECT_EQ(describe_repair(repair),
            "rank 3 on n2 (killed by SIGKILL), rank 4 on n1 (exit code 1) were lost: 1 rank "
            "continues from step 1204 after 2.00 s; rank 7 is now rank 3, rank 5 is now rank 4 in "
            "the program");
}

TEST(MarkMembers, SaysWhichHaveJoinedAndForHowLong) {
  GenerationsReport generations{2};
  std::vector<RankReport> ranks(5);
  mark_members(generations, ranks);
  EXPECT_TRUE(ranks[2].never_joined && !ranks[1].never_joined);
  generations.generations = {{.number = 1, .members = {0, 1}, .lost = {{1, "was killed"}}},
                             {.number = 2, .members = {0, 2}, .lost = {{0, ""}}, .seconds = 3},
                             {.number = 3, .members = {3, 2}, .seconds = 4}};
  mark_members(generations, ranks);
  EXPECT_EQ(ranks[2].seconds_with_others, 7);
  EXPECT_EQ(ranks[3].seconds_with_others, 4);
  EXPECT_FALSE(ranks[0].seconds_with_others);
  EXPECT_TRUE(ranks[4].never_joined && !ranks[3].never_joined);
  EXPECT_TRUE(ranks[0].continued_without && ranks[1].continued_without);
}

TEST(DescribeRepair, NamesTheNew) {
  Repair repair{{}, 4, 1204, 0.005};
  repair.joined = {{4, "n1", 3}};
  EXPECT_EQ(describe_repair(repair),
            "new rank 4 on n1 has joined: 4 ranks continue from step 1204 after 5 ms; rank 4 is "
            "rank 3 in the program");
  repair.lost = {{3, "n1", "killed by SIGKILL"}};
  EXPECT_EQ(describe_repair(repair),
            "rank 3 on n1 was lost (killed by SIGKILL), new rank 4 on n1 has joined: 4 ranks "
            "continue from step 1204 after 5 ms; rank 4 is rank 3 in the program");
  repair.lost.push_back({2, "n1", "exit code 1"});
  repair.joined = {{4, "n1", 4}, {5, "n2", 2}};
  EXPECT_EQ(describe_repair(repair),
            "rank 3 on n1 (killed by SIGKILL), rank 2 on n1 (exit code 1) were lost, new rank 4 on "
            "n1, new rank 5 on n2 have joined: 4 ranks continue from step 1204 after 5 ms; rank 5 "
            "is rank 2 in the program");
}

TEST(DescribeRepair, NamesRanksOfOneHostTogether) {
  Repair repair{{{2, "n2", "with the agent"}, {3, "n2", "with the agent"}}, 2, 0, 0.01, {}};
  EXPECT_EQ(describe_repair(repair),
            "ranks 2-3 on n2 were lost (with the agent): 2 ranks continue after 10 ms");
  repair.lost.push_back({0, "n1", "killed by SIGKILL"});
  repair.size = 1;
  EXPECT_EQ(describe_repair(repair),
            "ranks 2-3 on n2 (with the agent), rank 0 on n1 (killed by SIGKILL) were lost: 1 rank "
            "continues after 10 ms");
  repair.lost = {{0, "n1", ""}, {1, "n1", ""}};
  EXPECT_EQ(describe_repair(repair), "ranks 0-1 on n1 have left: 1 rank continues after 10 ms");
}

}  // namespace
}  // namespace hvdrun
