#include "agent/process_activity.hpp"

#include <csignal>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

TEST(SystemCall, IsReadFromProc) {
  EXPECT_EQ(system_call_in("running\n", ""), "computing");
  EXPECT_EQ(system_call_in("99999 0x0 0x1\n", ""), "system call 99999");
  EXPECT_EQ(system_call_in("-1 0x7ffd 0x7f1e\n", ""), "");  // blocked outside a system call
  EXPECT_EQ(system_call_in("", ""), "");
  EXPECT_EQ(system_call_in("nonsense", ""), "");
  EXPECT_EQ(system_call_in(fmt::format("{} 0x0\n", SYS_restart_syscall), "hrtimer_nanosleep"),
            "clock_nanosleep");
}

TEST(Activity, IsReadForTheTestProcess) {
  const auto activity = activity_of(::getpid());
  EXPECT_EQ(activity.pid, ::getpid());
  EXPECT_FALSE(activity.program.empty());
  EXPECT_GE(activity.cpu_seconds, 0);
}

TEST(Activity, IsEmptyForAProcessThatHasEnded) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto activity = activity_of(child);
  EXPECT_EQ(activity.program, "");
  EXPECT_EQ(activity.system_call, "");
}

}  // namespace
}  // namespace hvdrun
