#include "hosts/find_allocation.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

LocalMachine machine(int cores, int gpus = 0, int threads = 1) {
  LocalMachine made{"n1.cluster", {}};
  for (int i = 0; i < cores; ++i) {
    Core core;
    for (int thread = 0; thread < threads; ++thread) core.pus.push_back(i + thread * cores);
    made.inventory.cores.push_back(core);
  }
  made.inventory.numa_nodes = {0};
  for (int i = 0; i < gpus; ++i)
    made.inventory.gpus.push_back({std::to_string(i), "", "", "", 0, {}});
  return made;
}

Environment slurm(Environment more = {}) {
  more.emplace("SLURM_JOB_ID", "77");
  more.emplace("SLURM_JOB_NUM_NODES", "1");
  more.emplace("SLURM_JOB_NODELIST", "n1");
  return more;
}

struct SlotsCase {
  const char* what;
  Environment environment;
  LocalMachine machine;
  std::optional<int> cpus_per_rank;
  int slots;
  const char* slots_source;
  const char* source;
};

TEST(FindAllocation, CountsSlots) {
  const SlotsCase cases[] = {
      {"cores", {}, machine(4), {}, 4, "4 cores", "this machine"},
      {"one core", {}, machine(1), {}, 1, "1 core", "this machine"},
      {"cores by cores a rank", {}, machine(9), 4, 2, "9 cores, 4 a rank", "this machine"},
      {"more a rank than there are", {}, machine(2), 8, 1, "2 cores, 8 a rank", "this machine"},
      {"GPUs", {}, machine(64, 8), {}, 8, "8 GPUs", "this machine"},
      {"GPUs whatever the cores a rank", {}, machine(64, 1), 8, 1, "1 GPU", "this machine"},
      {"SLURM's tasks",
       slurm({{"SLURM_NTASKS", "3"}}),
       machine(8),
       {},
       3,
       "SLURM_NTASKS",
       "SLURM job 77"},
      {"SLURM with GPUs",
       slurm({{"SLURM_NTASKS", "3"}}),
       machine(8, 4),
       {},
       4,
       "4 GPUs",
       "SLURM job 77"},
      {"SLURM without tasks", slurm(), machine(8), {}, 8, "8 cores", "SLURM job 77"},
      {"SLURM's CPUs a task",
       slurm({{"SLURM_CPUS_PER_TASK", "4"}}),
       machine(8, 0, 2),
       {},
       4,
       "16 CPUs, SLURM_CPUS_PER_TASK=4",
       "SLURM job 77"},
      {"SLURM's variables outside a job",
       {{"SLURM_NTASKS", "3"}},
       machine(8),
       {},
       8,
       "8 cores",
       "this machine"},
  };
  for (const auto& test : cases) {
    JobSpec spec;
    spec.cpus_per_rank = test.cpus_per_rank;
    const auto allocation = find_allocation(spec, test.environment, test.machine);
    ASSERT_TRUE(allocation) << test.what << ": " << allocation.error().message;
    ASSERT_EQ(allocation->hosts.size(), 1u) << test.what;
    EXPECT_EQ(allocation->source, test.source) << test.what;
    EXPECT_EQ(allocation->hosts[0].name, "n1.cluster") << test.what;
    EXPECT_EQ(allocation->hosts[0].slots, test.slots) << test.what;
    EXPECT_EQ(allocation->hosts[0].slots_source, test.slots_source) << test.what;
    EXPECT_FALSE(allocation->hosts[0].slots_fixed) << test.what;
  }
}

TEST(FindAllocation, TakesTheRequestedSlots) {
  JobSpec spec;
  spec.hosts = {{"localhost", 3}};
  const auto allocation = find_allocation(spec, {}, machine(2, 8));
  ASSERT_TRUE(allocation) << allocation.error().message;
  EXPECT_EQ(allocation->source, "-H");
  EXPECT_EQ(allocation->hosts[0].name, "n1.cluster");
  EXPECT_EQ(allocation->hosts[0].slots, 3);
  EXPECT_EQ(allocation->hosts[0].slots_source, "-H");
  EXPECT_TRUE(allocation->hosts[0].slots_fixed);
}

TEST(FindAllocation, AddsUpAHostThatIsNamedTwice) {
  JobSpec spec;
  spec.hosts = {{"localhost", 3}, {"n1", 2}};
  const auto allocation = find_allocation(spec, {}, machine(2));
  ASSERT_TRUE(allocation) << allocation.error().message;
  ASSERT_EQ(allocation->hosts.size(), 1u);
  EXPECT_EQ(allocation->hosts[0].slots, 5);
}

