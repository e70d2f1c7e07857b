#include "schedulers/schedulers.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace hvdrun {
namespace {

TEST(Schedulers, HaveOneRowEach) {
  std::set<std::string_view> names;
  for (const auto* scheduler : schedulers()) EXPECT_TRUE(names.insert(scheduler->name()).second);
  EXPECT_TRUE(names.contains("SLURM"));
}

TEST(Schedulers, AreFoundByTheVariablesOfTheirJobs) {
  const auto name = [](const Environment& environment) {
    const auto* scheduler = scheduler_of(environment);
    return scheduler == nullptr ? "" : scheduler->name();
  };
  EXPECT_EQ(name({{"SLURM_JOB_ID", "7"}, {"FLUX_URI", "x"}}), "SLURM");
  EXPECT_EQ(name({{"FLUX_URI", "x"}}), "Flux");
  EXPECT_EQ(name({{"PBS_JOBID", "7.server"}}), "PBS");
  EXPECT_EQ(name({{"SLURM_JOB_ID", ""}, {"SLURM_NTASKS", "4"}}), "");
}

TEST(Schedulers, SayWhichVariablesDescribeOneProcess) {
  for (const auto* name : {"SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_NTASKS_PER_GPU",
                           "SLURM_CPU_BIND_TYPE", "PALS_RANKID"})
    EXPECT_TRUE(describes_process(name)) << name;
  for (const auto* name : {"SLURM_JOB_ID", "SLURM_SUBMIT_DIR", "PBS_JOBID", "STEP", ""})
    EXPECT_FALSE(describes_process(name)) << name;
}

TEST(Schedulers, DoNotHaveEveryProcess) {
  EXPECT_FALSE(is_scheduler(::getpid()));
  EXPECT_FALSE(is_scheduler(-1)) << "no process";
}

}  // namespace
}  // namespace hvdrun
