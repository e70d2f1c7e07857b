#include "agent/process_tree.hpp"

#include "base/system.hpp"
#include "common/fd.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

ProcessInfo process(pid_t pid, pid_t parent, char state = 'S') {
  ProcessInfo info;
  info.pid = pid;
  info.parent = parent;
  info.state = state;
  return info;
}

std::vector<pid_t> pids(const std::vector<ProcessInfo>& processes) {
  std::vector<pid_t> numbers;
  for (const auto& info : processes) numbers.push_back(info.pid);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(ProcessTree, ListsDescendantsWithoutZombies) {
  const std::vector<ProcessInfo> all{process(1, 0),   process(10, 1), process(11, 10),
                                     process(12, 11), process(20, 1), process(21, 10, 'Z')};
  EXPECT_EQ(pids(descendants_of(10, all)), (std::vector<pid_t>{11, 12}));
  EXPECT_EQ(pids(descendants_of(1, all)), (std::vector<pid_t>{10, 11, 12, 20}));
  EXPECT_EQ(pids(descendants_of(1, all, {10})), std::vector<pid_t>{20});
  EXPECT_TRUE(descendants_of(12, all).empty());
}

TEST(ProcessTree, FindsTheTestProcess) {
  const auto all = all_processes();
  const auto here =
      std::find_if(all.begin(), all.end(), [](const auto& info) { return info.pid == ::getpid(); });
  ASSERT_NE(here, all.end());
  EXPECT_EQ(here->parent, ::getppid());
  EXPECT_EQ(here->session, ::getsid(0));
  EXPECT_EQ(to_string(*here), "pid " + std::to_string(::getpid()) + " (agent_test)");
}

// The child is one of a thread, and has a child.
TEST(ProcessTree, ListsTheProcessesBelowOne) {
  auto ready = make_pipe();
  pid_t child = 0;
  std::thread([&] {
    child = ::fork();
    if (child != 0) return;
    const pid_t grandchild = ::fork();
    if (grandchild == 0)
      while (true) ::pause();
    [[maybe_unused]] const auto put = ::write(ready->write.get(), &grandchild, sizeof grandchild);
    while (true) ::pause();
  }).join();
  pid_t grandchild = 0;
  ASSERT_EQ(::read(ready->read.get(), &grandchild, sizeof grandchild),
            static_cast<ssize_t>(sizeof grandchild));
  const auto below = processes_below(::getpid());
  EXPECT_EQ(pids(below),
            (std::vector<pid_t>{std::min(child, grandchild), std::max(child, grandchild)}));
  EXPECT_EQ(pids(processes_below(child)), std::vector<pid_t>{grandchild});
  const auto own = std::ranges::find(below, child, &ProcessInfo::pid);
  EXPECT_TRUE(own != below.end() && own->parent == ::getpid());
  for (const pid_t pid : {grandchild, child}) ::kill(pid, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(processes_below(child).empty());
}

TEST(ProcessTree, ProcessIsAliveUntilItsLastThreadEnds) {
  auto ready = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([&] {
      // When its first thread has ended, the process looks like a zombie.
      const std::string stat = "/proc/" + std::to_string(::getpid()) + "/stat";
      std::string text;
      do std::getline(std::ifstream(stat), text);
      while (text.find(") Z ") == std::string::npos);
      [[maybe_unused]] const auto put = ::write(ready->write.get(), "x", 1);
      while (true) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread only; pthread_exit would unwind through the test
  }
  char byte = 0;
  ASSERT_EQ(::read(ready->read.get(), &byte, 1), 1);
  EXPECT_EQ(pids(descendants_of(::getpid(), all_processes())), std::vector<pid_t>{child});
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(descendants_of(::getpid(), all_processes()).empty());
}

// Starts a child, and a grandchild that has left its session. Both wait forever. Returns when both
// run.
pid_t start_family(pid_t& grandchild) {
  auto ready = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t below = ::fork();
    if (below == 0) {
      ::setsid();
      const pid_t self = ::getpid();
      [[maybe_unused]] const auto put = ::write(ready->write.get(), &self, sizeof self);
    }
    while (true) ::pause();
  }
  EXPECT_EQ(::read(ready->read.get(), &grandchild, sizeof grandchild), sizeof grandchild);
  return child;
}

// A process that leads a session, as a rank does, its child, and a grandchild with a session of its
// own. start_rank_family() returns when all three run.
struct RankFamily {
  pid_t rank = 0;
  pid_t child = 0;
  pid_t grandchild = 0;
};

RankFamily start_rank_family() {
  auto ready = make_pipe();
  RankFamily family;
  family.rank = ::fork();
  if (family.rank == 0) {
    ::setsid();
    if (::fork() == 0) {
      if (::fork() == 0) {
        ::setsid();
        const std::array<pid_t, 2> pids{::getppid(), ::getpid()};
        [[maybe_unused]] const auto put = ::write(ready->write.get(), pids.data(), sizeof pids);
      }
    }
    while (true) ::pause();
  }
  std::array<pid_t, 2> pids{};
  EXPECT_EQ(::read(ready->read.get(), pids.data(), sizeof pids), ssize_t{sizeof pids});
  family.child = pids[0];
  family.grandchild = pids[1];
  return family;
}

TEST(ProcessTree, FindsTheRankThatAProcessBelongsTo) {
  // Runs in a process of its own, so that orphans become its children, as they become the agent's.
  const pid_t runner = ::fork();
  if (runner == 0) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t self = ::getpid();
    const auto one = start_rank_family();
    const auto other = start_rank_family();
    const std::set<pid_t> ranks{one.rank, other.rank};
    for (const auto& family : {one, other})
      for (const pid_t pid : {family.rank, family.child, family.grandchild})
        EXPECT_EQ(root_of(pid, self, ranks), family.rank);
    EXPECT_EQ(root_of(self, self, ranks), std::nullopt) << "the agent itself";
    EXPECT_EQ(root_of(::getppid(), self, ranks), std::nullopt);
    EXPECT_EQ(root_of(one.rank, self, {other.rank}), std::nullopt);
    EXPECT_EQ(root_of(one.rank, 1, ranks), one.rank) << "by its session";
    EXPECT_EQ(root_of(one.grandchild, one.child, {one.grandchild}), one.grandchild);
    EXPECT_EQ(root_of(one.grandchild, 1, {one.child}), std::nullopt) << "not the agent's child";

    ::kill(one.rank, SIGKILL);
    ::waitpid(one.rank, nullptr, 0);
    EXPECT_EQ(root_of(one.child, self, ranks), one.rank) << "an orphan in its session";
    EXPECT_EQ(root_of(one.rank, self, ranks), std::nullopt) << "it has ended";
    kill_job_processes(self, "no such job", std::chrono::seconds(20));
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(runner, &status, 0), runner);
  EXPECT_EQ(status, 0);
}

TEST(ProcessTree, KillsDescendantsThatLeftTheirSession) {
  // Runs in a process of its own, so that other children of the test process are not killed.
  const pid_t runner = ::fork();
  if (runner == 0) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t grandchild = 0;
    start_family(grandchild);
    const auto left = kill_job_processes(::getpid(), "no such job", std::chrono::seconds(20));
    const bool gone = ::kill(grandchild, 0) != 0 || ::waitpid(grandchild, nullptr, 0) == grandchild;
    ::_exit(left.empty() && gone ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(runner, &status, 0), runner);
  EXPECT_EQ(status, 0);
}

// When a fork bomb has reached the limit on processes, each killed process lets another one fork. A
// stopped process does not.
TEST(ProcessTree, StopsAllProcessesBeforeItKillsOne) {
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(::fork());
    if (children.back() == 0)
      while (true) ::pause();
  }
  std::string states;  // "T" for each stopped child of earlier listings
  std::size_t shown = 0;
  const auto killed = stop_and_kill([&] {
    auto found = descendants_of(::getpid(), all_processes());
    EXPECT_EQ(found.size(), children.size()) << "every child lives until the last listing";
    if (shown > 0) {
      siginfo_t changed{};
      ::waitid(P_PID, static_cast<id_t>(children[shown - 1]), &changed, WSTOPPED | WNOWAIT);
      states += changed.si_code == CLD_STOPPED ? 'T' : '?';
    }
    // Each listing shows one more child.
    shown = std::min(shown + 1, children.size());
    std::erase_if(found, [&](const ProcessInfo& info) {
      return std::find(children.begin(), children.begin() + static_cast<std::ptrdiff_t>(shown),
                       info.pid) == children.begin() + static_cast<std::ptrdiff_t>(shown);
    });
    return found;
  });
  EXPECT_EQ(killed.size(), children.size());
  EXPECT_EQ(states, "TTT");
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
  }
}

