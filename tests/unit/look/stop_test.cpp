// Stopping a process, and that it runs on whatever happens to us.
#include "look/stop.hpp"

#include "look/proc_files.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
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
  EXPECT_EQ(stop.begin({}, std::chrono::seconds(10)), 0);
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
  EXPECT_EQ(stop.begin({.spared = {child_}}, std::chrono::seconds(10)), 0);
  EXPECT_TRUE(has_state('R'));
}

TEST_F(StopTest, EndsWhenTheTracerIsKilled) {
  const pid_t tracer = ::fork();
  if (tracer == 0) {
    Stop stop(child_, nullptr);
    stop.begin({}, std::chrono::seconds(10));
    while (true) ::pause();
  }
  EXPECT_TRUE(await_state('t'));
  ::kill(tracer, SIGKILL);
  ::waitpid(tracer, nullptr, 0);
  EXPECT_TRUE(await_state('R'));
}

// What the processes of the next test share.
struct Shared {
  std::atomic<long> sent{0};
  std::atomic<long> got{0};
  std::atomic<bool> over{false};
};
Shared* shared;  // NOLINT: the handler uses it

// Starts a process that gets signals and one that sends them, the next when one has come. Returns
// whether the first one got all, although its tracer was killed while it was about to get one;
// nullopt: that did not happen.
std::optional<bool> gets_the_signal() {
  const auto child_of = [](const auto& body) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    ::_exit(1);
  };
  std::signal(SIGUSR1, [](int) { ++shared->got; });
  const pid_t getter = child_of([] {
    for (std::atomic<unsigned long> count{0};; ++count) {
    }
  });
  std::signal(SIGUSR1, SIG_DFL);
  const pid_t sender = child_of([getter] {
    while (!shared->over) {
      const long before = shared->got;
      ++shared->sent;
      ::kill(getter, SIGUSR1);
      while (shared->got == before && !shared->over) ::usleep(20);
    }
  });
  const pid_t tracer = child_of([getter] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (std::chrono::steady_clock::now() < until) {
      Stop stop(getter, nullptr);
      stop.begin({}, std::chrono::seconds(10));
      siginfo_t info{};
      if (::ptrace(PTRACE_GETSIGINFO, getter, nullptr, &info) == 0 && info.si_signo == SIGUSR1)
        ::kill(::getpid(), SIGKILL);
    }
  });
  int status = 0;
  ::waitpid(tracer, &status, 0);
  const long sent = shared->sent;
  for (int tries = 0; tries < 10'000 && shared->sent <= sent + 1; ++tries) ::usleep(1000);
  const bool all = shared->sent > sent + 1;
  shared->over = true;
  for (const pid_t child : {sender, getter}) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  return WIFSIGNALED(status) ? std::optional(all) : std::nullopt;
}

TEST(Stop, NoSignalIsLostWhenTheTracerIsKilled) {
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  shared = new (memory) Shared;  // NOLINT: the mapping owns it
  const auto got = gets_the_signal();
  ::munmap(memory, sizeof(Shared));
  if (!got) GTEST_SKIP() << "no signal came at that moment";
  EXPECT_TRUE(*got);
}

// Starts a child with so many threads that wait in epoll_wait(2). It ends with the number of those
// whose call has failed, when a byte comes.
pid_t start_waiting(int threads, int input) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::atomic<int> failed{0};
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i)
    all.emplace_back([&] {
      const int queue = ::epoll_create1(EPOLL_CLOEXEC);
      epoll_event event{EPOLLIN, {}};
      ::epoll_ctl(queue, EPOLL_CTL_ADD, input, &event);
      if (::epoll_wait(queue, &event, 1, -1) != 1) ++failed;
    });
  for (auto& thread : all) thread.join();
  ::_exit(failed);
}

// The kernel ends this call if a thread is asked to stop and let go before it has.
TEST(Stop, ThreadsThatDoNotStopInTimeAreStoppedLaterAndTheirCallsDoNotFail) {
  if (!can_resume_system_calls()) GTEST_SKIP() << "such threads are not stopped";
  constexpr int kThreads = 32;
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = start_waiting(kThreads, pipe[0]);
  const auto sleeping = [child] {
    return std::ranges::count_if(threads_of(child), [child](pid_t tid) {
      const auto stat = read_stat(child, "task/" + std::to_string(tid) + "/stat");
      return stat && stat->state == 'S';
    });
  };
  for (int tries = 0; tries < 30'000 && sleeping() <= kThreads; ++tries) ::usleep(1000);
  int late = 0;
  for (int looks = 0; looks < 20; ++looks)
    std::thread([&] {
      Stop stop(child, nullptr);
      stop.begin({}, std::chrono::milliseconds(0));
      const auto in_time = stop.threads().size();
      stop.end([&](pid_t, const Registers& registers) { late += registers.at != 0 ? 1 : 0; });
      EXPECT_EQ(stop.threads().size(), kThreads + 1U) << in_time << " have stopped in time";
    }).join();
  EXPECT_GT(late, 0);
  EXPECT_EQ(::write(pipe[1], "x", 1), 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status) << " calls have failed";
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(StopTest, IsRefusedWhileAnotherTraces) {
  Stop first(child_, nullptr);
  ASSERT_EQ(first.begin({}, std::chrono::seconds(10)), 0);
  int refused = 0;
  std::thread([&] { refused = Stop(child_, nullptr).begin({}, std::chrono::seconds(10)); }).join();
  EXPECT_EQ(refused, EPERM);
  EXPECT_TRUE(has_state('t'));
}

TEST(Stop, OfAProcessThatHasEndedDoesNothing) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  Stop stop(child, nullptr);
  EXPECT_EQ(stop.begin({}, std::chrono::seconds(10)), 0);
  EXPECT_TRUE(stop.threads().empty());
}

}  // namespace
}  // namespace hvdrun
