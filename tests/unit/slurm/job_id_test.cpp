#include "slurm/job_id.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;

TEST(JobId, AcceptsJobsTasksAndPartsOfJobs) {
  const struct {
    const char* text;
    std::uint32_t number;
    JobId::Kind kind;
  } cases[] = {
      {"12", 12, JobId::Kind::job},
      {"67108863", 67108863, JobId::Kind::job},
      {"12_3", 12, JobId::Kind::array_task},
      {"12_0", 12, JobId::Kind::array_task},
      {"12+1", 12, JobId::Kind::het_part},
      {"12_[3]", 12, JobId::Kind::array_tasks},
      {"12_[1-3,7,9-20:2%4]", 12, JobId::Kind::array_tasks},
  };
  for (const auto& each : cases) {
    const auto id = parse_job_id(each.text);
    ASSERT_TRUE(id) << each.text;
    EXPECT_EQ(id->text, each.text);
    EXPECT_EQ(id->number, each.number);
    EXPECT_EQ(id->kind, each.kind) << each.text;
  }
}

TEST(JobId, RefusesInvalidText) {
  for (const char* text :
       {"",           "0",       "-1",      "+1",          "job",      "12 ",
        " 12",        "12.0",    "12_",     "12_x",        "12_-1",    "12+",
        "12+x",       "12_[",    "12_[]",   "12_[1-]",     "12_[3-1]", "12_[1:0]",
        "12_[1-2:0]", "12_[1%]", "12_[1]x", "99999999999", "12_3_4",   "12,13"}) {
    const auto id = parse_job_id(text);
    ASSERT_FALSE(id) << text;
    EXPECT_EQ(id.error().exit_code, kExitUsage);
    EXPECT_THAT(id.error().message, HasSubstr("is no job id"));
  }
}

TEST(JobId, KnowsWhichIdsBelongToAJob) {
  for (const char* listed : {"12", "12_3", "12_[4-9%2]", "12+0"})
    EXPECT_TRUE(belongs_to(listed, 12)) << listed;
  for (const char* listed : {"", "1", "120", "121_3", "x12", "12x"})
    EXPECT_FALSE(belongs_to(listed, 12)) << listed;
}

TEST(JobId, HasTheNumberOfTasks) {
  EXPECT_EQ(count_tasks("12"), 1u);
  EXPECT_EQ(count_tasks("12_3"), 1u);
  EXPECT_EQ(count_tasks("12_[3]"), 1u);
  EXPECT_EQ(count_tasks("12_[1-1000%3]"), 1000u);
  EXPECT_EQ(count_tasks("12_[0-10:5,12,20-21]"), 6u);
  EXPECT_EQ(count_tasks("12_[1,3,5,...]"), 0u);
  EXPECT_EQ(count_tasks("12_["), 0u);
}

}  // namespace
}  // namespace hvdrun
