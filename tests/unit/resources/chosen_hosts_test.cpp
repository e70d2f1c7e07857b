// Tests what -H and hostfiles choose among the hosts of a SLURM job.
#include "resources/chosen_hosts.hpp"

#include "base/host_list.hpp"
#include "fake_machine.hpp"
#include "resources/find_allocation.hpp"

#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HostRequest chosen(std::string name, std::optional<int> slots = {}, std::string source = "-H") {
  HostRequest request;
  request.name = std::move(name);
  request.slots = slots;
  request.source = std::move(source);
  return request;
}

// The environment of a batch script on n1, one of three hosts.
Environment job(Environment more = {}) {
  more.insert({{"SLURM_JOB_ID", "7"},
               {"SLURM_JOB_NODELIST", "n[1-3]"},
               {"SLURM_JOB_NUM_NODES", "3"},
               {"SLURMD_NODENAME", "n1"}});
  return more;
}

HostQueries no_queries() {
  HostQueries queries;
  queries.ask = [](const std::vector<std::string>& command) -> Result<std::string> {
    ADD_FAILURE() << "SLURM was asked about " << command.back();
    return fail("no answer");
  };
  queries.addresses = [](const auto& names) {
    ADD_FAILURE() << names.size() << " names were looked up";
    return std::vector<std::vector<std::string>>(names.size());
  };
  return queries;
}

HostQueries other_names() {
  HostQueries queries;
  queries.ask = [](const std::vector<std::string>& command) -> Result<std::string> {
    EXPECT_THAT(command, ElementsAre("scontrol", "show", "node", "n[1-3]"));
    return "NodeName=n1 Arch=x86_64\n   NodeAddr=10.0.0.1 NodeHostName=alpha Version=22\n\n"
           "NodeName=n2 Arch=x86_64\n   NodeAddr=beta-ib NodeHostName=beta.cluster\n\n"
           "NodeName=n3 NodeAddr=n3 NodeHostName=n3\n";
  };
  queries.addresses = [](const std::vector<std::string>& names) {
    const std::map<std::string, std::string> known{{"beta-ib", "10.1.0.2"},
                                                   {"n3", "10.0.0.3"},
                                                   {"10.0.0.3", "10.0.0.3"},
                                                   {"alias", "10.1.0.2"}};
    std::vector<std::vector<std::string>> found;
    for (const auto& name : names) {
      found.emplace_back();
      if (known.contains(name)) found.back().push_back(known.at(name));
    }
    return found;
  };
  return queries;
}

Result<Allocation> choose(const JobSpec& spec, const Environment& environment,
                          const HostQueries& queries = no_queries(),
                          const std::vector<HostRequest>& hostfile = {}) {
  auto machine = fake_machine(4, 0, 1, "n1");
  machine.user = "anna";
  return find_allocation(spec, hostfile, environment, machine, queries);
}

// Returns "n2=4 n1=2": the chosen hosts by SLURM's names, with their slots.
std::string brief(const Result<Allocation>& allocation) {
  if (!allocation) return allocation.error().message;
  EXPECT_EQ(allocation->from, HostSource::scheduler);
  std::string text;
  for (const auto& host : allocation->hosts)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", host.address,
                        host.slots ? std::to_string(*host.slots) : "?");
  return text;
}

JobSpec named(std::vector<HostRequest> hosts) {
  JobSpec spec;
  spec.hosts = std::move(hosts);
  return spec;
}

TEST(ChosenHosts, AreThoseThatTheUserNamesInTheirOrder) {
  const auto found =
      choose(named({chosen("n3"), chosen("n1.cluster")}), job({{"SLURM_GPUS_PER_NODE", "4"}}));
  EXPECT_EQ(brief(found), "n3=4 n1=4");
  EXPECT_TRUE(found->hosts[1].is_this_machine);
  EXPECT_EQ(found->source, "SLURM job 7");
  EXPECT_THAT(found->reasons, testing::Contains("-H: left out: n2"));
}

TEST(ChosenHosts, AreKnownByEveryNameThatTheyHave) {
  for (const auto* name : {"N1", "n1.cluster.example", "localhost", "127.0.0.1", "n1"})
    EXPECT_EQ(brief(choose(named({chosen(name, 2)}), job({{"SLURM_GPUS_PER_NODE", "4"}}))), "n1=2")
        << name;
  const std::pair<const char*, const char*> others[] = {
      {"10.0.0.1", "n1=2"}, {"alpha", "n1=2"}, {"beta", "n2=2"},    {"BETA.cluster", "n2=2"},
      {"beta-ib", "n2=2"},  {"alias", "n2=2"}, {"10.0.0.3", "n3=2"}};
  for (const auto& [name, expected] : others)
    EXPECT_EQ(brief(choose(named({chosen(name, 2)}), job(), other_names())), expected) << name;
}

