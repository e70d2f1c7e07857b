#include "slurm/job_environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;

TEST(SlurmJob, IsNoneOutsideAJob) {
  const auto job = slurm_job({{"SLURM_NTASKS", "4"}, {"SLURM_CONF", "/etc/slurm.conf"}});
  ASSERT_TRUE(job);
  EXPECT_FALSE(*job);
  EXPECT_FALSE(slurm_job({{"SLURM_JOB_ID", ""}}).value());
}

// Returns everything that was read, in one line.
std::string brief(const SlurmJob& job) {
  std::string text = fmt::format("{} on {}", job.id, fmt::join(job.hosts, ","));
  if (!job.step.empty()) text += " step " + job.step;
  if (!job.node_name.empty()) text += " at " + job.node_name;
  if (!job.tasks.empty())
    text += fmt::format(" tasks {} ({})", fmt::join(job.tasks, ","), job.tasks_source);
  if (job.cpus_per_task) text += fmt::format(" cpus/task {}", *job.cpus_per_task);
  if (!job.cpus.empty()) text += fmt::format(" cpus {}", fmt::join(job.cpus, ","));
  if (!job.gpus.empty())
    text += fmt::format(" gpus {} ({})", fmt::join(job.gpus, ","), job.gpus_source);
  if (job.gpus_per_task) text += fmt::format(" gpus/task {}", *job.gpus_per_task);
  for (const auto& note : job.notes) text += "; " + note;
  if (!job.step_note.empty()) text += "; " + job.step_note;
  return text;
}

struct Case {
  const char* what;
  Environment environment;  // SLURM_JOB_ID=7 is added
  const char* expected;
};

