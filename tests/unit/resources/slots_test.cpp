#include "resources/slots.hpp"

#include "fake_machine.hpp"
#include "schedulers/schedulers.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

std::string brief(const Host& host) {
  return fmt::format("{} ({})", host.slots ? std::to_string(*host.slots) : "?", host.slots_source);
}

struct SlotsCase {
  const char* what;
  JobShare given;
  std::optional<int> cpus_per_rank;
  const char* before;  // the host was inspected
  LocalMachine answer;
  const char* after;
};

JobShare share(std::optional<int> tasks, std::optional<int> cpus_per_task, std::optional<int> cpus,
               std::optional<int> gpus) {
  return {.scheduler = schedulers().front(),
          .tasks = tasks,
          .tasks_source = "SLURM_NTASKS",
          .cpus_per_task = cpus_per_task,
          .cpus_per_task_source = "SLURM_CPUS_PER_TASK",
          .cpus = cpus,
          .cpus_source = "SLURM_JOB_CPUS_PER_NODE",
          .gpus = gpus,
          .given_gpus = gpus,
          .gpus_source = "SLURM_GPUS_PER_NODE"};
}

TEST(Slots, AreUpdatedWhenTheHostHasAnswered) {
  const std::string unknown = "? (not known before it is asked)";
  const SlotsCase cases[] = {
      {"nothing is known",
       share({}, {}, {}, {}),
       {},
       unknown.c_str(),
       fake_machine(4),
       "4 (4 cores)"},
      {"the host has GPUs that were not known",
       share({}, {}, {}, {}),
       {},
       unknown.c_str(),
       fake_machine(4, 2),
       "2 (2 GPUs)"},
      {"SLURM names the GPUs",
       share(1, {}, 16, 4),
       {},
       "4 (4 GPUs, SLURM_GPUS_PER_NODE)",
       fake_machine(16, 4),
       "4 (4 GPUs)"},
      {"fewer GPUs than SLURM named",
       share(1, {}, 16, 4),
       {},
       "4 (4 GPUs, SLURM_GPUS_PER_NODE)",
       fake_machine(16, 3),
       "3 (3 GPUs)"},
      {"tasks, and no GPU",
       share(3, {}, 16, 0),
       {},
       "3 (SLURM_NTASKS)",
       fake_machine(16),
       "3 (SLURM_NTASKS)"},
      {"tasks, and GPUs are not known",
       share(1, {}, 16, {}),
       {},
       "1 (SLURM_NTASKS; its GPUs are not known yet)",
       fake_machine(16, 4),
       "4 (4 GPUs)"},
      {"CPUs per task",
       share({}, 4, 16, 0),
       {},
       "4 (16 CPUs, SLURM_CPUS_PER_TASK=4)",
       fake_machine(8, 0, 2),
       "4 (16 CPUs, SLURM_CPUS_PER_TASK=4)"},
      {"CPUs per task, and GPUs are not known",
       share({}, 4, 16, {}),
       {},
       unknown.c_str(),
       fake_machine(8, 0, 2),
       "4 (16 CPUs, SLURM_CPUS_PER_TASK=4)"},
      {"--cpus-per-rank", share({}, 4, 16, 0), 2, unknown.c_str(), fake_machine(8, 0, 2),
       "4 (8 cores, 2 per rank)"},
      {"CPUs without CPUs per task",
       share({}, {}, 16, 0),
       {},
       unknown.c_str(),
       fake_machine(8, 0, 2),
       "8 (8 cores)"},
      {"fewer CPUs than the host has, to which SLURM does not bind",
       share({}, {}, 4, 0),
       {},
       unknown.c_str(),
       fake_machine(8, 0, 2),
       "2 (2 cores of 4 CPUs that SLURM gives the job)"},
      {"one CPU of a host with two threads per core",
       share({}, {}, 1, {}),
       {},
       unknown.c_str(),
       fake_machine(8, 0, 2),
       "1 (1 core of 1 CPU that SLURM gives the job)"},
      {"more CPUs per task than the job has",
       share({}, 64, 16, 0),
       {},
       "1 (16 CPUs, SLURM_CPUS_PER_TASK=64)",
       fake_machine(8, 0, 2),
       "1 (16 CPUs, SLURM_CPUS_PER_TASK=64)"},
  };
  for (const auto& test : cases) {
    JobSpec spec;
    spec.cpus_per_rank = test.cpus_per_rank;
    Host host;
    host.share = test.given;
    settle_slots(spec, host);
    EXPECT_EQ(brief(host), test.before) << test.what;
    take_inventory(spec, test.answer.inventory, host);
    EXPECT_EQ(brief(host), test.after) << test.what;
    EXPECT_TRUE(host.inventory) << test.what;
  }
}

// A container sees all cores, but its cgroup limits the CPU time.
TEST(Slots, AreLimitedByTheCgroup) {
  const auto slots = [](double quota, const JobShare& given, std::optional<int> cpus_per_rank) {
    JobSpec spec;
    spec.cpus_per_rank = cpus_per_rank;
    Host host;
    host.share = given;
    auto inventory = fake_machine(8, 0, 2).inventory;
    inventory.cpu_quota = quota;
    take_inventory(spec, inventory, host);
    return brief(host);
  };
  EXPECT_EQ(slots(2.5, {}, {}), "2 (2 cores of the 2.5 CPUs that the cgroup allows)");
  EXPECT_EQ(slots(0.5, {}, {}), "1 (1 core of the 0.5 CPUs that the cgroup allows)");
  EXPECT_EQ(slots(8, {}, {}), "8 (8 cores)");
  EXPECT_EQ(slots(1e300, {}, {}), "8 (8 cores)");
  EXPECT_EQ(slots(4, {}, 2), "2 (4 cores of the 4 CPUs that the cgroup allows, 2 per rank)");
  EXPECT_EQ(slots(4, share({}, {}, 6, 0), {}), "3 (3 cores of 6 CPUs that SLURM gives the job)");
  EXPECT_EQ(slots(9, share({}, 4, 16, 0), {}), "2 (9 CPUs, SLURM_CPUS_PER_TASK=4)");
  EXPECT_EQ(slots(2, share(5, {}, 16, 0), {}), "5 (SLURM_NTASKS)");
}

TEST(Slots, SetByTheUserDoNotChange) {
  Host host;
  host.slots = 3;
  host.slots_source = "-H";
  host.slots_fixed = true;
  settle_slots({}, host);
  EXPECT_EQ(brief(host), "3 (-H)");
  take_inventory({}, fake_machine(8, 8).inventory, host);
  EXPECT_EQ(brief(host), "3 (-H)");
}

}  // namespace
}  // namespace hvdrun
