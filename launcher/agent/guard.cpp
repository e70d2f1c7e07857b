#include "agent/guard.hpp"

#include "agent/agent.hpp"
#include "agent/job_folders.hpp"
#include "agent/process_tree.hpp"
#include "base/open_descriptors.hpp"
#include "base/system.hpp"
#include "common/system.hpp"

#include <cerrno>
#include <cstdio>
#include <utility>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kTimeout{10};

// The kernel sends this signal to the guard when its parent has ended: the launcher, or on another
// host sshd's process of the connection.
const int kParentGone = SIGRTMIN;  // a signal that no parent process ignores

// Waits for the agent and reaps orphans meanwhile. Returns its exit code as a shell shows it.
int wait_for(pid_t agent) {
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  sigaddset(&awaited, kParentGone);
  while (true) {
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0)
      if (pid == agent)
        return WIFSIGNALED(status) ? kExitSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
    if (pid < 0 && errno != EINTR) return kExitLauncher;
    // Without its launcher the agent ends by itself, unless it has been stopped.
    if (::sigwaitinfo(&awaited, nullptr) == kParentGone) ::kill(agent, SIGCONT);
  }
}

// Prints the error and exits: there is no agent yet that could report it to the launcher.
[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "hvdrun: %s: %s\n", local_host_name().c_str(), error.message.c_str());
  ::_exit(kExitLauncher);
}

}  // namespace

void become_guard(const AgentOptions& options, LinkEnd link) {
  const pid_t parent = ::getppid();
  set_process_name(kGuardProcess);
  close_all_but({link.in.get(), link.out.get()});
  ::setsid();  // the terminal's signals are for the launcher
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t everything;
  sigfillset(&everything);
  ::sigprocmask(SIG_SETMASK, &everything, nullptr);  // only SIGKILL ends a guard
  ::prctl(PR_SET_PDEATHSIG, kParentGone);
  if (::getppid() != parent) ::kill(::getpid(), kParentGone);  // it ended before that call

  auto alive = make_pipe();  // its write end is open for as long as the guard lives
  if (!alive) give_up(alive.error());
  const pid_t agent = ::fork();
  if (agent < 0) give_up(fail_errno("cannot start the agent", errno));
  if (agent == 0) {
    alive->write.reset();
    ::_exit(run_agent(options, std::move(link), std::move(alive->read)));
  }
  alive->read.reset();
  link = {};
  const int code = wait_for(agent);
  // An agent that succeeded has cleaned up itself, and a look costs milliseconds.
  if (code != kExitOk || ::waitpid(-1, nullptr, WNOHANG) == 0) {
    const auto folders = JobFolders::of(options.job_id, options.agent);
    kill_job_processes(::getpid(), folders.cookie(), kTimeout);
    folders.clean_up();
  }
  ::_exit(code);
}

}  // namespace hvdrun
