// Tests the schedulers on whose hosts hvdrun starts no agents yet.
#include "fake_machine.hpp"
#include "resources/find_allocation.hpp"
#include "temporary_folder.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;

class OtherSchedulers : public testing::Test {
 protected:
  static Result<Allocation> find(const Environment& environment, JobSpec spec = {},
                                 LocalMachine machine = fake_machine(4)) {
    return find_allocation(spec, {}, environment, machine);
  }

  std::string nodes(const std::string& text) const { return folder_.write("nodes", text).string(); }
  std::string here() const { return fake_machine(4).name; }

  TemporaryFolder folder_;
};

TEST_F(OtherSchedulers, RefuseAJobOfSeveralHostsAndSayWhatToType) {
  const auto lines = nodes("n1\nn1\nn2\nn2\n");
  const auto slots =
      folder_.write("pe", "n1 2 all.q@n1 UNDEFINED\nn2 2 all.q@n2 <NULL>\n").string();
  const std::pair<Environment, std::string> cases[] = {
      {{{"PBS_JOBID", "12.server"}, {"PBS_NODEFILE", lines}}, "--hostfile $PBS_NODEFILE"},
      {{{"LSB_JOBID", "7"}, {"LSB_MCPU_HOSTS", "n1 2 n2 2"}}, "-H n1:2,n2:2"},
      {{{"LSB_JOBID", "7"}, {"LSB_HOSTS", "n1 n1 n2 n2"}}, "-H n1:2,n2:2"},
      {{{"LSB_JOBID", "7"}, {"LSB_DJOB_HOSTFILE", lines}}, "--hostfile $LSB_DJOB_HOSTFILE"},
      {{{"JOB_ID", "5"}, {"PE_HOSTFILE", slots}}, "-H n1:2,n2:2"},
      {{{"OAR_JOB_ID", "4"}, {"OAR_NODEFILE", lines}}, "--hostfile $OAR_NODEFILE"},
      {{{"COBALT_JOBID", "4"}, {"COBALT_NODEFILE", lines}}, "--hostfile $COBALT_NODEFILE"},
      {{{"FLUX_URI", "local:///x"}, {"FLUX_JOB_NNODES", "2"}}, "-H \"$(flux getattr hostlist)\""},
      {{{"_CONDOR_NPROCS", "2"}}, "-H HOST,HOST"},
      {{{"PALS_APID", "1"}}, "-H HOST,HOST"},
      {{{"PBS_JOBID", "12"}, {"PBS_NODEFILE", "/nonexistent"}}, "-H HOST,HOST"},
  };
  for (const auto& [environment, line] : cases) {
    const auto refused = find(environment);
    ASSERT_FALSE(refused) << line;
    EXPECT_EQ(refused.error().exit_code, kExitUsage);
    EXPECT_THAT(refused.error().message, HasSubstr(": type hvdrun " + line + " … for all of them"));
    EXPECT_THAT(refused.error().message, HasSubstr("hvdrun -H localhost … for " + here()));
  }
  EXPECT_THAT(
      find(cases[0].first).error().message,
      HasSubstr("this is a job of PBS (12.server) with 2 hosts (n1, n2), and hvdrun does not "
                "start ranks on the other hosts of such a job by itself"));
}

TEST_F(OtherSchedulers, GiveAJobOfThisHostItsSlots) {
  const auto of = [&](const Environment& environment, LocalMachine machine = fake_machine(4)) {
    const auto found = find(environment, {}, std::move(machine));
    EXPECT_TRUE(found) << found.error().message;
    return found ? std::pair(found->hosts.front().slots.value_or(0), found->source)
                 : std::pair(0, std::string());
  };
  const auto three = nodes(here() + "\n" + here() + "\n" + here() + "\n");
  EXPECT_EQ(of({{"PBS_JOBID", "12"}, {"PBS_NODEFILE", three}}),
            std::pair(3, std::string("this machine, in a job of PBS")));
  const auto once = folder_.write("once", here() + "\n").string();
  EXPECT_EQ(of({{"PBS_JOBID", "12"}, {"PBS_NODEFILE", once}}).first, 4) << "no number of slots";
  const auto slots = folder_.write("pe", here() + " 1 all.q UNDEFINED\n").string();
  EXPECT_EQ(of({{"PE_HOSTFILE", slots}}).first, 1);
  EXPECT_EQ(of({{"LSB_JOBID", "1"}, {"LSB_MCPU_HOSTS", here() + " 2"}}).first, 2);
  const auto most = here() + " 2147483647 " + here() + " 2147483647";
  EXPECT_EQ(of({{"LSB_JOBID", "1"}, {"LSB_MCPU_HOSTS", most}}).first, 2147483647);
  EXPECT_EQ(of({{"FLUX_JOB_ID", "f1"}, {"FLUX_JOB_NNODES", "1"}}).first, 4);
  EXPECT_EQ(of({{"PBS_JOBID", "12"}, {"PBS_NODEFILE", three}}, fake_machine(4, 2)).first, 2)
      << "one for each GPU";
}

TEST_F(OtherSchedulers, LeaveTheUsersHostsAndSlurmsAsTheyAre) {
  JobSpec spec;
  spec.hosts = *parse_host_requests("localhost:2", "-H");
  EXPECT_EQ(find({{"_CONDOR_NPROCS", "2"}}, spec)->source, "-H");
  const Environment both{{"FLUX_URI", "x"},
                         {"SLURM_JOB_ID", "7"},
                         {"SLURM_JOB_NUM_NODES", "1"},
                         {"SLURM_JOB_NODELIST", here()},
                         {"SLURMD_NODENAME", here()}};
  EXPECT_EQ(find(both)->from, HostSource::scheduler);
}

TEST_F(OtherSchedulers, AreNotSeenInCommonVariables) {
  EXPECT_EQ(scheduler_of({{"JOB_ID", "5"},
                          {"NSLOTS", "4"},
                          {"NCPUS", "4"},
                          {"PBS_NODEFILE", ""},
                          {"_CONDOR_SCRATCH_DIR", "/tmp"}}),
            nullptr);
}

}  // namespace
}  // namespace hvdrun