TEST(FindAllocation, CountsSlotsItselfWhenTheRequestDoesNot) {
  JobSpec spec;
  spec.hosts = {{"localhost", std::nullopt}};
  const auto allocation = find_allocation(spec, {}, machine(2));
  ASSERT_TRUE(allocation) << allocation.error().message;
  EXPECT_EQ(allocation->hosts[0].slots, 2);
  EXPECT_EQ(allocation->hosts[0].slots_source, "2 cores");
  EXPECT_FALSE(allocation->hosts[0].slots_fixed);
}

struct ErrorCase {
  std::vector<HostRequest> hosts;
  Environment environment;
  const char* message;  // a part of it
};

TEST(FindAllocation, RefusesWhatOneMachineCannotDo) {
  const ErrorCase cases[] = {
      {{{"n2", 4}}, {}, "-H n2: that is another host than this one (n1.cluster)"},
      {{{"localhost", 1}, {"n2", 4}}, {}, "-H n2: "},
      {{{"localhost", 0}}, {}, "-H localhost:0: a host needs 1 slot or more"},
      {{{"localhost", 2000000000}, {"localhost", 2000000000}}, {}, "too many to count"},
      {{},
       {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}},
       "SLURM job 7 has 2 hosts, and this version runs on one machine; use -H localhost:N"},
      {{}, {{"SLURM_JOB_ID", "7"}, {"SLURM_HET_SIZE", "2"}}, "heterogeneous"},
      {{},
       {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n5"}},
       "SLURM job 7 has the host n5, but hvdrun was started on n1.cluster"},
      {{}, {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "many"}}, "SLURM_NTASKS=\"many\""},
  };
  for (const auto& test : cases) {
    JobSpec spec;
    spec.hosts = test.hosts;
    const auto allocation = find_allocation(spec, test.environment, machine(2));
    ASSERT_FALSE(allocation) << test.message;
    EXPECT_EQ(allocation.error().exit_code, kExitUsage);
    EXPECT_NE(allocation.error().message.find(test.message), std::string::npos)
        << allocation.error().message;
  }
}

TEST(FindAllocation, RequestPrevailsOverSlurm) {
  JobSpec spec;
  spec.hosts = {{"localhost", 2}};
  const Environment many = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "9"}, {"SLURM_NTASKS", "?"}};
  const auto allocation = find_allocation(spec, many, machine(2));
  ASSERT_TRUE(allocation) << allocation.error().message;
  EXPECT_EQ(allocation->hosts[0].slots, 2);
}

TEST(FindAllocation, KnowsThisMachineByItsNameInSlurm) {
  const Environment environment = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "gpu-a"}, {"SLURMD_NODENAME", "gpu-a"}};
  EXPECT_TRUE(find_allocation({}, environment, machine(2)));
}

TEST(FindAllocation, KeepsAStudiedTopologyFromBeingRunOn) {
  LocalMachine studied = machine(64);
  studied.inventory.topology_file = "node.xml";
  JobSpec spec;
  const auto run = find_allocation(spec, {}, studied);
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message.find("HVD_TOPOLOGY=node.xml"), std::string::npos);
  spec.dry_run = true;
  EXPECT_TRUE(find_allocation(spec, {}, studied));
  spec.dry_run = false;
  spec.bind_to = BindTo::none;
  EXPECT_TRUE(find_allocation(spec, {}, studied));
}

TEST(NamesThisMachine, TakesItsNames) {
  const struct {
    const char* host;
    const char* machine;
    bool same;
  } cases[] = {
      {"localhost", "n1", true},  {"127.0.0.1", "n1", true},  {"127.0.1.1", "n1", true},
      {"::1", "n1", true},        {"n1", "n1", true},         {"N1", "n1", true},
      {"n1.cluster", "n1", true}, {"n1", "n1.cluster", true}, {"n1.a", "n1.b", false},
      {"n2", "n1", false},        {"n11", "n1", false},       {"", "n1", false},
      {"127.host", "n1", false},  {"10.0.0.1", "n1", false},
  };
  for (const auto& test : cases)
    EXPECT_EQ(names_this_machine(test.host, test.machine), test.same)
        << test.host << " on " << test.machine;
}

}  // namespace
}  // namespace hvdrun
