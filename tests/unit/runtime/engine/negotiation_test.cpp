// Negotiation: all ranks agree on the same names, whatever they propose and in which rounds.
#include "engine/negotiation.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

// The negotiations of all ranks of a job. Each gets all proposals.
class AllRanks {
 public:
  explicit AllRanks(int ranks, std::size_t capacity = 100, std::size_t most_bytes = 64 * 1024)
      : most_(most_bytes), ranks_(static_cast<std::size_t>(ranks), Negotiation(ranks, capacity)) {}

  // Makes one round, in which rank r proposes proposed[r]. Returns the size of the proposals in
  // bytes.
  std::size_t round(const std::vector<std::vector<NamedTensor>>& proposed,
                    const std::set<int>& joins = {}) {
    std::vector<std::vector<std::byte>> proposals(ranks_.size());
    std::size_t bytes = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const bool joined = joins.count(static_cast<int>(rank)) > 0;
      last_encoded_ = ranks_[rank].encode(proposed[rank], joined, most_, proposals[rank]);
      EXPECT_LE(proposals[rank].size(), most_);
      bytes += proposals[rank].size();
    }
    for (Negotiation& each : ranks_) {
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        EXPECT_TRUE(each.apply(static_cast<int>(rank), proposals[rank]));
      each.end_round();
    }
    return bytes;
  }

  // Returns and drops the names that are ready. They must be the same on all ranks.
  std::vector<std::uint64_t> take_ready() {
    std::vector<std::uint64_t> names;
    for (const NamedTensor& tensor : ranks_[0].ready()) names.push_back(tensor.name);
    for (Negotiation& each : ranks_) {
      std::vector<std::uint64_t> own;
      for (const NamedTensor& tensor : each.ready()) own.push_back(tensor.name);
      EXPECT_EQ(own, names);
      each.drop_ready(own.size());
    }
    return names;
  }

  Negotiation& rank(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  std::size_t last_encoded() const { return last_encoded_; }

 private:
  std::size_t most_;
  std::vector<Negotiation> ranks_;
  std::size_t last_encoded_ = 0;
};

using Names = std::vector<std::uint64_t>;

TEST(Negotiation, ANameIsReadyWhenAllRanksHaveProposedIt) {
  AllRanks all(3);
  all.round({{{1, 0}, {2, 0}}, {{2, 0}}, {}});
  EXPECT_EQ(all.take_ready(), Names{});
  EXPECT_EQ(all.rank(0).missing(1), (std::vector<int>{1, 2}));
  EXPECT_EQ(all.rank(2).missing(2), (std::vector<int>{2}));
  all.round({{}, {{1, 0}}, {{2, 0}}});
  EXPECT_EQ(all.take_ready(), Names{2});
  all.round({{}, {}, {{1, 0}}});
  EXPECT_EQ(all.take_ready(), Names{1});
  EXPECT_EQ(all.rank(0).missing(1), std::vector<int>{});
}

TEST(Negotiation, OrdersNamesByPriorityAndThenByProposal) {
  AllRanks all(2);
  all.round({{{1, 0}, {2, 5}, {3, 0}, {4, 5}}, {{4, -1}, {3, 0}, {2, 0}, {1, 0}}});
  EXPECT_EQ(all.take_ready(), (Names{4, 2, 3, 1}));
}

TEST(Negotiation, ProposesAKnownNameWithOneBit) {
  constexpr std::size_t kNames = 1000;
  std::vector<NamedTensor> names;
  for (std::uint64_t name = 1; name <= kNames; ++name) names.push_back({name, 0});
  AllRanks all(2, kNames);
  const std::size_t first = all.round({names, names});
  EXPECT_EQ(all.take_ready().size(), kNames);
  std::reverse(names.begin(), names.end());
  const std::size_t second = all.round({names, names});
  EXPECT_EQ(all.take_ready().size(), kNames);
  EXPECT_GT(first, 2 * kNames * sizeof(std::uint64_t));
  EXPECT_LE(second, 2 * (kNames / 8 + 16));
}

TEST(Negotiation, EvictsTheLeastRecentlyUsedName) {
  AllRanks all(2, 2);
  const auto bytes_of = [&](std::uint64_t name) {
    const std::size_t bytes = all.round({{{name, 0}}, {{name, 0}}});
    EXPECT_EQ(all.take_ready(), Names{name});
    return bytes;
  };
  const std::size_t fresh = bytes_of(1);
  bytes_of(2);
  EXPECT_LT(bytes_of(1), fresh);  // known
  EXPECT_EQ(bytes_of(3), fresh);  // evicts 2
  EXPECT_LT(bytes_of(1), fresh);
  EXPECT_EQ(bytes_of(2), fresh);
}

TEST(Negotiation, PassesOnAChangedPriority) {
  AllRanks all(2);
  all.round({{{1, 0}, {2, 0}}, {{1, 0}, {2, 0}}});
  EXPECT_EQ(all.take_ready(), (Names{1, 2}));
  all.round({{{1, 0}, {2, 9}}, {{1, 0}, {2, 0}}});
  EXPECT_EQ(all.take_ready(), (Names{2, 1}));
}

TEST(Negotiation, ProposesAsManyNamesAsFit) {
  AllRanks all(2, 100, 64);
  const std::vector<NamedTensor> names{{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}};
  all.round({names, names});
  EXPECT_EQ(all.last_encoded(), 3u);
  EXPECT_EQ(all.take_ready(), (Names{1, 2, 3}));
}

