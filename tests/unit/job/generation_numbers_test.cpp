#include "job/generation_numbers.hpp"

#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// The members in the order of ranks, each with its local rank: "0/0 5/1".
std::string text(const std::vector<NumberedMember>& ranks) {
  std::string line;
  for (const auto& rank : ranks)
    line += (line.empty() ? "" : " ") + std::to_string(rank.place.member) + "/" +
            std::to_string(rank.local_rank);
  return line;
}

// A survivor on host 0, whose number, slot and last rank are the same.
Survivor survivor(std::uint32_t number) {
  return {{number, 0, number}, number};
}

TEST(GenerationNumbers, WhoeverCanKeepsItsRank) {
  EXPECT_EQ(text(number_members({survivor(0), survivor(1), survivor(2)}, {})), "0/0 1/1 2/2");
}

TEST(GenerationNumbers, TheLastSurvivorTakesTheFreeRank) {
  EXPECT_EQ(text(number_members({survivor(0), survivor(2), survivor(3)}, {})), "0/0 3/2 2/1");
}

TEST(GenerationNumbers, RankZeroIsTheLowestSurvivor) {
  EXPECT_EQ(text(number_members({survivor(1), survivor(2), survivor(3)}, {})), "1/0 3/2 2/1");
  EXPECT_EQ(text(number_members({survivor(1), survivor(2)}, {{4, 0, 0}})), "1/1 4/0 2/2");
}

TEST(GenerationNumbers, ANewcomerTakesTheLostMembersRankAndGpu) {
  EXPECT_EQ(text(number_members({survivor(0), survivor(2), survivor(3)}, {{4, 0, 1}})),
            "0/0 4/1 2/2 3/3");
}

TEST(GenerationNumbers, ANewcomerOnAnotherHostBeginsItsLocalRanks) {
  EXPECT_EQ(text(number_members({survivor(0), survivor(2)}, {{4, 1, 0}, {5, 1, 1}})),
            "0/0 4/0 2/1 5/1");
}

TEST(GenerationNumbers, ANewcomerInASlotBeyondTheRanksOfItsHostGetsAFreeLocalRank) {
  EXPECT_EQ(text(number_members({survivor(2)}, {{4, 0, 3}, {5, 0, 1}})), "2/0 4/2 5/1");
  EXPECT_EQ(text(number_members({survivor(0), survivor(2)}, {{3, 0, 3}})), "0/0 3/2 2/1");
}

// Losses and newcomers at random, on two hosts of four slots.
TEST(GenerationNumbers, KeepTheirPromisesInRandomHistories) {
  std::mt19937 random(1);
  for (int history = 0; history < 200; ++history) {
    std::vector<Survivor> members;
    for (std::uint32_t i = 0; i < 8; ++i) members.push_back({{i, i / 4, i % 4}, i});
    std::uint32_t next = 8;
    for (int generation = 0; generation < 20; ++generation) {
      std::erase_if(members, [&](const Survivor&) { return random() % 4 == 0; });
      if (members.empty()) break;
      std::set<std::pair<std::uint32_t, std::uint32_t>> used;
      for (const auto& member : members) used.emplace(member.place.host, member.place.slot);
      std::vector<MemberPlace> newcomers;
      for (std::uint32_t place = 0; place < 8; ++place)
        if (!used.contains({place / 4, place % 4}) && random() % 3 == 0)
          newcomers.push_back({next++, place / 4, place % 4});
      const auto numbers = number_members(members, newcomers);
      const auto size = static_cast<std::uint32_t>(numbers.size());
      ASSERT_EQ(size, members.size() + newcomers.size());
      std::map<std::uint32_t, std::uint32_t> sizes;  // of hosts
      for (const auto& rank : numbers) ++sizes[rank.place.host];
      std::set<std::pair<std::uint32_t, std::uint32_t>> local_ranks;
      std::vector<Survivor> following;
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        const auto& [place, local_rank] = numbers[rank];
        EXPECT_TRUE(local_ranks.emplace(place.host, local_rank).second);
        const bool is_new = place.member >= next - newcomers.size();
        EXPECT_TRUE(!is_new || local_rank == place.slot || place.slot >= sizes[place.host]);
        EXPECT_TRUE(rank > 0 || !is_new);
        following.push_back({place, rank});
      }
      for (const auto& [host, local_rank] : local_ranks)
        EXPECT_TRUE(local_rank == 0 || local_ranks.contains({host, local_rank - 1}));
      for (std::size_t i = 1; i < members.size(); ++i)  // the first may become rank 0
        EXPECT_TRUE(members[i].rank >= size ||
                    numbers[members[i].rank].place.member == members[i].place.member);
      members = following;
    }
  }
}

}  // namespace
}  // namespace hvdrun
