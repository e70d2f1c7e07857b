#include "trace/gather.hpp"

#include "support.hpp"
#include "trace/timed_barrier.hpp"

#include <latch>
#include <map>
#include <string>

#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

TEST(Gather, CollectsDifferentNumbersOfValuesOfEachRank) {
  for (const int size : {1, 2, 4}) {
    run_ranks_everywhere(size, [&](Communicator& communicator) {
      std::vector<int> own(static_cast<std::size_t>(communicator.rank()), communicator.rank());
      const auto all = gather_values(communicator, own);
      ASSERT_TRUE(all.ok()) << all.error().message;
      std::vector<int> wanted;
      for (int rank = 0; rank < size; ++rank)
        wanted.insert(wanted.end(), static_cast<std::size_t>(rank), rank);
      EXPECT_EQ(*all, wanted);
    });
  }
}

TEST(Gather, PiecesReachRank0CompleteAndInOrder) {
  for (const int size : {1, 3}) {
    run_ranks_everywhere(size, [&](Communicator& communicator) {
      // Rank r has 10 r + 1 pieces, some of them longer than what fits into one step.
      const int rank = communicator.rank();
      const int pieces = 10 * rank + 1;
      const auto piece = [](int of_rank, int number) {
        return std::to_string(of_rank) + ":" + std::to_string(number) +
               std::string(static_cast<std::size_t>(number % 4) * 100'000, '.');
      };
      int next = 0;
      std::map<int, int> come;
      const Result<void> outcome = gather_text(
          communicator, [&] { return next < pieces ? piece(rank, next++) : std::string(); },
          [&](std::string_view text) {
            const int from = text.front() - '0';
            EXPECT_EQ(text, piece(from, come[from]++));
          });
      ASSERT_TRUE(outcome.ok()) << outcome.error().message;
      for (int from = 0; from < size; ++from)
        EXPECT_EQ(come[from], rank == 0 ? 10 * from + 1 : 0) << from;
    });
  }
}

TEST(TimedBarrier, SucceedsWhenAllRanksArrive) {
  run_ranks_everywhere(3, [](Communicator& communicator) {
    EXPECT_TRUE(timed_barrier(communicator, std::chrono::hours(1)).ok());
    EXPECT_TRUE(communicator.barrier({}).ok());  // later calls work
  });
}

TEST(TimedBarrier, TimesOutIfARankDoesNotArrive) {
  std::latch given_up(1);
  run_ranks(2, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      given_up.wait();
      return;
    }
    const Result<void> outcome = timed_barrier(communicator, std::chrono::milliseconds(5));
    given_up.count_down();
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().status, HVD_ERROR_TIMEOUT);
    EXPECT_EQ(outcome.error().message, "not all ranks have come within 5 ms");
  });
}

}  // namespace
}  // namespace libhvd::test
