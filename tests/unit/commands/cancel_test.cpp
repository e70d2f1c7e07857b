#include "commands/cancel.hpp"

#include "example_job.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<JobId> ids(const std::vector<std::string>& words) {
  std::vector<JobId> all;
  for (const auto& word : words) all.push_back(parse_job_id(word).value());
  return all;
}

TEST(CancelPlan, CancelsTheUsersJobsThatHaveNotEnded) {
  const auto plan = plan_cancel(ids({"1", "2", "3", "4"}),
                                {slurm_job("1", 1, "RUNNING"), slurm_job("2", 2, "COMPLETED"),
                                 slurm_job("3", 3, "RUNNING", 1001)},
                                1000);
  EXPECT_THAT(plan.to_cancel, ElementsAre("1"));
  EXPECT_THAT(plan.notes, ElementsAre("cancelling job 1 (train), which was running",
                                      "job 2 had ended already: completed"));
  EXPECT_THAT(plan.refusals, ElementsAre("job 3 is not yours but other's: it is left alone",
                                         HasSubstr("SLURM knows no job 4:")));
}

TEST(CancelPlan, KnowsAnHvdrunOfThisMachine) {
  const auto plan =
      plan_cancel(ids({"22864", "7"}), {slurm_job("7", 7, "RUNNING")}, 1000, {22864, 7});
  EXPECT_THAT(plan.to_cancel, ElementsAre("7")) << "a number of SLURM's comes first";
  EXPECT_THAT(
      plan.refusals,
      ElementsAre("22864 is no job of SLURM but an hvdrun that runs on this machine; to end "
                  "it and its ranks: kill -INT 22864"));
}

std::vector<std::string> texts(const std::vector<std::string>& operands) {
  const auto parsed = parse_job_ids(operands);
  if (!parsed) return {parsed.error().message};
  std::vector<std::string> all;
  for (const auto& id : *parsed) all.push_back(id.text);
  return all;
}

TEST(JobIds, MayHaveCommasBetweenThem) {
  EXPECT_THAT(texts({"33,32", "5,", "6"}), ElementsAre("33", "32", "5", "6"));
  EXPECT_THAT(texts({"12_[1-3,7],33"}), ElementsAre("12_[1-3,7]", "33"));
  for (const auto* wrong : {"33,x", "12_[1,2", ",", ""})
    EXPECT_THAT(texts({wrong}), ElementsAre(HasSubstr(" is no job id;"))) << wrong;
}

TEST(CancelPlan, RootMayCancelAll) {
  EXPECT_THAT(plan_cancel(ids({"3"}), {slurm_job("3", 3, "PENDING", 1001)}, 0).to_cancel,
              ElementsAre("3"));
}

TEST(CancelPlan, CancelsArraysAndTheirTasks) {
  const std::vector<JobRecord> jobs = {slurm_job("7_[4-9]", 7, "PENDING"),
                                       slurm_job("7_1", 8, "COMPLETED"),
                                       slurm_job("7_2", 9, "RUNNING")};
  EXPECT_THAT(plan_cancel(ids({"7", "7_2", "7_[2-5]"}), jobs, 1000).to_cancel,
              ElementsAre("7", "7_2", "7_[2-5]"));
  EXPECT_THAT(plan_cancel(ids({"7_1", "7_99"}), jobs, 1000).to_cancel, IsEmpty());
  EXPECT_THAT(plan_cancel(ids({"9"}), jobs, 1000).to_cancel, ElementsAre("9"))
      << "a task's own job number";
}

}  // namespace
}  // namespace hvdrun
