// Tests the hosts of every kind of SLURM job, from the environment in which users start hvdrun; and
// those of a made-up scheduler, so that a scheduler is one row and nothing else.
#include "fake_machine.hpp"
#include "resources/find_allocation.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;

const std::string kInteractive = "4294967290";

// Returns the environment of a job on these hosts, as on n1.
Environment job(const std::string& hosts, int count, Environment more = {}) {
  more.emplace("SLURM_JOB_ID", "7");
  more.emplace("SLURM_JOB_NODELIST", hosts);
  more.emplace("SLURM_JOB_NUM_NODES", std::to_string(count));
  more.emplace("SLURMD_NODENAME", "n1");
  return more;
}

// Returns the same environment as on a login host, where salloc has started its command.
Environment from_login(Environment environment) {
  environment.erase("SLURMD_NODENAME");
  return environment;
}

Result<Allocation> allocate(const Environment& environment, const LocalMachine& machine,
                            const JobSpec& spec = {}) {
  return find_allocation(spec, {}, environment, machine);
}

// Returns the slots of each host, such as "n1=4 n2=4?", with a "?" if the host was not inspected
// yet.
std::string brief(const Allocation& allocation) {
  std::string text;
  for (const auto& host : allocation.hosts)
    text += fmt::format("{}{}={}{}", text.empty() ? "" : " ", host.name,
                        host.slots ? std::to_string(*host.slots) : "", host.inventory ? "" : "?");
  return text;
}

struct SlurmCase {
  const char* what;
  Environment environment;
  LocalMachine machine;
  const char* hosts;
};

