#include "agent/nested_ranks.hpp"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr pid_t kRoot = 10;

ProcessInfo started_by(pid_t pid, pid_t parent) {
  ProcessInfo info;
  info.pid = pid;
  info.parent = parent;
  return info;
}

Environment torch(const std::string& rank, const std::string& size = "2") {
  return {{"RANK", rank}, {"WORLD_SIZE", size}};
}

std::optional<NestedRank> find(const std::map<pid_t, Environment>& variables,
                               const std::vector<ProcessInfo>& below) {
  return find_nested_rank(kRoot, below, [&](pid_t pid) { return variables.at(pid); });
}

TEST(FindNestedRank, FindsProcessesThatALauncherHasNumbered) {
  const auto found = find({{10, torch("0")}, {11, torch("0")}, {12, torch("0")}, {13, torch("1")}},
                          {started_by(11, 10), started_by(12, 11), started_by(13, 11)});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pid, 13);
  EXPECT_EQ(found->parent, 11);
  EXPECT_EQ(found->variables, "RANK=1, WORLD_SIZE=2");
  const Environment rank{{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  auto first = rank;
  first.insert({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  auto second = rank;
  second.insert({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  EXPECT_TRUE(
      find({{10, rank}, {11, first}, {12, second}}, {started_by(11, 10), started_by(12, 10)}));
}

TEST(FindNestedRank, TakesOtherProcessesForTheRanksOwn) {
  EXPECT_FALSE(find({{10, torch("1")}, {11, torch("1")}, {12, torch("1")}},
                    {started_by(11, 10), started_by(12, 10)}))
      << "workers that load data";
  EXPECT_FALSE(find({{10, torch("1")}, {11, torch("0")}}, {started_by(11, 10)}))
      << "a program that a script has renumbered";
  EXPECT_FALSE(find({{10, torch("1")}, {11, torch("0", "1")}, {12, torch("1", "1")}},
                    {started_by(11, 10), started_by(12, 10)}))
      << "jobs of one rank";
  EXPECT_FALSE(find({{10, torch("1")}, {11, {}}}, {started_by(11, 10)}));
}

TEST(ProgramIn, IsTheOneThatAnInterpreterRuns) {
  EXPECT_EQ(program_in({"/usr/bin/python3", "-u", "/usr/bin/torchrun", "t.py"}), "torchrun");
  EXPECT_EQ(program_in({"python3", "-m", "torch.distributed.run", "t.py"}),
            "torch.distributed.run");
  EXPECT_EQ(program_in({"/opt/mpi/bin/hydra_pmi_proxy", "--x"}), "hydra_pmi_proxy");
  EXPECT_EQ(program_in({"sh", "-c", "date"}), "sh");
  EXPECT_EQ(program_in({}), "a launcher");
}

}  // namespace
}  // namespace hvdrun
