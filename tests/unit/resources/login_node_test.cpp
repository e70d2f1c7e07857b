// Tests what is taken for a login node of SLURM, in a folder used as the root of the file system.
#include "resources/login_node.hpp"

#include "../temporary_folder.hpp"

#include <fstream>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

class LoginNodeTest : public testing::Test {
 protected:
  void make(const std::string& name) {
    std::filesystem::create_directories((root_.path() / name).parent_path());
    std::ofstream(root_.path() / name) << "x";
  }
  bool is_login_node() const { return !check(LoginNode::note)->empty(); }
  Result<std::string> check(LoginNode choice, HostSource from = HostSource::this_machine) const {
    JobSpec spec;
    spec.login_node = choice;
    Allocation allocation;
    allocation.from = from;
    return check_login_node(spec, allocation, environment_, root_.path());
  }
  const TemporaryFolder root_;
  Environment environment_;
};

TEST_F(LoginNodeTest, HasAConfigurationAndNoSlurmd) {
  EXPECT_FALSE(is_login_node()) << "a machine without SLURM";
  make("etc/slurm/slurm.conf");
  EXPECT_TRUE(is_login_node());
  make("run/slurmd.pid");
  EXPECT_FALSE(is_login_node()) << "a host of jobs";
}

TEST_F(LoginNodeTest, TheConfigurationMayBeNamed) {
  make("conf");
  environment_["SLURM_CONF"] = root_.path() / "conf";
  EXPECT_TRUE(is_login_node());
  environment_["SLURM_CONF"] = root_.path() / "nosuch";
  EXPECT_FALSE(is_login_node());
}

TEST_F(LoginNodeTest, OnlyRanksThatNothingPlacedElsewhereAreNoticed) {
  make("etc/slurm/slurm.conf");
  EXPECT_EQ(
      *check(LoginNode::note),
      "without an allocation the ranks run on this host, which runs no jobs of SLURM: a login "
      "node? hvdrun sbatch submits a job, hvdrun salloc gets hosts");
  EXPECT_EQ(*check(LoginNode::allow), "");
  EXPECT_EQ(check(LoginNode::refuse).error().exit_code, kExitUsage);
  for (const auto from : {HostSource::scheduler, HostSource::request, HostSource::hostfile})
    EXPECT_EQ(*check(LoginNode::refuse, from), "");
}

}  // namespace
}  // namespace hvdrun
