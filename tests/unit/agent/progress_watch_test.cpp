#include "agent/progress_watch.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

RankProgress at_step(int rank, std::uint64_t step, std::uint64_t reported_ns) {
  RankProgress progress;
  progress.rank = rank;
  progress.called_init = true;
  progress.step = step;
  progress.steps = 1000;
  progress.samples = step * 64;
  progress.progress_ns = reported_ns;
  return progress;
}

TEST(ProgressWatch, SumsTheRatesOfItsRanks) {
  ProgressWatch watch;
  watch.look({at_step(4, 10, kSecond), at_step(5, 10, kSecond)}, kSecond);
  const auto host =
      watch.look({at_step(5, 12, 2 * kSecond), at_step(4, 11, 2 * kSecond)}, 2 * kSecond);
  EXPECT_EQ(host.called_init, 2);
  EXPECT_EQ(host.reporting, 2);
  EXPECT_EQ(host.rank, 4) << "the lowest rank, in any order";
  EXPECT_EQ(host.progress.step, 11u);
  EXPECT_EQ(host.progress.steps, 1000u);
  EXPECT_DOUBLE_EQ(host.progress.samples_per_second.value(), 3 * 64);
  EXPECT_DOUBLE_EQ(host.progress.seconds_left.value(), 989);
  EXPECT_FALSE(host.progress.epoch);
  EXPECT_FALSE(host.progress.loss);
}

TEST(ProgressWatch, HasNoRateBeforeTheSecondReport) {
  ProgressWatch watch;
  watch.look({at_step(0, 10, kSecond)}, kSecond);
  const auto host = watch.look({at_step(0, 10, kSecond)}, 2 * kSecond);
  EXPECT_FALSE(host.progress.samples_per_second);
  EXPECT_FALSE(host.progress.seconds_left);
  EXPECT_FALSE(host.progress.waiting);
}

TEST(ProgressWatch, ForgetsStepsBeforeItsWindow) {
  ProgressWatch watch;
  std::uint64_t now = 0;
  std::uint64_t step = 0;
  HostProgress host;
  const auto run = [&](int seconds, std::uint64_t steps) {
    for (int i = 0; i < seconds; ++i)
      host = watch.look({at_step(0, step += steps, now += kSecond)}, now);
  };
  run(60, 1);
  EXPECT_DOUBLE_EQ(host.progress.samples_per_second.value(), 64);
  run(60, 5);
  EXPECT_DOUBLE_EQ(host.progress.samples_per_second.value(), 5 * 64);
}

TEST(ProgressWatch, HasTheRateOfStepsLongerThanItsWindow) {
  ProgressWatch watch;
  watch.look({at_step(0, 1, 100 * kSecond)}, 100 * kSecond);
  watch.look({at_step(0, 2, 200 * kSecond)}, 200 * kSecond);
  for (std::uint64_t now = 201; now < 290; ++now) {
    const auto host = watch.look({at_step(0, 2, 200 * kSecond)}, now * kSecond);
    ASSERT_DOUBLE_EQ(host.progress.samples_per_second.value(), 0.64);
  }
}

TEST(ProgressWatch, RateOfASilentRankFalls) {
  ProgressWatch watch;
  watch.look({at_step(0, 10, kSecond)}, kSecond);
  watch.look({at_step(0, 11, 2 * kSecond)}, 2 * kSecond);
  const auto soon = watch.look({at_step(0, 11, 2 * kSecond)}, 4 * kSecond);
  EXPECT_DOUBLE_EQ(soon.progress.samples_per_second.value(), 64);
  const auto late = watch.look({at_step(0, 11, 2 * kSecond)}, 65 * kSecond);
  EXPECT_DOUBLE_EQ(late.progress.samples_per_second.value(), 1);
}

TEST(ProgressWatch, StartsAgainWhenTheStepDecreases) {
  ProgressWatch watch;
  watch.look({at_step(0, 500, kSecond)}, kSecond);
  watch.look({at_step(0, 0, 2 * kSecond)}, 2 * kSecond);
  const auto host = watch.look({at_step(0, 1, 3 * kSecond)}, 3 * kSecond);
  EXPECT_DOUBLE_EQ(host.progress.samples_per_second.value(), 64);
}

TEST(ProgressWatch, AveragesTheWaitingOfItsRanks) {
  ProgressWatch watch;
  auto quick = at_step(0, 1, kSecond), slow = at_step(1, 1, kSecond);
  watch.look({quick, slow}, kSecond);
  quick = at_step(0, 2, 2 * kSecond);
  quick.waiting_ns = kSecond / 2;
  slow = at_step(1, 2, 2 * kSecond);
  const auto host = watch.look({quick, slow}, 2 * kSecond);
  EXPECT_DOUBLE_EQ(host.progress.waiting.value(), 0.25);
}

TEST(ProgressWatch, IgnoresImpossibleValues) {
  ProgressWatch watch;
  auto rank = at_step(0, 2000, kSecond);  // of 1000
  const auto host = watch.look({rank}, kSecond);
  EXPECT_EQ(host.progress.step, 2000u);
  EXPECT_FALSE(host.progress.steps);
  rank.step = rank.samples = rank.waiting_ns = ~0ull;
  rank.progress_ns = 5;
  const auto more = watch.look({rank}, 2 * kSecond);
  EXPECT_FALSE(more.progress.seconds_left);
  EXPECT_LE(more.progress.waiting.value_or(0), 1);
}

TEST(ProgressWatch, HasTheNumberOfRanksInInit) {
  ProgressWatch watch;
  RankProgress waits;
  waits.called_init = waits.in_init = true;
  RankProgress not_yet;
  not_yet.rank = 1;
  const auto host = watch.look({waits, not_yet}, kSecond);
  EXPECT_EQ(host.called_init, 1);
  EXPECT_EQ(host.in_init, 1);
  EXPECT_FALSE(host.rank);
  EXPECT_EQ(host.reporting, 0);
}

}  // namespace
}  // namespace hvdrun
