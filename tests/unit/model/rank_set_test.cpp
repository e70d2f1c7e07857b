#include "model/rank_set.hpp"

#include "common/text.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(RankSet, ReadsNumbersAndRanges) {
  const auto set = RankSet::parse("0,4-7");
  ASSERT_TRUE(set) << set.error().message;
  for (const int rank : {0, 4, 5, 7}) EXPECT_TRUE(set->contains(rank)) << rank;
  for (const int rank : {1, 3, 8, -1}) EXPECT_FALSE(set->contains(rank)) << rank;
}

TEST(RankSet, WritesItsShortestForm) {
  EXPECT_EQ(RankSet::parse("7,3,4,5,0,1")->to_string(), "0-1,3-5,7");
  EXPECT_EQ(RankSet::parse("0-3,2-9,10")->to_string(), "0-10");
}

TEST(RankSet, RefusesInvalidText) {
  for (const auto* text : {"", ",", "1,", "a", "--1", "1-", "3-1", "1 2", "99999999999", "-0",
                           "last-3", "-", "lasts"}) {
    const auto set = RankSet::parse(text);
    ASSERT_FALSE(set) << text;
    EXPECT_EQ(set.error().exit_code, kExitUsage);
  }
}

TEST(RankSet, NumbersRanksFromTheLastOneOnceTheSizeIsKnown) {
  auto set = RankSet::parse("0,last");
  ASSERT_TRUE(set);
  EXPECT_TRUE(set->needs_size());
  EXPECT_EQ(set->to_string(), "0,last");
  ASSERT_TRUE(set->settle(4));
  EXPECT_EQ(set->to_string(), "0,3");
  auto end = RankSet::parse("-2,2-last");
  ASSERT_TRUE(end && end->settle(8));
  EXPECT_EQ(end->to_string(), "2-7");
  EXPECT_EQ(RankSet::parse("-5")->settle(3).error().message,
            "there is no rank -5: the job has 3 ranks");
  EXPECT_EQ(RankSet::parse("5-last")->settle(3).error().exit_code, kExitUsage);
  EXPECT_FALSE(RankSet::parse("0-3")->needs_size());
}

TEST(RankSet, AgreesWithASetOfIntegersInEveryOrder) {
  // All pairs of short ranges, in both orders: overlapping, adjacent, nested and apart.
  for (int a = 0; a < 6; ++a)
    for (int b = a; b < 6; ++b)
      for (int c = 0; c < 6; ++c)
        for (int d = c; d < 6; ++d) {
          RankSet set;
          set.add(a, b);
          set.add(c, d);
          for (int rank = -1; rank < 7; ++rank) {
            const bool expected = (rank >= a && rank <= b) || (rank >= c && rank <= d);
            ASSERT_EQ(set.contains(rank), expected)
                << a << '-' << b << ',' << c << '-' << d << " at " << rank;
          }
          EXPECT_EQ(RankSet::parse(set.to_string())->to_string(), set.to_string());
        }
}

}  // namespace
}  // namespace hvdrun
