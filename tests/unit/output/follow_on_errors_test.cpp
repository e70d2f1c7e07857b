// Tests which tracebacks are kept back, with a clock that the test sets.
#include "output/follow_on_errors.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

const std::string kTraceback =
    "Traceback (most recent call last):\n  File \"t.py\", line 3\n    f()\n";
const std::string kClosed = kTraceback + "RuntimeError: Connection closed by peer [127.0.0.1]:1\n";
const std::string kOwn = kTraceback + "ValueError: bad batch\n";

class FollowOnErrorsTest : public testing::Test {
 protected:
  FollowOnErrorsTest() { errors_.begin(4); }
  void write(int rank, std::string_view text) { errors_.write(rank, text, {}, now_); }
  void pass(milliseconds time) {
    now_ += time;
    errors_.tick(now_);
  }
  // Returns what was shown since the last call.
  std::string shown() { return std::exchange(shown_, {}); }

  std::string shown_;
  FollowOnErrors::Steady now_{};
  std::string failures_;
  FollowOnErrors errors_{[this](int, std::string_view bytes, OutputTime, bool fails) {
    shown_ += bytes;
    if (fails) failures_ += bytes;
  }};
};

TEST_F(FollowOnErrorsTest, KeepsTheFirstLineOfAnExceptionGroupWhole) {
  write(0, "step 1\n  + Exception Group " + kTraceback);
  pass(FollowOnErrors::kUnfinished);
  EXPECT_EQ(failures_, "  + Exception Group " + kTraceback);
}

TEST_F(FollowOnErrorsTest, ShowsATracebackWithoutItsEndWhenTheRankHasEnded) {
  write(0, kTraceback);
  write(1, kClosed);
  EXPECT_EQ(shown(), "");
  errors_.close(0);
  errors_.close(1);
  EXPECT_EQ(shown(), kTraceback) << "the other one is whole, and waits for its cause";
}

TEST_F(FollowOnErrorsTest, MarksWhatBeginsAFailure) {
  write(0, "step 1\n" + kOwn);
  write(1, "terminate called after throwing an instance of 'std::bad_alloc'\n");
  write(2, "a train was to terminate called: no\n");
  EXPECT_EQ(failures_, kOwn + "terminate called after throwing an instance of 'std::bad_alloc'\n");
}

TEST_F(FollowOnErrorsTest, AnotherExceptionIsShownAtOnceHoweverItIsCut) {
  write(0, "step 1\n" + kOwn + "rest\n");
  EXPECT_EQ(shown(), "step 1\n" + kOwn + "rest\n");
  for (std::size_t at = kTraceback.size(); at < kOwn.size(); ++at) {
    write(1, kOwn.substr(0, at));
    EXPECT_EQ(shown(), "");
    write(1, kOwn.substr(at));
    EXPECT_EQ(shown(), kOwn);
  }
  EXPECT_FALSE(errors_.next_tick());
}

TEST_F(FollowOnErrorsTest, OfARankThatFailsForAPeerOnlyTheTracebackIsKeptBack) {
  write(1, "step 1\n" + kClosed + "bye\n");
  EXPECT_EQ(shown(), "step 1\n");
  errors_.failed(2);
  EXPECT_EQ(shown(), "bye\n");
  write(3, "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"t.py\"\n");
  write(3, "[rank3]: RuntimeError: Connection reset by peer\nmore\n");
  EXPECT_EQ(shown(), "more\n");
  errors_.settle(2);
  EXPECT_EQ(shown(), "");
}

TEST_F(FollowOnErrorsTest, WithoutAnotherFailureItIsShownAfterAMoment) {
  write(1, kClosed);
  errors_.failed(1);  // it is not a cause for itself, nor for others
  write(2, kClosed);
  EXPECT_EQ(errors_.next_tick(), now_ + FollowOnErrors::kPatience);
  pass(FollowOnErrors::kPatience - milliseconds(1));
  EXPECT_EQ(shown(), "");
  pass(milliseconds(1));
  EXPECT_EQ(shown(), kClosed + kClosed);
}

TEST_F(FollowOnErrorsTest, TheRankToBlameIsShownAfterAll) {
  write(1, kClosed);
  errors_.failed(2);
  EXPECT_EQ(shown(), "");
  errors_.settle(1);
  EXPECT_EQ(shown(), kClosed);
}

TEST_F(FollowOnErrorsTest, WhatWaitsAtTheEndIsPutAsideIfAnotherRankIsToBlame) {
  write(0, kTraceback);
  write(1, kClosed + "bye\n");
  write(2, kClosed);
  errors_.settle(0);
  EXPECT_EQ(shown(), kTraceback + "bye\n");
}

TEST_F(FollowOnErrorsTest, NothingIsLostAtTheEnd) {
  write(0, kTraceback);
  write(1, kClosed);
  errors_.settle(std::nullopt);
  EXPECT_EQ(shown(), kTraceback + kClosed);
}

TEST_F(FollowOnErrorsTest, AnUnfinishedTracebackWaitsForAMomentOnly) {
  write(0, kTraceback);
  pass(FollowOnErrors::kUnfinished);
  EXPECT_EQ(shown(), kTraceback);
  write(0, kTraceback + std::string(FollowOnErrors::kMostHeld, ' '));
  EXPECT_GT(shown().size(), FollowOnErrors::kMostHeld);
}

TEST_F(FollowOnErrorsTest, AChainWhoseBeginningWasShownIsShownToItsEnd) {
  errors_.failed(2);
  const std::string link =
      "\nDuring handling of the above exception, another exception occurred:\n\n";
  write(1, kOwn + link + kClosed);
  EXPECT_EQ(shown(), kOwn + link + kClosed);
  write(3, kOwn);
  for (const auto& text : {std::string("\n"), link.substr(1), kClosed}) write(3, text);
  EXPECT_EQ(shown(), kOwn + link + kClosed);
}

TEST_F(FollowOnErrorsTest, AChainThatEndsWithAnotherExceptionIsShown) {
  errors_.failed(2);
  write(1, kClosed);
  EXPECT_EQ(shown(), "");
  write(1, "\nThe above exception was the direct cause of the following exception:\n\n" + kOwn);
  EXPECT_NE(shown().find("bad batch"), std::string::npos);
}

}  // namespace
}  // namespace hvdrun