TEST(SlurmHosts, HaveTheSlotsOfEveryKindOfJob) {
  const auto n1 = [](int cores, int gpus) { return fake_machine(cores, gpus, 1, "n1"); };
  const auto login = fake_machine(4, 0, 1, "login");
  const SlurmCase cases[] = {
      {"batch script, GPUs per node, one task per node",
       job("n[1-2]", 2,
           {{"SLURM_GPUS_PER_NODE", "4"},
            {"SLURM_NTASKS", "2"},
            {"SLURM_TASKS_PER_NODE", "1(x2)"}}),
       n1(16, 4), "n1=4 n2=4?"},
      {"batch script, GPUs per node, one task per GPU",
       job("n[1-2]", 2,
           {{"SLURM_GPUS_PER_NODE", "a100:4"},
            {"SLURM_NTASKS", "8"},
            {"SLURM_TASKS_PER_NODE", "4(x2)"}}),
       n1(16, 4), "n1=4 n2=4?"},
      {"--gres sets a variable on the hosts only", job("n[1-2]", 2, {{"SLURM_GPUS_ON_NODE", "4"}}),
       n1(16, 4), "n1=4 n2=4?"},
      {"--gres seen from a login host",
       from_login(job("n[1-2]", 2, {{"SLURM_TASKS_PER_NODE", "1(x2)"}})), login, "n1=? n2=?"},
      {"--gpus gives the total, not the number of each host",
       job("n[1-2]", 2, {{"SLURM_GPUS", "6"}}), n1(16, 4), "n1=4 n2=?"},
      {"--gpus on one host", from_login(job("n1", 1, {{"SLURM_GPUS", "h100:6"}})), login, "n1=6?"},
      {"uneven GPUs, one per task",
       job("n[1-2]", 2,
           {{"SLURM_GPUS_PER_TASK", "1"}, {"SLURM_NTASKS", "7"}, {"SLURM_TASKS_PER_NODE", "4,3"}}),
       n1(16, 4), "n1=4 n2=3?"},
      {"uneven tasks without GPUs",
       job("n[1-3]", 3, {{"SLURM_NTASKS", "11"}, {"SLURM_TASKS_PER_NODE", "9,1(x2)"}}), n1(16, 0),
       "n1=9 n2=1? n3=1?"},
      {"no number of tasks", job("n[1-2]", 2, {{"SLURM_TASKS_PER_NODE", "1(x2)"}}), n1(16, 0),
       "n1=16 n2=?"},
      {"--exclusive alone sets one task per CPU",
       job("n[1-2]", 2, {{"SLURM_TASKS_PER_NODE", "16(x2)"}}), n1(16, 4), "n1=4 n2=?"},
      {"CPUs per task",
       job("n[1-2]", 2, {{"SLURM_CPUS_PER_TASK", "4"}, {"SLURM_JOB_CPUS_PER_NODE", "16(x2)"}}),
       n1(16, 0), "n1=4 n2=4?"},
      {"salloc COMMAND with tasks",
       from_login(job("n[1-2]", 2, {{"SLURM_NTASKS", "6"}, {"SLURM_TASKS_PER_NODE", "4,2"}})),
       login, "n1=4? n2=2?"},
      {"salloc COMMAND with GPUs", from_login(job("n[1-2]", 2, {{"SLURM_GPUS_PER_NODE", "2"}})),
       login, "n1=2? n2=2?"},
      {"salloc COMMAND on a host of the job does not know which GPUs are the job's",
       from_login(job("n[1-2]", 2, {{"SLURM_GPUS_PER_NODE", "2"}})), n1(16, 8), "n1=2? n2=2?"},
      {"interactive shell of salloc",
       job("n[1-2]", 2,
           {{"SLURM_STEP_ID", kInteractive},
            {"SLURM_STEP_NODELIST", "n1"},
            {"SLURM_STEP_NUM_TASKS", "1"},
            {"SLURM_PROCID", "0"},
            {"SLURM_GPUS_PER_NODE", "4"},
            {"SLURM_NTASKS", "2"},
            {"SLURM_TASKS_PER_NODE", "1(x2)"}}),
       n1(16, 4), "n1=4 n2=4?"},
      {"a step on all hosts",
       job("n[1-2]", 2,
           {{"SLURM_STEP_ID", "0"},
            {"SLURM_STEP_NODELIST", "n[1-2]"},
            {"SLURM_STEP_NUM_NODES", "2"},
            {"SLURM_STEP_NUM_TASKS", "8"},
            {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
            {"SLURM_PTY_PORT", "4711"},
            {"SLURM_GPUS_ON_NODE", "4"}}),
       n1(16, 4), "n1=4 n2=4?"},
      {"a step on one of the hosts",
       job("n[1-2]", 2,
           {{"SLURM_STEP_ID", "3"},
            {"SLURM_STEP_NODELIST", "n1"},
            {"SLURM_STEP_NUM_NODES", "1"},
            {"SLURM_STEP_NUM_TASKS", "1"},
            {"SLURM_STEP_TASKS_PER_NODE", "1"},
            {"SLURM_NTASKS", "1"},
            {"SLURM_NNODES", "1"},
            {"SLURM_TASKS_PER_NODE", "1"},
            {"SLURM_JOB_CPUS_PER_NODE", "16(x2)"}}),
       n1(16, 0), "n1=16"},
      {"a machine with another name in SLURM", job("n1", 1), fake_machine(4, 2, 1, "gpu-a"),
       "gpu-a=2"},
      {"another host than this one", from_login(job("n5", 1, {{"SLURM_GPUS_PER_NODE", "2"}})),
       login, "n5=2?"},
      {"only the job's id is known", {{"SLURM_JOB_ID", "7"}}, n1(16, 4), "n1=4"},
  };
  for (const auto& test : cases) {
    const auto allocation = allocate(test.environment, test.machine);
    ASSERT_TRUE(allocation) << test.what << ": " << allocation.error().message;
    EXPECT_EQ(brief(*allocation), test.hosts) << test.what;
    EXPECT_EQ(allocation->from, HostSource::scheduler) << test.what;
  }
}

TEST(SlurmHosts, HaveReasonsAndSources) {
  const auto batch = allocate(job("n[1-2]", 2,
                                  {{"SLURM_GPUS_PER_NODE", "4"},
                                   {"SLURM_GPUS_PER_TASK", "1"},
                                   {"SLURM_NTASKS", "8"},
                                   {"SLURM_TASKS_PER_NODE", "4(x2)"}}),
                              fake_machine(16, 4, 1, "n1"));
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ(batch->source, "SLURM job 7");
  EXPECT_THAT(batch->reasons,
              testing::ElementsAre("SLURM_JOB_NODELIST=n[1-2] is 2 hosts",
                                   HasSubstr("SLURM_NTASKS applies only to hosts without GPUs"),
                                   HasSubstr("--gpus-per-task: each rank still sees all GPUs")));
  EXPECT_TRUE(batch->notes.empty());
  EXPECT_EQ(batch->hosts[1].address, "n2");
  EXPECT_EQ(batch->hosts[1].share.gpus, 4);
  EXPECT_EQ(batch->hosts[1].slots_source, "4 GPUs, SLURM_GPUS_PER_NODE");

  const auto step =
      allocate(job("n[1-2]", 2, {{"SLURM_STEP_ID", "3"}, {"SLURM_STEP_NODELIST", "n1"}}),
               fake_machine(16, 4, 1, "n1"));
  ASSERT_TRUE(step) << step.error().message;
  EXPECT_EQ(step->source, "step 3 of SLURM job 7");
  EXPECT_THAT(step->reasons, testing::ElementsAre("SLURM_STEP_NODELIST=n1 is 1 host"));
}

TEST(SlurmHosts, WithoutGpusOnThisHostHaveNoneOnOthers) {
  const auto allocation = allocate(job("n[1-2]", 2), fake_machine(16, 0, 1, "n1"));
  ASSERT_TRUE(allocation);
  EXPECT_EQ(allocation->hosts[1].share.gpus, 0);
  EXPECT_EQ(allocation->hosts[1].share.gpus_source, "as on n1");
}

TEST(SlurmHosts, RefuseGpusThatSlurmHidesFromTheStep) {
  const auto environment = job("n[1-2]", 2,
                               {{"SLURM_STEP_ID", "0"},
                                {"SLURM_STEP_NODELIST", "n[1-2]"},
                                {"SLURM_STEP_NUM_TASKS", "8"},
                                {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                                {"SLURM_PTY_PORT", "4711"},
                                {"SLURM_GPUS_PER_TASK", "1"}});
  const auto hidden = allocate(environment, fake_machine(16, 1, 1, "n1"));
  ASSERT_FALSE(hidden);
  EXPECT_EQ(hidden.error().exit_code, kExitUsage);
  EXPECT_EQ(hidden.error().message,
            "SLURM job 7 has 4 GPUs on n1, but --gpus-per-task hides all but 1 of them from this "
            "step, and NCCL needs ranks that see each other's GPUs; ask for GPUs by host: #SBATCH "
            "--nodes=2 --gpus-per-node=4 --ntasks-per-node=4");
  EXPECT_TRUE(allocate(environment, fake_machine(16, 4, 1, "n1")));
  const auto by_srun = job("n1", 1,
                           {{"SLURM_STEP_ID", "0"},
                            {"SLURM_STEP_NODELIST", "n1"},
                            {"SLURM_STEP_NUM_TASKS", "4"},
                            {"SLURM_STEP_TASKS_PER_NODE", "4"},
                            {"SLURM_PTY_PORT", "4711"},
                            {"SLURM_GPUS_ON_NODE", "4"},
                            {"SLURMD_TRES_BIND", "gpu:per_task:1"}});
  const auto hidden_by_srun = allocate(by_srun, fake_machine(16, 1, 1, "n1"));
  ASSERT_FALSE(hidden_by_srun);
  EXPECT_THAT(hidden_by_srun.error().message,
              HasSubstr("ask for GPUs by host: #SBATCH --nodes=1 --gpus-per-node=4"));
  JobSpec without;
  without.gpu_bind = GpuBind::none;
  EXPECT_TRUE(allocate(environment, fake_machine(16, 1, 1, "n1"), without));
}

}  // namespace
}  // namespace hvdrun
