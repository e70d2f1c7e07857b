#include "commands/scale_table.hpp"

#include "example_study.hpp"

#include <cmath>

#include <gmock/gmock.h>

namespace hvdrun::scale {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(StudyTable, HasALinePerSize) {
  EXPECT_THAT(study_table(summarise(example_study())),
              ElementsAre("RANKS  EPOCH   SPREAD  SAMPLES/S  SPEED-UP  EFFICIENCY  LOSS   ACCURACY",
                          "1      10.0 s  0 %     100        1.00      100 %       0.500  0.900",
                          "2      5.25 s  9.5 %   191        1.91      95 %        0.500  0.900",
                          "4      4.00 s  0 %     250        2.50      62 %        0.500  0.900"));
}

TEST(StudyTable, NamesFailedAndMissingRuns) {
  Study study = example_study();
  study.runs = {example_run(1, 1, 10, 1000, 0.5), failed_run(2)};
  EXPECT_THAT(study_table(summarise(study)),
              ElementsAre(HasSubstr("EPOCH"),
                          "1      10.0 s  -       100        1.00      100 %       0.500  0.900",
                          "2      failed: exit code 3", "4      not run"));
}

TEST(StudyTable, ShowsTheTimeOfRunsWithoutCounters) {
  Study study = example_study();
  for (auto& run : study.runs) {
    run.throughput.reset();
    run.epoch_seconds.reset();
    run.metrics.clear();
  }
  EXPECT_THAT(study_table(summarise(study)).front(), "RANKS  RUN     SPREAD  SPEED-UP  EFFICIENCY");
}

TEST(StudyTable, ShowsTheSpreadOfMetricsAndNaN) {
  Study study = example_study();
  study.runs[0].metrics[0].value = 0.4;
  study.runs[1].metrics[0].value = std::nan("");
  const auto lines = study_table(summarise(study));
  EXPECT_THAT(lines[1], HasSubstr("0.450 (22 %)"));
  EXPECT_THAT(lines[2], HasSubstr("nan"));
}

TEST(SpeedupBars, ShowTheIdeal) {
  EXPECT_THAT(speedup_bars(summarise(example_study()), 56, false),
              ElementsAre("speed-up over 1 rank (| ideal)", "    1  ##########|  1.00",
                          "    2  ################### |  1.91",
                          "    4  #########################               |  2.50"));
  const auto blocks = speedup_bars(summarise(example_study()), 56, true);
  EXPECT_THAT(blocks[2], "    2  ███████████████████▏│  1.91");
}

TEST(SpeedupBars, MayBeLongerThanTheIdeal) {
  Study study = example_study();
  study.sizes = {1, 2};
  study.runs = {example_run(1, 1, 10, 1000, 0.5), example_run(2, 1, 2.5, 1000, 0.5)};
  const auto lines = speedup_bars(summarise(study), 56, false);
  EXPECT_EQ(lines[2], "    2  " + std::string(40, '#') + "  4.00");
}

TEST(SpeedupBars, NeedTwoSizes) {
  Study study = example_study();
  study.runs = {example_run(1, 1, 10, 1000, 0.5), failed_run(2)};
  EXPECT_THAT(speedup_bars(summarise(study), 56, false), IsEmpty());
  study.runs.clear();
  EXPECT_THAT(speedup_bars(summarise(study), 56, false), IsEmpty());
}

TEST(StudyText, EndsWithWarningsAndNotes) {
  Study study = example_study();
  study.interrupted = true;
  study.runs[2].metrics[0].value = study.runs[5].metrics[0].value = 1;
  EXPECT_THAT(study_text(summarise(study), false),
              EndsWith("\n\nwarning: loss at 4 ranks (1.00) differs from that at 1 rank (0.500) by "
                       "100 %, more than over repeats\n"
                       "note: the study was interrupted; these are the figures until then\n"));
}

}  // namespace
}  // namespace hvdrun::scale
