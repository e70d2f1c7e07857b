// Estimated clock offsets of simulated hosts, whose true offsets are known.
#include "trace/clock_offsets.hpp"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

TEST(ClockOffsets, AreBoundedByEachStep) {
  // Host 1's clock is 1,000 ns slow. The first step bounds the offset to 900 ... 1,220, the second
  // to 800 ... 1,010.
  const std::vector<RankClock> clocks{{0, {{5'000, 5'300}, {7'000, 7'110}}},
                                      {1, {{4'080, 4'100}, {6'100, 6'200}}}};
  const auto offsets = estimate_offsets(clocks);
  EXPECT_EQ(offsets[0].ns, 0);
  EXPECT_EQ(offsets[0].error_ns, 0);
  EXPECT_EQ(offsets[1].ns, (900 + 1'010) / 2);
  EXPECT_EQ(offsets[1].error_ns, (1'010 - 900) / 2);
}

TEST(ClockOffsets, RanksOfAHostShareOneAndCombineTheirBounds) {
  const std::vector<RankClock> clocks{
      {3, {{100, 300}}}, {3, {{150, 290}}}, {5, {{0, 400}}}, {5, {{90, 200}}}};
  const auto offsets = estimate_offsets(clocks);
  EXPECT_EQ(offsets[1].ns, 0);
  // The bounds are 150 - 200 and 290 - 90.
  EXPECT_EQ(offsets[2].ns, 75);
  EXPECT_EQ(offsets[2].error_ns, 125);
  EXPECT_EQ(offsets[3].ns, offsets[2].ns);
}

TEST(ClockOffsets, AreZeroWithoutSteps) {
  const auto offsets = estimate_offsets(std::vector<RankClock>{{0, {}}, {1, {}}});
  ASSERT_EQ(offsets.size(), 2u);
  EXPECT_EQ(offsets[1].ns, 0);
  EXPECT_TRUE(estimate_offsets({}).empty());
}

// Ranks arrive at random times, and notice late that all have arrived.
TEST(ClockOffsets, TrueOffsetsAreWithinTheError) {
  std::mt19937_64 random(7);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::int64_t> ahead{0, between(-1'000'000'000'000, 1'000'000'000'000),
                                          between(-5'000, 5'000)};
    std::vector<RankClock> clocks;
    for (int rank = 0; rank < 6; ++rank) clocks.push_back({rank % 3, {}});
    std::int64_t now = 1'000'000'000'000;
    for (int step = 0; step < 32; ++step) {
      std::vector<std::int64_t> come;
      for (std::size_t rank = 0; rank < clocks.size(); ++rank)
        come.push_back(now + between(0, 100'000));
      const std::int64_t all = *std::max_element(come.begin(), come.end());
      for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
        const std::int64_t shows = ahead[rank % 3];
        clocks[rank].steps.push_back({come[rank] + shows, all + between(10'000, 60'000) + shows});
      }
      now = all + 100'000;
    }
    const auto offsets = estimate_offsets(clocks);
    for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
      EXPECT_LE(std::abs(offsets[rank].ns + ahead[rank % 3]), offsets[rank].error_ns) << rank;
      EXPECT_LE(offsets[rank].error_ns, 60'000) << rank;
    }
  }
}

TEST(ClockMap, CorrectsTheDrift) {
  const ClockMap map({.at_ns = 1'000'000, .offset = {.ns = 500, .error_ns = 20}},
                     {.at_ns = 1'001'000'000, .offset = {.ns = 50'500, .error_ns = 10}});
  EXPECT_EQ(map.map(1'000'000), 1'000'500);
  EXPECT_EQ(map.map(501'000'000), 501'025'500);
  EXPECT_EQ(map.map(1'001'000'000), 1'001'050'500);
  EXPECT_EQ(map.error_ns(), 20);
  EXPECT_EQ(ClockMap({.at_ns = 7, .offset = {.ns = -5, .error_ns = 0}}).map(100), 95);
  EXPECT_EQ(ClockMap().map(42), 42);
}

// Two estimates at nearly the same time say nothing about the drift.
TEST(ClockMap, NeverGoesBackwards) {
  const ClockMap map({.at_ns = 1'000, .offset = {.ns = 90'000, .error_ns = 0}},
                     {.at_ns = 2'000, .offset = {.ns = 0, .error_ns = 0}});
  std::int64_t before = map.map(0);
  for (std::uint64_t own = 1; own < 10'000; own += 7) {
    EXPECT_GE(map.map(own), before);
    before = map.map(own);
  }
}

}  // namespace
}  // namespace libhvd
