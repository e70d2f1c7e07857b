// Which job a user means.
#include "control/running_jobs.hpp"

#include "control/job_now_json.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace hvdrun {
namespace {

RunningJob job(pid_t pid, const std::string& slurm_job = {}) {
  RunningJob job;
  job.pid = pid;
  job.about.scheduler = slurm_job.empty() ? "" : "SLURM";
  job.about.scheduler_job = slurm_job;
  job.about.command = {"python", "my train.py"};
  job.about.ranks = 4;
  job.about.hosts = 2;
  return job;
}

std::string message(const Result<RunningJob>& result) {
  return result ? "" : result.error().message;
}

TEST(RunningJobs, TheOnlyJobNeedsNoName) {
  const auto chosen = choose_job({job(7)}, {}, "hvdrun top");
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->pid, 7);
}

TEST(RunningJobs, AJobIsNamedByItsProcessOrItsNumberInSlurm) {
  const std::vector jobs{job(7), job(8, "1234")};
  EXPECT_EQ(choose_job(jobs, "7", "hvdrun top")->pid, 7);
  EXPECT_EQ(choose_job(jobs, "1234", "hvdrun top")->pid, 8);
}

TEST(RunningJobs, OfSeveralOneMustBeNamed) {
  const auto chosen = choose_job({job(7), job(8, "1234")}, {}, "hvdrun top");
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().exit_code, kExitUsage);
  EXPECT_EQ(message(chosen),
            "2 jobs of yours run here; name one, such as hvdrun top 8:\n"
            "  7        4 ranks on 2 hosts  python 'my train.py'\n"
            "  8        4 ranks on 2 hosts, SLURM job 1234  python 'my train.py'");
}

TEST(RunningJobs, WithoutAJobTheMessageSaysSo) {
  EXPECT_EQ(message(choose_job({}, {}, "hvdrun top")),
            "no job of yours runs on this machine (hvdrun jobs lists those in SLURM's queue)");
  EXPECT_EQ(message(choose_job({}, "nonsense", "hvdrun top")),
            "nonsense is no job: hvdrun's process or the number of a SLURM job names one");
  EXPECT_NE(message(choose_job({job(7)}, "4000000", "hvdrun top")).find("it has ended"),
            std::string::npos);
}

TEST(RunningJobs, AJobThatDoesNotAnswerIsAnError) {
  auto silent = job(7);
  silent.trouble = "hvdrun 7 does not answer";
  EXPECT_EQ(message(choose_job({silent}, {}, "hvdrun top")), "hvdrun 7 does not answer");
}

TEST(RunningJobs, WhatAJobSaysOfItselfArrives) {
  auto about = job(7, "1234").about;
  about.id = "abc";
  about.phase = "running";
  about.begun = 1.5;
  const auto arrived = job_about_from(to_json(about));
  EXPECT_EQ(to_json(arrived), to_json(about));
}

TEST(RunningJobs, WhatIsOfAnotherTypeKeepsItsDefault) {
  const auto about = job_about_from({{"ranks", "many"}, {"pid", 3}});
  EXPECT_EQ(about.ranks, 0);
  EXPECT_EQ(about.pid, 3);
}

}  // namespace
}  // namespace hvdrun
