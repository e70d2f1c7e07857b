#include "agent/stall_watch.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

RankStatus in_collective(const std::string& name, std::uint64_t start_ns, double seconds) {
  RankStatus status;
  status.blocking = {name, start_ns, seconds, 5};
  return status;
}

RankStatus in_background(const std::string& name, std::uint64_t start_ns, double seconds) {
  RankStatus status;
  status.background = {name, start_ns, seconds, 5};
  return status;
}

RankStatus out_of_all(std::uint64_t completed) {
  RankStatus status;
  status.blocking.completed = status.background.completed = completed;
  return status;
}

std::string text_of(const StallsMessage& stalls) {
  std::string text;
  for (const auto& wait : stalls.begun)
    text += std::to_string(wait.rank) + " in " + wait.collective + ";";
  for (const auto& wait : stalls.over)
    text += std::to_string(wait.rank) + (wait.completed ? " done with " : " out of ") +
            wait.collective + ";";
  return text;
}

TEST(StallWatch, ReportsALongWaitOnceAndItsEndOnce) {
  StallWatch watch(milliseconds(500));
  watch.look(3, in_collective("allreduce g", 7, 0.49));
  EXPECT_EQ(text_of(watch.take()), "");
  watch.look(3, in_collective("allreduce g", 7, 0.5));
  watch.look(3, in_collective("allreduce g", 7, 0.6));
  EXPECT_EQ(text_of(watch.take()), "3 in allreduce g;");
  watch.look(3, in_collective("allreduce g", 7, 5));
  EXPECT_EQ(text_of(watch.take()), "");
  watch.look(3, out_of_all(6));
  watch.look(3, out_of_all(6));
  EXPECT_EQ(text_of(watch.take()), "3 done with allreduce g;");
}

TEST(StallWatch, NextCollectiveWithTheSameNameIsReportedSeparately) {
  StallWatch watch(milliseconds(500));
  watch.look(3, in_collective("allreduce g", 7, 1));
  watch.look(3, in_collective("allreduce g", 8, 1));
  EXPECT_EQ(text_of(watch.take()), "3 in allreduce g;3 in allreduce g;3 out of allreduce g;");
}

TEST(StallWatch, SeparatesRanksAndBackgroundCollectives) {
  StallWatch watch(milliseconds(500));
  watch.look(0, in_collective("a", 7, 1));
  watch.look(1, in_background("b", 7, 1));
  RankStatus both = in_collective("a", 7, 1);
  both.background = {"b", 7, 1, 5};
  watch.look(0, both);
  EXPECT_EQ(text_of(watch.take()), "0 in a;1 in b;0 in b;");
  watch.look(1, out_of_all(5));
  EXPECT_EQ(text_of(watch.take()), "1 out of b;") << "the collective has failed";
}

TEST(StallWatch, ChecksAtAnEighthOfTheLimitWithinBounds) {
  EXPECT_EQ(StallWatch(milliseconds(60'000)).interval(), milliseconds(7500));
  EXPECT_EQ(StallWatch(milliseconds(600'000)).interval(), milliseconds(10'000));
  EXPECT_EQ(StallWatch(milliseconds(400)).interval(), milliseconds(50));
  EXPECT_EQ(StallWatch(milliseconds(1)).interval(), milliseconds(10));
}

TEST(StallWatch, ChecksMoreOftenWhileAWaitIsTooLong) {
  StallWatch watch(milliseconds(60'000));
  watch.look(0, in_collective("a", 1, 61));
  EXPECT_EQ(watch.interval(), milliseconds(1000));
  watch.look(0, in_collective("b", 2, 1));
  EXPECT_EQ(watch.interval(), milliseconds(7500));
}

}  // namespace
}  // namespace hvdrun
