#include "command_line_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ArrayIndex : public test::CommandLineTest {
 protected:
  ArrayIndex() {
    environment_["SLURM_JOB_ID"] = "41";
    environment_["SLURM_ARRAY_TASK_ID"] = "7";
  }
};

TEST_F(ArrayIndex, ReplacesIndexInTheFilesOfATask) {
  const auto spec = job({"--report", "run.{index}.json", "--output-filename",
                         "logs/{index}/{index}", "--metrics", "m{index}", "--timeline-filename",
                         "t.{index}", "--autotune-log-file", "a{index}", "-x", "SEED={index}"});
  EXPECT_EQ(spec.report_file, "run.7.json");
  EXPECT_EQ(spec.output.directory, "logs/7/7");
  EXPECT_EQ(spec.metrics.file, "m7");
  EXPECT_EQ(spec.timeline_file, "t.7");
  EXPECT_EQ(spec.collectives.autotune_log, "a7");
  EXPECT_EQ(spec.environment.front().value, "7");
}

TEST_F(ArrayIndex, OfTheProgramsWordsGetsANote) {
  const auto invocation = parse({"prog", "--seed", "run-{index}.yaml"});
  ASSERT_TRUE(invocation);
  EXPECT_THAT(invocation->spec.command, ElementsAre("prog", "--seed", "run-{index}.yaml"));
  EXPECT_THAT(
      invocation->notes,
      ElementsAre("only hvdrun sbatch --array replaces {index} in the program's words; in a "
                  "script of your own type \"run-$SLURM_ARRAY_TASK_ID.yaml\""));
}

TEST_F(ArrayIndex, IsNoWordOutsideAnArray) {
  environment_.erase("SLURM_ARRAY_TASK_ID");
  const auto invocation = parse({"--report", "{index}", "prog", "{index}"});
  ASSERT_TRUE(invocation);
  EXPECT_EQ(invocation->spec.report_file, "{index}");
  EXPECT_THAT(invocation->notes, IsEmpty());
}

}  // namespace
}  // namespace hvdrun
