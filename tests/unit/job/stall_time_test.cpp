#include "job/stall_time.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

TEST(StallTime, IsAMinuteUnlessAVariableChangesIt) {
  EXPECT_EQ(stall_time({}), milliseconds(60'000));
  EXPECT_EQ(stall_time({"HVD_STALL_CHECK_TIME_SECONDS=5"}), milliseconds(5000));
  EXPECT_EQ(stall_time({"A=1", "HVD_STALL_CHECK_TIME_SECONDS=0.0001"}), milliseconds(1));
  EXPECT_EQ(stall_time({"HVD_STALL_CHECK_TIME_SECONDS=0"}), milliseconds(0));
  EXPECT_EQ(stall_time({"HVD_STALL_CHECK_DISABLE=1", "HVD_STALL_CHECK_TIME_SECONDS=5"}),
            milliseconds(0));
  EXPECT_EQ(stall_time({"HVD_STALL_CHECK_DISABLE=0"}), milliseconds(60'000));
}

TEST(JoinTime, IsATimeOfItsOwn) {
  EXPECT_EQ(join_time({}), milliseconds(60'000));
  EXPECT_EQ(join_time({"HVD_STALL_CHECK_TIME_SECONDS=2"}), milliseconds(60'000));
  EXPECT_EQ(join_time({"HVD_JOIN_TIME_SECONDS=300"}), milliseconds(300'000));
  EXPECT_EQ(join_time({"HVD_JOIN_TIME_SECONDS=0"}), milliseconds(0));
  EXPECT_EQ(join_time({"HVD_STALL_CHECK_DISABLE=1"}), milliseconds(0));
  EXPECT_EQ(join_time({"HVD_STALL_CHECK_TIME_SECONDS=0"}), milliseconds(0));
}

TEST(StallTime, UsesHorovodsVariablesWhereHvdsAreNotSet) {
  EXPECT_EQ(stall_time({"HOROVOD_STALL_CHECK_TIME_SECONDS=7"}), milliseconds(7000));
  EXPECT_EQ(stall_time({"HOROVOD_STALL_CHECK_TIME_SECONDS=7", "HVD_STALL_CHECK_TIME_SECONDS=5"}),
            milliseconds(5000));
  EXPECT_EQ(stall_time({"HVD_STALL_CHECK_DISABLE=", "HOROVOD_STALL_CHECK_DISABLE=1"}),
            milliseconds(0));
}

TEST(StallTime, IgnoresInvalidValues) {
  for (const char* text : {"soon", "-1", "nan", "1e400", "5s"})
    EXPECT_EQ(stall_time({std::string("HVD_STALL_CHECK_TIME_SECONDS=") + text}),
              milliseconds(60'000))
        << text;
}

}  // namespace
}  // namespace hvdrun
