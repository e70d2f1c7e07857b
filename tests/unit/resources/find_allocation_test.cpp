#include "resources/find_allocation.hpp"

#include "fake_machine.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

Result<std::string> do_not_ask_slurm(const std::vector<std::string>& command) {
  ADD_FAILURE() << "SLURM was asked: " << command.front();
  return fail("SLURM does not answer");
}

// Finds an allocation without a hostfile.
Result<Allocation> find(const JobSpec& spec, const Environment& environment,
                        const LocalMachine& machine, const Ask& ask = do_not_ask_slurm) {
  return find_allocation(spec, {}, environment, machine, {ask, {}});
}

HostRequest asked(std::string name, std::optional<int> slots = {}) {
  HostRequest request;
  request.name = std::move(name);
  request.slots = slots;
  request.source = "-H";
  return request;
}

Environment slurm(Environment more = {}) {
  more.emplace("SLURM_JOB_ID", "77");
  more.emplace("SLURM_JOB_NUM_NODES", "1");
  more.emplace("SLURM_JOB_NODELIST", "n1");
  return more;
}

struct MachineCase {
  const char* what;
  Environment environment;
  LocalMachine machine;
  std::optional<int> cpus_per_rank;
  int slots;
  const char* slots_source;
  const char* source;
};

TEST(FindAllocation, DerivesSlotsFromCoresGpusAndSlurm) {
  const MachineCase cases[] = {
      {"cores", {}, fake_machine(4), {}, 4, "4 cores", "this machine"},
      {"one core", {}, fake_machine(1), {}, 1, "1 core", "this machine"},
      {"cores divided by --cpus-per-rank",
       {},
       fake_machine(9),
       4,
       2,
       "9 cores, 4 per rank",
       "this machine"},
      {"--cpus-per-rank above the number of cores",
       {},
       fake_machine(2),
       8,
       1,
       "2 cores, 8 per rank",
       "this machine"},
      {"GPUs", {}, fake_machine(64, 8), {}, 8, "8 GPUs", "this machine"},
      {"GPUs despite --cpus-per-rank", {}, fake_machine(64, 1), 8, 1, "1 GPU", "this machine"},
      {"SLURM's tasks",
       slurm({{"SLURM_NTASKS", "3"}}),
       fake_machine(8),
       {},
       3,
       "SLURM_NTASKS",
       "SLURM job 77"},
      {"SLURM with GPUs",
       slurm({{"SLURM_NTASKS", "3"}}),
       fake_machine(8, 4),
       {},
       4,
       "4 GPUs",
       "SLURM job 77"},
      {"SLURM without tasks", slurm(), fake_machine(8), {}, 8, "8 cores", "SLURM job 77"},
      {"SLURM's CPUs per task",
       slurm({{"SLURM_CPUS_PER_TASK", "4"}}),
       fake_machine(8, 0, 2),
       {},
       4,
       "16 CPUs, SLURM_CPUS_PER_TASK=4",
       "SLURM job 77"},
      {"SLURM's variables outside a job",
       {{"SLURM_NTASKS", "3"}},
       fake_machine(8),
       {},
       8,
       "8 cores",
       "this machine"},
  };
  for (const auto& test : cases) {
    JobSpec spec;
    spec.cpus_per_rank = test.cpus_per_rank;
    const auto allocation = find(spec, test.environment, test.machine);
    ASSERT_TRUE(allocation) << test.what << ": " << allocation.error().message;
    ASSERT_EQ(allocation->hosts.size(), 1u) << test.what;
    EXPECT_EQ(allocation->source, test.source) << test.what;
    EXPECT_EQ(allocation->hosts[0].name, "n1.cluster") << test.what;
    EXPECT_EQ(allocation->hosts[0].slots, test.slots) << test.what;
    EXPECT_EQ(allocation->hosts[0].slots_source, test.slots_source) << test.what;
    EXPECT_FALSE(allocation->hosts[0].slots_fixed) << test.what;
  }
}

TEST(FindAllocation, UsesTheRequestedSlots) {
  JobSpec spec;
  spec.hosts = {asked("localhost", 3)};
  const auto allocation = find(spec, {}, fake_machine(2, 8));
  ASSERT_TRUE(allocation) << allocation.error().message;
  EXPECT_EQ(allocation->source, "-H");
  EXPECT_EQ(allocation->from, HostSource::request);
  EXPECT_EQ(allocation->hosts[0].name, "n1.cluster");
  EXPECT_EQ(allocation->hosts[0].address, "localhost");
  EXPECT_TRUE(allocation->hosts[0].is_this_machine);
  EXPECT_EQ(allocation->hosts[0].slots, 3);
  EXPECT_EQ(allocation->hosts[0].slots_source, "-H");
  EXPECT_TRUE(allocation->hosts[0].slots_fixed);
}

