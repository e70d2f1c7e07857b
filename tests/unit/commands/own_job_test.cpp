#include "commands/own_job.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

bool is_own(const char* id, const Environment& environment) {
  return is_own_job(parse_job_id(id).value(), environment);
}

TEST(OwnJob, IsThatOfTheVariables) {
  const Environment job{{"SLURM_JOB_ID", "38"}};
  EXPECT_TRUE(is_own("38", job));
  EXPECT_FALSE(is_own("37", job));
  EXPECT_FALSE(is_own("38", {}));
  EXPECT_EQ(
      follows_itself(parse_job_id("38").value()).message,
      "this is job 38 itself, which would wait for its own end; follow it from another shell");
}

TEST(OwnJob, IsTheTaskOrTheArrayOfTheVariables) {
  const Environment task{
      {"SLURM_JOB_ID", "41"}, {"SLURM_ARRAY_JOB_ID", "38"}, {"SLURM_ARRAY_TASK_ID", "2"}};
  for (const auto* id : {"38", "41", "38_2"}) EXPECT_TRUE(is_own(id, task)) << id;
  for (const auto* id : {"38_1", "41_2", "39"}) EXPECT_FALSE(is_own(id, task)) << id;
}

}  // namespace
}  // namespace hvdrun