TEST(ProcessTree, DoesNotSignalALaterProcessWithTheSamePid) {
  const pid_t child = ::fork();
  if (child == 0)
    while (true) ::pause();
  const auto seen = descendants_of(::getpid(), all_processes());
  ASSERT_EQ(pids(seen), std::vector<pid_t>{child});
  ProcessInfo earlier = seen.front();  // an earlier process with the same pid
  earlier.start -= 1;
  send_signal(earlier, SIGKILL);
  send_signal(seen.front(), SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(ProcessTree, FindsProcessesOutsideTheTreeByTheJobsCookie) {
  const std::string cookie = "HVD_SHM_DIR=/dev/shm/hvd-" + random_hex(16);
  auto started = make_pipe();
  ASSERT_TRUE(started);
  const pid_t stray = ::fork();
  if (stray == 0) {
    char* environment[] = {const_cast<char*>(cookie.c_str()), nullptr};
    char* arguments[] = {const_cast<char*>("sh"), const_cast<char*>("-c"),
                         const_cast<char*>("echo; read x"), nullptr};
    auto never = make_pipe();
    ::dup2(never->read.get(), 0);
    ::fcntl(never->write.get(), F_SETFD, 0);
    ::dup2(started->write.get(), 1);
    ::execve("/bin/sh", arguments, environment);
    ::_exit(1);
  }
  char ignored = 0;
  ASSERT_EQ(::read(started->read.get(), &ignored, 1), 1);
  // It is no descendant of that pid, so only the cookie can find it.
  EXPECT_EQ(pids(job_processes(all_processes(), 0x7fffffff, cookie)), std::vector<pid_t>{stray});
  EXPECT_TRUE(
      job_processes(all_processes(), 0x7fffffff, cookie.substr(0, cookie.size() - 1)).empty());
  ::kill(stray, SIGKILL);
  ::waitpid(stray, nullptr, 0);
  EXPECT_TRUE(job_processes(all_processes(), 0x7fffffff, cookie).empty());
}

}  // namespace
}  // namespace hvdrun
