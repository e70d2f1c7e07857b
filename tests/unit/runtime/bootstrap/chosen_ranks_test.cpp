#include "bootstrap/chosen_ranks.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

// Rank 2 of 4, the first on the second host.
const RankInfo kInJob{
    .rank = 2, .size = 4, .local_rank = 0, .local_size = 2, .node_rank = 1, .node_count = 2};

std::string error_of(const std::vector<int>& ranks) {
  const auto chosen = choose_ranks(ranks, kInJob);
  if (chosen.ok()) return "no error";
  EXPECT_EQ(chosen.error().status, HVD_ERROR_INVALID_ARGUMENT);
  return chosen.error().message;
}

TEST(ChooseRanks, KeepsTheOrderOfTheList) {
  EXPECT_EQ(*choose_ranks(std::vector{3, 2}, kInJob), (ChosenRanks{3, 2}));
}

TEST(ChooseRanks, AListOfAllRanksInOrderEqualsNoList) {
  EXPECT_EQ(*choose_ranks(std::nullopt, kInJob), ChosenRanks());
  EXPECT_EQ(*choose_ranks(std::vector{0, 1, 2, 3}, kInJob), ChosenRanks());
  EXPECT_EQ(*choose_ranks(std::vector{1, 0, 2, 3}, kInJob), (ChosenRanks{1, 0, 2, 3}));
}

TEST(ChooseRanks, RefusesInvalidLists) {
  const std::string list = "the list of ranks to start with: ";
  EXPECT_EQ(error_of({}), list + "it is empty");
  EXPECT_EQ(error_of({2, 4}), list + "rank 4 is not one of the job's 4");
  EXPECT_EQ(error_of({-1, 2}), list + "rank -1 is not one of the job's 4");
  EXPECT_EQ(error_of({2, 0, 2}), list + "rank 2 stands twice in it");
  EXPECT_EQ(error_of({0, 1}),
            list + "rank 2, this one, is not in it; only the ranks in it may start with it");
}

TEST(InfoAmong, NumbersTheChosenRanks) {
  const RankInfo info = info_among({3, 2}, kInJob);
  EXPECT_EQ(info.rank, 1);
  EXPECT_EQ(info.size, 2);
  EXPECT_EQ(info.number, 2);
  EXPECT_EQ(info.node_rank, 1);
  EXPECT_FALSE(info.local_rank || info.local_size || info.node_count);
  EXPECT_EQ(info_among({}, kInJob).local_size, 2);
}

TEST(StartNumbers, AreSeparateForEachList) {
  StartCounts starts;
  EXPECT_EQ(starts.next({}), 0u);
  EXPECT_EQ(starts.next({0, 1}), 0u);
  EXPECT_EQ(starts.next({1, 0}), 0u);
  EXPECT_EQ(starts.next({0, 1}), 1u);
  EXPECT_EQ(starts.next({}), 1u);
}

}  // namespace
}  // namespace libhvd
