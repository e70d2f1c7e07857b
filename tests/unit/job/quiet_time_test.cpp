// When a job is quiet for --quiet-timeout.
#include "job/quiet_time.hpp"

#include <chrono>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

RankState used(int rank, double cpu_seconds, std::uint64_t step = 0) {
  RankState state;
  state.rank = rank;
  state.activity.cpu_seconds = cpu_seconds;
  state.step = step;
  return state;
}

// Returns for how long a job with a limit of `timeout` has been quiet after `timeout` and a half,
// if each rank uses such a part of a processor.
double quiet_seconds(milliseconds timeout, const std::vector<double>& shares,
                     std::uint64_t steps_per_look = 0) {
  QuietTime time;
  const QuietTime::Time begin{};
  time.begin(begin, timeout);
  auto now = begin;
  for (std::uint64_t look = 1; look <= 15; ++look) {
    now += timeout / 10;
    const double seconds = std::chrono::duration<double>(now - begin).count();
    std::vector<RankState> states;
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
      states.push_back(used(static_cast<int>(rank), shares[rank] * seconds, look * steps_per_look));
    time.add(now, states);
  }
  return std::chrono::duration<double>(now - time.since()).count();
}

TEST(QuietTime, RanksThatComputeLittleAreNotQuiet) {
  for (const double share : {0.01, 0.02, 0.03, 1.0})
    for (const int seconds : {4, 60, 600})
      EXPECT_LT(quiet_seconds(std::chrono::seconds(seconds), {share, share}), seconds) << share;
}

TEST(QuietTime, OneRankOfManyThatComputesIsEnough) {
  std::vector<double> shares(64, 0.0);
  shares[17] = 0.02;
  EXPECT_LT(quiet_seconds(std::chrono::seconds(10), shares), 10);
}

TEST(QuietTime, ThreadsThatWakeUpNowAndThenAreNoWork) {
  EXPECT_GE(quiet_seconds(std::chrono::seconds(4), std::vector<double>(64, 0.0025)), 4);
  EXPECT_GE(quiet_seconds(std::chrono::seconds(600), std::vector<double>(64, 0.0025)), 600);
}

TEST(QuietTime, ProgressThatIsReportedIsWork) {
  EXPECT_GE(quiet_seconds(std::chrono::seconds(4), {0, 0}), 4);
  EXPECT_LT(quiet_seconds(std::chrono::seconds(4), {0, 0}, 1), 1);
}

TEST(QuietTime, AProcessThatEndsBelowARankHidesNoWork) {
  QuietTime time;
  const QuietTime::Time begin{};
  time.begin(begin, std::chrono::seconds(10));
  time.add(begin + std::chrono::seconds(1), {used(0, 5)});
  time.add(begin + std::chrono::seconds(2), {used(0, 1)});
  time.add(begin + std::chrono::seconds(3), {used(0, 2)});
  EXPECT_EQ(time.since(), begin + std::chrono::seconds(3));
}

}  // namespace
}  // namespace hvdrun