TEST(FindAllocation, DerivesSlotsThatTheRequestOmits) {
  JobSpec spec;
  spec.hosts = {asked("localhost"), asked("n2")};
  const auto allocation = find(spec, {}, fake_machine(2));
  ASSERT_TRUE(allocation) << allocation.error().message;
  EXPECT_EQ(allocation->hosts[0].slots, 2);
  EXPECT_EQ(allocation->hosts[0].slots_source, "2 cores");
  EXPECT_FALSE(allocation->hosts[0].slots_fixed);
  EXPECT_EQ(allocation->hosts[1].slots, std::nullopt);
  EXPECT_EQ(allocation->hosts[1].slots_source, "not known before it is asked");
  EXPECT_FALSE(allocation->hosts[1].inventory);
}

TEST(FindAllocation, PrefersRequestThenHostfileThenSlurm) {
  JobSpec spec;
  spec.hostfile = "my hosts";
  HostRequest in_file = asked("n2", 4);
  in_file.source = "\"my hosts\":1";
  const auto from_file =
      find_allocation(spec, {in_file}, {}, fake_machine(2), {do_not_ask_slurm, {}});
  ASSERT_TRUE(from_file) << from_file.error().message;
  EXPECT_EQ(from_file->from, HostSource::hostfile);
  EXPECT_EQ(from_file->source, "\"my hosts\"");
  EXPECT_EQ(from_file->hosts[0].name, "n2");

  spec.hosts = {asked("n3", 2)};
  const auto from_request =
      find_allocation(spec, {in_file}, {}, fake_machine(2), {do_not_ask_slurm, {}});
  ASSERT_TRUE(from_request) << from_request.error().message;
  EXPECT_EQ(from_request->from, HostSource::request);
  EXPECT_EQ(from_request->hosts[0].name, "n3");

  const auto from_slurm = find({}, slurm(), fake_machine(2));
  ASSERT_TRUE(from_slurm) << from_slurm.error().message;
  EXPECT_EQ(from_slurm->from, HostSource::scheduler);
  EXPECT_EQ(find({}, {}, fake_machine(2))->from, HostSource::this_machine);
}

TEST(FindAllocation, RefusesToRunWithATopologyFile) {
  LocalMachine studied = fake_machine(64);
  studied.inventory.topology_file = "node.xml";
  JobSpec spec;
  const auto run = find(spec, {}, studied);
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message.find("HVD_TOPOLOGY=node.xml"), std::string::npos);
  spec.dry_run = true;
  EXPECT_TRUE(find(spec, {}, studied));
  spec.dry_run = false;
  spec.bind_to = BindTo::none;
  EXPECT_TRUE(find(spec, {}, studied));
}

// --- GPUs whose hosts SLURM's variables do not name ----------------------------------------------

Environment two_hosts(Environment more) {
  more.insert({{"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NODELIST", "n[1-2]"}});
  return more;
}

TEST(FindAllocation, AsksScontrolWhichHostsHaveTheGpus) {
  for (const auto& asked :
       {Environment{{"SLURM_GPUS", "5"}},
        {{"SLURM_GPUS_PER_TASK", "1"}},
        {{"SLURM_GPUS_PER_SOCKET", "2"}},
        {{"SLURM_GPUS", "5"}, {"SLURM_GPUS_PER_TASK", "1"}},
        // SLURM_GPUS_ON_NODE is that of the host that hvdrun runs on; the other hosts differ.
        {{"SLURM_GPUS", "5"}, {"SLURM_GPUS_ON_NODE", "4"}, {"SLURMD_NODENAME", "n1"}}}) {
    const auto found =
        find({}, two_hosts(asked), fake_machine(4, 4, 1, "n1"),
             [](const std::vector<std::string>& command) -> Result<std::string> {
               EXPECT_EQ(command.back(), "77");
               return "  Nodes=n1 GRES=gpu:4(IDX:0-3)\n  Nodes=n2 GRES=gpu:1(IDX:0)\n";
             });
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->hosts[0].share.gpus, 4);
    EXPECT_EQ(found->hosts[1].share.gpus, 1);
    EXPECT_EQ(found->hosts[1].share.gpus_source,
              asked.contains("SLURM_GPUS") ? "SLURM_GPUS" : asked.begin()->first);
    EXPECT_TRUE(found->notes.empty());
  }
}

TEST(FindAllocation, NotesThatSlurmDoesNotSayWhichHostsHaveTheGpus) {
  const auto found = find({}, two_hosts({{"SLURM_GPUS", "5"}}), fake_machine(4),
                          [](const std::vector<std::string>&) -> Result<std::string> {
                            return fail("scontrol: no answer in time");
                          });
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->hosts[1].share.gpus, std::nullopt);
  ASSERT_EQ(found->notes.size(), 1u);
  EXPECT_EQ(found->notes[0],
            "SLURM_GPUS=5 does not say how many GPUs each host has, and SLURM does not either "
            "(scontrol: no answer in time); each host uses what its step is given, which may be "
            "fewer");
}

}  // namespace
}  // namespace hvdrun
