#include "slurm/stop_time.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using std::chrono::seconds;

TEST(StopTime, KillWaitIsReadFromTheConfiguration) {
  EXPECT_EQ(kill_wait_in("Configuration data as of now\nKillOnBadExit           = 0\n"
                         "KillWait                = 30 sec\nLaunchParameters = (null)\n"),
            seconds(30));
  EXPECT_EQ(kill_wait_in("KillWait = 0 sec"), seconds(0));
  EXPECT_EQ(kill_wait_in("KillWait = soon"), std::nullopt);
  EXPECT_EQ(kill_wait_in("OverKillWait = 5 sec\n"), std::nullopt);
  EXPECT_EQ(kill_wait_in(""), std::nullopt);
}

TEST(StopTime, IsKillWaitLessTimeForTheReport) {
  EXPECT_EQ(stop_time(seconds(30), {}), seconds(28));
  EXPECT_EQ(stop_time(seconds(10), {}), seconds(8));
  EXPECT_EQ(stop_time(seconds(3), {}), std::chrono::milliseconds(1500));
  EXPECT_EQ(stop_time({}, {}), seconds(28));
}

TEST(StopTime, HasTheTimeUntilTheEndAfterAWarning) {
  EXPECT_EQ(stop_time(seconds(30), seconds(50)), seconds(78));
  EXPECT_EQ(stop_time(seconds(30), seconds(36000)), seconds(28));
}

TEST(StopTime, IsUnknownOutsideAJob) {
  EXPECT_EQ(time_after_sigterm({}), std::nullopt);
}

}  // namespace
}  // namespace hvdrun
