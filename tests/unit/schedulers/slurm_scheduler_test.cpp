// Tests SLURM's row; tests/unit/slurm tests what its variables mean.
#include "schedulers/slurm/slurm_scheduler.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;

// Returns a placement of one rank on n2, which is rank 0's host, and one on n1.
Placement two_hosts() {
  Placement placement;
  placement.size = 2;
  placement.hosts = {{"n2", {{}}}, {"n1", {{}}}};
  placement.hosts[1].ranks[0].rank = 1;
  return placement;
}

TEST(SlurmScheduler, NamesTheStepAroundHvdrunOrANumberOfTheJobsOwn) {
  EXPECT_EQ(step_id({{"SLURM_STEP_ID", "3"}}, "a1"), "3");
  for (const Environment& caller : {Environment{},
                                    {{"SLURM_STEP_ID", "4294967291"}},
                                    {{"SLURM_STEP_ID", "3"}, {"HVD_JOB_ID", "b"}}}) {
    EXPECT_EQ(step_id(caller, "a1"), step_id(caller, "a1"));
    EXPECT_NE(step_id(caller, "a1"), step_id(caller, "a2"));
    EXPECT_EQ(step_id(caller, "a1").size(), 4u);
  }
}

TEST(SlurmScheduler, NamesRank0sHostFirstAndFoldsEqualHosts) {
  const auto placement = two_hosts();
  const Environment caller{{"SLURM_JOB_ID", "7"}};
  const std::string id = "a1";
  const std::string address = "10.0.0.2";
  std::map<std::string, std::string> got;
  for (const auto& variable : SlurmScheduler().rank_variables(
           {caller, placement, 0, placement.hosts[0].ranks[0], id, address, true}))
    got.emplace(variable.name, variable.value);
  EXPECT_EQ(got.at("SLURM_LAUNCH_NODE_IPADDR"), "10.0.0.2");
  EXPECT_EQ(got.at("SLURM_SRUN_COMM_HOST"), "10.0.0.2");
  EXPECT_EQ(got.at("SLURM_DISTRIBUTION"), "cyclic");
  EXPECT_EQ(got.at("SLURM_STEP_NODELIST"), "n2,n1");
  EXPECT_EQ(got.at("SLURM_NTASKS_PER_NODE"), "1");
  EXPECT_EQ(got.at("SLURM_TASKS_PER_NODE"), "1(x2)");
}

TEST(SlurmScheduler, ReadsThePartFromItsVariables) {
  const SlurmScheduler slurm;
  EXPECT_EQ(slurm.part({}).job, "");
  EXPECT_EQ(slurm.part({{"SLURM_RESTART_COUNT", "2"}}).number, 0);
  const auto part = slurm.part({{"SLURM_JOB_ID", "12"}, {"SLURM_RESTART_COUNT", "2"}});
  EXPECT_EQ(part.job, "12");
  EXPECT_EQ(part.number, 2);
  EXPECT_EQ(
      slurm
          .part(
              {{"SLURM_JOB_ID", "61"}, {"SLURM_ARRAY_JOB_ID", "60"}, {"SLURM_ARRAY_TASK_ID", "3"}})
          .job,
      "60_3");
}

TEST(SlurmScheduler, SaysWhyASignalReachesNoRank) {
  const auto ask = [](const Environment& environment, bool one_host, bool ends_script,
                      int requeues = 0) {
    return SlurmScheduler().missed_signal(
        {environment, one_host, requeues, [=](pid_t, int) { return ends_script; }, {}});
  };
  const Environment steps{{"SLURM_JOB_ID", "7"}, {"SBATCH_SIGNAL", "USR1@90"}};
  EXPECT_THAT(ask(steps, true, false), HasSubstr("to steps of srun only, so no rank gets it"));
  EXPECT_EQ(ask(steps, false, false), "") << "agents of other hosts report it";
  Environment shell{{"SLURM_JOB_ID", "7"},
                    {"SBATCH_SIGNAL", "B:USR1@90"},
                    {"SLURM_TASK_PID", std::to_string(::getppid())}};
  EXPECT_THAT(ask(shell, true, true), HasSubstr("to the batch script alone"));
  EXPECT_THAT(ask(shell, false, true), HasSubstr("to the batch script alone"));
  EXPECT_EQ(ask(shell, true, false), "") << "the script handles it";
  shell["SLURM_TASK_PID"] = std::to_string(::getpid());
  EXPECT_EQ(ask(shell, true, true), "") << "hvdrun has replaced the script";
  EXPECT_THAT(ask({{"SLURM_JOB_ID", "7"}, {"SBATCH_SIGNAL", "USR1@60"}}, false, false, 3),
              HasSubstr("--max-requeues with this job's --signal=USR1@60: "));
}

TEST(SlurmScheduler, GivesGpusToProcessesThatItStarted) {
  const SlurmScheduler slurm;
  const Environment batch{
      {"SLURM_JOB_ID", "7"}, {"SLURMD_NODENAME", "n1"}, {"SLURM_JOB_GPUS", "2,3"}};
  ASSERT_NE(slurm.gpus_here(batch), nullptr);
  EXPECT_EQ(*slurm.gpus_here(batch), "2,3");
  EXPECT_EQ(slurm.gpus_here({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_GPUS", "2,3"}}), nullptr);
}

}  // namespace
}  // namespace hvdrun
