#include "slurm/slurm_command.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::StartsWith;
using testing::UnorderedElementsAre;

TEST(SlurmCommand, RunsWithoutVariablesThatChangeTheFormat) {
  EXPECT_THAT(query_environment({{"PATH", "/bin"},
                                 {"SLURM_CONF", "/etc/slurm.conf"},
                                 {"SLURM_TIME_FORMAT", "relative"},
                                 {"SQUEUE_FORMAT", "%j"},
                                 {"SQUEUE_USERS", "root"},
                                 {"SCANCEL_STATE", "PENDING"},
                                 {"SACCT_FORMAT", "x"},
                                 {"LC_TIME", "de_DE"},
                                 {"LANG", "de_DE"}}),
              UnorderedElementsAre("PATH=/bin", "SLURM_CONF=/etc/slurm.conf", "LC_ALL=C",
                                   "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0"));
}

TEST(SrunEnvironment, OmitsVariablesThatAreOptionsOfTheStep) {
  const Environment caller{{"HOME", "/home/ann"},
                           {"PATH", "/usr/bin"},
                           {"LD_LIBRARY_PATH", "/opt/lib"},
                           {"SLURM_CONF", "/etc/slurm.conf"},
                           {"SLURM_JOB_ID", "123"},
                           {"SLURM_JWT", "token"},
                           {"SLURM_WORKING_CLUSTER", "two:ctl:6817:9728"},
                           {"SLURM_GPUS_PER_TASK", "1"},
                           {"SLURM_NTASKS", "8"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_STEP_ID", "4"},
                           {"SLURM_EXPORT_ENV", "NONE"},
                           {"SLURM_CPU_BIND", "cores"},
                           {"SLURMD_NODENAME", "n1"},
                           {"SRUN_CPUS_PER_TASK", "2"},
                           {"SLURMX", "kept"},
                           {"PMI_RANK", "0"},
                           {"PMIX_RANK", "0"},
                           {"OMPI_COMM_WORLD_RANK", "0"}};
  EXPECT_EQ(
      srun_environment(caller),
      (std::vector<std::string>{"HOME=/home/ann", "LD_LIBRARY_PATH=/opt/lib", "PATH=/usr/bin",
                                "SLURMX=kept", "SLURM_CONF=/etc/slurm.conf", "SLURM_JOB_ID=123",
                                "SLURM_JWT=token", "SLURM_WORKING_CLUSTER=two:ctl:6817:9728"}));
}

TEST(SlurmCommand, ReportsAMissingCommand) {
  const auto end = run_slurm({{"no-such-squeue"}, {}, {}});
  ASSERT_FALSE(end);
  EXPECT_TRUE(is_not_installed(end.error()));
  EXPECT_THAT(end.error().message,
              StartsWith("there is no SLURM on this machine: no-such-squeue is not in PATH"));
}

TEST(SlurmCommand, ReturnsOutputAndExitCode) {
  const auto end = run_slurm({{"sh", "-c", "cat; echo err >&2; exit 3"}, {}, "text\n"});
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->code, 3);
  EXPECT_EQ(end->out, "text\n");
  EXPECT_EQ(end->err, "err\n");
  EXPECT_FALSE(end->timed_out);
}

TEST(SlurmCommand, PassesMuchInputAndOutput) {
  const std::string much(3'000'000, 'x');
  const auto end = run_slurm({{"cat"}, {}, much});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->out, much);
}

TEST(SlurmCommand, IsKilledAfterItsTimeout) {
  const auto end = run_slurm({{"sleep", "1000"}, {}, {}, std::chrono::milliseconds(20)});
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->timed_out);
  EXPECT_EQ(end->code, 137);
  EXPECT_EQ(complaint(*end), "no answer in time");
}

TEST(SlurmCommand, ExtractsTheReasonOfAFailure) {
  const std::pair<const char*, const char*> cases[] = {
      {"slurm_load_jobs error: Invalid job id specified\n",
       "slurm_load_jobs error: Invalid job id specified"},
      {"scancel: error: Kill job error on job id 11: Access/permission denied\n",
       "Kill job error on job id 11: Access/permission denied"},
      {"first\nsqueue: error: se\x1b[31mcond\n\n", "first; se\\x1b[31mcond"},
      {"sbatch: unrecognized option '--x'\nTry \"sbatch --help\" for more information\n",
       "sbatch: unrecognized option '--x'"},
      {"", "exit code 1"},
  };
  for (const auto& [said, expected] : cases) EXPECT_EQ(complaint({1, false, "", said}), expected);
}

}  // namespace
}  // namespace hvdrun
