#include "resources/core_kinds.hpp"

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

// Returns the kind of each core: "0011".
std::string kinds(const TemporaryFolder& sysfs, int count) {
  auto cores = make_cores(count);
  read_core_kinds(sysfs.path(), cores);
  std::string text;
  for (const auto& core : cores) text += std::to_string(core.kind);
  return text;
}

void write_cpu(const TemporaryFolder& sysfs, int cpu, const std::string& file,
               const std::string& text) {
  sysfs.write(fmt::format("devices/system/cpu/cpu{}/{}", cpu, file), text + "\n");
}

TEST(CoreKinds, KnowsNothingWithoutSysfs) {
  EXPECT_EQ(kinds(TemporaryFolder(), 2), "00");
}

TEST(CoreKinds, NamesKindsAsIntelDoes) {
  const TemporaryFolder sysfs;
  sysfs.write("devices/cpu_atom/cpus", "2-3\n");
  sysfs.write("devices/cpu_lowpower/cpus", "4\n");
  EXPECT_EQ(kinds(sysfs, 5), "00112");
}

TEST(CoreKinds, SeparatesKindsBySpeedButNotByNoise) {
  const TemporaryFolder sysfs;
  const char* const capacities[] = {"430", "1024", "1000", "870", "420"};
  for (int cpu = 0; cpu < 5; ++cpu) write_cpu(sysfs, cpu, "cpu_capacity", capacities[cpu]);
  EXPECT_EQ(kinds(sysfs, 5), "10001");

  const TemporaryFolder other;
  for (int cpu = 0; cpu < 3; ++cpu)
    write_cpu(other, cpu, "cpufreq/cpuinfo_max_freq", cpu == 2 ? "3300000" : "5100000");
  EXPECT_EQ(kinds(other, 3), "001");
  EXPECT_EQ(kinds(other, 4), "0000") << "the last core does not say how fast it is";

  for (int cpu = 3; cpu < 33; ++cpu) write_cpu(other, cpu, "cpufreq/cpuinfo_max_freq", "5100000");
  EXPECT_EQ(kinds(other, 32).substr(0, 4), "0010");
  EXPECT_EQ(kinds(other, 33).substr(0, 4), "0000") << "a large machine is not asked";
}

TEST(CoreKinds, ReadsLists) {
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
