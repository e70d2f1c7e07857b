// Which ranks of a host with many are looked at.
#include "agent/rank_looker.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

std::vector<RankState> ranks(int count) {
  std::vector<RankState> states(static_cast<std::size_t>(count));
  for (int rank = 0; rank < count; ++rank) {
    states[static_cast<std::size_t>(rank)].rank = rank;
    states[static_cast<std::size_t>(rank)].pid = 1000 + rank;
    states[static_cast<std::size_t>(rank)].state = "S";
  }
  return states;
}

TEST(PidsToLookAt, AreAllOfAFewRanks) {
  auto states = ranks(3);
  states[1].state = "ended";
  EXPECT_EQ(pids_to_look_at(states, [](pid_t) { return std::string(); }),
            (std::vector<pid_t>{1000, 1002}));
}

TEST(PidsToLookAt, BeginWithOneOfEachKindTheRarestFirst) {
  const auto kind_of = [](pid_t pid) -> std::string {
    if (pid == 1470) return "sh/computing";
    return pid % 2 == 0 ? "python/futex" : "python/read";
  };
  const auto pids = pids_to_look_at(ranks(501), kind_of);
  ASSERT_EQ(pids.size(), 64U);
  EXPECT_EQ(pids[0], 1470);
  EXPECT_NE(pids[1] % 2, pids[2] % 2);
  EXPECT_EQ(std::set(pids.begin(), pids.end()).size(), 64U);
}

TEST(PidsToLookAt, LeaveOutRanksInCollectivesBeforeOthers) {
  auto states = ranks(100);
  for (int rank = 0; rank < 90; ++rank)
    states[static_cast<std::size_t>(rank)].collective = "allreduce";
  const auto pids = pids_to_look_at(states, [](pid_t) { return std::string("python/futex"); });
  for (pid_t pid = 1090; pid < 1100; ++pid) EXPECT_EQ(std::ranges::count(pids, pid), 1) << pid;
}

}  // namespace
}  // namespace hvdrun
