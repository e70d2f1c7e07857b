#include "job/requeue.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

Report stopped_report() {
  Report report;
  report.ranks.resize(2);
  report.ranks[1].counters.had_to_stop = true;
  report.exit_code = kExitTimeout;
  report.stopped_early = true;
  return report;
}

JobSpec spec_of(int max_requeues) {
  JobSpec spec;
  spec.max_requeues = max_requeues;
  return spec;
}

TEST(PlanRequeue, JobThatHadToStopIsRequeued) {
  const auto first = plan_requeue(spec_of(3), stopped_report(), {{"SLURM_JOB_ID", "12"}});
  EXPECT_EQ(first.job, "12");
  EXPECT_EQ(first.note,
            "the program stopped before its end; job 12 goes back into the queue (1 of 3)");
  const auto third = plan_requeue(spec_of(3), stopped_report(),
                                  {{"SLURM_JOB_ID", "12"}, {"SLURM_RESTART_COUNT", "2"}});
  EXPECT_EQ(third.job, "12");
  EXPECT_EQ(third.exit_code, kExitOk);
}

// One task of an array has the array's job ID. To requeue that ID would requeue all tasks.
TEST(PlanRequeue, ArrayTaskIsRequeuedAlone) {
  EXPECT_EQ(
      plan_requeue(
          spec_of(3), stopped_report(),
          {{"SLURM_JOB_ID", "60"}, {"SLURM_ARRAY_JOB_ID", "60"}, {"SLURM_ARRAY_TASK_ID", "3"}})
          .job,
      "60_3");
}

TEST(PlanRequeue, JobIsNotRequeuedWithoutScontrol) {
  const Environment environment{{"SLURM_JOB_ID", "12"}, {"PATH", "/nowhere:/proc/self"}};
  const auto possible = check_requeue(spec_of(3), environment);
  ASSERT_FALSE(possible);
  EXPECT_NE(possible.error().message.find("scontrol is not in PATH"), std::string::npos);
  const auto requeue = plan_requeue(spec_of(3), stopped_report(), environment, possible);
  EXPECT_EQ(requeue.job, "");
  EXPECT_EQ(requeue.exit_code, kExitTimeout);
  EXPECT_EQ(requeue.note, "the program stopped before its end; " + possible.error().message);
  EXPECT_TRUE(check_requeue(spec_of(0), environment));
  EXPECT_TRUE(check_requeue(spec_of(3), {{"PATH", "/nowhere"}}));
}

TEST(PlanRequeue, JobIsNotRequeuedMoreOftenThanMaxRequeues) {
  const auto over = plan_requeue(spec_of(3), stopped_report(),
                                 {{"SLURM_JOB_ID", "12"}, {"SLURM_RESTART_COUNT", "3"}});
  EXPECT_EQ(over.job, "");
  EXPECT_EQ(
      over.note,
      "the program stopped before its end; job 12 has been back in the queue 3 times, as often "
      "as --max-requeues allows");
  EXPECT_EQ(over.exit_code, kExitTimeout);
}

TEST(PlanRequeue, StoppedJobWithoutMaxRequeuesExitsWithTimeout) {
  const auto in_job = plan_requeue(spec_of(0), stopped_report(), {{"SLURM_JOB_ID", "12"}});
  EXPECT_EQ(in_job.job, "");
  EXPECT_EQ(in_job.exit_code, kExitTimeout);
  EXPECT_EQ(in_job.note,
            "the program stopped before its end; exit code 124; with --max-requeues N (hvdrun "
            "sbatch --requeue) such a job goes back into the queue");
  const auto elsewhere = plan_requeue(spec_of(0), stopped_report(), {});
  EXPECT_EQ(elsewhere.exit_code, kExitTimeout);
  EXPECT_EQ(elsewhere.note, "the program stopped before its end; exit code 124");
}

TEST(PlanRequeue, JobThatEndedByItselfIsNotRequeued) {
  for (const int code : {0, 3}) {
    Report report;
    report.ranks.resize(2);
    report.exit_code = code;
    const auto requeue = plan_requeue(spec_of(3), report, {{"SLURM_JOB_ID", "12"}});
    EXPECT_EQ(requeue.job + requeue.note, "");
    EXPECT_EQ(requeue.exit_code, code);
  }
}

TEST(PlanRequeue, JobOutsideSlurmIsNotRequeued) {
  const auto requeue = plan_requeue(spec_of(3), stopped_report(), {});
  EXPECT_EQ(requeue.job, "");
  EXPECT_EQ(requeue.exit_code, kExitTimeout);
  EXPECT_EQ(requeue.note,
            "the program stopped before its end; this is not a job that hvdrun can put back into a "
            "scheduler's queue");
}

}  // namespace
}  // namespace hvdrun
