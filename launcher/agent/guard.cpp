#include "agent/guard.hpp"

#include "agent/agent.hpp"
#include "agent/guard_messages.hpp"
#include "agent/host_watch.hpp"
#include "agent/job_folders.hpp"
#include "agent/process_tree.hpp"
#include "base/event_loop.hpp"
#include "base/open_descriptors.hpp"
#include "base/system.hpp"
#include "common/system.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kTimeout{10};

// The kernel sends this signal to the guard when its parent has ended: the launcher, or on another
// host sshd's process of the connection.
const int kParentGone = SIGRTMIN;  // a signal that no parent process ignores

timespec to_timespec(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
}

// After the agent has reported that it exits.
constexpr std::chrono::seconds kExitTimeout{1};
// After the parent has gone: an agent that does not answer in this time hangs.
constexpr std::chrono::seconds kAnswerTimeout{10};

struct AgentEnd {
  int code = kExitLauncher;  // as a shell shows it
  int signal = 0;            // the one that ended it; 0: none
  // It has exited, but a thread of it hangs in the kernel. The one for GPUs can if one has a fault.
  bool hangs = false;
};

// Waits for the agent and reaps orphans meanwhile. Without its launcher the agent ends by itself,
// unless it has been stopped, is frozen, or hangs in the kernel.
AgentEnd wait_for(pid_t agent) {
  using Clock = std::chrono::steady_clock;
  sigset_t awaited;
  sigemptyset(&awaited);
  for (const int signal : {SIGCHLD, kParentGone, exit_signal(), time_left_signal()})
    sigaddset(&awaited, signal);
  std::optional<Clock::time_point> deadline;
  std::optional<Clock::time_point> last_moment;  // for the agent, by its own account
  bool parent_gone = false;
  AgentEnd end{kExitSignalBase + SIGKILL};
  while (true) {
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid != agent) continue;
      if (!WIFSIGNALED(status)) return {WEXITSTATUS(status)};
      return {kExitSignalBase + WTERMSIG(status), WTERMSIG(status)};
    }
    if (pid < 0 && errno != EINTR) return {};
    siginfo_t info{};
    int signal = 0;
    if (deadline) {
      const auto left = *deadline - Clock::now();
      if (left <= left.zero()) return end;
      const timespec time = to_timespec(left);
      signal = ::sigtimedwait(&awaited, &info, &time);
    } else {
      signal = ::sigwaitinfo(&awaited, &info);
    }
    if (signal == kParentGone) {
      parent_gone = true;
      ::kill(agent, SIGCONT);
      ::kill(agent, question_signal());
      if (!end.hangs) deadline = last_moment.value_or(Clock::now() + kAnswerTimeout);
    }
    if (info.si_pid != agent) continue;
    if (signal == time_left_signal()) {
      const std::chrono::milliseconds time(info.si_value.sival_int);
      if (time >= time.zero()) last_moment = Clock::now() + time;
      if (parent_gone && !end.hangs) deadline = last_moment;
    } else if (signal == exit_signal()) {
      deadline = Clock::now() + kExitTimeout;
      end = {info.si_value.sival_int, 0, true};
    }
  }
}

// Ends the agent. If one of its threads hangs, the process stays. So the agent first closes what
// other processes wait for; its link is closed already.
[[noreturn]] void exit_agent(pid_t guard, int code) {
  const Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::dup2(nothing.get(), stream);
  report_exit(guard, code);
  ::_exit(code);
}

// Prints the error and exits: there is no agent yet that could report it to the launcher.
[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "hvdrun: %s: %s\n", local_host_name().c_str(), error.message.c_str());
  ::_exit(kExitLauncher);
}

// Reports to the launcher why the agent has ended: in its pipe, or on the stderr that it reads over
// ssh or srun.
void report_death(const AgentEnd& end, OomWatch& memory, const Fd& death) {
  std::string text = "ended with exit code " + std::to_string(end.code);
  if (end.signal != 0) text = "killed by " + signal_name(end.signal);
  if (end.signal == SIGKILL && memory.happened())
    text += ", out of memory (the kernel's OOM killer)";
  if (!death && end.signal != 0)
    std::fprintf(stderr, "%s%s\n", std::string(kAgentDeath).c_str(), text.c_str());
  if (!death || end.code == kExitOk) return;
  [[maybe_unused]] const auto put = ::write(death.get(), text.data(), text.size());
}

}  // namespace

void become_guard(const AgentOptions& options, LinkEnd link, Fd death) {
  const pid_t parent = ::getppid();
  set_process_name(kGuardProcess);
  close_all_but({link.in.get(), link.out.get(), death.get()});
  ::setsid();  // the terminal's signals are for the launcher
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t everything;
  sigfillset(&everything);
  ::sigprocmask(SIG_SETMASK, &everything, nullptr);  // only SIGKILL ends a guard
  ::prctl(PR_SET_PDEATHSIG, kParentGone);
  if (::getppid() != parent) ::kill(::getpid(), kParentGone);  // it ended before that call

  auto alive = make_pipe();  // its write end is open for as long as the guard lives
  if (!alive) give_up(alive.error());
  const pid_t guard = ::getpid();
  const pid_t agent = ::fork();
  if (agent < 0) give_up(fail_errno("cannot start the agent", errno));
  if (agent == 0) {
    alive->write.reset();
    death.reset();
    exit_agent(guard, run_agent(options, std::move(link), std::move(alive->read)));
  }
  alive->read.reset();
  link = {};
  OomWatch memory;
  const AgentEnd end = wait_for(agent);
  report_death(end, memory, death);
  death.reset();
  // An agent that succeeded has cleaned up itself, and a look costs milliseconds.
  if (end.code != kExitOk || (!end.hangs && ::waitpid(-1, nullptr, WNOHANG) == 0)) {
    const auto folders = JobFolders::of(options.job_id, options.agent);
    const auto spare = end.hangs ? std::vector{agent} : std::vector<pid_t>{};
    kill_job_processes(::getpid(), folders.cookie(), kTimeout, spare);
    folders.clean_up();
  }
  ::_exit(end.code);
}

}  // namespace hvdrun
