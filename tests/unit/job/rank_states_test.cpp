#include "job/rank_states.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Ranks 0 and 1 on n1, rank 2 on n2.
RankTable three_ranks() {
  Placement placement;
  placement.size = 3;
  placement.hosts.resize(2);
  for (int rank = 0; rank < 3; ++rank) {
    auto& host = placement.hosts[rank < 2 ? 0 : 1];
    host.host = rank < 2 ? "n1" : "n2";
    host.ranks.emplace_back().rank = rank;
  }
  return {placement, {}};
}

AnswerMessage answer(std::vector<RankState> ranks) {
  AnswerMessage message;
  message.ranks = std::move(ranks);
  return message;
}

TEST(StateTable, HasALineForEachRank) {
  auto table = three_ranks();
  table.ranks()[0].exited = true;
  Answers answers;
  answers.asked = {0, 1};
  answers.by_host[1] = answer({{2, 12, "R", 0, 0, "", 0}});
  answers.by_host[0] =
      answer({{1, 11, "S", 7, 2, "allreduce grad", 12.34}, {0, 10, "ended", 9, 2, "", 0}});
  const auto lines = state_table(answers, table);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(lines[1], "     0 n1                     10      2         9  exit code 0");
  EXPECT_EQ(
      lines[2],
      "     1 n1                     11      2         7  sleeping, in allreduce grad for 12.3 s");
  EXPECT_EQ(lines[3], "     2 n2                     12      -         -  running");
}

TEST(StateTable, NamesRanksWhoseAgentIsSilent) {
  auto table = three_ranks();
  table.started(2, 12);
  Answers answers;
  answers.asked = {0, 1};
  answers.by_host[0] = answer({{0, 10, "S", 0, 0, "", 0}, {1, 11, "S", 0, 0, "", 0}});
  EXPECT_THAT(silent_ranks(answers, table), ElementsAre(2));
  const auto lines = state_table(answers, table);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[3], HasSubstr("2 n2                     12"));
  EXPECT_THAT(lines[3], HasSubstr("its agent does not answer"));
  answers.lost = {1};
  EXPECT_THAT(silent_ranks(answers, table), SizeIs(0));
}

TEST(StateTable, IgnoresUnknownRanks) {
  Answers answers;
  answers.asked = {0};
  answers.by_host[0] = answer({{5, 10, "R", 0, 0, "", 0}, {-1, 1, "R", 0, 0, "", 0}});
  EXPECT_THAT(states_in(answers, three_ranks()), SizeIs(0));
}

}  // namespace
}  // namespace hvdrun
