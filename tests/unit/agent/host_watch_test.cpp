#include "agent/host_watch.hpp"

#include "../temporary_folder.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(OomWatch, NoticesOomKillsOfItsCgroup) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "memory.events";
  const auto write = [&](int kills) {
    std::ofstream(file) << "low 0\nhigh 0\noom 5\noom_kill " << kills << "\noom_group_kill 0\n";
  };
  write(3);
  OomWatch watch(file);
  EXPECT_FALSE(watch.happened()) << "these kills were before";
  constexpr int kExitCode1 = 0x0100;
  EXPECT_FALSE(watch.may_explain(kExitCode1));
  write(5);
  EXPECT_TRUE(watch.may_explain(kExitCode1)) << "a child of the rank was killed";
  EXPECT_FALSE(watch.may_explain(0));
  EXPECT_TRUE(watch.may_explain(SIGKILL));
  EXPECT_TRUE(watch.happened());
  EXPECT_FALSE(watch.happened());
}

TEST(OomWatch, ReportsNothingWithoutACounter) {
  OomWatch watch(std::filesystem::path{});
  EXPECT_FALSE(watch.happened());
  OomWatch missing("/nonexistent/memory.events");
  EXPECT_FALSE(missing.happened());
}

}  // namespace
}  // namespace hvdrun
