#include "agent/process_activity.hpp"

#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// A chain of programs that each start one other is followed to this depth.
constexpr int kMostParents = 8;

// The system calls that programs wait in. Some are missing on some processors.
constexpr auto kNames = std::to_array<std::pair<long, std::string_view>>({
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_close, "close"},
    {SYS_connect, "connect"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_fcntl, "fcntl"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fsync, "fsync"},
    {SYS_futex, "futex"},
    {SYS_ioctl, "ioctl"},
    {SYS_munmap, "munmap"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_openat, "openat"},
    {SYS_ppoll, "ppoll"},
    {SYS_pread64, "pread64"},
    {SYS_preadv, "preadv"},
    {SYS_pselect6, "pselect6"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_read, "read"},
    {SYS_readv, "readv"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_semtimedop, "semtimedop"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_sendto, "sendto"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_write, "write"},
    {SYS_writev, "writev"},
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait"},
#endif
#ifdef SYS_pause
    {SYS_pause, "pause"},
#endif
#ifdef SYS_poll
    {SYS_poll, "poll"},
#endif
#ifdef SYS_select
    {SYS_select, "select"},
#endif
#ifdef SYS_semop
    {SYS_semop, "semop"},
#endif
});

std::string read_proc(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns nullopt if the process does not have exactly one child.
std::optional<pid_t> only_child(pid_t pid) {
  std::istringstream words(read_proc(pid, "task/" + std::to_string(pid) + "/children"));
  pid_t child = 0;
  pid_t second = 0;
  if (!(words >> child) || words >> second) return {};
  return child;
}

// Takes the name and the CPU time from /proc/PID/stat: "PID (NAME) S …", fields 14 and 15 in ticks.
void read_stat(const std::string& stat, RankActivity& activity) {
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return;
  activity.program = stat.substr(open + 1, close - open - 1);
  std::istringstream fields(stat.substr(close + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0;
  double system = 0;
  if (fields >> user >> system)
    activity.cpu_seconds = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

std::string system_call_in(const std::string& text) {
  const std::string_view word = std::string_view(text).substr(0, text.find_first_of(" \n"));
  if (word == "running") return "computing";
  long number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < 0) return {};
  for (const auto& [known, name] : kNames)
    if (known == number) return std::string(name);
  return "system call " + std::to_string(number);
}

double cpu_seconds_of(pid_t pid) {
  RankActivity activity;
  read_stat(read_proc(pid, "stat"), activity);
  return activity.cpu_seconds;
}

RankActivity activity_of(pid_t pid) {
  RankActivity activity;
  for (int depth = 0; depth < kMostParents; ++depth) {
    activity = {};
    activity.pid = pid;
    read_stat(read_proc(pid, "stat"), activity);
    activity.system_call = system_call_in(read_proc(pid, "syscall"));
    const bool waits = activity.system_call == "wait4" || activity.system_call == "waitid";
    const auto child = waits ? only_child(pid) : std::nullopt;
    if (!child) break;
    pid = *child;
  }
  return activity;
}

}  // namespace hvdrun
