#include "commands/scale_summary.hpp"

#include "example_study.hpp"

#include <cmath>

#include <gmock/gmock.h>

namespace hvdrun::scale {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Summary, ComparesSizesByTheirMedians) {
  const Summary summary = summarise(example_study());
  EXPECT_EQ(summary.basis, Basis::throughput);
  EXPECT_EQ(summary.baseline, 1);
  ASSERT_EQ(summary.sizes.size(), 3u);
  EXPECT_EQ(summary.sizes[0].speedup->median, 1);
  EXPECT_EQ(summary.sizes[1].epoch_seconds->median, 5.25);
  EXPECT_EQ(summary.sizes[1].speedup->most, 2);
  EXPECT_DOUBLE_EQ(summary.sizes[1].speedup->least, 10 / 5.5);
  EXPECT_EQ(summary.sizes[2].speedup->median, 2.5);
  EXPECT_EQ(summary.sizes[2].efficiency->median, 0.625);
  EXPECT_THAT(summary.metrics, ElementsAre("loss", "accuracy"));
  EXPECT_THAT(summary.warnings, IsEmpty());
  EXPECT_THAT(summary.notes, IsEmpty());
}

TEST(Summary, UsesTheTimeOfEpochsWithoutSamples) {
  Study study = example_study();
  for (auto& run : study.runs) run.throughput.reset();
  const Summary summary = summarise(study);
  EXPECT_EQ(summary.basis, Basis::epoch_seconds);
  EXPECT_EQ(summary.sizes[2].speedup->median, 2.5);
  EXPECT_DOUBLE_EQ(summary.sizes[1].speedup->least, 10 / 5.5) << "the slower run";
  EXPECT_FALSE(summary.knows_throughput());
}

TEST(Summary, UsesWholeRunsWithoutCountersAndNotesHvdProgress) {
  Study study = example_study();
  for (auto& run : study.runs) {
    run.throughput.reset();
    run.epoch_seconds.reset();
    run.metrics.clear();
  }
  const Summary summary = summarise(study);
  EXPECT_EQ(summary.basis, Basis::wall_seconds);
  EXPECT_EQ(summary.sizes[2].speedup->median, 2.5);
  EXPECT_EQ(summary.seconds(summary.sizes[2])->median, 40);
  EXPECT_THAT(summary.notes, ElementsAre(HasSubstr("hvd_progress")));
}

TEST(Summary, UsesAMeasureThatEverySizeHas) {
  Study study = example_study();
  study.runs[2].throughput.reset();
  study.runs[5].throughput.reset();
  EXPECT_EQ(summarise(study).basis, Basis::epoch_seconds);
}

TEST(Summary, IsRelativeToTheSmallestSizeThatSucceeded) {
  Study study = example_study();
  study.runs[0] = failed_run(1);
  study.runs.erase(study.runs.begin() + 3);
  const Summary summary = summarise(study);
  EXPECT_EQ(summary.baseline, 2);
  EXPECT_FALSE(summary.sizes[0].speedup);
  EXPECT_EQ(summary.sizes[0].failed, 1);
  EXPECT_EQ(summary.sizes[0].failure, "exit code 3");
  EXPECT_DOUBLE_EQ(summary.sizes[2].efficiency->median, summary.sizes[2].speedup->median / 2);
  EXPECT_THAT(summary.notes, ElementsAre("speed-up is relative to 2 ranks"));
}

TEST(Summary, HasNoFiguresIfEveryRunFailed) {
  Study study;
  study.sizes = {1, 2};
  study.runs = {failed_run(1), failed_run(2)};
  const Summary summary = summarise(study);
  EXPECT_EQ(summary.baseline, 0);
  EXPECT_FALSE(summary.knows_epochs());
  EXPECT_FALSE(summary.sizes[1].speedup);
  EXPECT_THAT(summary.warnings, IsEmpty());
}

TEST(Summary, OmitsFailedRuns) {
  Study study = example_study();
  study.runs[5] = failed_run(4, "exit code 137", 137);
  const Summary summary = summarise(study);
  EXPECT_EQ(summary.sizes[2].runs, 1);
  EXPECT_EQ(summary.sizes[2].failed, 1);
  EXPECT_THAT(summary.notes,
              ElementsAre("1 run at 4 ranks failed (exit code 137) and is left out"));
}

TEST(Summary, NotesThatOneRunHasNoSpread) {
  Study study = example_study();
  study.repeats = 1;
  study.runs.resize(3);
  study.interrupted = true;
  EXPECT_THAT(summarise(study).notes,
              ElementsAre(HasSubstr("was interrupted"), HasSubstr("see --repeat")));
}

// Returns the warnings of a study with these losses of two runs at 1 rank and two at 2 ranks.
std::vector<std::string> warnings_for(double first, double second, double third, double fourth) {
  Study study;
  study.sizes = {1, 2};
  study.repeats = 2;
  study.runs = {example_run(1, 1, 10, 1000, first), example_run(1, 2, 10, 1000, second),
                example_run(2, 1, 5, 1000, third), example_run(2, 2, 5, 1000, fourth)};
  return summarise(study).warnings;
}

TEST(Warnings, NameResultsThatDifferByMoreThanRepeats) {
  EXPECT_THAT(
      warnings_for(0.5, 0.5, 0.6, 0.6),
      ElementsAre("loss at 2 ranks (0.600) differs from that at 1 rank (0.500) by 20 %, more "
                  "than over repeats"));
  EXPECT_THAT(warnings_for(0.5, 0.5, 0.5, 0.5), IsEmpty());
  EXPECT_THAT(warnings_for(0.4, 0.6, 0.55, 0.55), IsEmpty()) << "repeats differ more";
  EXPECT_THAT(warnings_for(0.5, 0.5, 0.5049, 0.5049), IsEmpty()) << "less than 1 %";
  EXPECT_THAT(warnings_for(0, 0, 0.1, 0.1),
              ElementsAre(HasSubstr("(0.100) differs from that at 1 rank (0), more")));
}

TEST(Warnings, NameMetricsThatAreNotANumber) {
  const double nan = std::nan("");
  EXPECT_THAT(warnings_for(0.5, 0.5, nan, 0.5),
              ElementsAre("loss at 2 ranks is not a number: the training has diverged"));
  EXPECT_THAT(warnings_for(nan, nan, 0.5, 0.5),
              ElementsAre("loss at 1 rank is not a number: the training has diverged"));
  EXPECT_THAT(warnings_for(0.5, 0.5, INFINITY, INFINITY),
              ElementsAre("loss at 2 ranks is not a number: the training has diverged"));
}

TEST(Warnings, SayThatTheSpreadOfASingleRunIsUnknown) {
  Study study;
  study.sizes = {1, 2};
  study.runs = {example_run(1, 1, 10, 1000, 0.5), example_run(2, 1, 5, 1000, 0.6)};
  EXPECT_THAT(
      summarise(study).warnings,
      ElementsAre(HasSubstr("by 20 %; with one run each it is not known how far they spread")));
}

}  // namespace
}  // namespace hvdrun::scale