TEST(ChosenHosts, AddTheSlotsOfSeveralNamesOfOneHost) {
  const auto gpus = job({{"SLURM_GPUS_PER_NODE", "4"}});
  EXPECT_EQ(brief(choose(named({chosen("n2", 1), chosen("beta", 2)}), gpus, other_names())),
            "n2=3");
  EXPECT_EQ(brief(choose(named({chosen("n2"), chosen("n2"), chosen("n1")}), gpus)), "n2=2 n1=4");
}

TEST(ChosenHosts, AreReadFromAHostfile) {
  JobSpec spec;
  spec.hostfile = "hf";
  EXPECT_EQ(brief(choose(spec, job({{"SLURM_GPUS_PER_NODE", "4"}}), no_queries(),
                         {chosen("n1", 2, "hf:1"), chosen("n2", 2, "hf:2")})),
            "n1=2 n2=2");
  EXPECT_EQ(brief(choose(spec, job(), other_names(), {chosen("n7", 2, "hf:1")})),
            "--hostfile hf: n7 is not among the hosts of SLURM job 7, which are n[1-3]; leave "
            "--hostfile hf out: in a SLURM job hvdrun finds the hosts");
}

TEST(ChosenHosts, RefuseHostsOutsideTheJob) {
  EXPECT_EQ(
      brief(choose(named({chosen("n1"), chosen("n4"), chosen("n5")}), job(), other_names())),
      "-H: n[4-5] are not among the hosts of SLURM job 7, which are n[1-3]; leave -H out: in a "
      "SLURM job hvdrun finds the hosts");
  // Without answers, too.
  EXPECT_THAT(brief(choose(named({chosen("10.9.9.9")}), job(), {})),
              HasSubstr("10.9.9.9 is not among the hosts"));
}

TEST(ChosenHosts, RefuseMoreSlotsThanSlurmGave) {
  auto spec = named({chosen("n2", 5)});
  const auto gpus = job({{"SLURM_GPUS_PER_NODE", "4"}});
  EXPECT_EQ(
      brief(choose(spec, gpus)),
      "-H: n2 has 5 slots here, but SLURM job 7 has 4 GPUs there (SLURM_GPUS_PER_NODE); write "
      "at most 4, or leave -H out: in a SLURM job hvdrun finds the hosts, or add "
      "--oversubscribe");
  const auto tasks = job({{"SLURM_NTASKS", "6"}, {"SLURM_TASKS_PER_NODE", "2(x3)"}});
  EXPECT_THAT(brief(choose(spec, tasks)), HasSubstr("has 2 tasks there (SLURM_NTASKS)"));
  EXPECT_THAT(brief(choose(spec, job({{"SLURM_JOB_CPUS_PER_NODE", "2(x3)"}}))),
              HasSubstr("has 2 CPUs there (SLURM_JOB_CPUS_PER_NODE)"));
  spec.oversubscribe = true;
  EXPECT_EQ(brief(choose(spec, gpus)), "n2=5");
}

TEST(ChosenHosts, RunAsTheJobsUserAndNeedNoPort) {
  auto request = chosen("n2");
  request.user = "anna";
  request.port = 2222;
  const auto found = choose(named({request}), job({{"SLURM_GPUS_PER_NODE", "4"}}));
  EXPECT_EQ(brief(found), "n2=4");
  EXPECT_EQ(found->hosts[0].user, "");
  EXPECT_THAT(found->notes, ElementsAre(HasSubstr("have no effect in a SLURM job")));
  request.user = "bob";
  EXPECT_THAT(brief(choose(named({request}), job())), HasSubstr("leave bob@ out"));
}

TEST(ChosenHosts, OfAStepAreThoseOfTheWholeJob) {
  const auto step = job({{"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NODELIST", "n1"},
                         {"SLURM_STEP_NUM_NODES", "1"},
                         {"SLURM_STEP_NUM_TASKS", "1"}});
  const auto found = choose(named({chosen("n1", 1), chosen("n2", 1)}), step);
  EXPECT_EQ(brief(found), "n1=1 n2=1");
  EXPECT_THAT(found->notes, IsEmpty());
}

TEST(ChosenHosts, AreReachedBySshIfSlurmsVariablesAreGone) {
  const auto without_job = choose(named({chosen("n9", 1)}), {{"SLURM_NTASKS", "4"}});
  ASSERT_TRUE(without_job);
  EXPECT_EQ(without_job->from, HostSource::request);
  EXPECT_THAT(without_job->notes, IsEmpty());
  const auto adopted = choose(named({chosen("n9", 1)}), {{"SLURM_JOB_ID", "7"}});
  ASSERT_TRUE(adopted);
  EXPECT_EQ(adopted->from, HostSource::request);
  EXPECT_THAT(adopted->notes, ElementsAre(HasSubstr("the hosts of -H are reached by ssh")));
}

}  // namespace
}  // namespace hvdrun
