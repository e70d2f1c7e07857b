#include "common/thread.hpp"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace common {
namespace {

TEST(StartThread, BlocksAllSignalsButThoseOfACrashAndThoseNamed) {
  sigset_t blocked;
  sigemptyset(&blocked);
  auto thread = start_thread("shows its mask",
                             [&] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); }, {SIGPROF});
  ASSERT_TRUE(thread.ok()) << thread.error();
  thread->join();
  for (const int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF})
    EXPECT_EQ(sigismember(&blocked, open), 0) << open;
  for (const int other : {SIGTERM, SIGINT, SIGCHLD, SIGUSR1})
    EXPECT_EQ(sigismember(&blocked, other), 1) << other;
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0) << "the starter keeps its mask";
}

TEST(StartThread, ReturnsAnErrorIfThereIsNoMemoryForIt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more address space than the limit of this test";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{1, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &none) != 0) ::_exit(2);
    // The first ones may take the memory of threads that have ended.
    for (int i = 0; i < 100; ++i) {
      auto thread = start_thread("waits", [] { ::pause(); });
      if (!thread.ok())
        ::_exit(thread.error().starts_with("cannot start the thread that waits: ") ? 0 : 3);
      thread->detach();
    }
    ::_exit(4);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace common
