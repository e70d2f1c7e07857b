#include "control/heartbeat.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kTimeout{5000};

TEST(Heartbeat, ASideThatSaysNothingIsSilentAfterTheTimeOut) {
  const Heartbeat::Clock::time_point begin{};
  Heartbeat heartbeat(kTimeout, begin);
  for (int second = 1; second <= 5; ++second)
    EXPECT_FALSE(heartbeat.is_silent(begin + seconds(second))) << second;
  EXPECT_TRUE(heartbeat.is_silent(begin + seconds(6)));
  heartbeat.heard(begin + seconds(6));
  EXPECT_FALSE(heartbeat.is_silent(begin + seconds(7)));
}

TEST(Heartbeat, WhoHasNotLookedForAWhileBlamesNobody) {
  const Heartbeat::Clock::time_point begin{};
  Heartbeat heartbeat(kTimeout, begin);
  EXPECT_FALSE(heartbeat.is_silent(begin + seconds(60))) << "we were stopped, or too busy";
  for (int second = 61; second <= 65; ++second)
    EXPECT_FALSE(heartbeat.is_silent(begin + seconds(second))) << second;
  EXPECT_TRUE(heartbeat.is_silent(begin + seconds(66)));
}

}  // namespace
}  // namespace hvdrun
