#include "job/rank_states.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

std::vector<RankReport> two_ranks() {
  std::vector<RankReport> ranks(2);
  ranks[0].host = ranks[1].host = "n1";
  ranks[1].placement.rank = 1;
  return ranks;
}

TEST(StateTable, IsCompleteWhenTheLastAgentHasAnswered) {
  auto ranks = two_ranks();
  ranks[0].exited = true;
  StateTable table;
  table.expect({0, 1});
  EXPECT_TRUE(table.add(1, {{{1, 11, "S", 7, 2, "allreduce grad", 12.34}}}, ranks).empty());
  const auto lines = table.add(0, {{{0, 10, "ended", 9, 2, "", 0}}}, ranks);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], "     0 n1                     10      2         9  exit code 0");
  EXPECT_EQ(
      lines[2],
      "     1 n1                     11      2         7  sleeping, in allreduce grad for 12.3 s");
}

TEST(StateTable, ARankThatReportsNoProgressHasNoNumbers) {
  StateTable table;
  table.expect({0});
  const auto lines = table.add(0, {{{0, 10, "R", 0, 0, "", 0}}}, two_ranks());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1], "     0 n1                     10      -         -  running");
}

TEST(StateTable, IgnoresUnrequestedAnswers) {
  StateTable table;
  EXPECT_TRUE(table.add(0, {{{0, 10, "R", 0, 0, "", 0}}}, two_ranks()).empty());
}

TEST(StateTable, IgnoresUnknownRanks) {
  StateTable table;
  table.expect({0});
  EXPECT_EQ(
      table.add(0, {{{5, 10, "R", 0, 0, "", 0}, {-1, 1, "R", 0, 0, "", 0}}}, two_ranks()).size(),
      1u);
}

TEST(StateTable, DoesNotWaitForALostAgent) {
  const auto ranks = two_ranks();
  StateTable table;
  table.expect({0, 1});
  EXPECT_TRUE(table.add(0, {{{0, 10, "S", 0, 0, "", 0}}}, ranks).empty());
  EXPECT_EQ(table.lose(1, ranks).size(), 2u);
  EXPECT_TRUE(table.lose(1, ranks).empty());
}

}  // namespace
}  // namespace hvdrun
