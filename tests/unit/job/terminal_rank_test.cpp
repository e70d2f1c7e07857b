#include "job/terminal_rank.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

class InterruptKeysTest : public testing::Test {
 protected:
  bool type(std::string_view keys, int after_ms) {
    now_ += milliseconds(after_ms);
    return keys_.take(keys, now_);
  }

  InterruptKeys keys_;
  EventLoop::Clock::time_point now_;
};

TEST_F(InterruptKeysTest, ThreeWithinASecondStopTheJob) {
  EXPECT_FALSE(type("\x03", 0));
  EXPECT_FALSE(type("\x03", 500));
  EXPECT_TRUE(type("\x03", 400));
}

TEST_F(InterruptKeysTest, ThreeAtOnceStopTheJob) {
  EXPECT_TRUE(type("\x03\x03\x03", 0));
}

TEST_F(InterruptKeysTest, SlowerKeysDoNotStopTheJob) {
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(type("\x03", 600));
  EXPECT_TRUE(keys_.any());
}

TEST_F(InterruptKeysTest, AnotherKeyRestartsTheCount) {
  EXPECT_FALSE(type("\x03\x03x\x03", 0));
  EXPECT_FALSE(type("\x03", 1));
  EXPECT_TRUE(type("\x03", 1));
}

TEST_F(InterruptKeysTest, OtherKeysAreIgnored) {
  EXPECT_FALSE(type("cccc", 0));
  EXPECT_FALSE(keys_.any());
}

}  // namespace
}  // namespace hvdrun
