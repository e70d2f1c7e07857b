// Control groups of both versions, in folders with files as the kernel writes them.
#include "look/control_group.hpp"

#include "temporary_folder.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// cpu.stat of version 2: a group with a limit, and one without the controller.
constexpr auto kLimited =
    "usage_usec 15023134\nuser_usec 14000000\nsystem_usec 1023134\nnice_usec 0\n"
    "core_sched.force_idle_usec 0\nnr_periods 812\nnr_throttled 700\nthrottled_usec 2500000\n"
    "nr_bursts 0\nburst_usec 0\n";
constexpr auto kUnlimited =
    "usage_usec 15023134\nuser_usec 14000000\nsystem_usec 1023134\nnice_usec 0\n";

class ControlGroupTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const auto path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  ControlGroup group(const std::string& membership) const {
    return ControlGroup(membership, folder_.path().string());
  }

  TemporaryFolder folder_;
};

TEST_F(ControlGroupTest, AGroupOfVersion2IsThrottledByALimitAboveIt) {
  write("cpu.stat", kUnlimited);
  write("slurmstepd.scope/cpu.stat", kUnlimited);
  write("slurmstepd.scope/job_7/cpu.stat", kLimited);
  write("slurmstepd.scope/job_7/step_0/cpu.stat", kUnlimited);
  const std::string in_step = "0::/slurmstepd.scope/job_7/step_0\n";
  EXPECT_DOUBLE_EQ(group(in_step).throttled_seconds(), 2.5);
  write("slurmstepd.scope/job_7/step_0/cpu.stat", kLimited);
  EXPECT_DOUBLE_EQ(group(in_step).throttled_seconds(), 5);
  EXPECT_DOUBLE_EQ(group("0::/slurmstepd.scope\n").throttled_seconds(), 0);
  EXPECT_FALSE(group(in_step).is_frozen());
  write("slurmstepd.scope/job_7/step_0/cgroup.events", "populated 1\nfrozen 1\n");
  EXPECT_TRUE(group(in_step).is_frozen());
}

TEST_F(ControlGroupTest, TheRootOfAContainersNamespaceMayHaveALimit) {
  write("cpu.stat", kLimited);
  EXPECT_DOUBLE_EQ(group("0::/\n").throttled_seconds(), 2.5);
  EXPECT_DOUBLE_EQ(group("0::/../other\n").throttled_seconds(), 0) << "outside of what is mounted";
}

TEST_F(ControlGroupTest, BesideVersion1TheOtherHasAFolderOfItsOwn) {
  write("cpu/a/cpu.stat", "nr_periods 10\nnr_throttled 5\nthrottled_time 1500000000\n");
  write("cpu/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n");
  write("unified/b/cgroup.events", "populated 1\nfrozen 1\n");
  const auto both = group("1:cpu,cpuacct:/a\n0::/b\n");
  EXPECT_DOUBLE_EQ(both.throttled_seconds(), 1.5);
  EXPECT_TRUE(both.is_frozen()) << "the freezer is in version 2";
  write("freezer/c/freezer.state", "FROZEN\n");
  EXPECT_TRUE(group("2:freezer:/c\n0::/d\n").is_frozen());
}

TEST_F(ControlGroupTest, WithoutControlGroupsNothingIsHeldUp) {
  EXPECT_DOUBLE_EQ(group("").throttled_seconds(), 0);
  EXPECT_FALSE(group("no line of the kernel").is_frozen());
}

}  // namespace
}  // namespace hvdrun
