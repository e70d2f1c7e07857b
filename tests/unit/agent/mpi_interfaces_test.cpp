#include "agent/mpi_interfaces.hpp"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace hvdrun {
namespace {

TEST(MpiInterfaces, RecognizesVirtualInterfaces) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("net-" + std::to_string(::getpid()));
  for (const char* name : {"eth0/device", "bond0/lower_eth0", "docker0/bridge",
                           "docker0/lower_veth1", "tun0/statistics"})
    std::filesystem::create_directories(folder / name);
  EXPECT_FALSE(is_virtual_interface("eth0", folder));
  EXPECT_FALSE(is_virtual_interface("bond0", folder));
  EXPECT_TRUE(is_virtual_interface("docker0", folder));
  EXPECT_TRUE(is_virtual_interface("tun0", folder));
  EXPECT_TRUE(is_virtual_interface("of-another-namespace", folder));
  std::filesystem::remove_all(folder);
}

TEST(MpiInterfaces, AreNotSetForAJobOnOneHost) {
  LaunchMessage job;
  job.hosts.push_back({"n1", {0, 1}});
  InterfacesTowardsHosts towards_hosts(job);
  set_mpi_interfaces(job, towards_hosts);
  EXPECT_TRUE(job.environment.empty());
}

}  // namespace
}  // namespace hvdrun