TEST(SlurmJob, HoldsTheValuesOfTheVariables) {
  const Case cases[] = {
      {"all of them",
       {{"SLURM_JOB_NUM_NODES", "2"},
        {"SLURM_JOB_NODELIST", "n[1-2]"},
        {"SLURMD_NODENAME", "n1"},
        {"SLURM_NTASKS", "6"},
        {"SLURM_TASKS_PER_NODE", "4,2"},
        {"SLURM_CPUS_PER_TASK", "3"},
        {"SLURM_JOB_CPUS_PER_NODE", "12,6"},
        {"SLURM_GPUS_PER_NODE", "a100:4"}},
       "7 on n1,n2 at n1 tasks 4,2 (SLURM_NTASKS) cpus/task 3 cpus 12,6 gpus 4,4 "
       "(SLURM_GPUS_PER_NODE)"},
      {"the older names",
       {{"SLURM_NODELIST", "n[1-3]"},
        {"SLURM_NNODES", "3"},
        {"SLURM_NPROCS", "9"},
        {"SLURM_TASKS_PER_NODE", "3(x3)"}},
       "7 on n1,n2,n3 tasks 3,3,3 (SLURM_NPROCS)"},
      {"the newer name is used",
       {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_NNODES", "1"}},
       "7 on n1,n2"},
      {"no tasks were asked for",
       {{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", "64"}},
       "7 on n1"},
      {"tasks by node only",
       {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_NTASKS_PER_NODE", "4"}},
       "7 on n1,n2 tasks 4,4 (SLURM_NTASKS_PER_NODE)"},
      {"tasks on one host need no list",
       {{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_NTASKS", "4"}},
       "7 on n1 tasks 4 (SLURM_NTASKS)"},
      {"the list of tasks wins over their sum",
       {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_NTASKS", "8"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}},
       "7 on n1,n2 tasks 2,2 (SLURM_NTASKS); SLURM_NTASKS=8 contradicts "
       "SLURM_TASKS_PER_NODE=2(x2), which makes 4: the latter applies"},
      {"GPUs per task",
       {{"SLURM_JOB_NODELIST", "n[1-2]"},
        {"SLURM_NTASKS", "7"},
        {"SLURM_TASKS_PER_NODE", "4,3"},
        {"SLURM_GPUS_PER_TASK", "2"}},
       "7 on n1,n2 tasks 4,3 (SLURM_NTASKS) gpus 8,6 (SLURM_GPUS_PER_TASK) gpus/task 2"},
      {"GPUs per task, set by srun --tres-bind",
       {{"SLURM_JOB_NODELIST", "n1"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_STEP_NODELIST", "n1"},
        {"SLURMD_NODENAME", "n1"},
        {"SLURMD_TRES_BIND", "gpu:per_task:1"},
        {"SLURM_GPUS_ON_NODE", "4"}},
       "7 on n1 step 0 at n1 gpus 4 (SLURM_GPUS_ON_NODE) gpus/task 1"},
      {"a total of GPUs, on several hosts",
       {{"SLURM_JOB_NODELIST", "n[1-2]"},
        {"SLURM_GPUS", "6"},
        {"SLURM_GPUS_ON_NODE", "4"},
        {"SLURMD_NODENAME", "n1"}},
       "7 on n1,n2 at n1"},
      {"a total of 0 GPUs",
       {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_GPUS", "0"}},
       "7 on n1,n2 gpus 0,0 (SLURM_GPUS)"},
      {"GPUs by --gres",
       {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_GPUS_ON_NODE", "4"}, {"SLURMD_NODENAME", "n1"}},
       "7 on n1,n2 at n1 gpus 4,4 (SLURM_GPUS_ON_NODE)"},
      {"a variable that SLURM did not set here",
       {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_GPUS_ON_NODE", "4"}},
       "7 on n1,n2"},
      {"an interactive shell is no step",
       {{"SLURM_JOB_NODELIST", "n[1-2]"},
        {"SLURM_STEP_ID", "4294967290"},
        {"SLURM_STEP_NODELIST", "n1"},
        {"SLURM_STEP_NUM_TASKS", "1"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_TASKS_PER_NODE", "1(x2)"}},
       "7 on n1,n2 tasks 1,1 (SLURM_NTASKS)"},
      {"a batch script's SLURM_PROCID is ignored",
       {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}},
       "7 on n1,n2"},
      {"a step's one task was not asked for",
       {{"SLURM_JOB_NODELIST", "n[1-2]"},
        {"SLURM_JOB_NUM_NODES", "2"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_STEP_NODELIST", "n2"},
        {"SLURM_STEP_NUM_NODES", "1"},
        {"SLURM_STEP_NUM_TASKS", "1"},
        {"SLURM_STEP_TASKS_PER_NODE", "1"},
        {"SLURM_NTASKS", "1"},
        {"SLURM_NNODES", "1"},
        {"SLURM_JOB_CPUS_PER_NODE", "16(x2)"}},
       "7 on n2 step 0; srun has started hvdrun in a step on 1 of the 2 hosts of SLURM job 7, and "
       "only there are ranks; without srun, hvdrun uses all"},
      {"a terminal's step with several tasks",
       {{"SLURM_JOB_NODELIST", "n[1-2]"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_STEP_NODELIST", "n[1-2]"},
        {"SLURM_STEP_NUM_TASKS", "8"},
        {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
        {"SLURM_PTY_PORT", "4711"}},
       "7 on n1,n2 step 0 tasks 4,4 (SLURM_STEP_NUM_TASKS)"},
      {"variables that a batch script has inherited from another job's step",
       {{"SLURM_JOB_NODELIST", "n[1-2]"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_STEP_NODELIST", "n9"},
        {"SLURM_STEP_NUM_TASKS", "8"}},
       "7 on n1,n2; SLURM_STEP_NODELIST=n9 is not of job 7 and is ignored"},
      {"a step's id alone",
       {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_STEP_ID", "0"}},
       "7 on n1,n2"},
      {"only the job's id",
       {},
       "7 on ; SLURM_JOB_ID=7 is set, but not SLURM_JOB_NODELIST: only this machine is used"},
  };
  for (auto test : cases) {
    test.environment.emplace("SLURM_JOB_ID", "7");
    const auto job = slurm_job(test.environment);
    ASSERT_TRUE(job) << test.what << ": " << job.error().message;
    ASSERT_TRUE(*job) << test.what;
    EXPECT_EQ(brief(**job), test.expected) << test.what;
  }
}

TEST(SlurmJob, IsNoStepOfSrunBelowARankOfHvdrun) {
  Environment rank{{"SLURM_JOB_ID", "7"},         {"SLURM_JOB_NODELIST", "n[1-2]"},
                   {"SLURM_STEP_ID", "4711"},     {"SLURM_STEP_NODELIST", "n[1-2]"},
                   {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "1"}};
  EXPECT_FALSE(slurm_job(rank)) << "srun's tasks are refused";
  rank["HVD_JOB_ID"] = "0123";
  const auto job = slurm_job(rank);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ((*job)->step, "");
  EXPECT_EQ((*job)->hosts.size(), 2u);
}

TEST(SlurmJob, NamesInvalidVariablesAndWhatToDo) {
  const Case cases[] = {
      {"no number",
       {{"SLURM_NTASKS", "abc"}},
       "SLURM_NTASKS: \"abc\" is no count of 1 or more; correct it, unset it, or use ssh "
       "without SLURM: env -u SLURM_JOB_ID hvdrun -H n1:4,n2:4"},
      {"an empty value", {{"SLURM_NTASKS", ""}}, "SLURM_NTASKS: \"\" is no count"},
      {"zero", {{"SLURM_NTASKS", "0"}}, "SLURM_NTASKS: \"0\" is no count"},
      {"negative", {{"SLURM_NPROCS", "-3"}}, "SLURM_NPROCS: \"-3\" is no count"},
      {"too large", {{"SLURM_NTASKS", "99999999999"}}, "SLURM_NTASKS: \"99999999999\" is no count"},
      {"hosts", {{"SLURM_JOB_NUM_NODES", "two"}}, "SLURM_JOB_NUM_NODES: \"two\" is no count"},
      {"a fraction", {{"SLURM_CPUS_PER_TASK", "1.5"}}, "SLURM_CPUS_PER_TASK: \"1.5\" is no count"},
      {"a list cut short",
       {{"SLURM_JOB_NODELIST", "n[1-3"}},
       "SLURM_JOB_NODELIST: \"n[1-3\" has a \"[\" without \"]\"; correct it, unset it, or use"},
      {"an empty list", {{"SLURM_JOB_NODELIST", ""}}, "SLURM_JOB_NODELIST: there is a host"},
      {"a million hosts",
       {{"SLURM_JOB_NODELIST", "n[1-1000000]"}},
       "SLURM_JOB_NODELIST: \"n[1-1000000]\" names more than 65536 hosts"},
      {"a host twice", {{"SLURM_JOB_NODELIST", "n[1-2],n1"}}, "SLURM_JOB_NODELIST names n1 twice"},
      {"a wrong number of hosts",
       {{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_JOB_NUM_NODES", "4"}},
       "SLURM_JOB_NUM_NODES=4 contradicts SLURM_JOB_NODELIST=n[1-3], which names 3 hosts; use "
       "ssh without SLURM"},
      {"hosts without names",
       {{"SLURM_JOB_NUM_NODES", "2"}},
       "SLURM job 7 has 2 hosts (SLURM_JOB_NUM_NODES), but SLURM_JOB_NODELIST does not say which"},
      {"tasks for other hosts",
       {{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_NTASKS", "4"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}},
       "SLURM_TASKS_PER_NODE=2(x2) is for 2 hosts, but the job has 3"},
      {"a list of tasks cut short",
       {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_NTASKS", "4"}, {"SLURM_TASKS_PER_NODE", "2(x"}},
       "SLURM_TASKS_PER_NODE: \"2(x\" is no list of counts such as 4(x2),3"},
      {"tasks without a list",
       {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_NTASKS", "4"}},
       "SLURM_NTASKS=4 does not say how many tasks each of 2 hosts has"},
      {"CPUs for other hosts",
       {{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_JOB_CPUS_PER_NODE", "2"}},
       "SLURM_JOB_CPUS_PER_NODE=2 is for 1 host, but the job has 3"},
      {"GPUs",
       {{"SLURM_GPUS_PER_NODE", "all"}},
       "SLURM_GPUS_PER_NODE: \"all\" is no number of GPUs"},
      {"more GPUs than can be",
       {{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_NTASKS", "65536"}, {"SLURM_GPUS_PER_TASK", "65536"}},
       "SLURM_GPUS_PER_TASK=65536 makes more GPUs than can be counted"},
      {"heterogeneous in a batch script",
       {{"SLURM_HET_SIZE", "2"}},
       "SLURM job 7 is heterogeneous (several allocations in one job), which hvdrun does not take; "
       "ask for all hosts in one request (#SBATCH --nodes=N), or use ssh: env -u SLURM_JOB_ID "
       "hvdrun -H n1:4,n2:2"},
      {"heterogeneous, and its hosts are known",
       {{"SLURM_HET_SIZE", "2"},
        {"SLURM_JOB_NODELIST_HET_GROUP_0", "n1"},
        {"SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]"}},
       "or use ssh: env -u SLURM_JOB_ID hvdrun -H n1,n[2-3]"},
      {"heterogeneous under salloc",
       {{"SLURM_JOB_NODELIST_HET_GROUP_0", "n1"}},
       "is heterogeneous"},
      {"srun starts every rank",
       {{"SLURM_JOB_NODELIST", "n[1-2]"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_STEP_NODELIST", "n[1-2]"},
        {"SLURM_STEP_NUM_TASKS", "8"},
        {"SLURM_PROCID", "3"}},
       "srun has started hvdrun 8 times (this is task 3 of step 0 of SLURM job 7), and each would "
       "start the whole job; start it once, without srun: in the batch script, or in the shell of "
       "salloc"},
  };
  for (auto test : cases) {
    test.environment.emplace("SLURM_JOB_ID", "7");
    const auto job = slurm_job(test.environment);
    ASSERT_FALSE(job) << test.what;
    EXPECT_EQ(job.error().exit_code, kExitUsage);
    EXPECT_THAT(job.error().message, HasSubstr(test.expected)) << test.what;
    EXPECT_EQ(job.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace hvdrun
