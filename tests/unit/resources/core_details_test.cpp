#include "resources/core_details.hpp"

#include "../temporary_folder.hpp"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

std::vector<Core> make_cores(int count) {
  std::vector<Core> cores(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) cores[static_cast<std::size_t>(i)].pus = {i};
  return cores;
}

// Returns the L3 cache and the kind of each core: "0.0 0.1".
std::string details(const TemporaryFolder& sysfs, int count) {
  auto cores = make_cores(count);
  read_core_details(sysfs.path(), cores);
  std::string text;
  for (const auto& core : cores)
    text += fmt::format("{}{}.{}", text.empty() ? "" : " ", core.l3_cache, core.kind);
  return text;
}

void write_cpu(const TemporaryFolder& sysfs, int cpu, const std::string& file,
               const std::string& text) {
  sysfs.write(fmt::format("devices/system/cpu/cpu{}/{}", cpu, file), text + "\n");
}

TEST(CoreDetails, KnowsNothingWithoutSysfs) {
  EXPECT_EQ(details(TemporaryFolder(), 2), "-1.0 -1.0");
}

TEST(CoreDetails, FindsTheThirdLevelAmongTheCaches) {
  const TemporaryFolder sysfs;
  for (int cpu = 0; cpu < 4; ++cpu) {
    for (int level = 1; level <= 3; ++level)
      write_cpu(sysfs, cpu, fmt::format("cache/index{}/level", level - 1), std::to_string(level));
    write_cpu(sysfs, cpu, "cache/index2/shared_cpu_list", cpu % 2 == 0 ? "0,2" : "1,3");
  }
  EXPECT_EQ(details(sysfs, 4), "0.0 1.0 0.0 1.0");
}

TEST(CoreDetails, LeavesTheCacheOfAMachineWithTwoLevelsUnknown) {
  const TemporaryFolder sysfs;
  for (int index = 0; index < 3; ++index)
    write_cpu(sysfs, 0, fmt::format("cache/index{}/level", index), index == 0 ? "1" : "2");
  EXPECT_EQ(details(sysfs, 2), "-1.0 -1.0");
}

TEST(CoreDetails, NamesKindsAsIntelDoes) {
  const TemporaryFolder sysfs;
  sysfs.write("devices/cpu_atom/cpus", "2-3\n");
  sysfs.write("devices/cpu_lowpower/cpus", "4\n");
  EXPECT_EQ(details(sysfs, 5), "-1.0 -1.0 -1.1 -1.1 -1.2");
}

TEST(CoreDetails, SeparatesKindsBySpeedButNotByNoise) {
  const TemporaryFolder sysfs;
  const char* const capacities[] = {"430", "1024", "1000", "870", "420"};
  for (int cpu = 0; cpu < 5; ++cpu) write_cpu(sysfs, cpu, "cpu_capacity", capacities[cpu]);
  EXPECT_EQ(details(sysfs, 5), "-1.1 -1.0 -1.0 -1.0 -1.1");

  const TemporaryFolder other;
  for (int cpu = 0; cpu < 3; ++cpu)
    write_cpu(other, cpu, "cpufreq/cpuinfo_max_freq", cpu == 2 ? "3300000" : "5100000");
  EXPECT_EQ(details(other, 3), "-1.0 -1.0 -1.1");
  // Not all cores say how fast they are.
  EXPECT_EQ(details(other, 4), "-1.0 -1.0 -1.0 -1.0");
}

TEST(CoreDetails, ReadsLists) {
  const TemporaryFolder folder;
  const auto list = [&](const std::string& text) { return read_cpu_list(folder.write("l", text)); };
  EXPECT_EQ(list("0-3,8\n"), (std::vector{0, 1, 2, 3, 8}));
  EXPECT_EQ(list("5\n"), std::vector{5});
  EXPECT_EQ(list("\n"), std::vector<int>());
  EXPECT_EQ(list("4-2"), std::vector<int>());
  EXPECT_EQ(read_cpu_list(folder.path() / "none"), std::vector<int>());
}

}  // namespace
}  // namespace hvdrun
