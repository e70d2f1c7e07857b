// The random generator and the shuffle. The expected numbers come from another program (in Python)
// that follows docs/reference/formats/shuffle.md; every bit must be the same.
#include "io/shuffle.hpp"

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

template <class Index>
std::vector<Index> shuffled(std::size_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<Index> order(count);
  std::iota(order.begin(), order.end(), Index{0});
  RandomWords random(seed, epoch);
  shuffle(std::span(order), random);
  return order;
}

// Random123's known answers for philox4x32 with 10 rounds.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomWords, MatchThePhiloxBlocksInOrder) {
  RandomWords random(5, 6);
  const std::vector<std::uint32_t> expected{0x03dae66b, 0xd8ab4d53, 0xea579295, 0x2b5923e7,
                                            0x128ceecd, 0x036e7d5f, 0xbf5d1665, 0x56a1ccd8};
  for (const std::uint32_t word : expected) {
    EXPECT_EQ(random.next(), word);
  }
  RandomWords long_words(5, 6);
  EXPECT_EQ(long_words.next_64(), 0xd8ab4d5303dae66b);
}

TEST(RandomWords, DependOnAllBitsOfSeedAndEpoch) {
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 63;
  std::map<std::uint32_t, int> firsts;
  for (const auto& [seed, epoch] : std::initializer_list<std::array<std::uint64_t, 2>>{
           {0, 0}, {1, 0}, {0, 1}, {kHigh, 0}, {0, kHigh}}) {
    ++firsts[RandomWords(seed, epoch).next()];
  }
  EXPECT_EQ(firsts.size(), 5u);
}

TEST(RandomBelow, FollowsTheSpecificationAtEveryWidth) {
  constexpr std::uint64_t kOne = 1;
  RandomWords random(5, 6);
  const std::vector<std::array<std::uint64_t, 2>> expected{
      {1, 0},
      {2, 1},
      {3, 2},
      {kOne << 31, 363631091},
      {(kOne << 31) + 1, 155613030},
      {kOne << 32, 57572703},
      {(kOne << 32) + 1, 1453444313},
      {(kOne << 63) + 1, 1289742688661669094},
      {0xffffffffffffffff, 2965999050445432402}};
  for (const auto& [bound, value] : expected) EXPECT_EQ(random_below(random, bound), value);
}

// Just above a power of two, about every second word is refused.
TEST(RandomBelow, RejectsWordsThatWouldBiasTheResult) {
  RandomWords random(5, 6);
  for (const std::uint64_t value :
       std::vector<std::uint64_t>{32338741, 363631091, 155613030, 28786351, 345287733}) {
    EXPECT_EQ(random_below(random, (std::uint64_t{1} << 31) + 1), value);
  }
  RandomWords again(5, 6);
  for (const std::uint64_t value :
       std::vector<std::uint64_t>{1561783647767087434, 123636438419273574, 3121247894903884594,
                                  1289742688661669094, 1482999525222716201}) {
    EXPECT_EQ(random_below(again, (std::uint64_t{1} << 63) + 1), value);
  }
}

TEST(Shuffle, GivesTheSpecifiedOrders) {
  using Order = std::vector<std::uint32_t>;
  EXPECT_EQ(shuffled<std::uint32_t>(10, 0, 0), (Order{6, 9, 0, 2, 1, 8, 4, 5, 7, 3}));
  EXPECT_EQ(shuffled<std::uint32_t>(10, 1, 0), (Order{2, 0, 3, 1, 5, 6, 7, 4, 9, 8}));
  EXPECT_EQ(shuffled<std::uint32_t>(10, 0, 1), (Order{7, 2, 6, 1, 9, 4, 3, 0, 8, 5}));
  EXPECT_EQ(shuffled<std::uint32_t>(10, ~std::uint64_t{0}, ~std::uint64_t{0} >> 1),
            (Order{3, 5, 1, 4, 7, 6, 0, 2, 8, 9}));
  EXPECT_EQ(shuffled<std::uint32_t>(0, 0, 0), Order{});
  EXPECT_EQ(shuffled<std::uint32_t>(1, 0, 0), Order{0});
}

TEST(Shuffle, GivesTheSpecifiedOrderOfMany) {
  const auto order = shuffled<std::uint32_t>(100'000, 42, 7);
  EXPECT_EQ(std::vector(order.begin(), order.begin() + 8),
            (std::vector<std::uint32_t>{40391, 5145, 49723, 87839, 9301, 47118, 87232, 58561}));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) sum += (i + 1) * order[i];
  EXPECT_EQ(sum, 250160763136163u);
}

TEST(Shuffle, IsTheSameInBothWidths) {
  const auto narrow = shuffled<std::uint32_t>(1000, 3, 4);
  const auto wide = shuffled<std::uint64_t>(1000, 3, 4);
  EXPECT_TRUE(std::equal(narrow.begin(), narrow.end(), wide.begin(), wide.end()));
}

// Pearson's chi-square over the 24 orders of four: 23 degrees of freedom; above 49.7 with a
// probability of 0.1 %. The seeds are fixed, so the answer is always the same.
double chi_square_of_four(const std::function<std::vector<std::uint32_t>(std::uint64_t)>& order) {
  constexpr int kTimes = 24 * 5000;
  std::map<std::vector<std::uint32_t>, int> frequencies;
  for (std::uint64_t i = 0; i < kTimes; ++i) ++frequencies[order(i)];
  EXPECT_EQ(frequencies.size(), 24u);
  double sum = 0;
  for (const auto& [each, count] : frequencies) sum += std::pow(count - kTimes / 24.0, 2);
  return sum / (kTimes / 24.0);
}

TEST(Shuffle, MakesAllOrdersOfFourEquallyOftenOverSeeds) {
  EXPECT_LT(chi_square_of_four([](auto i) { return shuffled<std::uint32_t>(4, i, 0); }), 49.7);
}

TEST(Shuffle, MakesAllOrdersOfFourEquallyOftenOverEpochs) {
  EXPECT_LT(chi_square_of_four([](auto i) { return shuffled<std::uint32_t>(4, 1, i); }), 49.7);
}

// Each of 50 numbers must come to each of 50 places equally often. The chi-square has 49 · 49
// degrees of freedom, and so a standard deviation of about 69. A fair shuffle hardly ever differs
// by six of them.
TEST(Shuffle, BringsEveryNumberToEveryPlaceEquallyOften) {
  constexpr std::size_t kCount = 50;
  constexpr int kTimes = 20'000;
  std::array<std::array<int, kCount>, kCount> frequencies{};
  for (std::uint64_t seed = 0; seed < kTimes; ++seed) {
    const auto order = shuffled<std::uint32_t>(kCount, seed, 0);
    for (std::size_t place = 0; place < kCount; ++place) ++frequencies[place][order[place]];
  }
  const double expected = double{kTimes} / kCount;
  double sum = 0;
  for (const auto& row : frequencies) {
    for (const int count : row) sum += std::pow(count - expected, 2) / expected;
  }
  EXPECT_NEAR(sum, 49 * 49, 6 * std::sqrt(2.0 * 49 * 49));
}

}  // namespace
}  // namespace libhvd
