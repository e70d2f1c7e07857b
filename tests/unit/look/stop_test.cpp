// Stopping a process, and that it runs on whatever happens to us.
#include "look/stop.hpp"

#include "look/proc_files.hpp"

#include <atomic>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// A child that computes until it is killed.
class Computing : public testing::Test {
 protected:
  Computing() : child_(::fork()) {
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::atomic<unsigned long> count{0};; ++count) {
    }
  }
  ~Computing() override {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  bool has_state(char state) const {
    const auto stat = read_stat(child_);
    return stat && stat->state == state;
  }
  // Waits until the child has this state. Returns false if that does not happen.
  bool await_state(char state) const {
    for (int tries = 0; tries < 30'000 && !has_state(state); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return has_state(state);
  }

  pid_t child_;
};

using StopTest = Computing;

TEST_F(StopTest, HoldsTheProcessAndLetsItGo) {
  std::atomic<std::uint64_t> began{0};
  Stop stop(child_, &began);
  EXPECT_EQ(stop.begin({}, {}, std::chrono::seconds(10)), 0);
  EXPECT_TRUE(has_state('t'));
  EXPECT_NE(began, 0U);
  EXPECT_EQ(stop.threads().size(), kCanUnwind ? 1U : 0U);
  stop.end();
  EXPECT_EQ(began, 0U);
  EXPECT_GT(stop.pause(), 0);
  EXPECT_TRUE(await_state('R'));
}

TEST_F(StopTest, SparesThreads) {
  Stop stop(child_, nullptr);
  EXPECT_EQ(stop.begin({child_}, {}, std::chrono::seconds(10)), 0);
  EXPECT_TRUE(has_state('R'));
}

TEST_F(StopTest, EndsWhenTheTracerIsKilled) {
  const pid_t tracer = ::fork();
  if (tracer == 0) {
    Stop stop(child_, nullptr);
    stop.begin({}, {}, std::chrono::seconds(10));
    while (true) ::pause();
  }
  EXPECT_TRUE(await_state('t'));
  ::kill(tracer, SIGKILL);
  ::waitpid(tracer, nullptr, 0);
  EXPECT_TRUE(await_state('R'));
}

TEST_F(StopTest, IsRefusedWhileAnotherTraces) {
  Stop first(child_, nullptr);
  ASSERT_EQ(first.begin({}, {}, std::chrono::seconds(10)), 0);
  int refused = 0;
  std::thread([&] {
    refused = Stop(child_, nullptr).begin({}, {}, std::chrono::seconds(10));
  }).join();
  EXPECT_EQ(refused, EPERM);
  EXPECT_TRUE(has_state('t'));
}

TEST(Stop, OfAProcessThatHasEndedDoesNothing) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  Stop stop(child, nullptr);
  EXPECT_EQ(stop.begin({}, {}, std::chrono::seconds(10)), 0);
  EXPECT_TRUE(stop.threads().empty());
}

}  // namespace
}  // namespace hvdrun
