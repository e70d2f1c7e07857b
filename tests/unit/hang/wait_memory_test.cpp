#include "hang/wait_memory.hpp"

#include "hang/looks.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::Optional;

// A rank that waits in a file's read. The look before has woken it so often.
std::vector<RankFacts> waiting(double seconds, std::uint64_t switches) {
  auto look = in_loader();
  look.threads[0].waiting_seconds = seconds;
  look.threads[0].switches = switches;
  RankFacts rank;
  rank.looks.push_back(std::move(look));
  return {rank};
}

std::optional<double> time_of(const std::vector<RankFacts>& ranks) {
  return ranks.at(0).looks.at(0).threads.at(0).waiting_seconds;
}

TEST(WaitMemory, AWaitContinuesAfterALookHasWokenTheThread) {
  WaitMemory memory;
  auto ranks = waiting(312, 10);
  memory.take(ranks, 1000);
  EXPECT_THAT(time_of(ranks), Optional(312));
  ranks = waiting(5, 14);
  memory.take(ranks, 1006);
  EXPECT_THAT(time_of(ranks), Optional(318));
  ranks = waiting(3, 18);
  memory.take(ranks, 1010);
  EXPECT_THAT(time_of(ranks), Optional(322));
}

TEST(WaitMemory, AThreadThatIsCaughtAwakeWaitsToo) {
  WaitMemory memory;
  auto ranks = waiting(312, 10);
  memory.take(ranks, 1000);
  ranks = waiting(0, 14);
  ranks[0].looks[0].threads[0].waiting_seconds.reset();
  memory.take(ranks, 1001);
  EXPECT_THAT(time_of(ranks), Optional(313));
}

TEST(WaitMemory, AThreadThatRanMeanwhileWaitsAnew) {
  WaitMemory memory;
  auto ranks = waiting(312, 10);
  memory.take(ranks, 1000);
  ranks = waiting(0.5, 40);
  memory.take(ranks, 1010);
  EXPECT_THAT(time_of(ranks), Optional(0.5)) << "it has waited many times";
  ranks = waiting(0.5, 44);
  ranks[0].looks[0].threads[0].cpu_seconds = 1;
  memory.take(ranks, 1020);
  EXPECT_THAT(time_of(ranks), Optional(0.5)) << "it has computed";
  ranks = waiting(0.5, 48);
  ranks[0].looks[0].threads[0].cpu_seconds = 1;
  ranks[0].looks[0].threads[0].stack[1].line = 7;
  memory.take(ranks, 1030);
  EXPECT_THAT(time_of(ranks), Optional(0.5)) << "it is elsewhere";
}

TEST(WaitMemory, AnotherProcessWaitsAnew) {
  WaitMemory memory;
  auto ranks = waiting(312, 10);
  memory.take(ranks, 1000);
  ranks = waiting(1, 10);
  ranks[0].looks[0].threads[0].tid = 101;
  memory.take(ranks, 1010);
  EXPECT_THAT(time_of(ranks), Optional(1));
}

}  // namespace
}  // namespace hvdrun
