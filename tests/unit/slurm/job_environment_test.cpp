#include "slurm/job_environment.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(SlurmJob, IsNoneOutsideAJob) {
  const auto job = slurm_job({{"SLURM_NTASKS", "4"}, {"SLURM_CONF", "/etc/slurm.conf"}});
  ASSERT_TRUE(job);
  EXPECT_FALSE(*job);
}

TEST(SlurmJob, HoldsWhatTheVariablesSay) {
  const auto job = slurm_job({{"SLURM_JOB_ID", "77"},
                              {"SLURM_JOB_NUM_NODES", "2"},
                              {"SLURM_NNODES", "1"},
                              {"SLURM_JOB_NODELIST", "n[1-2]"},
                              {"SLURMD_NODENAME", "n1"},
                              {"SLURM_NTASKS", "6"},
                              {"SLURM_CPUS_PER_TASK", "3"}});
  ASSERT_TRUE(job) << job.error().message;
  ASSERT_TRUE(*job);
  EXPECT_EQ((*job)->id, "77");
  EXPECT_EQ((*job)->nodes, 2);
  EXPECT_EQ((*job)->node_list, "n[1-2]");
  EXPECT_EQ((*job)->node_name, "n1");
  EXPECT_EQ((*job)->tasks, 6);
  EXPECT_EQ((*job)->cpus_per_task, 3);
  EXPECT_FALSE((*job)->heterogeneous);
}

TEST(SlurmJob, TakesTheOlderNames) {
  const auto job =
      slurm_job({{"SLURM_JOB_ID", "77"}, {"SLURM_NNODES", "3"}, {"SLURM_NPROCS", "9"}});
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ((*job)->nodes, 3);
  EXPECT_EQ((*job)->tasks, 9);
}

TEST(SlurmJob, HasNoTasksWhereNoneWereAskedFor) {
  const auto job = slurm_job({{"SLURM_JOB_ID", "77"}});
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ((*job)->nodes, 1);
  EXPECT_FALSE((*job)->tasks);
  EXPECT_FALSE((*job)->cpus_per_task);
}

TEST(SlurmJob, SeesAHeterogeneousJob) {
  const auto job = slurm_job({{"SLURM_JOB_ID", "77"}, {"SLURM_HET_SIZE", "2"}});
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_TRUE((*job)->heterogeneous);
}

TEST(SlurmJob, NamesTheVariableThatMakesNoSense) {
  const std::pair<const char*, const char*> cases[] = {
      {"SLURM_NTASKS", "abc"},        {"SLURM_NTASKS", ""},
      {"SLURM_NTASKS", "0"},          {"SLURM_NTASKS", "-3"},
      {"SLURM_NTASKS", "4x"},         {"SLURM_NTASKS", "99999999999"},
      {"SLURM_JOB_NUM_NODES", "two"}, {"SLURM_CPUS_PER_TASK", "1.5"},
  };
  for (const auto& [name, value] : cases) {
    const auto job = slurm_job({{"SLURM_JOB_ID", "77"}, {name, value}});
    ASSERT_FALSE(job) << name << "=" << value;
    EXPECT_EQ(job.error().exit_code, kExitUsage);
    EXPECT_NE(job.error().message.find(std::string(name) + "=\"" + value + "\""), std::string::npos)
        << job.error().message;
  }
}

}  // namespace
}  // namespace hvdrun