TEST(Negotiation, AJoinedRankNeedNotPropose) {
  AllRanks all(3);
  all.round({{{1, 0}, {2, 0}}, {{2, 0}}, {}}, {2});
  EXPECT_TRUE(all.rank(0).any_joined());
  EXPECT_EQ(all.take_ready(), Names{2});
  EXPECT_EQ(all.rank(1).missing(1), std::vector<int>{1});
  all.round({{}, {}, {}}, {1});
  EXPECT_EQ(all.take_ready(), Names{1});
  EXPECT_FALSE(all.rank(0).all_joined());
  all.round({{{3, 0}}, {}, {}});
  EXPECT_EQ(all.take_ready(), Names{3});
  all.round({{}, {}, {}}, {0});
  EXPECT_TRUE(all.rank(2).all_joined());
}

TEST(Negotiation, SurvivesDamagedProposals) {
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    Negotiation negotiation(2, 4);
    std::vector<std::byte> proposals;
    const std::vector<NamedTensor> names{{1, 0}, {2, 0}};
    ASSERT_EQ(negotiation.encode(names, false, 1024, proposals), 2u);
    ASSERT_TRUE(negotiation.apply(0, proposals));
    const std::size_t at = random() % proposals.size();
    proposals[at] ^= static_cast<std::byte>(1 + random() % 255);
    if (round % 3 == 0) proposals.resize(random() % proposals.size());
    negotiation.apply(1, proposals);  // may refuse it, but must not crash
    negotiation.end_round();
    ASSERT_LE(negotiation.ready().size(), 2u);
  }
}

TEST(Negotiation, RefusesTheNameZero) {
  Negotiation negotiation(2, 4);
  std::vector<std::byte> proposals;
  const NamedTensor nameless{0, 0};
  ASSERT_EQ(negotiation.encode({&nameless, 1}, false, 1024, proposals), 1u);
  EXPECT_FALSE(negotiation.apply(0, proposals));
}

TEST(Negotiation, PassesOnWhatARankSaysOfItsGradients) {
  std::vector<Negotiation> ranks(2, Negotiation(2, 4));
  const std::vector<NamedTensor> names{{7, 0}, {8, 0}, {9, 0}};
  std::vector<std::vector<std::byte>> proposals(2);
  EXPECT_EQ(ranks[0].encode(names, false, 64, proposals[0], {.gradients = 0x123456789abcdef0}), 3u);
  EXPECT_EQ(ranks[1].encode(names, false, 64, proposals[1]), 3u);
  ASSERT_TRUE(ranks[1].apply(0, proposals[0]));
  EXPECT_EQ(ranks[1].gradients(), 0x123456789abcdef0u);
  ASSERT_TRUE(ranks[1].apply(1, proposals[1]));
  EXPECT_EQ(ranks[1].gradients(), 0u);
  EXPECT_EQ(ranks[1].ready().size(), 3u);
  proposals[0].pop_back();
  EXPECT_FALSE(ranks[0].apply(0, proposals[0]));
}

TEST(Negotiation, TakesTheTuningThatRank0Sends) {
  std::vector<Negotiation> ranks(3, Negotiation(3, 4));
  for (const int sent : {5, 5, 200, 0}) {
    std::vector<std::vector<std::byte>> proposals(3);
    const NamedTensor name{7, 0};
    for (std::size_t rank = 0; rank < 3; ++rank)
      ranks[rank].encode({&name, 1}, false, 1024, proposals[rank],
                         {.tuning = static_cast<std::uint8_t>(rank == 0 ? sent : 77)});
    for (Negotiation& negotiation : ranks) {
      for (int rank = 0; rank < 3; ++rank)
        ASSERT_TRUE(negotiation.apply(rank, proposals[static_cast<std::size_t>(rank)]));
      negotiation.end_round();
      EXPECT_EQ(negotiation.tuning(), sent);
      EXPECT_EQ(negotiation.ready().size(), 1u);
      negotiation.drop_ready(1);
    }
  }
}

// Names come in random rounds, orders and priorities, and are many more than the cache holds.
TEST(Negotiation, EveryNameBecomesReadyOnceInAnyOrder) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const int ranks = 1 + static_cast<int>(random() % 5);
    AllRanks all(ranks, random() % 20);
    constexpr std::uint64_t kNames = 60;
    std::vector<std::vector<NamedTensor>> left(static_cast<std::size_t>(ranks));
    for (int lap = 0; lap < 3; ++lap) {
      for (auto& own : left) {
        own.clear();
        for (std::uint64_t name = 1; name <= kNames; ++name)
          own.push_back({name, static_cast<std::int32_t>(random() % 2)});
        std::shuffle(own.begin(), own.end(), random);
      }
      std::multiset<std::uint64_t> done;
      for (int round = 0; round < 1000 && done.size() < kNames; ++round) {
        std::vector<std::vector<NamedTensor>> proposed(left.size());
        for (std::size_t rank = 0; rank < left.size(); ++rank) {
          for (std::size_t count = random() % 8; count > 0 && !left[rank].empty(); --count) {
            proposed[rank].push_back(left[rank].back());
            left[rank].pop_back();
          }
        }
        all.round(proposed);
        for (const std::uint64_t name : all.take_ready()) done.insert(name);
      }
      ASSERT_EQ(done.size(), kNames) << "seed " << seed;
      ASSERT_EQ(std::set(done.begin(), done.end()).size(), kNames) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace libhvd::test
