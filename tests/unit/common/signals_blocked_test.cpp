#include "common/system.hpp"

#include <csignal>
#include <thread>

#include <gtest/gtest.h>

namespace common {
namespace {

// Returns the signals that are blocked on a new thread.
sigset_t blocked_on_a_new_thread() {
  sigset_t blocked;
  std::thread([&] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); }).join();
  return blocked;
}

TEST(SignalsBlocked, DoesNotBlockSignalsOfACrash) {
  const SignalsBlocked guard;
  const sigset_t blocked = blocked_on_a_new_thread();
  for (const int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
    EXPECT_EQ(sigismember(&blocked, crash), 0) << crash;
  for (const int other : {SIGTERM, SIGINT, SIGCHLD, SIGUSR1, SIGPROF})
    EXPECT_EQ(sigismember(&blocked, other), 1) << other;
}

TEST(SignalsBlocked, DoesNotBlockNamedSignals) {
  const SignalsBlocked guard({SIGPROF});
  const sigset_t blocked = blocked_on_a_new_thread();
  EXPECT_EQ(sigismember(&blocked, SIGPROF), 0);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
}

TEST(SignalsBlocked, KeepsSignalsThatTheProgramBlocks) {
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, SIGABRT);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &own, &before);
  {
    const SignalsBlocked guard;
    const sigset_t blocked = blocked_on_a_new_thread();
    EXPECT_EQ(sigismember(&blocked, SIGABRT), 1);
  }
  const sigset_t after = blocked_on_a_new_thread();
  EXPECT_EQ(sigismember(&after, SIGABRT), 1);
  EXPECT_EQ(sigismember(&after, SIGTERM), 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace common
