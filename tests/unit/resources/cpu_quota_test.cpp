#include "resources/cpu_quota.hpp"

#include "../temporary_folder.hpp"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

class CpuQuotaTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const auto path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::optional<double> quota() const {
    return cpu_quota(folder_.path() / "list", folder_.path() / "cgroup");
  }

  TemporaryFolder folder_;
};

TEST_F(CpuQuotaTest, IsTheSmallestOfTheCgroupAndItsParents) {
  write("list", "0::/a/b");
  EXPECT_FALSE(quota());
  write("cgroup/a/b/cpu.max", "max 100000");
  EXPECT_FALSE(quota());
  write("cgroup/a/cpu.max", "250000 100000");
  EXPECT_EQ(quota(), 2.5);
  write("cgroup/a/b/cpu.max", "400000 100000");
  EXPECT_EQ(quota(), 2.5);
  write("cgroup/a/b/cpu.max", "50000 100000");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CpuQuotaTest, InAContainerIsThatOfTheRootCgroup) {
  write("list", "0::/");
  write("cgroup/cpu.max", "200000 50000");
  EXPECT_EQ(quota(), 4);
  write("list", "0::/docker/1234");  // without a namespace: the path on the host
  EXPECT_EQ(quota(), 4);
}

TEST_F(CpuQuotaTest, IsReadFromCgroupVersion1) {
  write("list", "9:name=systemd:/x\n4:memory:/m\n3:cpuset:/s\n2:cpu,cpuacct:/job\n0::/");
  write("cgroup/cpu/job/cpu.cfs_quota_us", "-1");
  write("cgroup/cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_FALSE(quota());
  write("cgroup/cpu/job/cpu.cfs_quota_us", "300000");
  EXPECT_EQ(quota(), 3);
}

TEST_F(CpuQuotaTest, InvalidFilesAreNoLimit) {
  EXPECT_FALSE(quota());
  for (const char* list : {"", "0::", "no colons", ":::::", "0::/../../a"}) {
    write("list", list);
    EXPECT_FALSE(quota()) << list;
  }
  write("list", "0::/a");
  for (const char* text :
       {"", "100000", "0 0", "100000 0", "-5 100000", "many 100000", "1e999 1"}) {
    write("cgroup/a/cpu.max", text);
    EXPECT_FALSE(quota()) << text;
  }
}

}  // namespace
}  // namespace hvdrun
