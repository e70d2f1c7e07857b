#include "channels/child_process.hpp"

#include "../temporary_folder.hpp"
#include "base/subprocess.hpp"

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

class RunChildren : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.path() / name; }
  bool exists(const std::string& name) const { return std::filesystem::exists(file(name)); }

  TemporaryFolder folder_;
};

TEST_F(RunChildren, WaitsForAllChildren) {
  const auto succeeded = run_children(
      {{"sh", "-c", "cat; echo text; touch " + file("a") + "; exit 3"}, {"touch", file("b")}},
      std::chrono::minutes(1));
  EXPECT_EQ(succeeded, (std::vector<bool>{false, true}));
  EXPECT_TRUE(exists("a"));
  EXPECT_TRUE(exists("b"));
}

TEST_F(RunChildren, KillsChildrenAfterTheTimeout) {
  const auto succeeded =
      run_children({{"sleep", "1000"}, {"sleep", "1000"}}, std::chrono::milliseconds(50));
  EXPECT_EQ(succeeded, (std::vector<bool>{false, false}));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(RunChildren, RunsTheOthersIfAChildCannotBeStarted) {
  const auto succeeded =
      run_children({{"/no/such/program"}, {"touch", file("b")}}, std::chrono::minutes(1));
  EXPECT_EQ(succeeded, (std::vector<bool>{false, true}));
  EXPECT_TRUE(exists("b"));
}

constexpr auto uncut = [] { return false; };

TEST(OutputOf, IsTheStdoutOfTheProgram) {
  const auto text = output_of({"sh", "-c", "cat; echo text"}, std::chrono::minutes(1), uncut);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "text\n");
}

TEST(OutputOf, IsEmptyIfTheProgramDoesNotEnd) {
  const auto text = output_of({"sh", "-c", "echo text; exec >&-; sleep 1000"},
                              std::chrono::milliseconds(50), uncut);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "it was killed and reaped";
}

TEST(OutputOf, IsEmptyIfItIsCut) {
  const auto text =
      output_of({"sh", "-c", "echo text; sleep 1000"}, std::chrono::hours(1), [] { return true; });
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "it was killed and reaped";
}

TEST(WaitForChild, HasATimeout) {
  auto child = start_child({"sh", "-c", "read line; exit 3"});
  ASSERT_TRUE(child);
  EXPECT_FALSE(wait_for_child(child->pid, std::chrono::milliseconds(0)));
  EXPECT_FALSE(wait_for_child(child->pid, std::chrono::milliseconds(20)));
  child->link.out.reset();
  const auto status = wait_for_child(child->pid, std::chrono::minutes(1));
  ASSERT_TRUE(status);
  EXPECT_EQ(WEXITSTATUS(*status), 3);
  EXPECT_FALSE(wait_for_child(child->pid, std::chrono::minutes(1))) << "the child has been reaped";
}

// Makes pidfd_open(2) fail in this thread: with ENOSYS, as on a kernel without it, or with EPERM,
// as under an old seccomp filter.
void disable_pidfd_open(int error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog whole{static_cast<unsigned short>(std::size(program)), program};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole), 0);
}

// Watches a child, lets it end, and checks that the end is seen and that the child can be reaped.
void watch_one() {
  auto child = start_child({"sh", "-c", "read line; exit 3"});
  ASSERT_TRUE(child);
  const auto watched = watch_child(child->pid);
  ASSERT_TRUE(watched) << watched.error().message;
  pollfd end{watched->get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 0), 0);
  child->link.out.reset();
  EXPECT_EQ(::poll(&end, 1, -1), 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child->pid, &status, 0), child->pid);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(WatchedChild, IsSeenToEnd) {
  watch_one();
}

TEST(WatchedChild, IsSeenToEndWithoutPidfdOpen) {
  for (const int error : {ENOSYS, EPERM})
    std::thread([error] {
      disable_pidfd_open(error);
      watch_one();
    }).join();
}

}  // namespace
}  // namespace hvdrun
