#include "channels/srun_command.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

SrunOptions options() {
  SrunOptions made;
  made.job_id = "123";
  made.agent_path = "/opt/hvd/bin/hvdrun";
  return made;
}

std::string srun_line(const std::vector<std::string>& hosts, std::optional<int> gpus) {
  return fmt::format("{}", fmt::join(srun_command(options(), hosts, gpus), " "));
}

TEST(SrunCommand, StartsOneAgentPerHost) {
  EXPECT_EQ(srun_line({"n1", "n3"}, {}),
            "srun --jobid=123 --job-name=hvdrun --nodelist=n1,n3 --nodes=2 --ntasks=2 "
            "--ntasks-per-node=1 --overlap --mem=0 --cpu-bind=none --mpi=none --kill-on-bad-exit=0 "
            "--wait=0 --chdir=/ --export=ALL --label /opt/hvd/bin/hvdrun --internal-agent srun");
}

TEST(SrunCommand, AsksForTheGpusThatTheJobHas) {
  EXPECT_NE(srun_line({"n1", "n2"}, 4).find(" --gres=gpu:4 /opt/"), std::string::npos);
  EXPECT_NE(srun_line({"n1"}, 4).find(" --gpus=4 /opt/"), std::string::npos);
  EXPECT_NE(srun_line({"n1"}, 0).find(" --gres=none /opt/"), std::string::npos);
}

TEST(SrunCommand, AStepThatSurvivesHostsIsNotKilledWithOne) {
  auto its = options();
  its.survives_hosts = true;
  const auto words = srun_command(its, {"n1", "n2"}, {});
  EXPECT_EQ(std::count(words.begin(), words.end(), "--no-kill"), 1);
  EXPECT_EQ(srun_line({"n1", "n2"}, {}).find("--no-kill"), std::string::npos);
}

TEST(SrunCommand, CleansUpWithoutGpus) {
  const auto words = srun_cleanup_command(options(), {"n1", "n3"}, "abc", {0, 2});
  EXPECT_NE(fmt::format("{}", fmt::join(words, " "))
                .find(" --gres=none /opt/hvd/bin/hvdrun --internal-agent cleanup abc 0 2"),
            std::string::npos);
}

}  // namespace
}  // namespace hvdrun
