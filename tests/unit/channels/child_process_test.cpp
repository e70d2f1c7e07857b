#include "channels/child_process.hpp"

#include "../temporary_folder.hpp"

#include <cerrno>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

class Children : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.path() / name; }
  bool exists(const std::string& name) const { return std::filesystem::exists(file(name)); }

  TemporaryFolder folder_;
};

TEST_F(Children, AreAllWaitedFor) {
  const auto ended_well = run_children(
      {{"sh", "-c", "cat; echo text; touch " + file("a") + "; exit 3"}, {"touch", file("b")}},
      std::chrono::minutes(1));
  EXPECT_EQ(ended_well, (std::vector<bool>{false, true}));
  EXPECT_TRUE(exists("a"));
  EXPECT_TRUE(exists("b"));
}

TEST_F(Children, AreKilledWhenTheyTakeTooLong) {
  const auto ended_well =
      run_children({{"sleep", "1000"}, {"sleep", "1000"}}, std::chrono::milliseconds(50));
  EXPECT_EQ(ended_well, (std::vector<bool>{false, false}));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(Children, ThatCannotBeStartedAreLeftOut) {
  const auto ended_well =
      run_children({{"/no/such/program"}, {"touch", file("b")}}, std::chrono::minutes(1));
  EXPECT_EQ(ended_well, (std::vector<bool>{false, true}));
  EXPECT_TRUE(exists("b"));
}

}  // namespace
}  // namespace hvdrun
