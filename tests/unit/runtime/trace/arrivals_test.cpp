#include "trace/arrivals.hpp"

#include "support.hpp"

#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

TEST(Arrivals, EveryRankLearnsTheLastArrivalOfEachCollective) {
  constexpr int kSize = 4;
  constexpr std::uint32_t kCount = 20'000;  // more than fit into one step
  run_ranks_everywhere(kSize, [](Communicator& communicator) {
    const auto rank = static_cast<std::uint32_t>(communicator.rank());
    std::vector<Arrival> own;
    for (std::uint32_t i = 1; i <= kCount; ++i)
      own.push_back({call_stream(0), i, i * 1'000 + (i + rank) % kSize * 100});
    // Only rank 2 has recorded this stream.
    if (rank == 2) own.push_back({engine_stream(5), 77, 3});
    const auto last = LastArrivals::among(communicator, own);
    ASSERT_TRUE(last.ok()) << last.error().message;
    for (std::uint32_t i = 1; i <= kCount; ++i) {
      const auto found = last->find(call_stream(0), i);
      ASSERT_TRUE(found);
      ASSERT_EQ((i + static_cast<std::uint32_t>(found->rank)) % kSize, 3u) << i;
      ASSERT_EQ(found->at_ns, i * 1'000 + 300);
    }
    EXPECT_EQ(last->find(engine_stream(5), 77)->rank, 2);
    EXPECT_FALSE(last->find(engine_stream(5), 76));
    EXPECT_FALSE(last->find(engine_stream(5), 78));
    EXPECT_FALSE(last->find(call_stream(0), 0));
    EXPECT_FALSE(last->find(call_stream(1), 1));
  });
}

TEST(Arrivals, AcceptCallsThatOnlySomeRanksRecorded) {
  run_ranks_everywhere(3, [](Communicator& communicator) {
    std::vector<Arrival> own;
    if (communicator.rank() == 0) own = {{0, 10, 5}, {0, 12, 5}};
    if (communicator.rank() == 1) own = {{0, 12, 6}, {0, 13, 1}};
    const auto last = LastArrivals::among(communicator, own);
    ASSERT_TRUE(last.ok()) << last.error().message;
    EXPECT_EQ(last->find(0, 10)->rank, 0);
    EXPECT_FALSE(last->find(0, 11));
    EXPECT_EQ(last->find(0, 12)->rank, 1);
    EXPECT_EQ(last->find(0, 13)->rank, 1);
  });
}

TEST(Arrivals, MayBeEmpty) {
  run_ranks_everywhere(2, [](Communicator& communicator) {
    const auto last = LastArrivals::among(communicator, {});
    ASSERT_TRUE(last.ok()) << last.error().message;
    EXPECT_FALSE(last->find(0, 0));
  });
}

}  // namespace
}  // namespace libhvd::test
