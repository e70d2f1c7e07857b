#include "job/rank_table.hpp"

#include "report/first_failure.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr RankTable::Clock::time_point kBegun{std::chrono::seconds(1000)};

RankTable::Clock::time_point after(double seconds) {
  return kBegun + std::chrono::duration_cast<RankTable::Clock::duration>(
                      std::chrono::duration<double>(seconds));
}

// Returns a table with ranks 0 and 1 on n1, and 2 and 3 on n2.
RankTable table_of_two_hosts() {
  Placement placement;
  placement.size = 4;
  for (int host = 0; host < 2; ++host) {
    HostPlacement placed;
    placed.host = "n" + std::to_string(host + 1);
    for (int local = 0; local < 2; ++local) {
      RankPlacement rank;
      rank.rank = 2 * host + local;
      rank.local_rank = local;
      placed.ranks.push_back(rank);
    }
    placement.hosts.push_back(placed);
  }
  return {placement, kBegun};
}

// Returns the message for a rank that raised an exception `seconds_ago` before `agent_clock`.
ExitedMessage raised(int rank, double agent_clock, double seconds_ago) {
  ExitedMessage message;
  message.rank = rank;
  message.wait_status = 1 << 8;
  message.before_stop = true;
  message.failure.reported = true;
  message.failure.before_stop = true;
  message.failure.seconds_ago = seconds_ago;
  message.agent_clock = agent_clock;
  return message;
}

std::size_t first_failure(const RankTable& table) {
  return find_first_failure(table.ranks(), table.end_order()).value();
}

TEST(RankTable, HasProcessesThatAreStartedLater) {
  RankTable table = table_of_two_hosts();
  RankPlacement slot;
  slot.rank = 1;
  slot.local_rank = 1;
  EXPECT_EQ(table.add(0, "n1", slot), 4);
  EXPECT_EQ(table.ranks()[4].placement.rank, 4);
  EXPECT_EQ(table.ranks()[4].placement.local_rank, 1);
  EXPECT_EQ(table.ranks()[4].host, "n1");
  EXPECT_EQ(table.host_index(4), 0u);
  for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(table.exited(raised(rank, 5, 0), after(6)));
  EXPECT_EQ(table.running(), std::vector<int>{4});
  EXPECT_FALSE(table.all_ended_on(0));
}

TEST(RankTable, RanksOfALostHostCountAsEnded) {
  RankTable table = table_of_two_hosts();
  ASSERT_TRUE(table.exited(raised(2, 5.5, 0.1), after(1)));
  EXPECT_EQ(table.lose_host(1), std::vector<int>{3});
  EXPECT_TRUE(table.lose_host(1).empty());
  EXPECT_EQ(table.running(), (std::vector<int>{0, 1}));
  EXPECT_TRUE(table.all_ended_on(1));
  EXPECT_FALSE(table.exited(raised(3, 5.5, 0.1), after(1)));
  ASSERT_TRUE(table.exited(raised(0, 5.5, 0.1), after(1)));
  EXPECT_FALSE(table.all_ended());
  ASSERT_TRUE(table.exited(raised(1, 5.5, 0.1), after(1)));
  EXPECT_TRUE(table.all_ended());
  EXPECT_EQ(table.end_order(), (std::vector<std::size_t>{2, 0, 1}));
}

// Rank 2 calls MPI_Abort and is killed later. Rank 0 notices, calls MPI_Abort, and ends first.
TEST(RankTable, TheFirstToAbortIsToBlame) {
  RankTable table = table_of_two_hosts();
  table.aborted({2, 7, "", 5.0});
  table.aborted({0, 14, "", 5.1});
  table.aborted({2, 14, "", 5.2});
  ASSERT_TRUE(table.exited(raised(0, 5.2, 0), after(8)));
  ASSERT_TRUE(table.exited(raised(2, 5.5, 0), after(8.3)));
  EXPECT_EQ(first_failure(table), 2u);
}

TEST(RankTable, LateMessageDoesNotChangeTheFirstFailure) {
  for (const bool late_comes_first : {true, false}) {
    RankTable table = table_of_two_hosts();
    // Rank 1 raised at 5.0 on the agent's clock, rank 0 at 5.01. Rank 1's message took 0.1 s longer
    // to arrive.
    const auto late = raised(1, 5.5, 0.5);
    const auto quick = raised(0, 5.6, 0.59);
    ASSERT_TRUE(table.exited(late_comes_first ? late : quick, after(8)));
    ASSERT_TRUE(table.exited(late_comes_first ? quick : late, after(8)));
    EXPECT_EQ(first_failure(table), 1u);
    EXPECT_NEAR(table.ranks()[1].failed_after, 7.4, 1e-6);
  }
}

TEST(RankTable, EachHostHasItsOwnClock) {
  RankTable table = table_of_two_hosts();
  ASSERT_TRUE(table.exited(raised(2, 90000, 0), after(3.1)));
  ASSERT_TRUE(table.exited(raised(0, 17, 0.2), after(3.2)));
  EXPECT_EQ(first_failure(table), 0u);
  EXPECT_NEAR(table.ranks()[0].failed_after, 3.0, 1e-6);
  EXPECT_NEAR(table.ranks()[2].failed_after, 3.1, 1e-6);
}

TEST(RankTable, CorrectsTheDriftOfClocks) {
  RankTable table = table_of_two_hosts();
  ASSERT_TRUE(table.exited(raised(0, 10, 0), after(10)));
  // After ten hours the agent's clock is 2 s slow.
  ASSERT_TRUE(table.exited(raised(1, 36008, 0), after(36010)));
  EXPECT_NEAR(table.ranks()[1].failed_after, 36010, 1e-3);
}

TEST(RankTable, RecordsGpuMemoryOnlyOfExistingRanks) {
  RankTable table = table_of_two_hosts();
  GpuRecord record;
  record.rank_memory = {{-1, 1}, {1, 2000}, {3, 3000}, {4, 4}};
  table.used_gpu_memory(record);
  EXPECT_EQ(table.ranks()[0].peak_gpu_memory_bytes, std::nullopt);
  EXPECT_EQ(table.ranks()[1].peak_gpu_memory_bytes, 2000u);
  EXPECT_EQ(table.ranks()[2].peak_gpu_memory_bytes, std::nullopt);
  EXPECT_EQ(table.ranks()[3].peak_gpu_memory_bytes, 3000u);
}

}  // namespace
}  // namespace hvdrun
