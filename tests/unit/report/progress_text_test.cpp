#include "report/progress_text.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

template <class T>
Progress only(std::optional<T> Progress::*member, T value) {
  Progress progress;
  progress.*member = value;
  return progress;
}

TEST(ProgressText, HasAFieldForEachKnownValue) {
  EXPECT_THAT(progress_fields({2, 20, 1204, 9380, 7346.4, 0.12, 0.123, 14.2}),
              ElementsAre("epoch 3/20", "step 1,204/9,380", "7,346 samples/s", "loss 0.12",
                          "12 % waiting", "0:14 left"));
  EXPECT_THAT(progress_fields({}), IsEmpty());
  EXPECT_THAT(progress_fields(only(&Progress::step, std::uint64_t{7})), ElementsAre("step 7"));
  EXPECT_THAT(progress_fields(only(&Progress::epoch, std::uint64_t{0})), ElementsAre("epoch 1"));
  Progress over = only(&Progress::epoch, std::uint64_t{20});
  over.epochs = 20;
  EXPECT_THAT(progress_fields(over), ElementsAre("epoch 20/20")) << "after the last epoch";
}

TEST(ProgressText, HasTheUseOfATrainingThatReportsNothing) {
  EXPECT_THAT(use_fields({}, 9.6), ElementsAre("0:10 elapsed", "0.0 cores"));
  EXPECT_THAT(use_fields({.cores = 7.84, .gpus = 4, .gpus_busy = 3.32}, 754),
              ElementsAre("12:34 elapsed", "7.8 cores", "4 GPUs 83 % busy"));
  EXPECT_THAT(use_fields({.cores = 1, .gpus = 1, .gpus_busy = 1}, 4000),
              ElementsAre("1:06:40 elapsed", "1.0 cores", "1 GPU 100 % busy"));
}

TEST(ProgressText, FormatsNumbersOfEverySize) {
  const auto rate = [](double value) {
    return progress_fields(only(&Progress::samples_per_second, value))[0];
  };
  EXPECT_EQ(rate(0.123456), "0.123 samples/s");
  EXPECT_EQ(rate(99.94), "99.9 samples/s");
  EXPECT_EQ(rate(1234567), "1,234,567 samples/s");
  EXPECT_EQ(rate(1e18), "1e+18 samples/s");
  const auto left = [](double value) {
    return progress_fields(only(&Progress::seconds_left, value))[0];
  };
  EXPECT_EQ(left(0.4), "0:00 left");
  EXPECT_EQ(left(3599.6), "1:00:00 left");
  EXPECT_EQ(left(172800 + 3600), "2 d 1 h left");
  EXPECT_EQ(left(std::numeric_limits<double>::infinity()), "11574 d 1 h left");
  EXPECT_EQ(progress_fields(only(&Progress::loss, double{NAN}))[0], "loss nan");
  Progress steps = only(&Progress::step, std::uint64_t{999});
  steps.steps = 1000;
  EXPECT_EQ(progress_fields(steps)[0], "step 999/1,000");
}

RankReport with_counters(double seconds, double waiting, double rate) {
  RankReport rank;
  rank.seconds = seconds;
  rank.counters.joined = true;
  rank.counters.steps = 50;
  rank.counters.steps_in_all = 50;
  rank.counters.waiting_seconds = waiting;
  rank.counters.samples_per_second = rate;
  rank.counters.metrics = {{"accuracy", 0.9}, {"loss", 0.5}};
  return rank;
}

TEST(ProgressText, FinalProgressCombinesTheRanks) {
  const auto progress = final_progress({with_counters(10, 1, 100), with_counters(10, 3, 50)});
  ASSERT_TRUE(progress);
  EXPECT_THAT(progress_fields(*progress),
              ElementsAre("step 50/50", "150 samples/s", "loss 0.5", "20 % waiting"));
  EXPECT_FALSE(final_progress({RankReport(), RankReport()}));
  EXPECT_FALSE(final_progress({}));
}

// A program that stops early has begun one more epoch, in which it did no step.
TEST(ProgressText, SuccessfulRankDoesNotShowAnUnfinishedEpoch) {
  RankReport rank = with_counters(10, 1, 100);
  rank.counters.epoch = 6;
  rank.counters.epochs_in_all = 10;
  rank.counters.steps_in_all = 80;
  rank.counters.epochs = {{4, 1.0, 0}, {5, 1.0, 0}};
  rank.exited = true;
  EXPECT_EQ(progress_fields(*final_progress({rank}))[0], "epoch 6/10");
  rank.exit_code = 1;  // it failed in the next epoch
  EXPECT_EQ(progress_fields(*final_progress({rank}))[0], "epoch 7/10");
  rank.exit_code = 0;
  rank.counters.epochs.clear();
  EXPECT_EQ(progress_fields(*final_progress({rank}))[0], "epoch 7/10");
}

// hvd.progress(step=…, epoch=epoch, epochs=10) in a loop does not say that the last epoch is over.
TEST(ProgressText, SuccessfulRankWasInItsLastEpoch) {
  RankReport rank = with_counters(10, 9, 200);
  rank.counters.epoch = 9;
  rank.counters.epochs_in_all = 10;
  rank.counters.epochs = {{7, 1.0, 0}, {8, 1.0, 0}};
  rank.exited = true;
  EXPECT_EQ(progress_fields(*final_progress({rank}))[0], "epoch 10/10");
  rank.counters.epochs_in_all = 0;  // it does not say how many there are, but has done all steps
  rank.counters.steps_in_all = rank.counters.steps = 200;
  EXPECT_EQ(progress_fields(*final_progress({rank}))[0], "epoch 10");
}

}  // namespace
}  // namespace hvdrun
